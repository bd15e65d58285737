"""Records of a fit: the history of its iterations, and the diagnostics."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from postshift.estimators.marks import Mark
from postshift.rules.choice import AveragedRule
from postshift.rules.record import Record


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
