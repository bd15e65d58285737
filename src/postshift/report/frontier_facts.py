"""The facts of the frontier: the best metric for each bound of a fit's first constraint."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from postshift.rules.frontier import Frontier, FrontierPoint, PointValues

NonZero = tuple[int, int, float]  # true class, predicted class, number of rows or sum of weights


@dataclass(frozen=True, kw_only=True)
class PointFacts(PointValues):
    """One point: the rule for a bound, as it labels the rows; ``cells`` are those that are not 0."""

    cells: tuple[NonZero, ...]

    @classmethod
    def of(cls, point: FrontierPoint) -> PointFacts:
        """Return the facts of a point; groups are summed up."""
        n_classes = point.confusion.shape[1]
        matrix = point.confusion.reshape(-1, n_classes, n_classes).sum(axis=0)
        values = {field.name: getattr(point, field.name) for field in fields(PointValues)}
        cells = tuple((int(i), int(j), float(matrix[i, j])) for i, j in np.argwhere(matrix != 0))
        return cls(**values, cells=cells)


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
