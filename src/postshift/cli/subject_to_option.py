"""What ``--subject-to`` and the options beside it mean: constraints, and the guarantee that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from postshift.cli.commands.fit import FitRequest
from postshift.cli.errors import UsageError, with_options
from postshift.cli.files.file_rows import FileRows, Layout, RowReader
from postshift.cli.files.file_table import read_rows
from postshift.cli.metric_option import MetricOption
from postshift.constraints import Constraint, read_constraints
from postshift.constraints.terms import RATE
from postshift.core.psi import ConfusionMetric
from postshift.estimators.subject_to import SubjectTo, are_over_groups
from postshift.exceptions import MetricError
from postshift.metrics import resolve_metric
from postshift.metrics.catalogue import GAPS, METRICS
from postshift.metrics.resolve import GROUPS, metadata_names
from postshift.rules.certified import check_tests

if TYPE_CHECKING:
    from postshift.cli.basis_option import Bases

_GIVEN = ("margin", "confidence", "if_uncertified")


@dataclass(frozen=True, kw_only=True, eq=False)
class SubjectToOption:
    """The constraints of a fit.

    Attributes
    ----------
    constraints : tuple of Constraint
        The constraints; those about the positive class name it.
    given : mapping
        The parameters of the library that are given beside them: ``margin``, ``confidence``, ``if_uncertified``.
    unlabelled : FileRows, optional
        Rows without labels, for a guarantee.
    """

    constraints: tuple[Constraint, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    unlabelled: FileRows | None = None

    @classmethod
    def read(cls, request: FitRequest, layout: Layout, model: Any) -> SubjectToOption:
        """Read the options of a fit, and the rows without labels; raise if a constraint cannot be read."""
        if request.subject_to is None:
            return cls()
        constraints = tuple(_with_class(each, request.pos_label) for each in read_constraints(request.subject_to))
        values = {name: getattr(request, name) for name in _GIVEN}
        values["margin"] = _margin(request.margin, constraints)
        unlabelled = None
        if request.unlabelled is not None:
            needed = ("groups",) if are_over_groups(constraints) else ()
            unlabelled = RowReader(layout=layout, model=model, needed=needed).rows(read_rows(request.unlabelled))
        return cls(
            constraints=constraints,
            given={name: value for name, value in values.items() if value is not None},
            unlabelled=unlabelled,
        )

    @property
    def digest(self) -> str | None:
        """The digest of the file of rows without labels."""
        return None if self.unlabelled is None else self.unlabelled.table.digest

    @property
    def is_over_groups(self) -> bool:
        """Whether a constraint reads groups of rows."""
        return are_over_groups(self.constraints)

    def check(self, layout: Layout, metric: MetricOption, groups: Any) -> None:
        """Raise if the constraints do not fit the classes, the groups or the metric, or cannot be certified."""
        if not self.constraints:
            return
        if self.is_over_groups and groups is None:
            raise UsageError("a constraint is about groups of rows: name their column with --groups")
        reads_groups = groups is not None and (self.is_over_groups or GROUPS in metadata_names(metric.metric))
        known = np.unique(groups) if reads_groups else None
        n_classes, n_groups = len(layout.classes), None if known is None else len(known)
        try:
            limits = SubjectTo.of(self.constraints, classes=layout.classes, groups=known, pos_label=None)
            goal = resolve_metric(metric.metric, classes=layout.classes, n_groups=n_groups)
            if "confidence" in self.given:
                limits.check_guarantee(by_scores=not isinstance(goal, ConfusionMetric))
                shape = limits.n_groups * n_classes, n_classes
                check_tests(limits.constraints, np.full(shape, 1 / np.prod(shape)))
        except MetricError as error:
            raise UsageError(with_options(str(error))) from error

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a PostShifter."""
        if not self.constraints:
            return {}
        return {"subject_to": [_text(each) for each in self.constraints], **self.given}

    def arguments(self, val: FileRows, bases: Bases) -> dict[str, Any]:
        """Return the arguments of the fit: the groups of the validation rows, and the rows without labels."""
        found = {GROUPS: val.groups} if self.is_over_groups else {}
        if self.unlabelled is None:
            return found
        phi = {name: bases.fitted[name].phi(self.unlabelled.table) for name in bases.val}
        return {
            **found,
            "eta_unlabelled": self.unlabelled.eta,
            "phi_unlabelled": phi or None,
            "groups_unlabelled": self.unlabelled.groups,
        }


def _text(constraint: Constraint) -> str:
    """Return a constraint as a parameter of the library."""
    return f"{constraint.term} {constraint.sense} {constraint.bound!r}"


def _margin(given: Sequence[float] | None, constraints: Sequence[Constraint]) -> float | dict[str, float] | None:
    """Return the margin as a parameter of the library: one number, or one for each constraint."""
    if given is None or len(given) == 1:
        return None if given is None else given[0]
    return {_text(constraint): margin for constraint, margin in zip(constraints, given, strict=True)}


def _with_class(constraint: Constraint, pos_label: str | None) -> Constraint:
    """Return a constraint about the positive class with that class in brackets."""
    name = constraint.term.metric
    about_one = name in GAPS or name == RATE or (name in METRICS and METRICS[name].is_of_one_class)
    if pos_label is None or constraint.term.label is not None or not about_one:
        return constraint
    return replace(constraint, term=replace(constraint.term, label=pos_label))
