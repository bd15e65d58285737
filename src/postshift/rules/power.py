"""``postshift.power``: how many rows it takes to see a gain, or to certify a bound, before anyone collects them.

*A bound.* The chance is that of its tests (:mod:`postshift.constraints.p_values`). A proportion has a binomial test,
and the number of rows in its denominator is random. Several pieces must all be accepted: the chances to fail are added.

*A gain.* A rule is compared with the base on the same rows, and is "worth it" if the interval of the gain is above 0
(:mod:`postshift.rules.verdict`). The rows are in cells: category, label of the rule, label of the base. A row in a cell
moves the gain by its influence, to first order, so the gain of n rows is about normal around the gain of the shares,
and its variance is that of the influence over n. The interval also counts a few prior rows, which draw it towards 0.
For a metric with kinks, such as a minimum, samples are simulated instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import stats

from postshift._validation import FloatArray, check_count, check_eta, check_in_range
from postshift.constraints.p_values import chance_to_certify, has_test, without_test
from postshift.constraints.pieces import BoundedMetric, resolve_constraint
from postshift.constraints.terms import Constraint, read_constraints
from postshift.core.psi import ConfusionMetric, value_of
from postshift.core.rows import Rows
from postshift.exceptions import InfeasibleError, InputError, MetricError, SettingError, ShapeError
from postshift.metrics.confusion import Accuracy
from postshift.metrics.gaps import GapMetric
from postshift.metrics.over_groups import PooledMetric
from postshift.metrics.penalised import Penalised
from postshift.metrics.resolve import resolve_metric
from postshift.rules.constrained_program import SHIFTS, ConstrainedProgram, Expectation, RateObjective
from postshift.rules.verdict import DRAWS, prior_cells

MOST_ROWS = 10**9  # a question that needs more rows has no answer
N_SIMULATED = 400  # samples, for a metric that is not smooth
_AT_ONCE = 1 << 22  # cells in memory at once
_STEP = 1e-6  # share of rows that moves to a cell for its influence


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
    """

    question: str
    n_rows: int | None
    chance: float
    confidence: float
    gain: float | None = None


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
    classes: Any = None,
    pos_label: Any = None,
) -> Power:
    """Return how many validation rows it takes to see a gain, or to certify constraints.

    Give what you expect: probabilities of some rows without labels, or a confusion matrix. With probabilities, the rule
    is the best one for the metric or, for constraints, the one that is most likely to be certified. Such a chance is
    rough: it inherits the noise of these rows and the errors of the model. A known confusion matrix gives a close one.

    Parameters
    ----------
    eta : array-like of shape (n, m), optional
        The model's probabilities of rows like those to be collected.
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
    groups : array-like of shape (n,), optional
        With eta: the groups of the rows, for constraints and metrics over groups.
    classes : array-like of shape (m,), optional
        The labels of the columns; by default 0 to m - 1.
    pos_label : label, optional
        The positive class, as in :class:`~postshift.PostShifter`.

    Returns
    -------
    Power
        The number of rows and the chance.

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
    given: _Given = (
        _FromTable.of(confusion, n_axes=2 if metric is None else 3) if eta is None else _FromEta.of(eta, groups)
    )
    names = np.arange(given.n_classes) if classes is None else np.asarray(classes)
    about = {"classes": names, "n_groups": given.n_groups if given.n_groups > 1 else None, "pos_label": pos_label}
    question: _Certification | _Gain
    if metric is None:
        question = _Certification.of(subject_to, given, delta=1 - confidence, **about)
    else:
        question = _Gain.of(metric, given, gain=gain, confidence=confidence, **about)
    wanted = None if n_rows is None else check_count(n_rows, name="n_rows", low=1)
    found = _fewest_rows(question.chance, power) if wanted is None else wanted
    return Power(
        question=question.text,
        n_rows=found,
        chance=0.0 if found is None else question.chance(found),
        confidence=confidence,
        gain=question.gain if isinstance(question, _Gain) else None,
    )


class _Given(Protocol):
    """What the rows are expected to be like."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    @property
    def n_groups(self) -> int:
        """Number of groups; 1 if there are none."""

    def tables(self, constraints: Sequence[BoundedMetric]) -> list[FloatArray]:
        """Return the confusion matrices (R, m) of rules that may be certified."""

    def cells(self, metric: ConfusionMetric) -> FloatArray:
        """Return the shares (R, m, m) of category, label of a rule, and label of the base."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _FromTable:
    """A table that was given: a confusion matrix, or cells."""

    table: FloatArray

    @classmethod
    def of(cls, confusion: Any, *, n_axes: int) -> _FromTable:
        """Return a table as shares; raise if it has another shape or negative entries."""
        table = np.asarray(confusion, dtype=np.float64)
        wanted = "(R, m)" if n_axes == 2 else "(R, m, m): true class, label of the rule, label of the base"
        n_classes = table.shape[-1] if table.ndim else 0
        square = table.ndim == n_axes and len(set(table.shape[1:])) == 1
        if not square or n_classes < 2 or len(table) % n_classes:
            raise ShapeError(f"confusion must have shape {wanted}. Got {table.shape} instead")
        if not np.isfinite(table).all() or (table < 0).any() or table.sum() <= 0:
            raise InputError("confusion must have finite numbers >= 0, not all of them 0")
        return cls(table=table / table.sum())

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.table.shape[-1])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.table) // self.n_classes

    def tables(self, constraints: Sequence[BoundedMetric]) -> list[FloatArray]:  # noqa: ARG002
        """Return the confusion matrix."""
        return [self.table]

    def cells(self, metric: ConfusionMetric) -> FloatArray:  # noqa: ARG002
        """Return the cells."""
        return self.table


@dataclass(frozen=True, kw_only=True, eq=False)
class _FromEta:
    """Rows with the model's probabilities in place of labels."""

    rows: Rows
    expectation: Expectation
    n_groups: int

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.rows.n_classes

    @classmethod
    def of(cls, eta: Any, groups: Any) -> _FromEta:
        """Return the rows; groups have their own basis."""
        table = check_eta(eta, name="eta")
        if groups is None:
            rows, codes, n_groups = Rows.of(table), None, 1
        else:
            known, codes = np.unique(np.asarray(groups), return_inverse=True)
            if codes.shape != (len(table),):
                raise ShapeError(f"groups must have one value for each of the {len(table)} rows. Got {codes.shape}")
            n_groups = len(known)
            rows = Rows.of(table, phi=np.eye(n_groups)[codes])
        return cls(rows=rows, expectation=Expectation.of(rows, codes, n_groups=n_groups), n_groups=n_groups)

    def tables(self, constraints: Sequence[BoundedMetric]) -> list[FloatArray]:
        """Return the confusion matrices of the most accurate rules under bounds that are stricter and stricter."""
        pooled = PooledMetric(inner=Accuracy(), n_groups=self.n_groups, n_classes=self.n_classes)
        program = ConstrainedProgram(self.expectation, RateObjective.of(pooled), constraints)
        pieces = program.pieces(program.start)
        found = []
        for shift in SHIFTS:
            with suppress(InfeasibleError):
                found.append(program.solve(np.array([-piece.sign * shift for piece in pieces])).confusion)
        return found

    def cells(self, metric: ConfusionMetric) -> FloatArray:
        """Return the shares of the cells for the rule that is best for the metric."""
        solution = ConstrainedProgram(self.expectation, RateObjective.of(metric), ()).solve()
        places = solution.rule.labels(self.rows.eta, self.rows.phi) * self.n_classes + np.argmax(self.rows.eta, axis=1)
        sums = np.array([np.bincount(places, each, self.n_classes**2) for each in self.expectation.chances().T])
        return np.asarray(sums.reshape(-1, self.n_classes, self.n_classes) / self.rows.n_rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Certification:
    """Will constraints be certified? ``tables`` are confusion matrices of rules, of which the likeliest counts."""

    text: str
    constraints: tuple[BoundedMetric, ...]
    tables: tuple[FloatArray, ...]
    delta: float

    @classmethod
    def of(cls, subject_to: Any, given: _Given, *, delta: float, **about: Any) -> _Certification:
        """Look up the constraints, and find the rules that may be certified."""
        constraints = tuple(_certifiable(each, **about) for each in read_constraints(subject_to))
        tables = tuple(given.tables(constraints))
        for constraint in constraints:
            if not all(has_test(piece) for table in tables for piece in constraint.pieces(table)):
                raise MetricError(without_test(constraint.constraint))
        text = "certify " + " and ".join(str(each.constraint) for each in constraints)
        return cls(text=text, constraints=constraints, tables=tables, delta=delta)

    def chance(self, n_rows: int) -> float:
        """Return the chance of the rule that is most likely to be certified with this many rows."""
        return max((self._chance(table, n_rows) for table in self.tables), default=0.0)

    def _chance(self, table: FloatArray, n_rows: int) -> float:
        """Return the chance that all pieces are accepted; the chances to fail are added."""
        pieces = [piece for constraint in self.constraints for piece in constraint.pieces(table)]
        return max(0.0, 1 - sum(1 - chance_to_certify(piece, table, n_rows, delta=self.delta) for piece in pieces))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gain:
    """Will a rule be seen to be better than the base? ``cells`` (R, m, m) are the expected shares."""

    text: str
    metric: ConfusionMetric
    cells: FloatArray
    gain: float
    confidence: float

    @classmethod
    def of(
        cls,
        metric: Any,
        given: _Given,
        *,
        gain: float | None,
        confidence: float,
        **about: Any,
    ) -> _Gain:
        """Look up the metric, and find the shares of the cells."""
        found = resolve_metric(metric, **about)
        if not isinstance(found, ConfusionMetric):
            raise MetricError(f"power needs a metric of the confusion matrix. Got {found.name!r}, which scores labels")
        n_classes, n_groups = len(about["classes"]), about["n_groups"] or 1
        if n_groups > 1 and not hasattr(found, "n_categories"):
            found = PooledMetric(inner=found, n_groups=n_groups, n_classes=n_classes)
        cells = given.cells(found)
        expected = _gain_of(found, cells)
        wanted = expected if gain is None else gain
        text = f"see a gain of {wanted:.4g} in {getattr(found, 'name', metric)}"
        return cls(text=text, metric=found, cells=cells, gain=wanted, confidence=confidence)

    def chance(self, n_rows: int) -> float:
        """Return the chance that the interval of the gain is above 0."""
        return self._simulated(n_rows) if _has_kinks(self.metric) else self._by_influences(n_rows)

    def _by_influences(self, n_rows: int) -> float:
        """Return the chance to first order."""
        prior = self._prior
        n_prior = float(prior.sum())
        kept = n_rows / (n_rows + n_prior)
        blended = kept * self.cells + prior / (n_rows + n_prior)
        middle = _gain_of(self.metric, blended) + kept * (self.gain - _gain_of(self.metric, self.cells))
        apart, variance = _influences(self.metric, blended)
        n_all = n_rows + n_prior
        spread = float(np.sqrt(variance / n_all))
        reach = float(stats.norm.ppf((1 + self.confidence) / 2))
        # The draws are skewed: rows have exponential weights. Cornish and Fisher's expansion gives their quantile.
        skewness = 2 * float(np.sum(blended * apart**3)) / (variance**1.5 * np.sqrt(n_all))
        low = middle - spread * (reach - (reach**2 - 1) / 6 * skewness)
        # A row also moves the spread, by half of what it adds to the variance.
        moved = apart - reach * (apart**2 - variance) / (2 * spread * n_all)
        error = kept * float(np.sqrt(np.sum(self.cells * moved**2) / n_rows))
        return float(stats.norm.cdf(low / max(error, 1e-300)))

    def _simulated(self, n_rows: int) -> float:
        """Return the share of simulated samples whose interval is above 0, as the verdict computes it."""
        rng = np.random.default_rng(0)
        flat, prior = self.cells.reshape(-1), self._prior.reshape(-1)
        shift = self.gain - _gain_of(self.metric, self.cells)
        at_once = max(1, _AT_ONCE // (DRAWS * flat.size))
        seen = 0
        for done in range(0, N_SIMULATED, at_once):
            counts = rng.multinomial(n_rows, flat / flat.sum(), size=min(at_once, N_SIMULATED - done))
            masses = rng.standard_gamma((counts + prior)[:, None], size=(len(counts), DRAWS, flat.size))
            drawn = (masses / masses.sum(axis=-1, keepdims=True)).reshape(len(counts), DRAWS, *self.cells.shape)
            gains = value_of(self.metric, drawn.sum(axis=-1)) - value_of(self.metric, drawn.sum(axis=-2))
            seen += int(np.count_nonzero(np.quantile(gains, (1 - self.confidence) / 2, axis=1) + shift > 0))
        return seen / N_SIMULATED

    @property
    def _prior(self) -> FloatArray:
        """The prior rows of the comparison in each cell (R, m, m)."""
        categories, labels, base = np.nonzero(self.cells > 0)
        found = prior_cells(
            categories,
            labels,
            base,
            shares=self.cells[categories, labels, base],
            predicted=self.cells.sum(axis=(0, 2)) + self.cells.sum(axis=(0, 1)),
            of_recalls=self.metric.weighting == "diagonal",
        )
        prior = np.zeros(self.cells.shape)
        np.add.at(prior, found[:3], found[3])
        return prior


def _has_kinks(metric: ConfusionMetric) -> bool:
    """Return whether a metric is a minimum, or has a penalty for a gap: influences do not describe it well."""
    return hasattr(metric, "smoothed") or isinstance(metric, Penalised | GapMetric)


def _gain_of(metric: ConfusionMetric, cells: FloatArray) -> float:
    """Return the metric of the rule minus that of the base."""
    return float(value_of(metric, cells.sum(axis=2)) - value_of(metric, cells.sum(axis=1)))


def _influences(metric: ConfusionMetric, cells: FloatArray) -> tuple[FloatArray, float]:
    """Return the influence of a row in each cell (R, m, m) on the gain, with mean 0, and its variance."""
    ours, theirs = (_influence(metric, cells.sum(axis=axis)) for axis in (2, 1))
    apart = ours[:, :, None] - theirs[:, None, :]
    apart = apart - np.sum(cells * apart)
    return apart, max(float(np.sum(cells * apart**2)), 1e-300)


def _influence(metric: ConfusionMetric, confusion: FloatArray) -> FloatArray:
    """Return how a metric moves towards each cell (R, m), per share of rows that moves there."""
    moved = (1 - _STEP) * confusion + _STEP * np.eye(confusion.size).reshape(-1, *confusion.shape)
    slopes = (value_of(metric, moved) - value_of(metric, confusion)) / _STEP
    return np.asarray(slopes.reshape(confusion.shape))


def _fewest_rows(chance: Callable[[int], float], wanted: float) -> int | None:
    """Return the smallest number of rows with this chance, up to a half per cent; None if no number is enough."""
    low, high = 1, 2
    while chance(high) < wanted:
        low, high = high, 2 * high
        if high > MOST_ROWS:
            return None
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if chance(middle) < wanted else (low, middle)
    return high


def _certifiable(constraint: Constraint, **about: Any) -> BoundedMetric:
    """Return a constraint with its metric looked up; raise if it bounds a function, which has no test."""
    found = resolve_constraint(constraint, **about)
    if not isinstance(found, BoundedMetric):
        raise MetricError(without_test(constraint))
    return found
