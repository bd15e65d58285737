"""What ``subject_to`` adds to a fit: the constraints for its classes and groups, their rule, and how they hold."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from postshift._validation import check_in_range
from postshift.constraints.pieces import BoundedMetric, resolve_constraint
from postshift.constraints.terms import Constraint, read_constraints
from postshift.core.psi import ConfusionMetric
from postshift.core.rows import CONSTANT, Rows
from postshift.estimators.progress import WRAPPED
from postshift.exceptions import ConstraintWarning, MetricError, NotCertifiedError, SettingError
from postshift.metrics.catalogue import GAPS, METRICS
from postshift.metrics.over_groups import PooledMetric
from postshift.metrics.resolve import GROUPS, ResolvedMetric, metadata_names
from postshift.rules.certified import Certificate, Given, Unlabelled, certified_rule
from postshift.rules.constrained import Constrained
from postshift.rules.problem import Problem
from postshift.rules.record import Record
from postshift.rules.scoring import HeldOut

UNCERTIFIED = ("raise", "closest")
LEVEL = 0.95  # of the interval of a constraint's value


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintRecord:
    """How a constraint holds on labels of validation rows that were not used for the fit.

    Attributes
    ----------
    text : str
        The constraint as it was given.
    value : float
        The value of its metric.
    low, high : float
        An interval of about 95 % for the value on new rows.
    holds : bool
        Whether the value respects the bound.
    """

    text: str
    value: float
    low: float
    high: float
    holds: bool


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
        n_groups = None if groups is None else len(groups)
        how = {"classes": classes, "n_groups": n_groups, "pos_label": pos_label}
        return cls(constraints=tuple(resolve_constraint(each, **how) for each in given), n_groups=n_groups or 1)

    def pooled(self, goal: ResolvedMetric, n_classes: int) -> ConfusionMetric:
        """Return the metric to maximise as a function of the same confusion matrix as the constraints."""
        if not isinstance(goal, ConfusionMetric):
            raise MetricError(
                f"metric {goal.name!r} only scores labels, but subject_to needs a metric of the confusion matrix: use "
                "one of the catalogue, from_confusion, or a function of y_true, y_pred and sample_weight"
            )
        if self.n_groups == 1 or hasattr(goal, "n_categories"):
            return goal
        return PooledMetric(inner=goal, n_groups=self.n_groups, n_classes=n_classes)

    def rule(self, basis: str) -> Constrained:
        """Return the rule to fit."""
        return Constrained(constraints=self.constraints, basis=basis, n_groups=self.n_groups)

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
            if how.if_uncertified == "raise" or error.rule is None:
                raise
            warnings.warn(f"{error}", ConstraintWarning, stacklevel=4 + WRAPPED)
            return Given(rule=error.rule), None
        return Given(rule=rule), certificate

    def reason(self, record: Record, records: Sequence[ConstraintRecord]) -> str:
        """Return the reason for the result in one sentence."""
        held = ", ".join(f"{each.text} ({each.value:.3f})" for each in records)
        return f"{record.score:.3f} subject to {held}; the base has {record.base_score:.3f} without constraints"

    def records(self, problem: Problem, held_out: HeldOut) -> tuple[ConstraintRecord, ...]:
        """Return how the constraints hold on the labels that were not used for the fit."""
        judged = problem if len(held_out.rows) == problem.val.n_rows else problem.take(held_out.rows)
        confusion = judged.label_confusion(held_out.labels)
        n_rows = 1 / float(np.sum(judged.row_weights**2))
        return tuple(_record(each, confusion, n_rows) for each in self.constraints)


def _record(constraint: BoundedMetric, confusion: Any, n_rows: float) -> ConstraintRecord:
    """Return how one constraint holds; the interval is that of its worst piece, by first-order influences."""
    value = constraint.value(confusion)
    worst = max(constraint.pieces(confusion), key=lambda piece: piece.miss(confusion))
    # One more row in every cell keeps the error of a rate of 0 or 1 above 0.
    spread = (confusion * n_rows + 1 / confusion.size) / (n_rows + 1)
    error = float(np.sqrt(np.sum(spread * worst.influence(spread) ** 2) / n_rows))
    reach = float(stats.norm.ppf((1 + LEVEL) / 2)) * error
    return ConstraintRecord(
        text=str(constraint.constraint),
        value=value,
        low=value - reach,
        high=value + reach,
        holds=constraint.miss(confusion) <= 0,
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
    over_groups = any(_is_over_groups(each) for each in constraints_of(owner))
    return metadata_names(owner.metric) | frozenset([GROUPS] if over_groups else [])


def warn_of_violations(records: Sequence[ConstraintRecord]) -> None:
    """Warn of constraints that do not hold on rows that were not used for the fit."""
    for record in records:
        if not record.holds:
            warnings.warn(
                f"{record.text!r} does not hold on the validation rows that were not used for the fit: the value is "
                f"{record.value:.3f} (95 % interval {record.low:.3f} to {record.high:.3f}). Give margin=1 for one "
                "standard error of safety, confidence=0.95 for a guarantee, or more rows",
                ConstraintWarning,
                stacklevel=4 + WRAPPED,
            )


def _is_over_groups(constraint: Constraint) -> bool:
    """Return whether a constraint reads groups of rows."""
    metric = constraint.term.metric
    if isinstance(metric, str):
        return metric in GAPS or (metric in METRICS and METRICS[metric].is_over_groups)
    return hasattr(metric, "n_categories")
