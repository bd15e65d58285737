"""The problem that a rule is fitted to: training rows, validation rows, and a metric or an oracle."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_rows, read_only
from postshift.core.plugin import onehot
from postshift.core.psi import (
    ConfusionMetric,
    DifferentiableMetric,
    check_classes,
    has_count_slopes,
    maximised,
    value_of,
    value_of_counts,
)
from postshift.core.queries import Fit, Kind, KindName, Query, asking, kind_named
from postshift.core.rows import Posterior, Rows
from postshift.core.sums import (
    Engine,
    categories_of,
    label_confusions,
    missing_categories,
    occurring_counts,
    weighted_confusions,
)
from postshift.engines.memory import MemoryEngine
from postshift.exceptions import LabelError, MetricError, MissingClassWarning, ShapeError
from postshift.rules.posterior import Stack, fit_stack


@dataclass(frozen=True, eq=False)
class FilledIn:
    """A metric that needs every class, for rows that lack some classes: the recall of these counts as 1.

    The metrics of this library leave such classes out themselves (``skips_absent``).
    """

    inner: Any
    missing: IntArray
    n_classes: int

    @property
    def name(self) -> str:
        """The metric's name."""
        return str(self.inner.name)

    @property
    def weighting(self) -> str:
        """The entries of the confusion matrix that the metric depends on."""
        return str(self.inner.weighting)

    @property
    def n_categories(self) -> int:
        """Rows of the matrix."""
        return int(getattr(self.inner, "n_categories", self.n_classes))

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the metric of the filled-in matrix."""
        return np.asarray(self.inner.value(self._filled(confusion)))

    def _filled(self, confusion: FloatArray) -> FloatArray:
        """Return the matrix with a tiny weight on the diagonal of the missing rows."""
        filled = np.array(confusion)
        filled[..., self.missing, self.missing % self.n_classes] = 1e-12
        return filled


class FilledInDifferentiable(FilledIn):
    """The same for a metric that has a gradient."""

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the metric's gradient; it is 0 in the missing rows."""
        slopes = np.array(self.inner.gradient(self._filled(confusion)))
        slopes[self.missing] = 0
        return slopes


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Training and validation rows and the metric.

    Build it with :meth:`labelled` (a psi of the confusion matrix, and labels) or :meth:`queried` (an oracle scores
    soft or hard predictions).
    """

    train: Rows | None
    val: Rows
    kind: Kind
    metric: ConfusionMetric | None = None
    categories: IntArray | None = field(default=None, repr=False)
    takes_subsets: bool = False
    scale: float = 1.0
    rows: IntArray | None = field(default=None, repr=False)  # which of all validation rows these are; None: all
    n_total: int | None = None
    n_groups: int = 1  # of the categories, if the metric only returns scores
    counted: FloatArray | None = field(default=None, repr=False)  # of how many rows each is; None: of one

    @classmethod
    def labelled(cls, train: Rows | None, val: Rows, metric: ConfusionMetric, *, groups: Any = None) -> Problem:
        """Return a problem with validation labels; ``groups`` (n_val,) are for group-wise metrics.

        The metric is maximised; a cost is minimised, and its scores are negative.

        Classes without validation rows give a warning, unless eta is sparse. A metric of the recalls then uses the
        recalls of the other classes.
        """
        train, val = _checked_sides(train, val)
        if isinstance(metric, type) or not isinstance(metric, ConfusionMetric):
            raise MetricError(
                f"metric must be a function of the confusion matrix (GMean(), MacroF1(), ...). Got {metric!r} instead"
            )
        check_classes(metric, n_classes=val.n_classes)
        metric = maximised(metric)
        if val.labels is None:
            raise LabelError("a labelled problem needs validation labels: pass labels=... to Rows.of")
        size = {"n_classes": val.n_classes, "n_categories": int(getattr(metric, "n_categories", val.n_classes))}
        categories = categories_of(val.labels, groups, **size)
        if val.is_sparse:  # of very many classes, some have no rows, and eta tells of them
            _check_sparse(metric)
        elif missing := missing_categories(categories, val.row_weights, **size):
            warnings.warn(f"{missing}: these rows say nothing about it", MissingClassWarning, stacklevel=2)
        scale = float(getattr(metric, "scale", 1.0))
        kind = kind_named("confusion")
        return cls(train=train, val=val, kind=kind, metric=metric, categories=categories, scale=scale)

    @classmethod
    def queried(
        cls,
        train: Rows | None,
        val: Rows,
        *,
        kind: KindName,
        takes_subsets: bool = False,
        scale: float = 1.0,
        reads_labels: bool = False,
        metric: ConfusionMetric | None = None,
    ) -> Problem:
        """Return a problem that only returns scores of predictions, or confusion matrices, of which ``metric`` is psi.

        ``takes_subsets`` says that the oracle also scores predictions of some of the rows (``query.rows``). ``scale``
        is the width of the metric's range, 1 for shares of rows. Differences below the noise, which is computed from
        the number of rows and this scale, are not trusted. ``reads_labels`` lets rules such as the stack read the
        labels of ``val``; otherwise they are dropped.
        """
        train, val = _checked_sides(train, val)
        if not reads_labels:
            val = replace(val, labels=None)
        found = kind_named(kind)
        if found.matrices != (metric is not None):
            raise MetricError(f"queries of kind {kind!r} need {'a' if found.matrices else 'no'} metric of the matrix")
        psi = None if metric is None else maximised(metric)
        return cls(train=train, val=val, kind=found, metric=psi, takes_subsets=takes_subsets, scale=scale)

    def counting(self, groups: IntArray | None, *, n_groups: int) -> Problem:
        """Return a problem that only returns scores, but counts rows by group and class, for its constraints.

        Rows without labels count as rows of the first class: counts by predicted class are right all the same.
        """
        labels = np.zeros(self.val.n_rows, dtype=np.intp) if self.val.labels is None else self.val.labels
        size = {"n_classes": self.n_classes, "n_categories": n_groups * self.n_classes}
        return replace(self, categories=categories_of(labels, groups, **size), n_groups=n_groups)

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return self.val.n_classes

    @property
    def train_or_val(self) -> Rows:
        """The training rows; without them, the validation rows serve as both."""
        return self.val if self.train is None else self.train

    @property
    def is_labelled(self) -> bool:
        """Whether the metric and the labels are available, so that no query is needed."""
        return self.metric is not None and self.categories is not None

    @property
    def row_weights(self) -> FloatArray:
        """Validation weights that sum to 1."""
        return np.asarray(self.val.row_weights / self.val.row_weights.sum())

    @property
    def n_categories(self) -> int:
        """Rows of the confusion matrix: the classes, or (group, class) pairs."""
        return int(getattr(self.metric, "n_categories", self.n_groups * self.n_classes))

    @cached_property
    def counts(self) -> FloatArray:
        """Number of validation rows of each category; rows of weight 0 do not count, borrowed rows count in part."""
        counted = self.fractions if self.val.weights is None else self.fractions * (self.val.weights > 0)
        return np.bincount(self._categories, weights=counted, minlength=self.n_categories).astype(np.float64)

    @property
    def fractions(self) -> FloatArray:
        """How many rows each validation row counts as: 1, or less for a borrowed row."""
        return np.ones(self.val.n_rows) if self.counted is None else self.counted

    @property
    def strata(self) -> IntArray:
        """The values that folds are stratified by: the categories, else the labels, else None."""
        if self.categories is not None:
            return self.categories
        return np.zeros(self.val.n_rows, dtype=np.intp) if self.val.labels is None else self.val.labels

    @property
    def looked_at(self) -> ConfusionMetric | None:
        """The metric that a loop optimises; None if only its scores are known."""
        return self.fitting_metric if self.is_labelled else self.metric

    @property
    def fitting_metric(self) -> ConfusionMetric:
        """The metric that rules optimise; a minimum is replaced by a smooth metric."""
        smoothed = getattr(self.metric, "smoothed", None)
        return self.scoring_metric if smoothed is None else smoothed(self.counts)

    @property
    def scoring_metric(self) -> ConfusionMetric:
        """The metric as it can be computed on these rows: a fold may lack a class whose recall the metric needs."""
        metric = self.metric
        if metric is None:
            raise MetricError("this problem only returns scores; the metric itself is not available")
        needs_all = getattr(metric, "needs_every_class", False) and not getattr(metric, "skips_absent", False)
        missing = np.flatnonzero(self.counts == 0) if needs_all else np.array([], dtype=np.intp)
        if len(missing) == 0:
            return metric
        kind = FilledInDifferentiable if isinstance(metric, DifferentiableMetric) else FilledIn
        return kind(metric, missing, self.n_classes)

    def confusion(self, distribution: FloatArray) -> FloatArray:
        """Return the confusion matrix (R, m) of class distributions on the validation rows."""
        weights = self.row_weights[:, None]
        found = weighted_confusions(weights, self._categories, distribution, n_categories=self.n_categories)
        return np.asarray(found[0])

    def label_confusion(self, labels: IntArray) -> FloatArray:
        """Return the confusion matrix (R, m) of deterministic labels on the validation rows."""
        cells = self._categories * self.n_classes + labels
        counted = np.bincount(cells, weights=self.val.weights, minlength=self.n_categories * self.n_classes)
        return np.asarray(counted.reshape(self.n_categories, -1) / counted.sum())

    def label_confusions(self, weights: FloatArray, labels: IntArray) -> FloatArray:
        """Return the confusion matrices (B, R, m) of labels, for weights (B, n) of the validation rows."""
        size = {"n_categories": self.n_categories, "n_classes": self.n_classes}
        return label_confusions(weights, self._categories, labels, **size)

    def confusion_rows(self, order: IntArray | slice) -> tuple[IntArray, FloatArray]:
        """Return category and share of weight of the validation rows, in this order."""
        return self._categories[order], self.row_weights[order]

    def label_values(self, weights: FloatArray, categories: IntArray, labels: IntArray) -> FloatArray:
        """Return the metric (B,) of labels of rows with these categories, for weights (B, n) that sum to 1.

        With sparse rows it is computed by counts of the classes that occur: no confusion matrix is made.
        """
        if self.val.is_sparse:
            return self.metric_of_counts(*occurring_counts(weights, categories, labels)[1])
        size = {"n_categories": self.n_categories, "n_classes": self.n_classes}
        return self.metric_of(label_confusions(weights, categories, labels, **size))

    def metric_of_counts(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return the metric of the counts (..., k) of the classes that occur; the others add nothing."""
        metric = self.scoring_metric
        assert has_count_slopes(metric)  # noqa: S101 -- ``labelled`` checks it
        share = hits.shape[-1] / self.n_classes if metric.is_mean_over_all else 1.0
        return share * value_of_counts(metric, hits, true, predicted)

    def metric_of(self, confusions: FloatArray) -> FloatArray:
        """Return the metric of a stack of confusion matrices."""
        return value_of(self.scoring_metric, np.maximum(confusions, 0))

    def scores(self, distributions: Sequence[FloatArray]) -> Fit[list[float]]:
        """Return the score of class distributions (n, m); if the labels are not available, ask for it."""
        if self.is_labelled:
            return [float(self.metric_of(self.confusion(each))) for each in distributions]
        shown = "these predictions" if self.kind.soft else "these labels"
        text = f"the score of {shown}"
        asked = [self._query(f"score.{place}", text, each) for place, each in enumerate(distributions)]
        answers = yield [self.about(query) for query in asked]
        return [float(answer if self.metric is None else value_of(self.metric, answer[0])) for answer in answers]

    def label_scores(self, labels: Sequence[IntArray]) -> Fit[list[float]]:
        """Return the score of deterministic labels; if the true labels are available, count rows."""
        if self.val.is_sparse:
            return [float(self.label_values(self.row_weights[None], self._categories, each)[0]) for each in labels]
        if self.is_labelled:
            return [float(self.metric_of(self.label_confusion(each))) for each in labels]
        return (yield from self.scores([onehot(each, n_classes=self.n_classes) for each in labels]))

    def _query(self, key: str, text: str, distribution: FloatArray) -> Query:
        """Return a query about class distributions, in the form that the oracle takes."""
        shown, n_rows = self.kind.shown(distribution), self.val.n_rows
        matrix: dict[str, Any] = {}
        if self.metric is not None:
            columns = self.matrix_columns
            matrix = {"columns": columns, "shape": (columns.shape[1], self.n_categories, self.n_classes)}
        return Query(key=key, kind=self.kind.name, text=text, n_rows=n_rows, **matrix, _predict=lambda: shown)

    @cached_property
    def matrix_columns(self) -> FloatArray:
        """Ones and the user's basis: the columns of the loop's queries too, so that none is asked twice."""
        phi = self.val.functions(list(self.val.bases)[-1])
        return np.asarray(read_only(np.column_stack([np.ones(self.val.n_rows), phi])))

    def about(self, query: Query) -> Query:
        """Return a query about these rows as a query about rows of the whole sample."""
        return query if self.rows is None else query.restricted(self.rows, n_rows=self.n_total or len(self.rows))

    def asking(self, fit: Fit[Any], *, as_rule: Callable[[Any], Any]) -> Fit[Any]:
        """Pass on the queries of a fit, and the rules that it scores if it is fitted to all rows."""
        if self.is_labelled:
            return fit
        return asking(fit, about=self.about, as_rule=as_rule if self.rows is None else None)

    def held(self, basis: str) -> Engine | None:
        """Return the engine that holds the validation rows with their categories, or None if only scores are known."""
        return engine_over(self._counted, basis, n_categories=self.n_categories) if self.is_labelled else None

    @cached_property
    def _counted(self) -> Rows:
        """The validation rows, with their categories as labels."""
        return replace(self.val, labels=self._categories)

    def with_eta(self, posterior: Posterior) -> Problem:
        """Return the problem with eta replaced by a posterior, in training and validation rows."""
        train = None if self.train is None else self.train.through(posterior)
        return replace(self, train=train, val=self.val.through(posterior))

    def digest(self) -> str:
        """Return a digest of everything that the answers depend on; it matches a journal to its problem."""
        about = f"{self.kind.name}/{float(self.scale)!r}/{bool(self.takes_subsets)}/{self.n_total}"
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        parts: dict[str, Any] = {"categories": self.categories, "rows": self.rows}
        for side, rows in (("train", self.train), ("val", self.val)):
            if rows is not None:
                parts |= {f"{side}/{name}": getattr(rows, name) for name in ("eta", "labels", "weights")}
                parts |= {f"{side}/basis {name}": phi for name, phi in rows.bases.items()}
                parts[f"{side}/rows"] = np.array(rows.n_total)
        for name, array in parts.items():
            if array is not None:
                kind = f"{name!r}/{array.dtype.str}/{array.shape}"
                digest.update(kind.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @cached_property
    def stacked(self) -> tuple[Stack, Problem]:
        """The stack fitted to the validation labels, and the problem with its posterior; fitted once for all rules."""
        if self.val.labels is None:
            raise LabelError("the stack needs validation labels: give them, or choose another rule")
        stack = fit_stack(self.val.eta, self.val.labels, self.val.weights)
        return stack, self.with_eta(stack)

    def take(self, rows: IntArray) -> Problem:
        """Return the problem on some of the validation rows."""
        if not self.is_labelled and not self.takes_subsets:
            raise MetricError("this oracle only scores all validation rows at once, so they cannot be split into folds")
        of_all = rows if self.rows is None else self.rows[rows]
        categories = None if self.categories is None else self.categories[rows]
        return replace(
            self,
            val=self.val.take(rows),
            categories=categories,
            rows=of_all,
            n_total=self.n_total or self.val.n_rows,
            counted=None if self.counted is None else self.counted[rows],
        )

    def few_rows(self, n_rows: int) -> Problem:
        """Return the problem on at most ``n_rows`` random rows of each side (fixed seed); without labels, unchanged."""
        if not self.is_labelled:
            return self
        few = self if self.val.n_rows <= n_rows else self.take(_drawn(self.val.n_rows, n_rows))
        if few.train is None or few.train.n_total <= n_rows:
            return few
        train = few.train.in_memory()
        return replace(few, train=train if train.n_rows <= n_rows else train.take(_drawn(train.n_rows, n_rows)))

    @property
    def _categories(self) -> IntArray:
        """The category of every validation row; raises an error if only scores are known."""
        if self.categories is None:
            raise MetricError("this problem only returns scores; the labels are not available")
        return self.categories


def engine_over(rows: Rows, basis: str, *, n_categories: int | None = None) -> Engine:
    """Return the engine of all rows over one basis; it is made once for all rules."""
    if basis not in rows.engines:
        if rows.whole is None:
            rows.engines[basis] = MemoryEngine(rows.over(basis), n_categories=n_categories)
        else:
            rows.engines[basis] = rows.whole.engine(basis)
    engine: Engine = rows.engines[basis]
    return engine


def _check_sparse(metric: ConfusionMetric) -> None:
    """Raise if a metric cannot be computed for sparse rows."""
    if not has_count_slopes(metric) or hasattr(metric, "smoothed") or hasattr(metric, "n_categories"):
        raise MetricError(
            f"metric {metric.name!r} cannot be used with sparse eta, which needs a metric of the hits, rows and "
            "predictions of all classes: use 'f1_macro', 'balanced_accuracy', 'g_mean', 'accuracy' or another average "
            "of recall, precision, F1 or Jaccard; or give eta.toarray() if memory allows"
        )


def _drawn(n_rows: int, size: int) -> IntArray:
    """Return a random sample of the rows with a fixed seed, in their order."""
    return np.sort(np.random.default_rng(0).choice(n_rows, size=size, replace=False))


def _checked_sides(train: Rows | None, val: Rows) -> tuple[Rows | None, Rows]:
    """Return both samples with weights of mean 1; raise if their classes or bases differ."""
    check_rows(val.n_rows, name="validation")
    if train is None:
        return None, val.relative()
    check_rows(train.n_rows, name="training")
    shapes = [{name: phi.shape[1] for name, phi in side.bases.items()} for side in (train, val)]
    if train.is_sparse != val.is_sparse:
        raise ShapeError("training and validation rows must both be sparse or both be dense")
    if train.n_classes != val.n_classes or shapes[0] != shapes[1]:
        raise ShapeError(
            f"training and validation rows must have the same classes and bases. Got {train.n_classes} classes with "
            f"bases {shapes[0]} and {val.n_classes} classes with bases {shapes[1]}"
        )
    return train.relative(), val.relative()
