"""All that the report shows, as plain numbers and texts: gathered once, stored as JSON, rendered as often as wanted.

Classes are named by their positions in ``Facts.classes``; rows by their numbers among the rows that the page is about,
from 0: the validation rows of the fit, or test rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from postshift.core.archive import CONTENT_ERRORS
from postshift.exceptions import ArchiveError
from postshift.report.codec import built, plain

FORMAT = 1
TITLE, TEST_TITLE = "What postshift made of the model", "What postshift does to test rows"

Interval = tuple[float, float]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The metric; ``is_cost`` where less of the user's own number is better, and scores have a minus.

    ``positive`` is the class that it is about, where it is about one.
    """

    name: str
    about: str
    is_cost: bool
    counts_classes_evenly: bool
    positive: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Scores before and after, greater being better, with intervals of 95 %, and on what rows.

    ``gain_interval`` is None where the base was kept, and where no honest interval can be given: then ``after`` is the
    best of several scores on the same rows. ``in_fit`` says that the rows were used for the fit too.
    """

    before: float
    after: float
    before_interval: Interval | None
    after_interval: Interval | None
    gain_interval: Interval | None
    n_rows: int
    n_val: int
    in_fit: bool
    fallback: bool
    how: str
    reason: str

    @property
    def gain(self) -> float:
        """The score after less the score before."""
        return self.after - self.before


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of test rows before and after, greater being better, with intervals of 95 %."""

    before: float
    after: float
    before_interval: Interval
    after_interval: Interval
    gain_interval: Interval
    n_rows: int

    @property
    def gain(self) -> float:
        """The score after less the score before."""
        return self.after - self.before


@dataclass(frozen=True, kw_only=True)
class Recall:
    """The recall of one class in one group before and after; None where the group has no rows of the class."""

    n_rows: int
    before: float | None
    after: float | None


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rows of one group: how many there are and change, the accuracy, and the recall of every class."""

    name: str
    n_rows: int
    n_changed: int
    accuracy_before: float
    accuracy_after: float
    recalls: tuple[Recall, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Rows of a true class that get a label, before and after: counts, or sums of sample weights."""

    true: int
    predicted: int
    before: float
    after: float

    @property
    def change(self) -> float:
        """After less before."""
        return self.after - self.before


@dataclass(frozen=True, kw_only=True)
class ConfusionChange:
    """The cells of two confusion matrices that are not 0 in both."""

    cells: tuple[Cell, ...]
    weighted: bool


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Rows that went from one label to another; how many became right and wrong, where the truth is known."""

    before: int
    after: int
    n_rows: int
    n_right: int | None
    n_wrong: int | None


@dataclass(frozen=True, kw_only=True)
class ChangedRow:
    """One row that changed its label, with the model's probabilities of both labels."""

    row: int
    true: int | None
    before: int
    after: int
    p_before: float
    p_after: float


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Which rows changed their label: all pairs of labels, the commonest first, and the first rows."""

    n_rows: int
    n_changed: int
    n_right: int | None
    n_wrong: int | None
    pairs: tuple[Pair, ...]
    rows: tuple[ChangedRow, ...]


@dataclass(frozen=True, kw_only=True)
class FunctionWeights:
    """The weight of every class where one basis function is at home; ``n_rows`` is its sum over the rows."""

    basis: str
    name: str
    n_rows: float
    by_class: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of every class, 1 being the middle one, over all rows and in each basis function."""

    by_class: tuple[float, ...]
    functions: tuple[FunctionWeights, ...]


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The share of every class among labels and predictions, and its mean probability by the model."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    by_model: tuple[float, ...]
    validation: tuple[float, ...] | None
    training: tuple[float, ...] | None
    by_model_in_training: tuple[float, ...] | None


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What the model gives to the validation rows of a class: its own, and the other class that it gives most to.

    ``back`` is what rows of the other class get for this one; ``mass`` and ``other_mass`` are the sums of the rows'
    weights.
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
class Rival:
    """An entry of the menu, its score and its weight in the result."""

    name: str
    score: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look at an iterate of the loop of one rule."""

    rule: str
    iteration: int
    metric: float
    step: float | None
    queries: int


@dataclass(frozen=True, kw_only=True)
class Condition:
    """How well the equations of one rule determined its weights; None where that is no finite number."""

    rule: str
    condition: float | None
    rank: int | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that the report shows of a fit.

    Made by :meth:`Facts.of`; :func:`~postshift.report.render` and :func:`~postshift.report.write_report` make a page
    of it, :meth:`to_json` and :meth:`from_json` keep it.

    Attributes
    ----------
    title : str
        The title of the page.
    classes : tuple of str
        The names of the classes.
    metric, verdict, confusion, changes, weights, shares, beliefs, rivals, trace, conditioning
        The parts, each a small frozen dataclass or a tuple of them. ``confusion`` is None where the labels of the
        validation rows are not known.
    refitted : bool
        Whether the model has been fitted again since the labels before and after were made, as after cross-fitting.
        Its probabilities are then of rows that it was fitted to.
    n_queries : int
        Queries put to the metric.
    warnings, notes : tuple of str
        What the fit warned of, and what its rules have to say.
    used, how_to_use, settings, versions : tuple of pairs of str
        About the data; code that uses the model; method, seed and budget; packages and their versions.
    groups : tuple of Group
        Accuracy and recalls in every group of rows, where groups were given.
    test : Scores or None
        The scores of test rows. Then confusion, changes, weights, shares, beliefs and groups are of the test rows;
        verdict, rivals and trace are of the fit in any case.
    fit_metric : Metric or None
        The metric of the fit, where the test rows are scored by another one.

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
    rivals: tuple[Rival, ...]
    trace: tuple[Look, ...]
    conditioning: tuple[Condition, ...]
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
            fit, in the same order (where it was fitted without validation rows, its training rows), or test rows.
        y : array-like, optional
            Their labels. Test rows need them; without them a page about validation rows has no confusion matrices.
        phi : array-like or mapping, optional
            For a PostShifter: the basis functions of these rows, as in its fit.
        y_train, eta_train : array-like, optional
            Labels of the training rows and the model's probabilities of them, for the class shares.
        metric : str, metric, scorer or callable, optional
            For test rows: what to score them by. By default that of the fit.
        metric_name : str, optional
            What to call the metric; by default its own name.
        sample_weight : array-like, optional
            Sample weights of these rows; of validation rows, as in the fit.
        groups : array-like, optional
            The group of every row, for the table of groups and for metrics over groups.
        title : str, optional
            The title of the page.
        used, how_to_use : iterable of pairs of str, optional
            Pairs (label, text) about the data, and (what, code); by default what the estimator itself tells.
        **metadata : array-likes of shape (n,)
            For test rows: what else the metric reads of every row.

        Returns
        -------
        Facts
            All that the report shows.

        Raises
        ------
        InputError
            Where the rows are the training rows of the fit, or the estimator is none of the two.
        ShapeError
            Where the rows are the validation rows of the fit in another order, or labels are missing.
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
        given = {"used": _pairs(used), "how_to_use": _pairs(how_to_use)}
        parts.update((name, pairs) for name, pairs in given.items() if pairs)
        told = dict(parts["used"])  # what the caller tells need not be told twice
        parts["settings"] = tuple(pair for pair in parts["settings"] if pair[0] not in told)
        usual = TITLE if parts["test"] is None else TEST_TITLE
        return cls(title=usual if title is None else title, **parts)

    @property
    def scored(self) -> Verdict | Scores:
        """The scores of the rows that the page is about."""
        return self.verdict if self.test is None else self.test

    @property
    def of_the_fit(self) -> Self:
        """The facts with the metric of the fit: verdict, rivals, trace and weights are by that."""
        return self if self.fit_metric is None else replace(self, metric=self.fit_metric)

    @property
    def sample(self) -> str:
        """What the rows are that the page is about: validation or test."""
        return "validation" if self.test is None else "test"

    def to_json(self) -> str:
        """Return the facts as JSON, with the number of the format."""
        return json.dumps({"format": FORMAT, **plain(self)}, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the facts that ``to_json`` wrote.

        Raises
        ------
        ArchiveError
            Where the text is no such JSON, or of a format that this version does not read.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArchiveError(f"this is no file of facts, or it was cut short: {error}") from error
        found = values.pop("format", None) if isinstance(values, dict) else None
        if found != FORMAT:
            raise ArchiveError(
                f"the facts have format {found!r}; this version of postshift reads format {FORMAT}: "
                "render them with the version that wrote them"
            )
        try:
            return built(cls, values)
        except CONTENT_ERRORS as error:
            raise ArchiveError(f"the facts were damaged or changed after they were written: {error}") from error

    def name(self, position: int | None) -> str:
        """Return the name of a class; of None, that it is not known."""
        return "not known" if position is None else self.classes[position]


def _pairs(given: Iterable[tuple[str, str]]) -> Pairs:
    """Return pairs of texts."""
    return tuple((str(first), str(second)) for first, second in given)
