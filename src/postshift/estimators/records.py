"""Records of a fit: the history of its iterations, the diagnostics, its constraints, and marks of its rows.

A mark is a tuple of plain numbers that identifies rows without storing them, so that it can be kept in a file of the
estimator: the number of rows; the sum of their labels times fixed random numbers (-1 if they are unknown); for every
class the mean of the model's probabilities times such numbers, over the first rows; and, if all rows are known, for
every class their mean.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.rules.choice import AveragedRule
from postshift.rules.record import Record

Mark = tuple[float, ...]
Compared = Literal["same", "other order", "other rows"]
FIRST = 64  # rows whose probabilities are computed again by the fitted model
_NOT_KNOWN = -1.0
_CLOSE = 1e-6  # a file or another machine may round probabilities


def mark_of(eta: FloatArray, codes: IntArray | None, *, n_rows: int | None = None) -> Mark:
    """Return the mark of rows.

    Parameters
    ----------
    eta : array of shape (k, m)
        The fitted model's probabilities of all rows, or of the first rows.
    codes : array of shape (n,), optional
        Labels, as positions.
    n_rows : int, optional
        Number of rows, if eta is of the first rows only.
    """
    n_all = len(eta) if n_rows is None else n_rows
    draws = np.random.default_rng(0).random(max(n_all, FIRST))
    labels = _NOT_KNOWN if codes is None else float(draws[:n_all] @ codes)
    head = eta[:FIRST]
    means = eta.mean(axis=0).tolist() if n_rows is None else ()
    return (float(n_all), labels, *(draws[: len(head)] @ head / len(head)).tolist(), *means)


def compared(kept: Mark, new: Mark) -> Compared:
    """Return whether new rows, with all their probabilities, are the rows of a stored mark.

    Labels are compared if both are known. Rows with the same means but another order, or other labels, are recognised.
    """
    if kept[0] != new[0]:
        return "other rows"
    n_classes = (len(new) - 2) // 2
    known = min(kept[1], new[1]) != _NOT_KNOWN
    same_labels = not known or bool(np.isclose(kept[1], new[1], rtol=1e-12, atol=0))
    if same_labels and _are_close(kept[2 : 2 + n_classes], new[2 : 2 + n_classes]):
        return "same"
    means = kept[2 + n_classes :]
    return "other order" if means and _are_close(means, new[2 + n_classes :]) else "other rows"


def _are_close(kept: Mark, new: Mark) -> bool:
    """Return whether numbers are equal up to rounding."""
    return bool(np.allclose(kept, new, rtol=_CLOSE, atol=_CLOSE / 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRecord:
    """One iteration of the Frank-Wolfe loop of one rule."""

    rule: str
    iteration: int
    metric: float
    step: float | None
    queries: int


class History(tuple[HistoryRecord, ...]):
    """The iterations of all rules that have a Frank-Wolfe loop, in order.

    Examples
    --------
    >>> record = HistoryRecord(rule="FW-EG [constant]", iteration=0, metric=0.5, step=1.0, queries=1)
    >>> History([record])[0].metric
    0.5
    """

    __slots__ = ()

    @classmethod
    def of(cls, rule: AveragedRule) -> Self:
        """Return the history of every rule of an average."""
        return cls(
            HistoryRecord(
                rule=each.name,
                iteration=look.index,
                metric=look.score,
                step=look.step,
                queries=look.n_queries,
            )
            for each in rule.rules
            for look in each.trace
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per record."""
        import pandas as pd

        names = list(HistoryRecord.__dataclass_fields__)
        return pd.DataFrame([asdict(record) for record in self], columns=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditioning:
    """How well the equations of one rule's loop determine its weights, in the worst iteration."""

    rule: str
    condition: float | None
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """The reason for the result, and warnings.

    Attributes
    ----------
    choice : Record
        Every rule of the menu with its weight and its score on rows not used for its fit; the comparison with the
        base; the reason.
    conditioning : tuple of Conditioning
        For every rule with a loop: the largest condition number and the smallest rank of its equations.
    warnings : tuple of str
        The warnings of the fit.
    n_train, n_val : int
        Numbers of rows; ``n_train`` is 0 if one sample was used as both.
    n_drawn : int or None
        If the training rows are a Dask collection: how many of them were drawn, to fit the bases and to choose the
        rules. Sums over all rows are only used if the choice is a single rule.
    val_mark, train_mark : tuple of float or None
        Numbers that identify the validation rows and the training rows of the fit.
    """

    choice: Record
    conditioning: tuple[Conditioning, ...]
    warnings: tuple[str, ...]
    n_train: int
    n_val: int
    n_drawn: int | None = None
    val_mark: Mark | None = None
    train_mark: Mark | None = None


def conditioning(rule: AveragedRule) -> tuple[Conditioning, ...]:
    """Return the worst conditioning of every rule with a loop."""
    found = []
    for each in rule.rules:
        looks = [look for look in each.trace if look.rank is not None]
        if looks:
            conditions = [look.condition for look in looks if look.condition is not None]
            ranks = [look.rank for look in looks if look.rank is not None]
            found.append(Conditioning(rule=each.name, condition=max(conditions, default=None), rank=min(ranks)))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintRecord:
    """How a constraint holds on rows with labels: validation rows that were not used for the fit, or new rows.

    With a guarantee, these are all validation rows, which also tested the rule.

    Attributes
    ----------
    text : str
        The constraint as it was given.
    name : str
        What it bounds.
    sense : {">=", "<="}
        At least, or at most.
    bound : float
        The bound.
    value : float
        The value of its metric.
    low, high : float
        An interval of about 95 % for the value on new rows.
    holds : bool
        Whether the value respects the bound.
    """

    text: str
    name: str
    sense: str
    bound: float
    value: float
    low: float
    high: float
    holds: bool
