"""``postshift.power``: how many rows it takes to see a gain, or to certify a bound, before anyone collects them.

*A bound.* The chance is that of its tests (:mod:`postshift.constraints.p_values`), for the rule that is most likely to
be accepted: with it the path of a fit begins, and without it nothing is certified.

*A gain.* The chance is that of the verdict "worth it" (:mod:`postshift.rules.gain_chance`).

What is expected of the rows is a table, or probabilities of rows (:mod:`postshift.rules.expected_cells`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from postshift._validation import FloatArray, check_count, check_in_range
from postshift.constraints.p_values import chance_of_all, fewest_rows, without_test
from postshift.constraints.pieces import BoundedMetric, resolve_constraint
from postshift.constraints.terms import Constraint, read_constraints
from postshift.core.plugin import PlugIn
from postshift.core.psi import ConfusionMetric
from postshift.exceptions import MetricError, SettingError
from postshift.metrics.confusion import Accuracy
from postshift.metrics.grammar import class_position
from postshift.metrics.over_groups import PooledMetric
from postshift.metrics.resolve import resolve_metric
from postshift.rules.certified import caution_of, cautious_solutions, check_tests
from postshift.rules.constrained_program import ConstrainedProgram, ConstrainedSolution, Expectation, RateObjective
from postshift.rules.expected_cells import Cells, ExpectedRows, Halves, Table
from postshift.rules.gain_chance import GainChance, gain_of, has_kinks

LEVEL = 0.95  # of the interval of a chance
N_DRAWS = 200  # of blocks of rows, for this interval
N_DRAWS_SIMULATED, N_SIMULATED = 40, 100  # the same for a chance that is simulated, and its samples
POOL_ROWS = 400  # the rules for any number of rows are made with bounds moved by standard errors of so many rows:
POOL_CAUTIONS = (*(32 * 2 ** (-step / 2) for step in range(20)), 0.0)  # 32 are 8 of 25 rows, the last are 2 of 10^6


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """How likely rows are to show something.

    Attributes
    ----------
    question : str
        What the rows are to show.
    n_rows : int or None
        The number of validation rows; None if no number is enough.
    chance : float
        The probability that this many rows show it; 0 if no number is enough.
    confidence : float
        The confidence of the test, or of the interval of a gain.
    gain : float or None
        The expected gain; None for a constraint.
    interval : tuple of float, or None
        The 95 % interval of the chance: how wrong it may be, because the rows with probabilities, and those with
        labels, are only a sample. Without labels, the model's probabilities are taken to be right. None for a known
        confusion matrix.
    """

    question: str
    n_rows: int | None
    chance: float
    confidence: float
    gain: float | None = None
    interval: tuple[float, float] | None = None


def power(
    eta: Any = None,
    *,
    confusion: Any = None,
    metric: Any = None,
    gain: float | None = None,
    subject_to: Any = None,
    n_rows: int | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
    groups: Any = None,
    eta_val: Any = None,
    y_val: Any = None,
    groups_val: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> Power:
    """Return how many validation rows it takes to see a gain, or to certify constraints.

    Give what you expect: probabilities of some rows without labels, or a confusion matrix. With probabilities, the rule
    is the best one for the metric or, for constraints, the one that is most likely to be certified. The chance is then
    as noisy as these rows are few, which its interval says, and it is wrong if the probabilities are, unless some rows
    with labels correct it. A known confusion matrix gives a close one.

    Parameters
    ----------
    eta : array-like of shape (n, m), optional
        The model's probabilities of rows like those to be collected. The more rows, the closer the chance.
    confusion : array-like, optional
        In place of eta. For constraints, of shape (R, m): the confusion matrix of a rule, as counts or shares; with
        groups, R is the number of (group, class) pairs. For a gain, of shape (R, m, m): true class, label of the rule,
        label of the base.
    metric : str or metric, optional
        For a gain: the metric.
    gain : float, optional
        The gain to see; by default the one that eta or the confusion matrix promises.
    subject_to : str, constraint or list of them, optional
        The constraints to certify.
    n_rows : int, optional
        A number of rows; the result has their chance. By default the result has the smallest number of rows whose
        chance is ``power``.
    confidence : float, default=0.95
        The confidence of the certificate, or of the interval of the gain.
    power : float, default=0.8
        The chance that is wanted.
    groups, groups_val : array-like of shape (n,), optional
        With eta and eta_val: the groups of the rows, for constraints and metrics over groups.
    eta_val, y_val : array-likes, optional
        With eta: probabilities and labels of some validation rows that you already have. They correct the chance, and
        its interval, for errors of the model.
    classes : array-like of shape (m,), optional
        The labels of the columns; by default 0 to m - 1.
    pos_label : label, optional
        The positive class, as in :class:`~postshift.PostShifter`.

    Returns
    -------
    Power
        The number of rows, the chance and, with eta, its interval.

    Examples
    --------
    A class of 10 % of the rows, and a rule that finds 95 % of it: how many rows certify a recall of at least 0.9?

    >>> from postshift import power
    >>> found = power(confusion=[[0.8, 0.1], [0.005, 0.095]], subject_to="recall >= 0.9")
    >>> found.n_rows
    1928
    >>> round(power(confusion=[[0.8, 0.1], [0.005, 0.095]], subject_to="recall >= 0.9", n_rows=500).chance, 2)
    0.24
    """
    if (eta is None) == (confusion is None):
        raise SettingError("give either eta, the probabilities of some rows, or confusion, a confusion matrix")
    if (subject_to is None) == (metric is None):
        raise SettingError("give either subject_to, what to certify, or metric, in which to see a gain")
    check_in_range(confidence, name="confidence", low=0.5, high=1, open_high=True)
    check_in_range(power, name="power", low=0, high=1, open_low=True, open_high=True)
    source: Table | Halves
    if eta is None:
        source = Table.of(confusion, n_axes=2 if metric is None else 3)
    else:
        source = _halves(eta, groups, eta_val, y_val, groups_val, classes=classes)
    names = np.arange(source.n_classes) if classes is None else np.asarray(classes)
    about = {"classes": names, "n_groups": source.n_groups if source.n_groups > 1 else None, "pos_label": pos_label}
    question: _Certification | _Gain
    if metric is None:
        question = _Certification.of(subject_to, source, delta=1 - confidence, **about)
    else:
        question = _Gain.of(metric, source, gain=gain, confidence=confidence, **about)
    wanted = None if n_rows is None else check_count(n_rows, name="n_rows", low=1)
    found = fewest_rows(partial(_chance, question), power) if wanted is None else wanted
    return Power(
        question=question.text,
        n_rows=found,
        chance=0.0 if found is None else _chance(question, found),
        confidence=confidence,
        gain=question.gain if isinstance(question, _Gain) else None,
        interval=None if found is None else _interval(question, found),
    )


def _halves(eta: Any, groups: Any, eta_val: Any, y_val: Any, groups_val: Any, *, classes: Any) -> Halves:
    """Return rows with probabilities and, if there are any, labelled rows that correct them."""
    rows = ExpectedRows.of(eta, groups)
    if (eta_val is None) != (y_val is None):
        raise SettingError("labelled rows need both eta_val and y_val")
    if eta_val is None:
        return Halves.of(rows, None)
    if (groups is None) != (groups_val is None):
        raise SettingError("groups and groups_val belong together: give both")
    names = np.arange(rows.n_classes) if classes is None else np.asarray(classes)
    labels = np.array([class_position(label, names) for label in np.asarray(y_val).tolist()], dtype=np.intp)
    known = None if groups is None else np.unique(np.asarray(groups))
    return Halves.of(rows, ExpectedRows.of(eta_val, groups_val, labels=labels, known_groups=known, name="eta_val"))


def _chance(question: _Certification | _Gain, n_rows: int) -> float:
    """Return the chance that rows show something; 0 if no rule is expected to."""
    cells = question.cells(n_rows)
    return 0.0 if cells is None else question.chance(cells.shares, n_rows)


def _interval(question: _Certification | _Gain, n_rows: int) -> tuple[float, float] | None:
    """Return the interval of the chance over draws of blocks of rows; None if the cells are known."""
    cells = question.cells(n_rows)
    if cells is None or cells.is_known:
        return None
    drawn = [question.drawn_chance(shares, n_rows) for shares in cells.drawn(question.n_draws)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Certification:
    """The question whether constraints will be certified."""

    text: str
    constraints: tuple[BoundedMetric, ...]
    source: Table | Halves
    delta: float
    n_draws: int = N_DRAWS

    @classmethod
    def of(cls, subject_to: Any, source: Table | Halves, *, delta: float, **about: Any) -> _Certification:
        """Look up the constraints."""
        constraints = tuple(_certifiable(each, **about) for each in read_constraints(subject_to))
        shape = source.n_groups * source.n_classes, source.n_classes
        check_tests(constraints, np.full(shape, 1 / np.prod(shape)))
        text = "certify " + " and ".join(str(each.constraint) for each in constraints)
        return cls(text=text, constraints=constraints, source=source, delta=delta)

    def cells(self, n_rows: int) -> Cells | None:
        """Return the cells of the rule that is most likely to be certified; None if no classifier can be."""
        if isinstance(self.source, Table):
            return self.source.cells
        if not all(self._pools):
            return None
        return self.source.cells([self._likeliest(pool, n_rows) for pool in self._pools])

    def chance(self, shares: FloatArray, n_rows: int) -> float:
        """Return the chance that all pieces are accepted."""
        table = shares.sum(axis=2)
        pieces = [piece for constraint in self.constraints for piece in constraint.pieces(table)]
        return chance_of_all(pieces, table, n_rows, delta=self.delta)

    drawn_chance = chance

    @cached_property
    def _pools(self) -> list[Sequence[ConstrainedSolution]]:
        """The rules that each half of the rows makes, for any number of rows that test."""
        assert isinstance(self.source, Halves)  # noqa: S101
        return self.source.made(self._pool)

    def _pool(self, expectation: Expectation) -> list[ConstrainedSolution]:
        """Return the most accurate rules under bounds that are stricter and stricter."""
        size = {"n_groups": self.source.n_groups, "n_classes": self.source.n_classes}
        objective = RateObjective.of(PooledMetric(inner=Accuracy(), **size))
        program = ConstrainedProgram(expectation, objective, self.constraints)
        solutions = cautious_solutions(program, POOL_ROWS, POOL_CAUTIONS)
        return list({solution.rule.alpha.tobytes(): solution for solution in solutions}.values())

    def _likeliest(self, pool: Sequence[ConstrainedSolution], n_rows: int) -> PlugIn:
        """Return the rule with which a path for this many rows begins."""
        cautions = [caution_of(self.constraints, each.confusion, n_rows, self.delta) for each in pool]
        return pool[max(range(len(pool)), key=lambda place: (cautions[place], pool[place].value))].rule


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gain:
    """The question whether a rule will be seen to be better than the base."""

    text: str
    metric: ConfusionMetric
    known: Cells
    gain: float
    asked: float | None
    confidence: float

    @classmethod
    def of(cls, metric: Any, source: Table | Halves, *, gain: float | None, confidence: float, **about: Any) -> _Gain:
        """Look up the metric, and find the cells of the rule that is best for it."""
        found = resolve_metric(metric, **about)
        if not isinstance(found, ConfusionMetric):
            raise MetricError(f"power needs a metric of the confusion matrix. Got {found.name!r}, which scores labels")
        n_classes, n_groups = len(about["classes"]), about["n_groups"] or 1
        if n_groups > 1 and not hasattr(found, "n_categories"):
            found = PooledMetric(inner=found, n_groups=n_groups, n_classes=n_classes)
        if isinstance(source, Table):
            cells = source.cells
        else:
            objective = RateObjective.of(found)
            cells = source.cells(source.made(lambda each: ConstrainedProgram(each, objective, ()).solve().rule))
        expected = gain_of(found, cells.shares) if gain is None else gain
        text = f"see a gain of {expected:.4g} in {getattr(found, 'name', metric)}"
        return cls(text=text, metric=found, known=cells, gain=expected, asked=gain, confidence=confidence)

    @property
    def n_draws(self) -> int:
        """How many draws the interval of the chance is of."""
        return N_DRAWS_SIMULATED if has_kinks(self.metric) else N_DRAWS

    def cells(self, n_rows: int) -> Cells:  # noqa: ARG002
        """Return the cells; they do not depend on the number of rows."""
        return self.known

    def chance(self, shares: FloatArray, n_rows: int) -> float:
        """Return the chance that the interval of the gain is above 0."""
        return self._of(shares)(n_rows)

    def drawn_chance(self, shares: FloatArray, n_rows: int) -> float:
        """Return the same, with fewer samples if it is simulated."""
        return self._of(shares)(n_rows, n_simulated=N_SIMULATED)

    def _of(self, shares: FloatArray) -> GainChance:
        """Return the chance as a function of the number of rows."""
        return GainChance(metric=self.metric, cells=shares, confidence=self.confidence, gain=self.asked)


def _certifiable(constraint: Constraint, **about: Any) -> BoundedMetric:
    """Return a constraint with its metric looked up; raise if it bounds a function, which has no test."""
    found = resolve_constraint(constraint, **about)
    if not isinstance(found, BoundedMetric):
        raise MetricError(without_test(constraint))
    return found
