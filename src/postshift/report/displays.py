"""The figures of the report for notebooks, with matplotlib, in the manner of scikit-learn's displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import column_or_1d

from postshift._installing import needed
from postshift._validation import FloatArray
from postshift.estimators.model import positions
from postshift.estimators.records import HistoryRecord
from postshift.exceptions import LabelError, SettingError, ShapeError
from postshift.report import counts, gather
from postshift.report.facts import Weights
from postshift.report.formats import amount, factor
from postshift.rules.frontier import Frontier

_BAR = 0.8  # total height of the bars of one class
_STYLES = ("-", "--", ":", "-.")
_LONGEST = 60  # letters of a name
_LETTER, _LINE = 0.09, 0.28  # inches: the width of a letter, and the height of a line
_TITLES = {"change": "after minus before", "before": "before", "after": "after"}


class WeightsDisplay:
    """The weight of every class, over all rows or under every basis function, as bars on a log scale.

    Use :meth:`from_estimator` to create one; the numbers are those of the report.

    Parameters
    ----------
    weights : mapping of str to array of shape (m,)
        The weights over all rows, or under the name of each basis function.
    classes : sequence of str
        Names of the classes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The axes of the drawing, and their figure.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from postshift.report import WeightsDisplay
    >>> display = WeightsDisplay({"all rows": [0.5, 1.0, 4.0]}, ["cat", "dog", "owl"]).plot()
    >>> display.ax_.get_xscale()
    'log'
    """

    def __init__(self, weights: Mapping[str, Any], classes: Sequence[str]) -> None:
        self.weights = {name: np.asarray(values, dtype=np.float64) for name, values in weights.items()}
        self.classes = list(classes)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, phi: Any = None, ax: Any = None, **kw: Any) -> Self:
        """Draw the weights of a fitted estimator on some rows.

        Parameters
        ----------
        estimator : PostShifter or PostShiftClassifier
            Fitted.
        X : array-like
            Rows: probabilities for a PostShifter, features for a PostShiftClassifier.
        phi : array-like or mapping, optional
            For a PostShifter: the basis functions of these rows, as in its fit.
        ax, **kw
            See :meth:`plot`.
        """
        gather.check_estimator(estimator)
        found = gather.weights_facts(estimator, gather.table_of(estimator, X, phi), phi)
        return cls(_named(found), gather.class_names(estimator)).plot(ax, **kw)

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw on ``ax``, by default in a new figure; ``kw`` is passed to ``Axes.barh``."""
        self.ax_, self.figure_ = _axes(ax, names=self.classes, lines=len(self.classes) * len(self.weights))
        height = _BAR / len(self.weights)
        places = np.arange(len(self.classes))
        for k, (name, values) in enumerate(self.weights.items()):
            shift = (k - (len(self.weights) - 1) / 2) * height
            bars = self.ax_.barh(places + shift, values - 1, height=height, left=1, label=name, **kw)
            if len(self.weights) == 1:
                self.ax_.bar_label(bars, [factor(value) for value in values], padding=3)
        self.ax_.axvline(1, color="0.3", linewidth=1)
        self.ax_.set(xscale="log", xlabel="weight (the median is 1)", ylabel="class")
        _plain_log_axis(self.ax_.xaxis)
        self.ax_.margins(x=0.2)  # space for the numbers at the ends of the bars
        self.ax_.set_yticks(places, _shown(self.classes), parse_math=False)
        self.ax_.invert_yaxis()
        if len(self.weights) > 1:
            _legend(self.ax_)
        return self


class HistoryDisplay:
    """The metric at every iteration, one line for every rule with a Frank-Wolfe loop.

    Use :meth:`from_estimator` to create one; costs are drawn without their minus, so lower is better.

    Parameters
    ----------
    looks : sequence of HistoryRecord
        The iterations of all rules.
    metric : str
        The name of the metric.
    by_query : bool, default=False
        Whether to draw against queries instead of iterations.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The axes of the drawing, and their figure.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from postshift.report import HistoryDisplay
    >>> from postshift.estimators import HistoryRecord
    >>> looks = [HistoryRecord(rule="paper", iteration=k, metric=k / 4, step=None, queries=0) for k in range(3)]
    >>> HistoryDisplay(looks, "g_mean").plot().ax_.get_xlabel()
    'iteration'
    """

    def __init__(self, looks: Sequence[HistoryRecord], metric: str, *, by_query: bool = False) -> None:
        self.looks = tuple(looks)
        self.metric = metric
        self.by_query = by_query

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Any = None, **kw: Any) -> Self:
        """Draw the history of a fitted PostShifter or PostShiftClassifier; for ``ax`` and ``kw`` see :meth:`plot`."""
        gather.check_estimator(estimator)
        metric, looks = gather.metric_facts(estimator, None), tuple(estimator.history_)
        if metric.is_cost:
            looks = tuple(replace(look, metric=-look.metric) for look in looks)
        return cls(looks, metric.name, by_query=estimator.n_queries_ > 0).plot(ax, **kw)

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw on ``ax``, by default in a new figure; ``kw`` is passed to ``Axes.plot``."""
        self.ax_, self.figure_ = _axes(ax)
        rules = list(dict.fromkeys(look.rule for look in self.looks))
        for k, rule in enumerate(rules):
            own = [look for look in self.looks if look.rule == rule]
            along = [look.queries if self.by_query else look.iteration for look in own]
            style = {"marker": ".", "linestyle": _STYLES[k % len(_STYLES)], "label": rule, **kw}
            self.ax_.plot(along, [look.metric for look in own], **style)
        self.ax_.set(xlabel="queries" if self.by_query else "iteration", ylabel=self.metric)
        self.ax_.yaxis.label.set_parse_math(False)
        if rules:
            _legend(self.ax_)
        else:
            self.ax_.set_title("no rule of the result has a Frank-Wolfe loop")
        return self


class ConfusionChangeDisplay:
    """The confusion matrix after minus the one before; purple is better (more hits, fewer errors), orange is worse.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one.

    Parameters
    ----------
    before, after : array of shape (m, m)
        Confusion matrices; rows are true classes.
    classes : sequence of str
        Names of the classes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The axes of the drawing, and their figure.
    im_ : matplotlib AxesImage
        The heat map. For the change, the numbers of errors have a minus.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from postshift.report import ConfusionChangeDisplay
    >>> display = ConfusionChangeDisplay.from_predictions(["a", "b", "b"], ["a", "a", "b"], ["a", "b", "b"])
    >>> display.change.tolist()
    [[0.0, 0.0], [-1.0, 1.0]]
    """

    def __init__(self, before: Any, after: Any, classes: Sequence[str]) -> None:
        self.before = np.asarray(before, dtype=np.float64)
        self.after = np.asarray(after, dtype=np.float64)
        self.classes = list(classes)

    @property
    def change(self) -> FloatArray:
        """After minus before."""
        return self.after - self.before

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        phi: Any = None,
        sample_weight: Any = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Draw the changes by an estimator: on the validation rows held out of its fit, or on other rows.

        Parameters
        ----------
        estimator : PostShifter or PostShiftClassifier
            Fitted.
        X, y : array-like, optional
            Other rows and their labels. Without X, the validation rows held out of the fit are shown, and ``y`` has the
            labels of all validation rows, because the estimator does not keep them.
        phi : array-like or mapping, optional
            For a PostShifter: the basis functions of X.
        sample_weight : array-like, optional
            Weights of the rows.
        ax, **kw
            See :meth:`plot`.
        """
        gather.check_estimator(estimator)
        if y is None:
            raise LabelError(
                "the true labels are needed: give y, the labels of X or, without X, of the validation rows of the fit"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if X is None:
            gather.check_number_of_rows(estimator, y, what="without X, y")
            held = estimator.held_out_
            codes, before, after = gather.codes_of(estimator, y)[held.rows], held.base_labels, held.labels
            weights = None if weights is None else weights[held.rows]
        else:
            table = gather.table_of(estimator, X, phi)
            codes = gather.codes_of(estimator, y, n_rows=table.n_rows)
            before, after = gather.both_labels(estimator, table)
        return cls._of(codes, before, after, gather.class_names(estimator), weights).plot(ax, **kw)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        before: Any,
        after: Any,
        *,
        labels: Any = None,
        sample_weight: Any = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Draw the change between two predictions of the same rows.

        Parameters
        ----------
        y_true, before, after : array-like of shape (n,)
            True labels, and predictions before and after.
        labels : array-like, optional
            The classes, in their order; by default all classes that occur, sorted.
        sample_weight : array-like, optional
            Weights of the rows.
        ax, **kw
            See :meth:`plot`.
        """
        given = [column_or_1d(each) for each in (y_true, before, after)]
        if len({len(each) for each in given}) > 1:
            raise ShapeError(f"y_true, before and after must have the same length. Got {[len(each) for each in given]}")
        classes = np.unique(np.concatenate(given)) if labels is None else np.asarray(labels)
        names = ("y_true", "before", "after")
        codes, first, second = (
            positions(each, classes, name=n, what="labels") for each, n in zip(given, names, strict=True)
        )
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return cls._of(codes, first, second, [str(each) for each in classes.tolist()], weights).plot(ax, **kw)

    @classmethod
    def _of(cls, codes: Any, before: Any, after: Any, classes: Sequence[str], weights: Any) -> Self:
        """Return the display of positions."""
        how: dict[str, Any] = {"n_classes": len(classes), "weights": weights}
        return cls(counts.confusion(codes, before, **how), counts.confusion(codes, after, **how), classes)

    def plot(self, ax: Any = None, *, show: str = "change", include_values: bool = True, **kw: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        show : {"change", "before", "after"}, default="change"
            Which matrix to draw.
        include_values : bool, default=True
            Whether to write the numbers into the cells.
        **kw
            Passed to ``Axes.imshow``.
        """
        if show not in _TITLES:
            raise SettingError(f"show must be 'change', 'before' or 'after'. Got {show!r} instead")
        self.ax_, self.figure_ = _axes(ax, names=self.classes, lines=len(self.classes), square=True)
        matrix: FloatArray = getattr(self, show)
        signed = show == "change"
        largest = float(np.abs(matrix).max()) or 1.0
        style = {"cmap": "PuOr" if signed else "Blues", "vmin": -largest if signed else 0, "vmax": largest, **kw}
        hits = np.eye(len(matrix), dtype=bool)
        self.im_ = self.ax_.imshow(np.where(hits, matrix, -matrix) if signed else matrix, **style)
        places, names = np.arange(len(self.classes)), _shown(self.classes)
        turned = "vertical" if max(map(len, names)) > 3 else None
        self.ax_.set(xlabel="predicted", ylabel="true", title=_TITLES[show])
        self.ax_.set_xticks(places, names, rotation=turned, parse_math=False)
        self.ax_.set_yticks(places, names, parse_math=False)
        if include_values:
            for i, j in np.argwhere(matrix != 0):
                dark = abs(matrix[i, j]) > 0.6 * largest
                text = amount(float(matrix[i, j]), signed=signed)
                self.ax_.text(j, i, text, ha="center", va="center", color="white" if dark else "black")
        return self


class FrontierDisplay:
    """The best metric for each bound of a constraint; certified bounds are filled.

    Use :meth:`from_frontier` to create one.

    Parameters
    ----------
    frontier : Frontier
        The result of :func:`postshift.frontier`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The axes of the drawing, and their figure.

    Examples
    --------
    >>> import matplotlib, numpy as np, postshift
    >>> matplotlib.use("agg")
    >>> from postshift.report import FrontierDisplay
    >>> p = np.random.default_rng(0).beta(1, 4, size=500)
    >>> y = (np.random.default_rng(1).random(500) < p).astype(int)
    >>> eta = np.column_stack([1 - p, p])
    >>> found = postshift.frontier(None, eta, y, metric="precision", subject_to="recall >= 0.5", bounds=[0.4, 0.6])
    >>> FrontierDisplay.from_frontier(found).ax_.get_xlabel()
    'recall >= bound'
    """

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier

    @classmethod
    def from_frontier(cls, frontier: Frontier, ax: Any = None, **kw: Any) -> Self:
        """Draw a frontier; for ``ax`` and ``kw`` see :meth:`plot`."""
        return cls(frontier).plot(ax, **kw)

    def plot(self, ax: Any = None, *, expected: bool = True, **kw: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        expected : bool, default=True
            Whether to draw the expected metric too.
        **kw
            Passed to ``Axes.plot`` for the metric on labelled rows.
        """
        self.ax_, self.figure_ = _axes(ax)
        found = self.frontier
        bounds = np.array([point.bound for point in found.points])
        values = np.array([point.metric for point in found.points])
        (line,) = self.ax_.plot(bounds, values, **{"label": f"on {found.n_rows:,} labelled rows", **kw})
        if expected:
            means = [point.expected_metric for point in found.points]
            self.ax_.plot(bounds, means, linestyle="--", color="0.5", label="expected")
        certified = np.array([bool(point.certified) for point in found.points])
        for filled in (True, False) if found.confidence is not None else ():
            name = "certified" if filled else "not certified"
            some = certified == filled
            face = line.get_color() if filled else "white"
            self.ax_.plot(bounds[some], values[some], "o", color=line.get_color(), markerfacecolor=face, label=name)
        self.ax_.set(xlabel=f"{found.constraint} {found.sense} bound", ylabel=found.metric)
        self.ax_.xaxis.label.set_parse_math(False)
        self.ax_.yaxis.label.set_parse_math(False)
        if found.sense == "<=":
            self.ax_.invert_xaxis()  # strict bounds are on the right
        _legend(self.ax_)
        return self


def _named(weights: Weights) -> dict[str, tuple[float, ...]]:
    """Return the weights under the names of the basis functions; over all rows if there are none."""
    if not weights.functions:
        return {"all rows": weights.by_class}
    found = {f.name: f.by_class for f in weights.functions}
    if len(found) < len(weights.functions):  # two bases have a function of the same name
        found = {f"{f.basis}: {f.name}": f.by_class for f in weights.functions}
    return found


def _legend(ax: Any) -> None:
    """Draw the legend; dollar signs in names do not start formulas."""
    for text in ax.legend().get_texts():
        text.set_parse_math(False)


def _plain_log_axis(axis: Any) -> None:
    """Set the ticks of an axis to 0.1, 0.2, 0.5, 1, ..."""
    ticker = needed("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_locator(ticker.NullLocator())


def _shown(names: Sequence[str]) -> list[str]:
    """Return names that leave space for the figure; long ones are cut in the middle."""
    return [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 15]}…{name[-14:]}" for name in names]


def _axes(ax: Any, *, names: Sequence[str] = (), lines: int = 0, square: bool = False) -> tuple[Any, Any]:
    """Return axes and their figure; new ones, large enough for names and lines, if none are given."""
    pyplot = needed("matplotlib.pyplot")
    if ax is None:
        beside = _LETTER * max(map(len, _shown(names)), default=0)
        width, height = pyplot.rcParams["figure.figsize"]
        size = max(width, beside + (_LINE * lines if square else width / 2)), max(height, _LINE * lines)
        _, ax = pyplot.subplots(figsize=(size[0], size[1] + (beside if square else 0)), layout="constrained")
    return ax, ax.figure
