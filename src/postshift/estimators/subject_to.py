"""What ``subject_to`` adds to a fit: the constraints for its classes and groups, their rule, and how they hold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from postshift._validation import FloatArray, IntArray, check_in_range
from postshift.constraints.functions import BoundedFunction
from postshift.constraints.p_values import has_test, without_test
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
from postshift.rules.black_box import ConstrainedByProbes
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

    bounded: tuple[BoundedMetric | BoundedFunction, ...]
    n_groups: int

    @classmethod
    def of(cls, given: Sequence[Constraint], *, classes: Any, groups: Any, pos_label: Any) -> SubjectTo:
        """Look up the metrics of constraints."""
        how = {"classes": classes, "groups": groups, "pos_label": pos_label}
        n_groups = 1 if groups is None else len(groups)
        return cls(bounded=tuple(resolve_constraint(each, **how) for each in given), n_groups=n_groups)

    @property
    def constraints(self) -> tuple[BoundedMetric, ...]:
        """The constraints on metrics of the confusion matrix."""
        return tuple(each for each in self.bounded if isinstance(each, BoundedMetric))

    @property
    def functions(self) -> tuple[BoundedFunction, ...]:
        """The constraints on functions that only return scores."""
        return tuple(each for each in self.bounded if isinstance(each, BoundedFunction))

    def on(self, val: Rows, metadata: Mapping[str, Any], *, classes: Any) -> SubjectTo:
        """Return the constraints for these rows: functions get their labels, weights and metadata."""
        about: Any = {"classes": classes, "weights": val.weights, "metadata": metadata}
        bounded = [each.on(val.labels, **about) if isinstance(each, BoundedFunction) else each for each in self.bounded]
        return replace(self, bounded=tuple(bounded))

    def pooled(self, goal: ResolvedMetric, n_classes: int) -> ResolvedMetric:
        """Return the metric to maximise; one of the confusion matrix reads the same matrix as the constraints."""
        if not isinstance(goal, ConfusionMetric) or self.n_groups == 1 or hasattr(goal, "n_categories"):
            return goal
        return PooledMetric(inner=goal, n_groups=self.n_groups, n_classes=n_classes)

    def check_matrices(self, goal: ResolvedMetric, what: str) -> None:
        """Raise if the metric or a constraint is not a function of the confusion matrix, which ``what`` needs."""
        if not isinstance(goal, ConfusionMetric):
            raise MetricError(
                f"metric {goal.name!r} only scores labels, but {what} needs a metric of the confusion matrix: use one "
                "of the catalogue, or from_confusion"
            )
        for each in self.functions:
            raise MetricError(
                f"{str(each.constraint)!r} bounds a function that only scores labels, but {what} needs constraints on "
                "the confusion matrix: leave it out, or wrap a function of the confusion matrix in from_confusion"
            )

    def check_guarantee(self, *, by_scores: bool) -> None:
        """Raise if a constraint, or the metric (``by_scores``), only returns scores: these have no test."""
        for each in self.functions:
            raise MetricError(without_test(each.constraint))
        if by_scores:
            raise MetricError(
                "the metric only scores labels, but a guarantee needs a metric of the confusion matrix: leave "
                "confidence=... out, or use a metric of the catalogue or from_confusion"
            )

    def testable(self, n_classes: int) -> tuple[str, ...]:
        """Return the texts of the constraints that have a test."""
        if not self.constraints:
            return ()
        everywhere = self._everywhere(n_classes)
        return tuple(str(each.constraint) for each in self.constraints if all(map(has_test, each.pieces(everywhere))))

    def check_labels(self, val: Rows) -> None:
        """Raise if there are no labels and a constraint needs them."""
        if val.labels is not None or not self.constraints:
            return
        everywhere = self._everywhere(val.n_classes)
        for each in self.constraints:
            if any(piece.needs_labels for piece in each.pieces(everywhere)):
                raise MetricError(
                    f"{str(each.constraint)!r} needs validation labels, and the metric has its own: give y_val, or "
                    "bound what is known without labels, rate[CLASS] or demographic_parity"
                )

    def _everywhere(self, n_classes: int) -> FloatArray:
        """Return a confusion matrix with rows in every cell."""
        shape = self.n_groups * n_classes, n_classes
        return np.full(shape, 1 / np.prod(shape))

    def rule(self, basis: str, problem: Problem) -> Constrained | ConstrainedByProbes:
        """Return the rule to fit; functions that only return scores are probed."""
        if self.functions or not problem.is_labelled:
            return ConstrainedByProbes(constraints=self.constraints, functions=self.functions, basis=basis)
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
        """Return how the constraints hold on the labels that were not used for the fit.

        The rows of ``held_out`` are numbers of rows of the problem.
        """
        judged = problem if len(held_out.rows) == problem.val.n_rows else problem.take(held_out.rows)
        confusion = judged.label_confusion(held_out.labels)
        return self._records(confusion, judged.row_weights, labels=held_out.labels, rows=held_out.rows)

    def missed(self, labels: IntArray) -> tuple[str, ...]:
        """Return the constraints on functions that labels of all rows miss, each with its value."""
        values = [(each, each.value(labels)) for each in self.functions]
        return tuple(
            f"{each.constraint.term} is {value:.6g} ({each.constraint.sense} {each.constraint.bound:g} is asked)"
            for each, value in values
            if each.miss(value) > ROUNDING * max(1.0, abs(value))
        )

    def new_records(self, labels: IntArray, *, val: Rows, groups: IntArray | None) -> tuple[ConstraintRecord, ...]:
        """Return how the constraints hold for labels of new rows, whose groups are given as positions."""
        assert val.labels is not None  # noqa: S101
        truth = val.labels if groups is None else groups * val.n_classes + val.labels
        shape = self.n_groups * val.n_classes, val.n_classes
        cells = np.bincount(truth * val.n_classes + labels, weights=val.weights, minlength=shape[0] * shape[1])
        weights = val.row_weights / val.row_weights.sum()
        return self._records(cells.reshape(shape) / cells.sum(), weights, labels=labels, rows=None)

    def _records(
        self, confusion: FloatArray, weights: FloatArray, *, labels: IntArray, rows: IntArray | None
    ) -> tuple[ConstraintRecord, ...]:
        """Return how the constraints hold, given the confusion matrix and the weights of its rows, which sum to 1."""
        n_rows = 1 / float(np.sum(weights**2))
        return tuple(
            _record(each, confusion, n_rows)
            if isinstance(each, BoundedMetric)
            else _measured_record(each, labels, rows)
            for each in self.bounded
        )


def _record(constraint: BoundedMetric, confusion: Any, n_rows: float) -> ConstraintRecord:
    """Return how one constraint holds; the interval is by first-order influences."""
    value = constraint.value(confusion)
    # One more row, spread over the cells, keeps the error of a rate of 0 or 1 above 0.
    spread = (confusion * n_rows + 1 / confusion.size) / (n_rows + 1)
    error = float(np.sqrt(np.sum(spread * constraint.influence(spread) ** 2) / n_rows))
    holds = constraint.miss(confusion) <= ROUNDING
    return _found(constraint.constraint, value, error, holds=holds, limits=(0.0, 1.0) if constraint.is_share else None)


def _measured_record(function: BoundedFunction, labels: IntArray, rows: IntArray | None) -> ConstraintRecord:
    """Return how a constraint on a function holds; the interval is from rows drawn with replacement."""
    value, error = function.value(labels, rows), function.standard_error(labels, rows)
    holds = function.miss(value) <= ROUNDING * max(1.0, abs(value))
    return _found(function.constraint, value, error, holds=holds)


def _found(
    constraint: Constraint, value: float, error: float, *, holds: bool, limits: tuple[float, float] | None = None
) -> ConstraintRecord:
    """Return the record of a constraint from its value and standard error."""
    reach = float(stats.norm.ppf((1 + LEVEL) / 2)) * error
    low, high = limits or (-np.inf, np.inf)
    return ConstraintRecord(
        text=str(constraint),
        name=str(constraint.term),
        sense=constraint.sense,
        bound=constraint.bound,
        value=value,
        low=max(value - reach, low),
        high=min(value + reach, high),
        holds=holds,
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
    given = constraints_of(owner)
    of_functions = (metadata_names(each.term.metric) for each in given if not isinstance(each.term.metric, str))
    return metadata_names(owner.metric).union([GROUPS] if are_over_groups(given) else [], *of_functions)


def new_records(
    owner: Any, labels: IntArray, *, val: Rows, groups: Any, metadata: Mapping[str, Any] | None = None
) -> tuple[ConstraintRecord, ...]:
    """Return how the constraints of a fitted estimator hold for its labels of new rows.

    Labels are positions of classes; ``groups`` are values, which are needed if a constraint is about groups, and
    ``metadata`` is what functions read.
    """
    given = constraints_of(owner)
    if not given:
        return ()
    known = owner.groups_ if are_over_groups(given) else None
    if known is not None and groups is None:
        raise SettingError("a constraint is about groups of rows: pass groups, one value per row")
    limits = SubjectTo.of(given, classes=owner.classes_, groups=known, pos_label=owner.pos_label)
    limits = limits.on(val, metadata or {}, classes=owner.classes_)
    codes = None if known is None else positions(groups, known, name=GROUPS, what="groups of the fit")
    return limits.new_records(labels, val=val, groups=codes)


def are_over_groups(constraints: Sequence[Constraint]) -> bool:
    """Return whether any of the constraints reads groups of rows."""
    return any(_is_over_groups(each) for each in constraints)


def is_known_by_scores(owner: Any) -> bool:
    """Return whether the metric of a fitted estimator, or one of its constraints, is a function that was probed."""
    bounded = [each.term.metric for each in constraints_of(owner)]
    return owner.n_queries_ > 0 or any(not isinstance(each, str | ConfusionMetric) for each in bounded)


def pos_label_of_metric(owner: Any) -> Any:
    """Return the positive class for an estimator's metric: none if it has no such class, and a constraint has."""
    metric, given = owner.metric, constraints_of(owner)
    if isinstance(metric, str) and metric in METRICS and any(MetricText.read(metric).open_classes):
        return owner.pos_label
    return None if any(each.term.is_of_open_class for each in given) else owner.pos_label


def warn_of_violations(
    records: Sequence[ConstraintRecord], notes: Sequence[str], *, testable: Sequence[str] = ()
) -> None:
    """Warn of constraints that do not hold on rows that were not used for the fit.

    ``notes`` are those of the rules; ``testable`` are the texts of the constraints that have a test.
    """
    out_of_reach = any(OUT_OF_REACH in note for note in notes)
    for record in records:
        if not record.holds:
            guarantee = "confidence=0.95 for a guarantee, " if record.text in testable else ""
            advice = f"Give margin=1 for one standard error of safety, {guarantee}or more rows"
            if out_of_reach:
                advice = (
                    f"On these rows {OUT_OF_REACH}: relax a bound, lower the margin if there is one, or give more rows"
                )
            warnings.warn(
                f"{record.text!r} does not hold on the validation rows that were not used for the fit: the value is "
                f"{record.value:.3f} (95 % interval {record.low:.3f} to {record.high:.3f}). {advice}",
                ConstraintWarning,
                stacklevel=4 + WRAPPED,
            )


def warn_of_nearest(missed: Sequence[str]) -> None:
    """Warn that no rule that was tried meets the constraints on functions, with the values of the nearest one."""
    if missed:
        warnings.warn(
            f"no rule that was tried meets the constraints on the validation rows; for the nearest one, "
            f"{' and '.join(missed)}. Relax a bound",
            ConstraintWarning,
            stacklevel=4 + WRAPPED,
        )


def _is_over_groups(constraint: Constraint) -> bool:
    """Return whether a constraint reads groups of rows."""
    metric = constraint.term.metric
    if isinstance(metric, str):
        return metric in GAPS or (metric in METRICS and METRICS[metric].is_over_groups)
    return hasattr(metric, "n_categories")
