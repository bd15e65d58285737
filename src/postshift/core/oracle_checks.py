"""The conformance suite of oracles: a function, a program and a service are held to the same answers.

Run it on your own oracle, about a few rows whose labels you know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_labels, check_rows
from postshift.core.plugin import onehot
from postshift.core.psi import ConfusionMetric, maximised, value_of
from postshift.core.queries import Oracle, Query, kind_named
from postshift.core.sums import categories_of
from postshift.exceptions import AnswerError

EXACT = 1e-9
_N_RANDOM = 3  # random predictions of each form


@dataclass(frozen=True, kw_only=True, eq=False)
class _Truth:
    """What the oracle holds: labels, groups, and the metric."""

    labels: IntArray
    groups: Any
    n_classes: int
    metric: ConfusionMetric

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    @property
    def n_categories(self) -> int:
        return int(getattr(self.metric, "n_categories", self.n_classes))

    def relabelled(self, order: IntArray) -> _Truth:
        """Return the same with the classes in another order: class k is class ``order[k]`` here."""
        labels = np.argsort(order)[self.labels]
        return _Truth(labels=labels, groups=self.groups, n_classes=self.n_classes, metric=self.metric)

    def answer(self, query: Query) -> Any:
        """Return the exact answer, by definition."""
        size = {"n_classes": self.n_classes, "n_categories": self.n_categories}
        categories = categories_of(self.labels, self.groups, **size)
        truth = onehot(categories, n_classes=self.n_categories)[slice(None) if query.rows is None else query.rows]
        shown = query.predictions
        if query.kind == "table":
            return onehot(shown, n_classes=query.shape[0]).T @ truth
        table = onehot(shown, n_classes=self.n_classes) if query.kind == "hard" else shown
        columns = np.ones((len(table), 1)) if query.columns is None else query.columns
        found = np.einsum("nk,nr,nj->krj", columns, truth, table) / len(table)
        return found if query.kind == "confusion" else float(value_of(self.metric, found[0]))


def check_oracle(
    oracle: Oracle,
    labels: Any,
    *,
    metric: ConfusionMetric,
    n_classes: int,
    groups: Any = None,
    tolerance: float = EXACT,
    in_order: Callable[[IntArray], Oracle] | None = None,
    seed: int = 0,
) -> None:
    """Raise unless an oracle answers as it must; ``labels`` are the true classes of the rows that it holds.

    It asks about a dozen different queries, each twice or more. What is checked: answers have their form and are
    finite; they are the exact ones, within ``tolerance``; an equal query gets an equal answer, whatever was asked in
    between; predictions are not changed; a wrong number of rows is refused; some of the rows are scored, or refused,
    as ``takes_subsets`` says.

    Parameters
    ----------
    oracle : Oracle
        Has ``kind``, ``takes_subsets`` and ``answer(query)``, as in :mod:`postshift.core.queries`.
    labels : array of shape (n,)
        True classes ``0..n_classes-1``; 20 rows or more, with every class among them.
    metric : ConfusionMetric
        The metric of the confusion matrix.
    n_classes : int
        Number of classes m.
    groups : array of shape (n,), optional
        For group-wise metrics: the group of each row.
    tolerance : float, default=1e-9
        How far an answer may be from the exact one: more than 1e-9 for answers with noise. It is in rows for kind
        "table", in shares of the rows for kind "confusion", and in units of the metric for "soft" and "hard".
    in_order : callable, optional
        ``in_order(order)`` returns the oracle of the same rows whose class ``k`` is class ``order[k]`` of ``labels``.
        It is asked, too.
    seed : int, default=0
        Seed of the predictions.

    Raises
    ------
    AnswerError
        If an answer is wrong. Errors of the oracle itself are passed on.

    Examples
    --------
    >>> from postshift.core.oracles import ConfusionOracle
    >>> from postshift.metrics import GMean
    >>> labels = np.arange(30) % 3
    >>> check_oracle(ConfusionOracle(labels, n_classes=3), labels, metric=GMean(), n_classes=3)
    >>> try:
    ...     check_oracle(ConfusionOracle(labels[::-1], n_classes=3), labels, metric=GMean(), n_classes=3)
    ... except AnswerError as error:
    ...     print(str(error)[:55])
    the answer to 'random distributions 0' must be 0.113405
    """
    n_rows = np.size(labels)
    check_rows(n_rows, name="validation")
    found = check_labels(labels, n_rows=n_rows, n_classes=n_classes, name="labels")
    truth = _Truth(labels=found, groups=groups, n_classes=n_classes, metric=maximised(metric))
    _check(oracle, truth, tolerance=tolerance, seed=seed)
    if in_order is not None:
        order = np.roll(np.arange(n_classes), 1)
        _check(in_order(order), truth.relabelled(order), tolerance=tolerance, seed=seed)


def _check(oracle: Oracle, truth: _Truth, *, tolerance: float, seed: int) -> None:
    """Check one oracle."""
    kind_named(oracle.kind)
    queries = list(_queries(oracle.kind, truth, np.random.default_rng(seed)))
    if hasattr(oracle, "expect"):  # it divides what may be spent
        oracle.expect(len(queries))
    answers = [_answer(oracle, query) for query in queries]
    for query, answer in zip(queries, answers, strict=True):
        _check_close(query, answer, truth.answer(query), tolerance)
    again = [_answer(oracle, _copy(query)) for query in reversed(queries)]
    for query, answer, second in zip(queries, answers, reversed(again), strict=True):
        if not np.array_equal(answer, second):
            raise AnswerError(
                f"{query.text!r} was answered {answer!r}, and {second!r} when it was asked again: an equal query "
                "must get an equal answer"
            )
    _check_other_rows(oracle, queries[0])
    _check_subsets(oracle, queries[0], truth, tolerance)


def _answer(oracle: Oracle, query: Query) -> Any:
    """Return a checked answer; raise if the predictions were changed."""
    before = np.array(query.predictions)
    answer = query.checked(oracle.answer(query))
    if not np.array_equal(before, query.predictions):
        raise AnswerError(f"the predictions of {query.text!r} were changed: work on a copy")
    return answer


def _check_close(query: Query, answer: Any, exact: Any, tolerance: float) -> None:
    """Raise if an answer is too far from the exact one."""
    far = np.abs(np.asarray(answer) - exact)
    if far.max() > tolerance:
        place = np.unravel_index(np.argmax(far), far.shape)
        where = f" in entry {tuple(map(int, place))}" if place else ""
        raise AnswerError(
            f"the answer to {query.text!r} must be {np.asarray(exact)[place]:.6g}{where}, within {tolerance:g}. Got "
            f"{np.asarray(answer)[place]:.6g} instead"
        )


def _check_other_rows(oracle: Oracle, query: Query) -> None:
    """Raise if an oracle scores predictions of another number of rows."""
    columns = None if query.columns is None else query.columns[:-1]
    shorter = _query(query.kind, f"{query.text}, without the last row", query.predictions[:-1], query.shape, columns)
    _check_refused(oracle, shorter, "must be refused: they are of other rows than the labels")


def _check_subsets(oracle: Oracle, query: Query, truth: _Truth, tolerance: float) -> None:
    """Raise unless an oracle scores some of the rows, or refuses them, as ``takes_subsets`` says."""
    rows = np.arange(truth.n_rows)[: truth.n_rows // 2]
    columns = None if query.columns is None else query.columns[rows]
    half = _query(query.kind, query.text, query.predictions[rows], query.shape, columns)
    half = half.restricted(rows, n_rows=truth.n_rows)
    if oracle.takes_subsets:
        _check_close(half, _answer(oracle, half), truth.answer(half), tolerance)
    else:
        _check_refused(oracle, half, "must be refused, because takes_subsets is False")


def _check_refused(oracle: Oracle, query: Query, why: str) -> None:
    """Raise unless an oracle raises an error, of any kind."""
    try:
        answer = oracle.answer(query)
    except Exception:  # noqa: BLE001 -- whatever the user's oracle raises
        return
    raise AnswerError(f"{query.text!r} was answered {answer!r}: such predictions {why}")


def _queries(kind: Any, truth: _Truth, rng: np.random.Generator) -> Iterator[Query]:
    """Yield different queries of one kind."""
    n, m, n_categories = truth.n_rows, truth.n_classes, truth.n_categories
    if kind == "table":
        for text, cells in _partitions(n, rng):
            yield _query(kind, text, cells, (int(cells.max()) + 1, n_categories))
        return
    if kind == "hard":
        for text, labels in _labels(n, m, rng):
            yield _query(kind, text, labels, ())
        return
    columns = np.column_stack([np.ones(n), np.eye(2)[np.arange(n) % 2], rng.uniform(size=n)])
    shape, given = ((columns.shape[1], n_categories, m), columns) if kind == "confusion" else ((), None)
    for place in range(_N_RANDOM):
        yield _query(kind, f"random distributions {place}", rng.dirichlet(np.ones(m), size=n), shape, given)
    yield _query(kind, "all classes alike", np.full((n, m), 1 / m), shape, given)
    for text, labels in _labels(n, m, rng):
        yield _query(kind, text, onehot(labels, n_classes=m), shape, given)


def _labels(n_rows: int, n_classes: int, rng: np.random.Generator) -> Iterator[tuple[str, IntArray]]:
    """Yield labels, with their names."""
    for place in range(_N_RANDOM):
        yield f"random labels {place}", rng.integers(n_classes, size=n_rows)
    for label in (0, n_classes - 1):
        yield f"class {label} everywhere", np.full(n_rows, label)


def _partitions(n_rows: int, rng: np.random.Generator) -> Iterator[tuple[str, IntArray]]:
    """Yield partitions of the rows, with their names."""
    yield "one cell", np.zeros(n_rows, dtype=np.intp)
    yield "two cells", np.arange(n_rows) % 2
    yield "three cells, the second without rows", 2 * (np.arange(n_rows) % 2)
    for place in range(_N_RANDOM):
        yield f"random cells {place}", rng.integers(5, size=n_rows)


def _query(
    kind: Any, text: str, shown: FloatArray | IntArray, shape: tuple[int, ...], columns: FloatArray | None = None
) -> Query:
    """Return a query."""
    how: dict[str, Any] = {"n_rows": len(shown), "columns": columns, "shape": shape, "_predict": partial(_same, shown)}
    return Query(key=text, kind=kind, text=text, **how)


def _same(shown: Any) -> Any:
    """Return the predictions."""
    return shown


def _copy(query: Query) -> Query:
    """Return an equal query that has nothing in common with it but what is asked."""
    columns = None if query.columns is None else np.array(query.columns)
    return _query(query.kind, f"{query.text}, again", np.array(query.predictions), query.shape, columns)
