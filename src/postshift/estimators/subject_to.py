"""What ``subject_to`` adds to a fit: the constraints for its classes and groups, their rule, and how they hold."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from postshift._validation import FloatArray, IntArray, check_in_range
from postshift.constraints.pieces import BoundedMetric, resolve_constraint
from postshift.constraints.terms import Constraint, read_constraints
from postshift.core.psi import ConfusionMetric
from postshift.core.rows import CONSTANT, Rows
from postshift.estimators.model import positions
from postshift.estimators.progress import WRAPPED
from postshift.estimators.records import ConstraintRecord
from postshift.exceptions import ConstraintWarning, MetricError, NotCertifiedError, SettingError
from postshift.metrics.catalogue import GAPS, METRICS
from postshift.metrics.grammar import MetricText
from postshift.metrics.over_groups import PooledMetric
from postshift.metrics.resolve import GROUPS, ResolvedMetric, metadata_names
from postshift.rules.certified import Given, Unlabelled, certified_rule
from postshift.rules.constrained import OUT_OF_REACH, Constrained
from postshift.rules.problem import Problem
from postshift.rules.record import Certificate, Record
from postshift.rules.scoring import HeldOut

UNCERTIFIED = ("raise", "closest")
LEVEL = 0.95  # of the interval of a constraint's value
ROUNDING = 1e-12  # of a value that is equal to its bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """The confidence of a guarantee, and what to do if nothing can be certified."""

    confidence: float
    if_uncertified: str = "raise"

    def __post_init__(self) -> None:
        """Raise if the confidence is not between 0.5 and 1, or the other parameter is unknown."""
        check_in_range(self.confidence, name="confidence", low=0.5, high=1, open_high=True)
        if self.if_uncertified not in UNCERTIFIED:
            raise SettingError(f"if_uncertified must be one of {UNCERTIFIED}. Got {self.if_uncertified!r} instead")


@dataclass(frozen=True, kw_only=True, eq=False)
class SubjectTo:
    """The constraints of a fit; ``n_groups`` is 1 if neither they nor the metric read groups."""

    constraints: tuple[BoundedMetric, ...]
    n_groups: int

    @classmethod
    def of(cls, given: Sequence[Constraint], *, classes: Any, groups: Any, pos_label: Any) -> SubjectTo:
        """Look up the metrics of constraints."""
        how = {"classes": classes, "groups": groups, "pos_label": pos_label}
        n_groups = 1 if groups is None else len(groups)
        return cls(constraints=tuple(resolve_constraint(each, **how) for each in given), n_groups=n_groups)

    def pooled(self, goal: ResolvedMetric, n_classes: int) -> ConfusionMetric:
        """Return the metric to maximise as a function of the same confusion matrix as the constraints."""
        if not isinstance(goal, ConfusionMetric):
            raise MetricError(
                f"metric {goal.name!r} only scores labels, but constraints need a metric of the confusion matrix: use "
                "one of the catalogue, from_confusion, or a function of y_true, y_pred and sample_weight"
            )
        if self.n_groups == 1 or hasattr(goal, "n_categories"):
            return goal
        return PooledMetric(inner=goal, n_groups=self.n_groups, n_classes=n_classes)

    def rule(self, basis: str) -> Constrained:
        """Return the rule to fit."""
        return Constrained(constraints=self.constraints, basis=basis)

    def certified(
        self, problem: Problem, *, basis: str, unlabelled: Unlabelled | None, how: Guarantee, seed: int
    ) -> tuple[Given, Certificate | None]:
        """Return a rule that meets the constraints with a confidence, and its certificate.

        If nothing can be certified, raise or, if so asked, return the closest rule without a certificate.
        """
        if unlabelled is None and problem.train is not None:
            unlabelled = Unlabelled(rows=problem.train.in_memory(), may_test=False)
        given: Any = {"basis": basis, "unlabelled": unlabelled, "n_groups": self.n_groups, "seed": seed}
        try:
            rule, certificate = certified_rule(problem, self.constraints, confidence=how.confidence, **given)
        except NotCertifiedError as error:
            if error.rule is None:
                raise
            if how.if_uncertified == "raise":
                advice = "if_uncertified='closest' returns it without a guarantee"
                facts = {"rule": error.rule, "p_value": error.p_value, "rows_needed": error.rows_needed}
                raise NotCertifiedError(f"{error}; {advice}", **facts) from error
            warnings.warn(f"{error}. It is returned without a guarantee", ConstraintWarning, stacklevel=4 + WRAPPED)
            return Given(rule=error.rule), None
        return Given(rule=rule), certificate

    def reason(self, record: Record, records: Sequence[ConstraintRecord]) -> str:
        """Return the reason for the result in one sentence."""
        held = ", ".join(f"{each.text} ({each.value:.3f})" for each in records)
        return f"{record.score:.3f} subject to {held}; the base has {record.base_score:.3f} without constraints"

    def records(self, problem: Problem, held_out: HeldOut) -> tuple[ConstraintRecord, ...]:
        """Return how the constraints hold on the labels that were not used for the fit."""
        judged = problem if len(held_out.rows) == problem.val.n_rows else problem.take(held_out.rows)
        return self._records(judged.label_confusion(held_out.labels), judged.row_weights)

    def new_records(self, labels: IntArray, *, val: Rows, groups: IntArray | None) -> tuple[ConstraintRecord, ...]:
        """Return how the constraints hold for labels of new rows, whose groups are given as positions."""
        assert val.labels is not None  # noqa: S101
        truth = val.labels if groups is None else groups * val.n_classes + val.labels
        shape = self.n_groups * val.n_classes, val.n_classes
        cells = np.bincount(truth * val.n_classes + labels, weights=val.weights, minlength=shape[0] * shape[1])
        return self._records(cells.reshape(shape) / cells.sum(), val.row_weights / val.row_weights.sum())

    def _records(self, confusion: FloatArray, weights: FloatArray) -> tuple[ConstraintRecord, ...]:
        """Return how the constraints hold, given the confusion matrix and the weights of its rows, which sum to 1."""
        n_rows = 1 / float(np.sum(weights**2))
        return tuple(_record(each, confusion, n_rows) for each in self.constraints)


def _record(constraint: BoundedMetric, confusion: Any, n_rows: float) -> ConstraintRecord:
    """Return how one constraint holds; the interval is by first-order influences."""
    value = constraint.value(confusion)
    # One more row, spread over the cells, keeps the error of a rate of 0 or 1 above 0.
    spread = (confusion * n_rows + 1 / confusion.size) / (n_rows + 1)
    error = float(np.sqrt(np.sum(spread * constraint.influence(spread) ** 2) / n_rows))
    reach = float(stats.norm.ppf((1 + LEVEL) / 2)) * error
    low, high = (0.0, 1.0) if constraint.is_share else (-np.inf, np.inf)
    return ConstraintRecord(
        text=str(constraint.constraint),
        name=str(constraint.constraint.term),
        sense=constraint.constraint.sense,
        bound=constraint.constraint.bound,
        value=value,
        low=max(value - reach, low),
        high=min(value + reach, high),
        holds=constraint.miss(confusion) <= ROUNDING,
    )


def constraints_of(owner: Any) -> tuple[Constraint, ...]:
    """Return the constraints that an estimator was given; raise if they cannot be read."""
    subject_to = getattr(owner, "subject_to", None)
    if subject_to is None:
        if getattr(owner, "confidence", None) is not None:
            raise SettingError("confidence is about constraints: give subject_to=... too")
        return ()
    if owner.method != "auto":
        raise SettingError(
            f"subject_to has its own method, and method={owner.method!r} was given: leave method or subject_to out"
        )
    return read_constraints(subject_to, margin=owner.margin)


def basis_of(owner: Any, rows: Rows, *, groups: Any) -> str:
    """Return the basis of a constrained rule: the last one that was given; if none was, its weights are constant."""
    chosen = getattr(owner, "basis", None) != "auto" or groups is not None
    return list(rows.bases)[-1] if chosen else CONSTANT


def guarantee_of(owner: Any) -> Guarantee | None:
    """Return the guarantee that an estimator was asked for, if any."""
    if owner.confidence is None:
        return None
    return Guarantee(confidence=owner.confidence, if_uncertified=owner.if_uncertified)


def names_read(owner: Any) -> frozenset[str]:
    """Return the names of the per-row arguments that an estimator's metric and constraints read."""
    return metadata_names(owner.metric) | frozenset([GROUPS] if are_over_groups(constraints_of(owner)) else [])


def new_records(owner: Any, labels: IntArray, *, val: Rows, groups: Any) -> tuple[ConstraintRecord, ...]:
    """Return how the constraints of a fitted estimator hold for its labels of new rows.

    Labels are positions of classes; ``groups`` are values, which are needed if a constraint is about groups.
    """
    given = constraints_of(owner)
    if not given:
        return ()
    known = owner.groups_ if are_over_groups(given) else None
    if known is not None and groups is None:
        raise SettingError("a constraint is about groups of rows: pass groups, one value per row")
    limits = SubjectTo.of(given, classes=owner.classes_, groups=known, pos_label=owner.pos_label)
    codes = None if known is None else positions(groups, known, name=GROUPS, what="groups of the fit")
    return limits.new_records(labels, val=val, groups=codes)


def are_over_groups(constraints: Sequence[Constraint]) -> bool:
    """Return whether any of the constraints reads groups of rows."""
    return any(_is_over_groups(each) for each in constraints)


def pos_label_of_metric(owner: Any) -> Any:
    """Return the positive class for an estimator's metric: none if it has no such class, and a constraint has."""
    metric, given = owner.metric, constraints_of(owner)
    if isinstance(metric, str) and metric in METRICS and any(MetricText.read(metric).open_classes):
        return owner.pos_label
    return None if any(each.term.is_of_open_class for each in given) else owner.pos_label


def warn_of_violations(records: Sequence[ConstraintRecord], notes: Sequence[str]) -> None:
    """Warn of constraints that do not hold on rows that were not used for the fit; ``notes`` are those of the rules."""
    advice = "Give margin=1 for one standard error of safety, confidence=0.95 for a guarantee, or more rows"
    if any(OUT_OF_REACH in note for note in notes):
        advice = f"On these rows {OUT_OF_REACH}: relax a bound, lower the margin if there is one, or give more rows"
    for record in records:
        if not record.holds:
            warnings.warn(
                f"{record.text!r} does not hold on the validation rows that were not used for the fit: the value is "
                f"{record.value:.3f} (95 % interval {record.low:.3f} to {record.high:.3f}). {advice}",
                ConstraintWarning,
                stacklevel=4 + WRAPPED,
            )


def _is_over_groups(constraint: Constraint) -> bool:
    """Return whether a constraint reads groups of rows."""
    metric = constraint.term.metric
    if isinstance(metric, str):
        return metric in GAPS or (metric in METRICS and METRICS[metric].is_over_groups)
    return hasattr(metric, "n_categories")
