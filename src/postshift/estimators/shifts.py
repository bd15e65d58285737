"""The common part of PostShiftClassifier and PostShifter: the fit to rows, and its attributes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from postshift._validation import FloatArray, check_count
from postshift.core.mixture import Mixture
from postshift.core.queries import ScoredRule
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.estimators.model import one_a_row, positions
from postshift.estimators.progress import WRAPPED, Progress
from postshift.estimators.records import ConstraintRecord, Diagnostics, History, Mark, conditioning
from postshift.estimators.subject_to import (
    SubjectTo,
    basis_of,
    constraints_of,
    guarantee_of,
    warn_of_nearest,
    warn_of_violations,
)
from postshift.estimators.task import Task, make_task
from postshift.exceptions import (
    LabelError,
    NotFinishedError,
    PostshiftWarning,
    SettingError,
    ShapeError,
    SmallValidationWarning,
)
from postshift.metrics.class_order import doubtful_order
from postshift.metrics.resolve import ResolvedMetric
from postshift.rules.borrowing import FEWEST, Lender
from postshift.rules.certified import Unlabelled
from postshift.rules.choice import AveragedRule, Chosen
from postshift.rules.few_rows import FewRows
from postshift.rules.fitted import FittedRule, Rule
from postshift.rules.menu import check_method
from postshift.rules.posterior import FLOOR
from postshift.rules.record import Certificate, Record
from postshift.rules.scoring import HeldOut

FEW_ROWS = 300
NAMED = 10  # classes with few rows; more of them are only counted
LIFTED = 1 + 1e-6  # factor by which a voted label is above the others
SURE = 1 - 1e-9  # a row with such a probability cannot be shifted


class Shifts:
    """The fit of a rule to rows, and its attributes."""

    metric: Any
    pos_label: Any = None  # old files do not have it
    method: str
    budget: int | None
    session: Any = None
    subject_to: Any = None
    margin: Any = 0.0
    confidence: float | None = None
    if_uncertified: str = "raise"
    n_jobs: int | None
    random_state: Any
    classes_: Any
    groups_: Any
    rule_: AveragedRule
    diagnostics_: Diagnostics
    history_: History
    held_out_: HeldOut
    constraints_: tuple[ConstraintRecord, ...] = ()  # old files have neither
    certificate_: Certificate | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes from a file, in which the history is a plain tuple."""
        super().__setstate__(state)  # type: ignore[misc]
        if isinstance(state.get("history_"), tuple):
            self.history_ = History(state["history_"])

    @property
    def mixture_(self) -> Mixture:
        """The mixture of plug-ins of the rule with the largest weight."""
        return self._leading.mixture

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of that rule, averaged over its plug-ins: (L, m) if they are per class, else (L, P)."""
        mixture = self.mixture_
        return np.asarray(sum(share * m.alpha for share, m in zip(mixture.shares, mixture.members, strict=True)))

    @property
    def _leading(self) -> FittedRule:
        """The rule with the largest weight."""
        return self.rule_.rules[int(np.argmax(self.rule_.weights))]

    def best_so_far(self) -> Self:
        """Return a copy that predicts with the best rule so far, according to an oracle's answers.

        It can be called while a fit asks an oracle, and after a fit that ended with an error. The rule's score,
        ``score_``, comes from answers about the same rows that the rule was fitted to, so it is too high.
        """
        session = vars(self).get("_session")
        found = vars(self).get("_best") if session is None else session.best_so_far()
        if found is None:
            raise NotFinishedError("no rule is scored yet: best_so_far() needs a fit that asks an oracle")
        other = copy(self)
        for name in ("_session", "_best"):
            vars(other).pop(name, None)
        other.rule_, other.score_ = found.rule, found.score
        return other

    @contextmanager
    def _watched(self, session: Session[Chosen]) -> Iterator[None]:
        """Make the session of a fit available to ``best_so_far``; after an error, keep the best rule."""
        self._session = session
        try:
            yield
        except BaseException as error:
            if self.session is not None:
                error.add_note(f"{session.n_queries} answers are kept in {self.session}: call fit again to resume")
            with suppress(NotFinishedError):
                best = session.best_so_far()
                self._best = ScoredRule(score=best.score, make=partial(_same, best.rule))
            raise
        finally:
            del self._session

    def _begin(self) -> None:
        """Remove the results of an earlier fit, so that a failed fit leaves no rule, and check the parameters."""
        for name in ("rule_", "_best"):
            vars(self).pop(name, None)
        check_method(self.method)
        constraints_of(self)
        guarantee_of(self)
        if self.budget is not None:
            check_count(self.budget, name="budget", low=1)

    def _learn(
        self,
        goal: ResolvedMetric,
        *,
        train: Rows | None,
        val: Rows,
        metadata: Mapping[str, Any],
        fold_groups: Any,
        progress: Progress,
        caught: list[str],
        marks: Mapping[str, Mark | None],
        unlabelled: Unlabelled | None = None,
    ) -> None:
        """Fit the rule and set the fitted attributes; ``marks`` are those of the rows."""
        check_validation(val, self.classes_)
        if doubt := doubtful_order(goal, self.classes_):
            warnings.warn(doubt, PostshiftWarning, stacklevel=3 + WRAPPED)
        given = constraints_of(self)
        limits = SubjectTo.of(given, classes=self.classes_, groups=self.groups_, pos_label=self.pos_label)
        if given:
            goal = limits.pooled(goal, len(self.classes_))
        about: Any = {"classes": self.classes_, "metadata": metadata}
        n_groups = limits.n_groups if given else None
        by_counts = self.budget is None and n_groups is None
        task = make_task(
            goal, train=train, val=val, groups=self.groups_, n_groups=n_groups, by_counts=by_counts, **about
        )
        limits = limits.on(*task.rows_of(val, metadata), classes=self.classes_)
        seed = seed_of(self.random_state)
        method, self.certificate_ = self._method(task, limits, unlabelled=unlabelled) if given else (self.method, None)
        choice = task.choice(method, budget=self.budget, seed=seed, n_jobs=self.n_jobs)
        with progress.stage("choosing a rule", task.n_steps(choice)) as step:
            how: Any = {"fold_groups": fold_groups, "journal": self.session, "watched": self._watched, "step": step}
            chosen, n_queries = task.solve(choice, **how)
        self._set_chosen(chosen, n_queries=n_queries)
        self.constraints_ = limits.records(task.problem, task.own_numbers(chosen.held_out)) if given else ()
        if given:
            chosen = replace(
                chosen, record=replace(chosen.record, reason=limits.reason(chosen.record, self.constraints_))
            )
        if given and self.confidence is None:
            warn_of_nearest(limits.missed(chosen.rule.labels(task.problem.val)))
            testable = limits.testable(len(self.classes_))
            warn_of_violations(self.constraints_, chosen.record.notes, testable=testable)
        _warn_of_few_rows(chosen.record, val.n_rows, classes=self.classes_, groups=self.groups_)
        self._set_diagnostics(chosen, train=train, val=val, caught=caught, marks=marks)

    def _set_chosen(self, chosen: Chosen, *, n_queries: int) -> None:
        """Set the attributes that say which rule was chosen."""
        # The tests of a guarantee choose a rule on the validation rows.
        held_out = replace(chosen.held_out, in_fit=chosen.held_out.in_fit or self.confidence is not None)
        self.rule_, self.held_out_ = chosen.rule, held_out
        self.history_ = History.of(chosen.rule)
        self.score_, self.base_score_ = chosen.record.score, chosen.record.base_score
        self.fallback_, self.n_queries_ = chosen.record.fallback, n_queries

    def _set_diagnostics(
        self,
        chosen: Chosen,
        *,
        train: Rows | None,
        val: Rows,
        caught: Sequence[str],
        marks: Mapping[str, Mark | None],
    ) -> None:
        """Set the diagnostics."""
        self.diagnostics_ = Diagnostics(
            choice=chosen.record,
            conditioning=conditioning(chosen.rule),
            warnings=tuple(dict.fromkeys(caught)),
            n_train=0 if train is None else train.n_total,
            n_val=val.n_rows,
            n_drawn=None if train is None or train.whole is None else train.n_rows,
            **marks,
        )

    def _unlabelled(self, groups: Any, *, rows: Rows | None) -> Unlabelled | None:
        """Return rows without labels with their groups, if there are any; raise if nothing would read them."""
        if rows is None:
            if groups is not None:
                raise ShapeError("groups_unlabelled belong to rows without labels: give those too")
            return None
        if self.confidence is None:
            raise SettingError("rows without labels serve a guarantee: give subject_to=... and confidence=... too")
        if groups is None or self.groups_ is None:
            return Unlabelled(rows=rows)
        values = one_a_row(groups, name="groups_unlabelled")
        return Unlabelled(
            rows=rows, groups=positions(values, self.groups_, name="groups_unlabelled", what="groups of the fit")
        )

    def _method(
        self, task: Task, limits: SubjectTo, *, unlabelled: Unlabelled | None
    ) -> tuple[Rule, Certificate | None]:
        """Return the rule that respects the constraints, and its certificate if one was asked for."""
        basis = basis_of(self, task.problem.val, groups=self.groups_)
        how = guarantee_of(self)
        if how is None:
            limits.check_labels(task.problem.val)
            rule = limits.rule(basis, task.problem)
            rule.check(task.problem)
            return rule, None
        limits.check_guarantee(by_scores=not task.problem.is_labelled)
        seed = seed_of(self.random_state)
        return limits.certified(task.problem, basis=basis, unlabelled=unlabelled, how=how, seed=seed)


def _same(rule: AveragedRule) -> AveragedRule:
    """Return the rule."""
    return rule


def check_validation(val: Rows, classes: Any) -> None:
    """Raise if all labels are of one class, and warn if all probabilities are 0 or 1."""
    rows = val.places_with_weight(name="validation")
    labels = val.labels if val.labels is None or rows is None else val.labels[rows]
    if labels is not None and len(labels) > 1 and (labels == labels[0]).all():
        above = "" if rows is None else " of a weight above 0"
        raise LabelError(
            f"all {len(labels)} validation rows{above} are of class {classes[labels[:1]].tolist()[0]!r}, so "
            "nothing can be learnt about the others: give rows of other classes too"
        )
    if val.is_certain(SURE):
        warnings.warn(
            f"all probabilities of the {val.n_rows} validation rows are 0 or 1, so there is nothing to shift: give "
            "predict_proba of the model, not its labels",
            PostshiftWarning,
            stacklevel=3 + WRAPPED,
        )


def effective_weights(rule: AveragedRule, table: Rows) -> FloatArray:
    """Return W (n, m) with mean 1 in each row such that ``argmax W max(eta, 1e-6)`` is the rule's label."""
    raised, labels = rule.graded(table), rule.labels(table)
    voted = np.flatnonzero(np.argmax(raised, axis=1) != labels)  # won by more members, each raising the class less
    raised[voted, labels[voted]] = LIFTED * raised[voted].max(axis=1)
    raised /= np.maximum(table.eta, FLOOR)
    return np.asarray(raised / raised.mean(axis=1, keepdims=True))


def seed_of(random_state: Any) -> int:
    """Return an integer seed from a ``random_state`` of scikit-learn."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Record the messages of the warnings that the user's filters show, and show them."""
    texts: list[str] = []
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def note(message: Any, category: Any, *where: Any) -> None:
            if not issubclass(category, DeprecationWarning | FutureWarning):  # these are for authors of packages
                texts.append(str(message))
            shown(message, category, *where)

        warnings.showwarning = note  # type: ignore[assignment]
        yield texts


def _warn_of_few_rows(record: Record, n_rows: int, *, classes: Any, groups: Any) -> None:
    """Warn if there are few validation rows, in total or of some classes."""
    texts = []
    if n_rows < FEW_ROWS:
        texts.append(
            f"there are {n_rows} validation rows: the score is {record.score:.3f}, the base's {record.base_score:.3f}, "
            f"and differences below about {2 * record.noise:.2g} may be chance (two standard errors). Give more rows, "
            "or trust only larger gains"
        )
    if record.few_rows is not None:
        texts.append(_of_few_rows(record.few_rows, classes=classes, groups=groups))
    for text in texts:
        warnings.warn(text, SmallValidationWarning, stacklevel=4 + WRAPPED)


def _of_few_rows(few: FewRows, *, classes: Any, groups: Any) -> str:
    """Return a text that names the classes with few rows, what their scores lean on, and the score without them."""
    by_lender: dict[Lender, list[str]] = {}
    most: dict[Lender, float] = {}
    for category, count, lender, lent in zip(few.categories, few.counts, few.lenders, few.lent, strict=True):
        group, k = divmod(category, len(classes))
        where = "" if groups is None else f" in group {groups[group : group + 1].tolist()[0]!r}"
        by_lender.setdefault(lender, []).append(f"{classes[k : k + 1].tolist()[0]!r}{where} ({count})")
        most[lender] = max(lent, most.get(lender, 0.0))
    parts = [f"of class {_first(names)}, {_leaning(lender, most[lender])}" for lender, names in by_lender.items()]
    said = f"fewer than {FEWEST} validation rows are {'; and '.join(parts)}"
    if few.score is None or few.base_score is None:
        return f"{said}. Give more rows of these classes"
    without = f"Without them, the score is {few.score:.3f} (base {few.base_score:.3f})"
    return f"{said}. {without}. Give more rows of these classes"


def _first(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _leaning(lender: Lender, most: float) -> str:
    """Say what the part of few rows in the score leans on."""
    if lender == "nothing":
        return "whose part of the score is mostly chance"
    source = "training rows of the class" if lender == "training rows" else "the model's probabilities"
    return f"whose part of the score also leans on {source}, which count as {most:.2g} row{'s' * (most > 1)} at most"
