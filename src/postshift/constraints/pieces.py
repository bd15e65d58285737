"""What a constraint asks of the confusion matrix, in pieces that are linear in it.

Notation: C (R, m) has one row per class, or per (group, class) pair, and sums to 1. A piece bounds the ratio
``<above, C> / <below, C>``, so it is the half-space ``sign (<above, C> - bound <below, C>) <= 0``.

============  ==========================================================  =======================================
kind          ratio                                                       constraints
============  ==========================================================  =======================================
proportion    rows in some cells, among the rows in more cells            recall, precision, rate, accuracy, F1, ...
difference    one proportion minus another                                gaps between groups
mean          a mean over all rows of a number per cell                   expected cost and reward
tangent       the tangent of a metric at some matrix                      any other metric that has a gradient
============  ==========================================================  =======================================

F1 >= b is the same as Jaccard >= b / (2 - b), which is a proportion. A minimum over classes or groups, and a gap among
groups, has several pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from typing import Any, Literal

import numpy as np

from postshift._validation import FloatArray, unknown
from postshift.constraints.functions import BoundedFunction
from postshift.constraints.terms import RATE, Constraint, Sense
from postshift.core.psi import ConfusionMetric, DifferentiableMetric, check_classes
from postshift.exceptions import MetricError, SettingError
from postshift.metrics.adapters import LabelFunction
from postshift.metrics.catalogue import GAPS, METRICS, find_metric
from postshift.metrics.confusion import Accuracy, LinearMetric, ratio
from postshift.metrics.gaps import GapMetric
from postshift.metrics.grammar import class_position, positive_position
from postshift.metrics.over_groups import WorstGroup
from postshift.metrics.rates import OF_ONE_CLASS, FBeta, PredictedRate, RateMetric
from postshift.metrics.recalls import MinRecall, RecallMetric
from postshift.metrics.resolve import as_it_is

Kind = Literal["proportion", "difference", "mean", "tangent"]
SHARES = (RateMetric, GapMetric, PredictedRate, Accuracy, RecallMetric, WorstGroup)  # metrics between 0 and 1
STEP = 1e-6  # the share of new rows by which influences are measured
SMALLEST = 1e-3  # the smallest denominator by which a half-space is scaled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A bound on a ratio of two linear functions of the confusion matrix.

    Attributes
    ----------
    name : str
        What is bounded, for messages.
    kind : {"proportion", "difference", "mean", "tangent"}
        What the ratio is; it decides which test there is.
    above, below : array of shape (R, m)
        The coefficients of numerator and denominator.
    sense : {">=", "<="}
        At least, or at most.
    bound : float
        The bound of the ratio.
    parts : tuple of Piece
        The two proportions of a difference.
    """

    name: str
    kind: Kind
    above: FloatArray
    below: FloatArray
    sense: Sense
    bound: float
    parts: tuple[Piece, ...] = field(default=())

    @property
    def sign(self) -> float:
        """1 if the ratio is at most the bound, -1 if it is at least the bound."""
        return 1.0 if self.sense == "<=" else -1.0

    @property
    def needs_labels(self) -> bool:
        """Whether the cells depend on the true class; if not, rows without labels tell the ratio as well."""
        n_classes = self.above.shape[1]
        tables = [table.reshape(-1, n_classes, n_classes) for table in (self.above, self.below)]
        return any(np.ptp(table, axis=1).any() for table in tables)

    def value(self, confusion: FloatArray) -> float:
        """Return the ratio; 0 / 0 is 0."""
        if self.parts:
            high, low = (part.value(confusion) for part in self.parts)
            return high - low
        return float(ratio(np.asarray(np.sum(self.above * confusion)), np.asarray(np.sum(self.below * confusion))))

    def miss(self, confusion: FloatArray) -> float:
        """Return by how much the bound is missed; negative if there is room."""
        return self.sign * (self.value(confusion) - self.bound)

    def has_rows(self, confusion: FloatArray) -> bool:
        """Return whether there are rows in each denominator."""
        return all(np.sum(each.below * confusion) > 0 for each in self.parts or (self,))

    def half_space(self, bound: float, confusion: FloatArray) -> FloatArray:
        """Return coefficients K (R, m) with ``<K, C> <= 0`` where the ratio respects ``bound``.

        They are scaled so that near ``confusion`` a unit is a unit of the ratio, unless its denominator is tiny.
        """
        size = max(float(np.sum(self.below * confusion)), SMALLEST)
        return np.asarray(self.sign * (self.above - bound * self.below) / size)

    def influence(self, confusion: FloatArray) -> FloatArray:
        """Return what a row in each cell adds to the ratio, to first order: (R, m), with mean 0 under C.

        It is 0 if the denominator is 0.
        """
        if self.parts:
            high, low = (part.influence(confusion) for part in self.parts)
            return high - low
        size = np.asarray(np.sum(self.below * confusion))
        return ratio(self.above - self.value(confusion) * self.below, np.broadcast_to(size, self.above.shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What classes and groups are called in the names of pieces."""

    classes: tuple[Any, ...]
    groups: tuple[Any, ...]

    @classmethod
    def of(cls, classes: Any, groups: Any, *, n_groups: int) -> Names:
        """Return the names; groups without names have their positions."""
        named = range(n_groups) if groups is None else np.asarray(groups).tolist()
        return cls(classes=tuple(np.asarray(classes).tolist()), groups=tuple(named))

    def category(self, row: int, n_rows: int) -> str:
        """Return the name of a row of a confusion matrix: a class or, if the matrix has groups, a class of a group."""
        group, label = divmod(row, len(self.classes))
        within = f" of group {self.groups[group]}" if n_rows > len(self.classes) else ""
        return f"class {self.classes[label]}{within}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedMetric:
    """A constraint whose metric is known, for the classes and groups of some rows.

    Parameters
    ----------
    constraint : Constraint
        The constraint as it was written.
    metric : ConfusionMetric
        What is bounded, as a function of the confusion matrix; it is not negated.
    n_classes, n_groups : int
        Numbers of classes and groups; confusion matrices have ``n_groups * n_classes`` rows.
    names : Names, optional
        What they are called; by default, positions.
    """

    constraint: Constraint
    metric: ConfusionMetric
    n_classes: int
    n_groups: int = 1
    names: Names | None = None

    @property
    def is_over_groups(self) -> bool:
        """Whether the metric reads (group, class) pairs."""
        return int(getattr(self.metric, "n_categories", self.n_classes)) != self.n_classes or self.n_groups == 1

    def value(self, confusion: FloatArray) -> float:
        """Return the metric of a confusion matrix (R, m)."""
        return float(self.metric.value(self._own(confusion)))

    def miss(self, confusion: FloatArray) -> float:
        """Return by how much the bound is missed; negative if there is room."""
        return self.constraint.sign * (self.value(confusion) - self.constraint.bound)

    def slopes(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the metric (R, m)."""
        slopes = slopes_of(self.metric, self._own(confusion))
        return slopes if self.is_over_groups else np.tile(slopes, (self.n_groups, 1))

    @property
    def is_share(self) -> bool:
        """Whether the metric is between 0 and 1."""
        return isinstance(self.metric, SHARES)

    def influence(self, confusion: FloatArray) -> FloatArray:
        """Return what a row in each cell adds to the metric, to first order; of a minimum or a gap, to its worst piece.

        Its mean under the matrix is about 0.
        """
        if isinstance(self.metric, GapMetric | MinRecall | WorstGroup):
            worst = max(self.pieces(confusion), key=lambda piece: piece.miss(confusion))
            return worst.influence(confusion)
        here, found = self.value(confusion), np.zeros(confusion.shape)
        for cell in np.ndindex(*confusion.shape):
            moved = (1 - STEP) * confusion
            moved[cell] += STEP
            found[cell] = (self.value(moved) - here) / STEP
        return found

    def pieces(self, confusion: FloatArray) -> list[Piece]:
        """Return the pieces; those of kind "tangent" touch the metric at ``confusion``."""
        own = self._own(confusion)
        names = self.names or Names.of(range(self.n_classes), None, n_groups=self.n_groups)
        found = list(_pieces(self.metric, self.constraint, own, names))
        return [self._lifted(piece) for piece in found]

    def _own(self, confusion: FloatArray) -> FloatArray:
        """Return the matrix that the metric reads: by group, or summed over the groups."""
        if self.is_over_groups:
            return confusion
        return np.asarray(confusion.reshape(self.n_groups, self.n_classes, self.n_classes).sum(axis=0))

    def _lifted(self, piece: Piece) -> Piece:
        """Return a piece as a function of the matrix with (group, class) rows."""
        if self.is_over_groups:
            return piece
        above, below = (np.tile(table, (self.n_groups, 1)) for table in (piece.above, piece.below))
        return replace(piece, above=above, below=below, parts=tuple(self._lifted(part) for part in piece.parts))


def resolve_constraint(
    constraint: Constraint, *, classes: Any, n_groups: int | None = None, groups: Any = None, pos_label: Any = None
) -> BoundedMetric | BoundedFunction:
    """Return a constraint with its metric looked up, for classes with these labels and groups with these names.

    A rate of one class has its class in brackets; with two classes it is by default the positive one. A function of
    labels stays a function.
    """
    metric = constraint.term.metric
    n_groups = n_groups if groups is None else len(groups)
    if isinstance(metric, str):
        metric = _named(constraint, classes=classes, n_groups=n_groups, pos_label=pos_label)
    else:
        metric = as_it_is(metric, classes=classes)
    if isinstance(metric, LabelFunction):
        return BoundedFunction(constraint=constraint, function=metric)
    n_classes = len(np.asarray(classes))
    check_classes(metric, n_classes=n_classes)
    _check_groups(constraint, metric, n_groups=n_groups or 1)
    _check_bound(constraint, metric)
    names = Names.of(classes, groups, n_groups=n_groups or 1)
    return BoundedMetric(constraint=constraint, metric=metric, n_classes=n_classes, n_groups=n_groups or 1, names=names)


def _named(constraint: Constraint, *, classes: Any, n_groups: int | None, pos_label: Any) -> ConfusionMetric:
    """Return the metric of a name; a gap is not negated."""
    name, label = constraint.term.metric, constraint.term.label
    n_classes, chosen = len(np.asarray(classes)), label if label is not None else pos_label
    position = None if chosen is None else class_position(chosen, classes)
    if name not in METRICS | GAPS and name != RATE:
        raise SettingError(unknown(name, [*METRICS, *GAPS, RATE], what="metric"))
    if (name in GAPS or name == RATE or METRICS[name].is_of_one_class) and position is None and n_classes == 2:
        position = positive_position(classes)
    if name in GAPS:
        if n_groups is None:
            raise SettingError(f"{str(constraint)!r} is about groups of rows: pass groups, one value per row")
        return GAPS[name](n_groups=n_groups, n_classes=n_classes, positive=position)
    if position is None and (name == RATE or (METRICS[name].is_of_one_class and n_classes == 2)):
        raise SettingError(f"{str(constraint)!r} must say which class: {name}[CLASS]")
    if name == RATE:
        return PredictedRate(int(position or 0))
    if METRICS[name].is_over_groups and n_groups is None:
        raise SettingError(f"{str(constraint)!r} is about groups of rows: pass groups, one value per row")
    return find_metric(name, label=label).metric(n_classes=n_classes, positive=position, n_groups=n_groups)


def _check_groups(constraint: Constraint, metric: ConfusionMetric, *, n_groups: int) -> None:
    """Raise if the metric is about another number of groups than there are."""
    of_metric = int(getattr(metric, "n_groups", n_groups))
    if of_metric != n_groups:
        raise MetricError(f"{str(constraint)!r} is about {of_metric} groups, but the rows have {n_groups}")


def _check_bound(constraint: Constraint, metric: ConfusionMetric) -> None:
    """Raise if the bound is outside the metric's range, or on the side where the constraint is not convex."""
    if isinstance(metric, SHARES) and not 0 <= constraint.bound <= 1:
        raise SettingError(
            f"{str(constraint)!r}: {constraint.term} is between 0 and 1. Got {constraint.bound:g} instead"
        )
    if isinstance(metric, GapMetric) and constraint.sense == ">=":
        raise SettingError(f"{str(constraint)!r}: a gap can only be bounded from above: use <=")
    if isinstance(metric, MinRecall | WorstGroup) and constraint.sense == "<=":
        raise SettingError(f"{str(constraint)!r}: a minimum can only be bounded from below: use >=")


def _pieces(metric: Any, constraint: Constraint, confusion: FloatArray, names: Names) -> Iterator[Piece]:
    """Yield the pieces of a constraint on one metric."""
    shape, name = confusion.shape, str(constraint.term)
    of_all = partial(Piece, name=name, below=np.ones(shape), sense=constraint.sense, bound=constraint.bound)
    if isinstance(metric, RateMetric) and metric.average in OF_ONE_CLASS:
        yield _rate(metric, name, constraint, shape)
    elif isinstance(metric, PredictedRate):
        yield of_all(kind="proportion", above=metric.gradient(confusion))
    elif isinstance(metric, Accuracy):
        yield of_all(kind="proportion", above=np.eye(shape[1]))
    elif isinstance(metric, LinearMetric):
        yield of_all(kind="mean", above=metric.matrix)
    elif isinstance(metric, MinRecall) or (isinstance(metric, WorstGroup) and metric.inner == "accuracy"):
        yield from _minimum(metric, constraint, confusion, names)
    elif isinstance(metric, GapMetric):
        yield from _gap(metric, constraint, confusion, names)
    else:
        slopes = slopes_of(metric, confusion)
        level = float(metric.value(confusion)) - float(np.sum(slopes * confusion))
        yield of_all(kind="tangent", above=slopes + level)


def _rate(metric: RateMetric, name: str, constraint: Constraint, shape: tuple[int, ...]) -> Piece:
    """Return the piece of a rate of one class; F1 is bounded through Jaccard."""
    hit, true, predicted = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    hit[metric.positive, metric.positive] = true[metric.positive] = predicted[:, metric.positive] = 1
    a, b, c = metric.coefficients
    bound = constraint.bound
    if isinstance(metric, FBeta) and metric.beta == 1:
        a, b, c, bound = 1.0, 1.0, 1.0, bound / (2 - bound)
        name = f"{name} as Jaccard"
    below = a * hit + b * (true - hit) + c * (predicted - hit)
    kind: Kind = "proportion" if set(np.unique(below)) <= {0.0, 1.0} else "tangent"
    return Piece(name=name, kind=kind, above=a * hit, below=below, sense=constraint.sense, bound=bound)


def _minimum(metric: Any, constraint: Constraint, confusion: FloatArray, names: Names) -> Iterator[Piece]:
    """Yield one proportion per class (MinRecall) or group (worst accuracy) that has rows."""
    n_rows, n_classes = confusion.shape
    width = 1 if isinstance(metric, MinRecall) else n_classes
    for first in range(0, n_rows, width):
        below = np.zeros(confusion.shape)
        below[first : first + width] = 1
        if np.sum(below * confusion) > 0:
            above = below * np.tile(np.eye(n_classes), (n_rows // n_classes, 1))
            of = names.category(first, n_rows) if width == 1 else f"group {names.groups[first // width]}"
            name = f"{constraint.term}, {of}"
            yield Piece(name=name, kind="proportion", above=above, below=below, sense=">=", bound=constraint.bound)


def _gap(metric: GapMetric, constraint: Constraint, confusion: FloatArray, names: Names) -> Iterator[Piece]:
    """Yield one difference for each ordered pair of groups that have rows, and each rate of the gap."""
    table = metric.by_group(confusion)
    sizes = metric.terms(table)[1]
    for slot in metric.slots(np.arange(metric.n_classes) if metric.positive is None else np.array([metric.positive])):
        rows, columns = metric.cells(int(slot))
        true = "" if isinstance(rows, slice) else f", true {names.classes[rows]}"
        of = f"{constraint.term}{true}, predicted {names.classes[columns]}"
        shares = {}
        for group in np.flatnonzero(sizes[:, slot] > 0):
            above, below = np.zeros(table.shape), np.zeros(table.shape)
            above[group, rows, columns] = 1
            below[group, rows] = 1
            shares[group] = Piece(
                name=f"{of}, group {names.groups[group]}",
                kind="proportion",
                above=above.reshape(confusion.shape),
                below=below.reshape(confusion.shape),
                sense="<=",
                bound=1.0,
            )
        for one, other in permutations(shares, 2):
            high, low = shares[one], shares[other]
            yield Piece(
                name=f"{of}, groups {names.groups[one]} and {names.groups[other]}",
                kind="difference",
                above=high.above / sizes[one, slot] - low.above / sizes[other, slot],
                below=np.ones(confusion.shape),
                sense="<=",
                bound=constraint.bound,
                parts=(high, low),
            )


def slopes_of(metric: ConfusionMetric, confusion: FloatArray, *, reach: float = 1e-4) -> FloatArray:
    """Return the gradient of a metric; one without a gradient is probed: it is evaluated at moved matrices.

    A probe moves a share of the rows of one category from all predictions to one class.
    """
    if isinstance(metric, DifferentiableMetric):
        return metric.gradient(confusion)
    here, slopes = float(metric.value(confusion)), np.zeros(confusion.shape)
    for row, column in np.ndindex(*confusion.shape):
        mass = confusion[row].sum()
        if mass > 0:
            moved = confusion.copy()
            moved[row] *= 1 - reach
            moved[row, column] += reach * mass
            slopes[row, column] = (float(metric.value(moved)) - here) / (reach * mass)
    return slopes
