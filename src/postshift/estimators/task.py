"""From a user's metric to a problem, and to the oracle that answers its queries; the metric of labels of new rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import _safe_indexing

from postshift._validation import FloatArray, IntArray
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Fit, Oracle, without_queries
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.estimators.model import one_a_row, positions
from postshift.exceptions import (
    BudgetEndedError,
    LabelError,
    MetricError,
    PostshiftError,
    PostshiftWarning,
    SettingError,
    ShapeError,
)
from postshift.metrics import (
    CellMetric,
    LabelFunction,
    LabelOracle,
    OracleMetric,
    PredictionFunction,
    PredictionOracle,
    resolve_metric,
)
from postshift.metrics.over_groups import PooledMetric
from postshift.metrics.penalised import Penalised
from postshift.metrics.resolve import GROUPS, ResolvedMetric, metadata_names, with_metadata
from postshift.rules.choice import Choice, Chosen, unfinished
from postshift.rules.fitted import Rule
from postshift.rules.from_table import MOST_CELLS, fit_from_table
from postshift.rules.menu import AUTOMATIC, menu, noisy_menu, rule_named
from postshift.rules.problem import Problem
from postshift.rules.scoring import HeldOut
from postshift.rules.simple import Base
from postshift.rules.verdict import DRAWS, Comparison, compare, summary

_QUERY_FOLDS = 5  # if there is no budget
_CONSTANTS_TRIED = 5
_TRIES = 100  # draws of rows until every class is among them
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A problem and the oracle that answers its queries; the oracle is None if labels and psi are available."""

    problem: Problem
    oracle: Oracle | None = None
    rows: IntArray | None = None  # which validation rows the problem has; None for all

    def choice(self, method: str | Rule, *, budget: int | None, seed: int, n_jobs: int | None) -> Choice:
        """Return the choice for the name of a method, or for a rule."""
        how: Any = {"budget": budget, "random_state": seed, "n_jobs": n_jobs}
        labels = self.problem.val.labels
        # A function of labels may need every class in every fold.
        in_folds = self.problem.takes_subsets and labels is not None and np.bincount(labels).min(initial=2) >= 2
        folds = _QUERY_FOLDS if budget is None and in_folds else 0
        if not isinstance(method, str):
            return Choice(how="only", entries=(Base(), method), query_folds=folds, **how)
        if method in AUTOMATIC and self._noise > 0:
            return Choice(how="best", entries=noisy_menu(self.problem), **how)
        if method in AUTOMATIC and self.problem.val.is_sparse:  # an average would need scores of all classes
            return Choice(how="best", **how)
        if method in AUTOMATIC:
            # A gap between groups that each rule keeps small is not small in an average of rules.
            has_gap = isinstance(self.problem.metric, Penalised)
            return Choice(how="best" if has_gap else AUTOMATIC[method], query_folds=folds, **how)
        rule = rule_named(method, self.problem)
        return Choice(how="only", entries=(Base(),) if rule == Base() else (Base(), rule), **how)

    def rows_of(self, val: Rows, metadata: Mapping[str, Any]) -> tuple[Rows, Mapping[str, Any]]:
        """Return the validation rows that the problem has, and what is known about them."""
        if self.rows is None:
            return val, metadata
        return val.take(self.rows), {name: _safe_indexing(values, self.rows) for name, values in metadata.items()}

    def own_numbers(self, held_out: HeldOut) -> HeldOut:
        """Return held-out rows, numbered among all validation rows, with their numbers in the problem."""
        return held_out if self.rows is None else replace(held_out, rows=np.searchsorted(self.rows, held_out.rows))

    def n_steps(self, choice: Choice) -> int:
        """Return the maximum number of progress steps of a choice."""
        if self.oracle is not None:
            return self._bound(choice)
        n_passes = 2 if choice.how == "best" else 1
        return n_passes * choice.n_folds * len(choice.entries or menu(self.problem))

    def solve(
        self,
        choice: Choice,
        *,
        fold_groups: Any,
        journal: Any,
        watched: Callable[[Session[Chosen]], AbstractContextManager[None]],
        step: Callable[[str], None],
    ) -> tuple[Chosen, int]:
        """Return the chosen rule and the number of answered queries; ``watched`` gets the session."""
        if fold_groups is not None and self.rows is not None:
            fold_groups = np.asarray(fold_groups)[self.rows]
        if self.oracle is None:
            fit = choice.fit(self.problem, fold_groups=fold_groups, progress=step)
            chosen, n_queries = without_queries(fit), 0
        else:
            if hasattr(self.oracle, "expect"):  # it divides what may be spent
                self.oracle.expect(self._bound(choice))
            run = partial(self._fit, choice, fold_groups=fold_groups)
            about = "" if journal is None else f"{self.problem.digest()}/{getattr(self.oracle, 'name', '')}"
            with Session(run, budget=choice.budget, journal=journal, about=about) as session, watched(session):
                chosen = self._run(session, step)
            n_queries = session.n_queries
        if self.rows is not None:  # the numbers of its rows among all validation rows
            chosen = replace(chosen, held_out=replace(chosen.held_out, rows=self.rows[chosen.held_out.rows]))
        return chosen, n_queries

    @property
    def _asks_a_table(self) -> bool:
        """Whether the oracle counts the rows in the cells of a partition: then one query is enough."""
        return self.problem.kind.name == "table"

    @property
    def _noise(self) -> float:
        """The standard deviation of the noise of the oracle's counts."""
        return float(getattr(self.oracle, "noise", 0.0))

    def _bound(self, choice: Choice) -> int:
        """Return the maximum number of queries."""
        return 1 if self._asks_a_table else choice.bound(self.problem)

    def _fit(self, choice: Choice, fold_groups: Any) -> Fit[Chosen]:
        """Return the fit of a choice by queries."""
        if self._asks_a_table:
            most_cells = getattr(self.oracle, "most_cells", MOST_CELLS)
            return fit_from_table(choice, self.problem, noise=self._noise, most_cells=most_cells)
        return choice.fit(self.problem, fold_groups=fold_groups)

    def _run(self, session: Session[Chosen], step: Callable[[str], None]) -> Chosen:
        """Let the oracle answer; if its budget ends, return the best rule so far, with a warning."""
        assert self.oracle is not None  # noqa: S101
        try:
            return session.run(self.oracle, on_answer=lambda query, _: step(query.text))
        except BudgetEndedError as error:
            if not session.scores:
                raise
            why = f"the budget of the metric ended after {session.n_queries} queries"
            warnings.warn(f"{why}, so this is the best rule so far ({error})", PostshiftWarning, stacklevel=2)
            return unfinished(self.problem, session.best_so_far(), base_score=session.scores[0], why=why)


def known_groups(metric: Any, metadata: Mapping[str, Any], *, names: frozenset[str] | None = None) -> Any:
    """Return the distinct groups, sorted, if there are any; raise if some metadata is not read.

    ``names`` are what is read, by default what the metric reads.
    """
    names = metadata_names(metric) if names is None else names
    for name in metadata:
        if name not in names:
            hint = {"sample_weight": "; did you mean 'sample_weight_val'?"}.get(name, "")
            found = f"it reads {sorted(names)}" if names else "it only reads labels and weights"
            raise SettingError(f"metric {metric!r} does not read {name!r}: {found}{hint}")
    if GROUPS not in metadata:
        return None
    values = one_a_row(metadata[GROUPS], name=GROUPS)
    try:
        return np.unique(values)
    except TypeError as error:
        raise SettingError(f"groups must be of one kind, all strings or all numbers, none missing: {error}") from error


def goal_of(
    metric: Any, *, classes: Any, groups: Any, metadata: Mapping[str, Any], pos_label: Any = None
) -> ResolvedMetric:
    """Return the resolved metric, for which greater is better; ``groups`` are all possible groups."""
    n_groups = None if groups is None else len(groups)
    found = resolve_metric(metric, classes=classes, n_groups=n_groups, pos_label=pos_label)
    return with_metadata(found, [name for name in metadata if name in metadata_names(metric)])


def make_task(
    goal: ResolvedMetric,
    *,
    train: Rows | None,
    val: Rows,
    classes: Any,
    groups: Any,
    metadata: Mapping[str, Any],
    n_groups: int | None = None,
    by_counts: bool = False,
) -> Task:
    """Return the task of a metric on these rows; ``metadata`` are arrays about the validation rows.

    Rows of weight 0 are left out. A metric with its own labels gets all validation rows. If there are constraints,
    ``n_groups`` is the number of groups that they and the metric read, 1 for none. With ``by_counts``, a function that
    does not read weights is one of the confusion matrix if it only depends on the numbers of rows in its cells.
    """
    _check_given(goal, val, metadata)
    if train is not None and (counted := train.places_with_weight(name="training")) is not None:
        train = replace(train.take(counted), whole=train.whole)
    if isinstance(goal, PredictionFunction):
        oracle = PredictionOracle(goal, classes=classes)
        problem = Problem.queried(train, val, kind=oracle.kind, scale=goal.scale, reads_labels=True)
        return Task(problem=_counting(problem, groups, metadata, n_groups), oracle=oracle)
    if isinstance(goal, OracleMetric):
        return _oracle_task(goal, train=train, val=val, constrained=n_groups is not None)
    if val.labels is None:
        raise LabelError(
            f"metric {goal.name!r} needs validation labels: give y_val, or wrap a function that has its own labels "
            "in postshift.metrics.from_predictions"
        )
    rows = val.places_with_weight(name="validation")
    if rows is not None:
        val, metadata = val.take(rows), {name: _safe_indexing(values, rows) for name, values in metadata.items()}
    if isinstance(goal, CellMetric):
        goal = _of_cells(goal, val, classes)
    elif isinstance(goal, PooledMetric) and isinstance(goal.inner, CellMetric):
        found = _of_cells(goal.inner, val, classes)
        goal = found if isinstance(found, LabelFunction) else replace(goal, inner=found)
    if by_counts and isinstance(goal, LabelFunction) and not goal.metadata and val.weights is None:
        whole = CellMetric(goal, classes, total=float(val.n_rows), whole_rows=True)
        goal = whole if reads_cells_only(whole, val, classes) and _needs_no_class(whole, val) else goal
    if isinstance(goal, LabelFunction):
        own = {name: metadata[name] for name in goal.metadata}
        task = _label_task(goal, train=train, val=val, classes=classes, metadata=own)
        task = replace(task, problem=_counting(task.problem, groups, metadata, n_groups))
    else:
        codes = _group_codes(goal, groups, metadata)
        task = Task(problem=Problem.labelled(train, val, goal, groups=codes))
    return replace(task, rows=rows)


def _check_given(goal: ResolvedMetric, val: Rows, metadata: Mapping[str, Any]) -> None:
    """Raise if metadata have another length than the rows, or the metric needs dense rows."""
    for name, values in metadata.items():
        if np.shape(values)[:1] != (val.n_rows,):
            raise ShapeError(
                f"{name} must have one value for each of the {val.n_rows} validation rows. Got {np.shape(values)}"
            )
    if val.is_sparse and isinstance(goal, PredictionFunction | LabelFunction | CellMetric | OracleMetric):
        raise MetricError(
            f"metric {goal.name!r} cannot be used with sparse eta, which needs a metric of the catalogue such as "
            "'f1_macro', 'balanced_accuracy' or 'g_mean': choose one, or give eta.toarray() if memory allows"
        )


def _counting(problem: Problem, groups: Any, metadata: Mapping[str, Any], n_groups: int | None) -> Problem:
    """Return the problem; if there are constraints, as one that counts rows by group and class."""
    if n_groups is None:
        return problem
    codes = None if n_groups == 1 else positions(one_a_row(metadata[GROUPS], name=GROUPS), groups, name=GROUPS)
    return problem.counting(codes, n_groups=n_groups)


def value_of(
    goal: ResolvedMetric, *, labels: IntArray, val: Rows, classes: Any, groups: Any, metadata: Mapping[str, Any]
) -> float:
    """Return the metric of labels on rows with labels; a function of labels is called with the rows themselves."""
    function = function_of(goal)
    if isinstance(function, LabelFunction):
        assert val.labels is not None  # noqa: S101
        given = val.weights if function.takes_weights else None
        own = {name: metadata[name] for name in function.metadata}
        return function.sign * function(classes[val.labels], classes[labels], weights=given, metadata=own)
    problem = labelled_problem(function, val=val, groups=groups, metadata=metadata)
    return without_queries(problem.label_scores([labels]))[0]


def function_of(goal: ResolvedMetric) -> LabelFunction | ConfusionMetric:
    """Return the metric as a function of any rows with labels; raise if it has its own labels."""
    if isinstance(goal, PredictionFunction | OracleMetric):
        raise MetricError(
            f"metric {goal.name!r} has its own labels, for the validation rows only: score other rows with a metric "
            "that takes their labels"
        )
    return goal.function if isinstance(goal, CellMetric) else goal


def labelled_problem(metric: ConfusionMetric, *, val: Rows, groups: Any, metadata: Mapping[str, Any]) -> Problem:
    """Return the problem of a metric of the confusion matrix on rows with labels."""
    return Problem.labelled(None, val, metric, groups=_group_codes(metric, groups, metadata))


def _of_cells(metric: CellMetric, val: Rows, classes: Any) -> CellMetric | LabelFunction:
    """Return the metric for these rows, or the function itself if it reads more than the cells of the rows."""
    given: FloatArray = np.ones(val.n_rows) if val.weights is None else val.weights
    scaled = replace(metric, total=float(given.sum()))
    return scaled if reads_cells_only(scaled, val, classes) else metric.function


def reads_cells_only(metric: CellMetric, val: Rows, classes: Any) -> bool:
    """Return whether a metric has the same value on rows and on their cells, for labels and weights of many kinds."""
    weights: FloatArray = np.ones(val.n_rows) if val.weights is None else val.weights / val.weights.mean()
    rng, n_classes = np.random.default_rng(0), val.n_classes
    tried = [np.argmax(val.eta, axis=1), np.argmax(val.eta / val.eta.mean(axis=0), axis=1)]
    tried += [rng.integers(n_classes, size=val.n_rows) for _ in range(3)]
    tried += [np.full(val.n_rows, label) for label in range(min(n_classes, _CONSTANTS_TRIED))]
    uneven = weights * rng.uniform(0.5, 1.5, size=val.n_rows)
    of_rows = (weights,) if metric.whole_rows else (weights, uneven)
    return all(metric.agrees(classes[val.labels], classes[each], w) for each in tried for w in of_rows)


def _needs_no_class(metric: CellMetric, val: Rows) -> bool:
    """Return whether a metric has a value without the rarest class, which may be missing in a fold."""
    cells = np.diag(np.bincount(np.asarray(val.labels), minlength=val.n_classes) / val.n_rows)
    rarest = int(np.argmin(np.where(cells.diagonal() > 0, cells.diagonal(), np.inf)))
    cells[rarest, rarest] = 0.0
    with warnings.catch_warnings(action="ignore"):  # that a class is missing is known
        try:
            return not cells.any() or bool(np.isfinite(metric.value(cells)))
        except PostshiftError:
            return False


def _label_task(
    goal: LabelFunction, *, train: Rows | None, val: Rows, classes: Any, metadata: Mapping[str, Any]
) -> Task:
    """Return the task of a function of labels that is not a function of the confusion matrix."""
    oracle = LabelOracle(goal, val.labels, classes=classes, weights=val.weights, metadata=metadata)
    problem = Problem.queried(train, val, kind=oracle.kind, takes_subsets=True, scale=goal.scale, reads_labels=True)
    return Task(problem=problem, oracle=oracle)


def _oracle_task(goal: OracleMetric, *, train: Rows | None, val: Rows, constrained: bool) -> Task:
    """Return the task of a metric that an oracle answers; labels of ``val``, if there are any, are not read."""
    if constrained:
        raise SettingError(
            f"metric {goal.name!r} is answered by an oracle, which takes no constraints: leave subject_to out, or use "
            "a metric with a penalty, such as 'accuracy - demographic_parity', at the oracle"
        )
    problem = Problem.queried(train, val, kind=goal.oracle.kind, scale=goal.scale, metric=goal.psi)
    return Task(problem=problem, oracle=goal.oracle)


def _group_codes(goal: ConfusionMetric, groups: Any, metadata: Mapping[str, Any]) -> IntArray | None:
    """Return the groups of the rows as positions among all groups, for a metric over groups."""
    if not hasattr(goal, "n_categories"):
        return None
    if GROUPS not in metadata or groups is None:
        raise SettingError(f"metric {goal.name!r} is over groups: pass groups=..., one value per row")
    return positions(one_a_row(metadata[GROUPS], name=GROUPS), groups, name=GROUPS, what="groups of the fit")


def compare_labels(
    metric: Any,
    *,
    labels: IntArray,
    base: IntArray,
    val: Rows,
    classes: Any,
    groups: Any,
    metadata: Mapping[str, Any],
    pos_label: Any = None,
    fallback: bool = False,
) -> Comparison:
    """Compare a rule's labels with the base's on rows with labels; ``groups`` are all groups of the fit, if any.

    A function of labels is called with reweighted rows or, if it takes no weights, with rows drawn with replacement.
    For a metric of the confusion matrix, see :func:`postshift.rules.verdict.compare`. If the rule is the base itself
    (``fallback``), its gain is exactly 0.
    """
    found = known_groups(metric, metadata)
    groups = groups if groups is not None and GROUPS in metadata else found
    goal = goal_of(metric, classes=classes, groups=groups, metadata=metadata, pos_label=pos_label)
    if fallback:
        labels = base
    function = function_of(goal)
    if not isinstance(function, LabelFunction):
        problem = labelled_problem(function, val=val, groups=groups, metadata=metadata)
        return compare(problem, labels, base, same=fallback)
    assert val.labels is not None  # noqa: S101
    truth = val.labels

    def score(rows: IntArray, weights: FloatArray | None) -> tuple[float, float]:
        about = {name: values[rows] for name, values in metadata.items()}

        def of(found: IntArray) -> float:
            return function.sign * function(classes[truth[rows]], classes[found[rows]], weights=weights, metadata=about)

        return of(labels), of(base)

    weights = val.weights if function.takes_weights else None
    now, before = score(np.arange(val.n_rows), weights)
    return summary(now, before, np.array(list(_drawn(score, truth, weights, reweighted=function.takes_weights))))


def _drawn(
    score: Callable[[IntArray, FloatArray | None], T], truth: IntArray, weights: FloatArray | None, *, reweighted: bool
) -> Iterator[T]:
    """Yield the scores for random samples of the rows."""
    rng = np.random.default_rng(0)
    rows, each = np.arange(len(truth)), np.ones(len(truth)) if weights is None else weights
    for _ in range(DRAWS):
        if reweighted:
            yield score(rows, each * rng.standard_exponential(len(rows)))
        else:
            yield score(_with_every_class(truth, rng), None)


def _with_every_class(truth: IntArray, rng: np.random.Generator) -> IntArray:
    """Return rows drawn with replacement, with rows of every class: a function may need them."""
    n_classes = len(np.unique(truth))
    for _ in range(_TRIES):
        rows = rng.integers(len(truth), size=len(truth))
        if len(np.unique(truth[rows])) == n_classes:
            return rows
    return np.arange(len(truth))
