"""The facts of the frontier: the best metric for each bound of a fit's first constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from postshift.rules.frontier import Frontier, FrontierPoint

NonZero = tuple[int, int, float]  # true class, predicted class, number of rows or sum of weights


@dataclass(frozen=True, kw_only=True)
class PointFacts:
    """One point: the rule for a bound, as it labels the rows; ``cells`` are those that are not 0.

    ``certified`` and ``p_value`` are None without a confidence, ``rows_needed`` if no number of rows is enough.
    """

    bound: float
    metric: float
    constraint: float
    expected_metric: float
    expected_constraint: float
    certified: bool | None
    p_value: float | None
    rows_needed: int | None
    n_changed: int
    cells: tuple[NonZero, ...]

    @classmethod
    def of(cls, point: FrontierPoint) -> PointFacts:
        """Return the facts of a point; groups are summed up."""
        n_classes = point.confusion.shape[1]
        matrix = point.confusion.reshape(-1, n_classes, n_classes).sum(axis=0)
        return cls(
            bound=point.bound,
            metric=point.metric,
            constraint=point.constraint,
            expected_metric=point.expected_metric,
            expected_constraint=point.expected_constraint,
            certified=point.certified,
            p_value=point.p_value,
            rows_needed=point.rows_needed,
            n_changed=point.n_changed,
            cells=tuple((int(i), int(j), float(matrix[i, j])) for i, j in np.argwhere(matrix != 0)),
        )


@dataclass(frozen=True, kw_only=True)
class FrontierFacts:
    """The frontier of a fit: its points from the loosest bound to the strictest, and which one the fit asked for."""

    constraint: str
    sense: str
    others: tuple[str, ...]
    confidence: float | None
    n_rows: int
    asked: int
    points: tuple[PointFacts, ...]

    @classmethod
    def of(cls, frontier: Frontier, *, bound: float) -> FrontierFacts:
        """Return the facts of a frontier; ``bound`` is the one that the fit asked for."""
        return cls(
            constraint=frontier.constraint,
            sense=frontier.sense,
            others=frontier.others,
            confidence=frontier.confidence,
            n_rows=frontier.n_rows,
            asked=frontier.points.index(frontier.at(bound)),
            points=tuple(PointFacts.of(point) for point in frontier.points),
        )
