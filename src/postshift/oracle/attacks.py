"""Four attacks that read groups of rows from exact values of a metric: why trusted mode is for trusted learners only.

The metric is ``group_g_mean``: the geometric mean of the recalls of all (group, class) pairs. The attacker knows the
labels of all rows (the worst case) and the group of one row of each pair, such as her own and those of friends. She
sends predictions, gets values, and guesses the groups of other rows. There are two groups, 0 and 1.

=========================  =======================  ==================================================================
attack                     queries for n rows       which protection it shows to be none
=========================  =======================  ==================================================================
:func:`differencing`       n + 4                    hiding everything but the value
:func:`lever`              n + 4                    rounding the value to two digits
:func:`least_squares`      n + some                 refusing predictions that differ in few rows from earlier ones
:func:`binary_codes`       n / 40 + some            a small number of queries
=========================  =======================  ==================================================================

Tables and confusion matrices need no attack: a table whose cells are single rows shows their groups. In private mode
the same attacks, and any others, guess a row whose group was set by a fair coin right no more often than
:func:`postshift.oracle.privacy.attack_bound`; ``python -m experiments oracle_games`` plays that game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postshift._validation import FloatArray, IntArray
from postshift.exceptions import SettingError
from postshift.oracle.answers import Answers, ServiceQuery
from postshift.oracle.client import RemoteMetric
from postshift.oracle.wire import encoded, on_grid

Ask = Callable[[NDArray[Any]], float]  # from labels (n,) or distributions (n, m) to the value of the metric

UNKNOWN = -1
LEAST_CHANGED = 100  # rows in which a query must differ from every earlier one, if there is such a rule
STEP = 2.0**-20  # how far least squares moves a probability
BITS = 40  # rows that a single value tells; a value has 53 bits, and some are lost in the computation


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """What the attacker knows.

    Attributes
    ----------
    labels : array of int (n,)
        The class of each row.
    groups : array of int (n,)
        The group of each row, 0 or 1, and ``UNKNOWN`` for most.
    n_classes : int
        Number of classes.
    """

    labels: IntArray
    groups: IntArray
    n_classes: int

    def friend(self, label: int, group: int) -> int:
        """Return a row of this class whose group is known to be this one."""
        found = np.flatnonzero((self.labels == label) & (self.groups == group))
        if not len(found):
            raise SettingError(f"no row is known to be of class {label} and group {group}: give the group of one")
        return int(found[0])

    @property
    def friends(self) -> IntArray:
        """One known row of each pair: class 0 with groups 0 and 1, then class 1, ..."""
        return np.array([self.friend(label, group) for label in range(self.n_classes) for group in (0, 1)])

    @property
    def wrong(self) -> IntArray:
        """For each row, a class that is not its own."""
        return (self.labels + 1) % self.n_classes

    def distributions(self, right: FloatArray) -> FloatArray:
        """Return distributions that give each row's class this probability, and another class the rest."""
        found, rows = np.zeros((len(right), self.n_classes)), np.arange(len(right))
        found[rows, self.labels] = right
        found[rows, self.wrong] += 1 - right
        return found


def ask_service(metric: RemoteMetric, *, cost: int = 1) -> Ask:
    """Return what asks a service over the network; ``cost`` is in micro-rho in private mode."""
    private = metric.about.is_private

    def ask(shown: NDArray[Any]) -> float:
        sent = encoded(shown, "u4") if shown.ndim == 1 else encoded(on_grid(shown), "u2") if private else None
        return float(metric.asked({"kind": "value", "cost": cost, "predictions": sent or encoded(shown, "f8")}))

    return ask


def ask_answers(answers: Answers, *, cost: int = 1) -> Ask:
    """Return what asks the answering code of a service, in this process, without a ledger."""

    def ask(shown: NDArray[Any]) -> float:
        sent = on_grid(shown) if shown.ndim == 2 and answers.mode == "private" else shown
        query = ServiceQuery(kind="value", cost=cost, predictions=sent)
        answers.check(query)
        return float(answers.answer(query))

    return ask


# -- the attacks ----------------------------------------------------------------------------------------


def differencing(ask: Ask, known: Known, rows: IntArray) -> IntArray:
    """Guess the groups of rows, one query for each: all predictions are right, except that of the row.

    The recall of the row's own group then falls by one part in its number of rows of this class. The groups differ in
    size, so there are two values for each class; the friends' values tell which is which. Two groups that have the same
    number of rows of a class look alike.
    """

    def without(row: int) -> float:
        shown = known.labels.copy()
        shown[row] = known.wrong[row]
        return ask(shown)

    of_friends = np.array([without(row) for row in known.friends])
    return nearest(np.array([without(row) for row in rows]), of_friends, known, rows)


def lever(ask: Ask, known: Known, rows: IntArray) -> IntArray:
    """Guess the groups of rows, one query for each: of the row's class, only it and a friend of group 0 are found.

    If the row is of group 0 too, no row of its class is found in group 1, and the metric is 0. If it is of group 1, the
    metric is not. So few rows are right that a single one decides: rounding to two digits does not hide it.
    """

    def found(row: int) -> float:
        label = known.labels[row]
        shown = np.where(known.labels == label, known.wrong, known.labels)
        shown[[row, known.friend(label, 0)]] = label
        return ask(shown)

    of_friends = np.array([found(row) for row in known.friends])
    return nearest(np.array([found(row) for row in rows]), of_friends, known, rows)


def least_squares(
    ask: Ask,
    known: Known,
    rows: IntArray,
    *,
    least_changed: int = LEAST_CHANGED,
    step: float = STEP,
    rng: np.random.Generator,
) -> IntArray:
    """Guess the groups of rows, from queries that all differ in ``least_changed`` rows or more.

    Each query moves the probabilities of about half of the rows a little. The logarithm of the metric is then a sum
    over the rows moved, so least squares finds what each row adds: less, the larger its group. Blocks of other rows,
    the fillers, are moved in the pattern of the query's number in binary: so any two queries differ in a whole block,
    and Q queries need log2 Q blocks.
    """
    varied = np.concatenate([known.friends, rows])
    n_queries = len(varied) + len(varied) // 10 + 16
    fillers = filler_blocks(known, varied, n_queries, least_changed)
    moved = np.hstack([rng.integers(2, size=(n_queries, len(varied))), in_binary(n_queries, len(fillers))])
    values = []
    for query in moved:
        right = np.full(len(known.labels), 0.5)
        right[varied[query[: len(varied)] == 1]] += step
        right[fillers[query[len(varied) :] == 1].ravel()] += step
        values.append(ask(known.distributions(right)))
    design = np.hstack([np.ones((n_queries, 1)), moved])
    added = np.linalg.lstsq(design, np.log(np.maximum(values, np.finfo(float).tiny)), rcond=None)[0][1:]
    n_friends = len(known.friends)
    return nearest(added[n_friends : len(varied)], added[:n_friends], known, rows)


def binary_codes(ask: Ask, known: Known, rows: IntArray, *, bits: int = BITS) -> IntArray:
    """Guess the groups of rows, ``bits`` of them from each query.

    Of one class, a friend of group 1 is right, and rows are right with probability 1/4, 1/8, 1/16, ... The metric is a
    power of the product of two sums, that of group 0 and that of group 1. Both are known to add up to the sum of all
    probabilities, so the value gives the smaller sum: its binary digits are the groups. A query about both friends
    gives the factor of the product.
    """
    guesses = np.zeros(len(rows), dtype=np.intp)
    for label in range(known.n_classes):
        own = np.flatnonzero(known.labels[rows] == label)
        if len(own):
            friends = [known.friend(label, group) for group in (0, 1)]
            one = ask(known.distributions(only_right(known, label, friends, np.ones(2))))
            for part in np.split(own, range(bits, len(own), bits)):
                guesses[part] = decoded_groups(ask, known, rows[part], label, one)
    return guesses


# -- their parts ----------------------------------------------------------------------------------------


def nearest(values: FloatArray, of_friends: FloatArray, known: Known, rows: IntArray) -> IntArray:
    """Return the group whose friend of the same class has the nearer value."""
    references = of_friends.reshape(-1, 2)[known.labels[rows]]
    return np.asarray(np.abs(values[:, None] - references).argmin(axis=1))


def filler_blocks(known: Known, varied: IntArray, n_queries: int, size: int) -> IntArray:
    """Return rows that are not varied, in enough blocks that each query has a pattern of its own."""
    free, n_blocks = np.setdiff1d(np.arange(len(known.labels)), varied), (n_queries - 1).bit_length()
    if len(free) < n_blocks * size:
        raise SettingError(
            f"{n_queries} queries that all differ in {size} rows need {n_blocks * size} other rows. Got {len(free)}: "
            "attack fewer rows"
        )
    return free[: n_blocks * size].reshape(n_blocks, size)


def in_binary(n: int, n_digits: int) -> IntArray:
    """Return the numbers 0..n-1 in binary, a row each."""
    return np.arange(n)[:, None] >> np.arange(n_digits) & 1


def only_right(known: Known, label: int, rows: Any, right: FloatArray) -> FloatArray:
    """Return the probabilities of the rows' own classes: of one class, only some rows are right, of others all are."""
    found = np.where(known.labels == label, 0.0, 1.0)
    found[rows] = right
    return found


def decoded_groups(ask: Ask, known: Known, rows: IntArray, label: int, one: float) -> IntArray:
    """Return the groups of some rows of a class from one query; ``one`` is the value if both sums are 1."""
    codes = 0.25 * 0.5 ** np.arange(len(rows))
    shown = only_right(known, label, [known.friend(label, 1), *rows], np.array([1.0, *codes]))
    product = (ask(known.distributions(shown)) / one) ** (2 * known.n_classes)
    total = 1 + codes.sum()
    smaller = 2 * product / (total + np.sqrt(np.maximum(total**2 - 4 * product, 0)))
    digits = round(float(np.clip(smaller, 0, codes.sum())) / codes[-1])
    return np.asarray(1 - (digits >> np.arange(len(rows))[::-1] & 1))
