"""Everything the report shows, as plain numbers and strings: gathered once, stored as JSON and rendered from there.

Classes are given by their positions in ``Facts.classes``. Rows are given by their numbers, from 0, among the rows that
the page is about: the validation rows of the fit, or test rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from postshift.core.archive import CONTENT_ERRORS
from postshift.estimators.records import Conditioning, ConstraintRecord, HistoryRecord
from postshift.exceptions import ArchiveError
from postshift.report.codec import from_plain
from postshift.report.frontier_facts import FrontierFacts
from postshift.rules.record import Certificate, Entry

FORMAT = 2
TITLE, TEST_TITLE = "Before and after postshift", "Before and after postshift: test rows"

Interval = tuple[float, float]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The metric. For a cost, lower is better for the user; its scores have a minus, so that greater is better.

    ``positive`` is the positive class, if the metric has one.
    """

    name: str
    about: str
    is_cost: bool
    counts_classes_evenly: bool
    positive: str | None = None

    def own_number(self, score: float) -> float:
        """Return a score as the user knows it: a cost without its minus."""
        return -score if self.is_cost else score

    def own_interval(self, limits: Interval) -> Interval:
        """Return an interval of scores as the user knows them."""
        return (-limits[1], -limits[0]) if self.is_cost else limits


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores before and after, with 95 % intervals; greater is better."""

    before: float
    after: float
    before_interval: Interval | None
    after_interval: Interval | None
    gain_interval: Interval | None
    n_rows: int

    @property
    def gain(self) -> float:
        """The score after minus the score before."""
        return self.after - self.before


@dataclass(frozen=True, kw_only=True)
class Verdict(Scores):
    """The scores of the fit.

    ``gain_interval`` is None if the base was kept, or if only scores are known: then ``after`` is the best of several
    scores on the same rows. ``in_fit`` is true if the rows were also used for the fit.
    """

    n_val: int
    in_fit: bool
    fallback: bool
    how: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """How the constraints hold on the rows that the page is about, and the guarantee of the fit.

    ``confidence`` is None if no guarantee was asked for, ``certificate`` is None if there is none.
    """

    records: tuple[ConstraintRecord, ...]
    confidence: float | None
    certificate: Certificate | None


@dataclass(frozen=True, kw_only=True)
class ClassRecall:
    """The recall of one class in one group; None if the group has no rows of the class."""

    n_rows: int
    before: float | None
    after: float | None


@dataclass(frozen=True, kw_only=True)
class Group:
    """One group: its number of rows, how many labels change, the accuracy, and the recall of every class."""

    name: str
    n_rows: int
    n_changed: int
    accuracy_before: float
    accuracy_after: float
    recalls: tuple[ClassRecall, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the confusion matrices before and after: numbers of rows, or sums of sample weights."""

    true: int
    predicted: int
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class ConfusionChange:
    """The cells that are not 0 in both confusion matrices."""

    cells: tuple[Cell, ...]
    weighted: bool


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Rows whose label changes from one class to another, and how many of them become right or wrong, if known."""

    before: int
    after: int
    n_rows: int
    n_right: int | None
    n_wrong: int | None


@dataclass(frozen=True, kw_only=True)
class ChangedRow:
    """One row whose label changes, with the model's probabilities of both labels."""

    row: int
    true: int | None
    before: int
    after: int
    p_before: float
    p_after: float


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The labels that change: all pairs of labels, most frequent first, and the first rows."""

    n_rows: int
    n_changed: int
    n_right: int | None
    n_wrong: int | None
    pairs: tuple[Pair, ...]
    rows: tuple[ChangedRow, ...]


@dataclass(frozen=True, kw_only=True)
class FunctionWeights:
    """The weight of every class under one basis function; ``n_rows`` is the function's sum over the rows."""

    basis: str
    name: str
    n_rows: float
    by_class: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of every class, the median being 1: over all rows, and under each basis function."""

    by_class: tuple[float, ...]
    functions: tuple[FunctionWeights, ...]


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The share of every class among labels and predictions, and the model's mean probability of it."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    by_model: tuple[float, ...]
    validation: tuple[float, ...] | None
    training: tuple[float, ...] | None
    by_model_in_training: tuple[float, ...] | None


@dataclass(frozen=True, kw_only=True)
class Belief:
    """The mean probabilities of the rows of one class: for the class itself, and for the most likely other class.

    ``back`` is the mean probability that rows of the other class have for this one. ``mass`` and ``other_mass`` are
    sums of sample weights.
    """

    true: int
    n_rows: int
    mass: float
    own: float
    other: int
    to_other: float
    back: float
    other_mass: float


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything the report shows about a fit.

    :meth:`Facts.of` gathers it, :func:`~postshift.report.render` and :func:`~postshift.report.write_report` make a page
    of it, :meth:`to_json` and :meth:`from_json` store it.

    Attributes
    ----------
    title : str
        The title of the page.
    classes : tuple of str
        The names of the classes.
    metric, verdict, confusion, changes, weights, shares, beliefs, rules, trace, conditioning
        The parts, each a small frozen dataclass or a tuple of them. ``confusion`` is None if the true labels are not
        known. ``rules`` are the rules of the menu with their scores and weights, the base first. ``conditioning`` has
        None for a number that is not finite.
    refitted : bool
        Whether the model was fitted again after the labels before and after were computed, as in cross-fitting. Then
        its probabilities are of rows that it was fitted to.
    n_queries : int
        The number of queries of the metric.
    warnings, notes : tuple of str
        The warnings of the fit, and the notes of its rules.
    used, how_to_use, settings, versions : tuple of pairs of str
        The data; code that uses the model; method, seed and budget; packages and their versions.
    groups : tuple of Group
        Accuracy and recalls in every group of rows, if groups were given.
    test : Scores or None
        The scores of test rows. Then confusion, changes, weights, shares, beliefs and groups are of the test rows;
        verdict, rules and trace are always of the fit.
    fit_metric : Metric or None
        The metric of the fit, if the test rows are scored by another one.
    constraints : Constraints or None
        The constraints of the fit, if it had any.
    frontier : FrontierFacts or None
        For a fit with ``subject_to``: the best metric for each bound, on the validation rows. None if there are no
        labels, or if the model was fitted to these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import PostShifter
    >>> from postshift.report import Facts
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 6, size=1000)
    >>> eta, y = np.column_stack([1 - p, p]), (rng.random(1000) < p).astype(int)
    >>> facts = Facts.of(PostShifter("g_mean", method="smoothed plug-in").fit(eta, y), eta, y)
    >>> facts.classes, facts.verdict.n_rows, facts.weights.by_class[1] > 1
    (('0', '1'), 1000, True)
    >>> Facts.from_json(facts.to_json()) == facts
    True
    """

    title: str
    classes: tuple[str, ...]
    metric: Metric
    verdict: Verdict
    confusion: ConfusionChange | None
    changes: Changes
    weights: Weights
    shares: Shares
    beliefs: tuple[Belief, ...]
    refitted: bool
    rules: tuple[Entry, ...]
    trace: tuple[HistoryRecord, ...]
    conditioning: tuple[Conditioning, ...]
    n_queries: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    used: Pairs
    how_to_use: Pairs
    settings: Pairs
    versions: Pairs
    groups: tuple[Group, ...] = ()
    test: Scores | None = None
    fit_metric: Metric | None = None
    constraints: Constraints | None = None
    frontier: FrontierFacts | None = None

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        phi: Any = None,
        y_train: Any = None,
        eta_train: Any = None,
        metric: Any = None,
        metric_name: str | None = None,
        sample_weight: Any = None,
        groups: Any = None,
        title: str | None = None,
        used: Iterable[tuple[str, str]] = (),
        how_to_use: Iterable[tuple[str, str]] = (),
        **metadata: Any,
    ) -> Self:
        """Gather the facts of a fitted estimator, on the validation rows of its fit or on test rows.

        Rows that are not the validation rows of the fit are test rows: rows that were not used for the fit in any way.
        Their labels come from ``predict``, and their scores and intervals are those of ``postshift evaluate``.

        Parameters
        ----------
        estimator : PostShifter or PostShiftClassifier
            Fitted.
        X : array-like
            Rows: probabilities for a PostShifter, features for a PostShiftClassifier. Either the validation rows of the
            fit in the same order (if it was fitted without validation rows, its training rows), or test rows.
        y : array-like, optional
            Their labels. Test rows need them; without them a page about validation rows has no confusion matrices.
        phi : array-like or mapping, optional
            For a PostShifter: the basis functions of these rows, as in its fit.
        y_train, eta_train : array-like, optional
            Labels of the training rows and the model's probabilities of them, for the class shares.
        metric : str, metric, scorer or callable, optional
            For test rows: the metric to score them by; the metric of the fit by default.
        metric_name : str, optional
            The name of the metric on the page; its own name by default.
        sample_weight : array-like, optional
            Sample weights of these rows; for validation rows, as in the fit.
        groups : array-like, optional
            The group of every row, for the table of groups, and for metrics and constraints over groups.
        title : str, optional
            The title of the page.
        used, how_to_use : iterable of pairs of str, optional
            Pairs (label, text) about the data, and (heading, code); by default those of the estimator.
        **metadata : array-likes of shape (n,)
            For test rows: other arrays that the metric reads.

        Returns
        -------
        Facts
            Everything the report shows.

        Raises
        ------
        InputError
            If the rows are the training rows of the fit, or the estimator is of another type.
        ShapeError
            If the rows are the validation rows of the fit in another order, or labels are missing.
        """
        from postshift.report.gather import gathered

        parts = gathered(
            estimator,
            X,
            y=y,
            phi=phi,
            y_train=y_train,
            eta_train=eta_train,
            metric=metric,
            metric_name=metric_name,
            weights=sample_weight,
            groups=groups,
            metadata=metadata,
        )
        for name, pairs in (("used", used), ("how_to_use", how_to_use)):
            parts[name] = tuple((str(first), str(second)) for first, second in pairs) or parts[name]
        known = dict(parts["used"])  # settings that the caller has given are not shown twice
        parts["settings"] = tuple(pair for pair in parts["settings"] if pair[0] not in known)
        default = TITLE if parts["test"] is None else TEST_TITLE
        return cls(title=default if title is None else title, **parts)

    @property
    def scored(self) -> Scores:
        """The scores of the rows that the page is about."""
        return self.verdict if self.test is None else self.test

    @property
    def of_the_fit(self) -> Self:
        """The facts with the metric of the fit, to which verdict, rules, trace and weights belong."""
        return self if self.fit_metric is None else replace(self, metric=self.fit_metric)

    @property
    def sample(self) -> str:
        """The kind of rows that the page is about: validation or test."""
        return "validation" if self.test is None else "test"

    def to_json(self) -> str:
        """Return the facts as JSON, with the number of the format."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the facts that ``to_json`` wrote.

        Raises
        ------
        ArchiveError
            If the text is not such JSON, or has a format that this version does not read.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArchiveError(f"this is not a file of facts, or it is incomplete: {error}") from error
        found = values.pop("format", None) if isinstance(values, dict) else None
        if found != FORMAT:
            raise ArchiveError(
                f"the facts have format {found!r}, but this version of postshift reads format {FORMAT}: render them "
                "with the version that wrote them"
            )
        try:
            return from_plain(cls, values)
        except CONTENT_ERRORS as error:
            raise ArchiveError(f"the facts were damaged or changed after they were written: {error}") from error

    def name(self, position: int | None) -> str:
        """Return the name of a class, or "not known" for None."""
        return "not known" if position is None else self.classes[position]
