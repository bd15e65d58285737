"""The catalogue: the name of each metric, what it is, and how it is built.

To add a metric, write its class and add one entry to ``METRICS``. To add a gap between groups, write its class and add
it to ``GAPS``. Names are scikit-learn's if it has the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from postshift._validation import unknown
from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics.confusion import Accuracy, CohenKappa, MatthewsCorrelation
from postshift.metrics.gaps import DemographicParityGap, EqualizedOddsGap, EqualOpportunityGap, GapMetric
from postshift.metrics.over_groups import GroupGMean, WorstGroup
from postshift.metrics.rates import BinaryF1, FBeta, Jaccard, MacroF1, Precision, RateMetric, Recall
from postshift.metrics.recalls import BalancedAccuracy, GMean, HMean, MinRecall, QMean

MINUS = " - "
OF_ONE_CLASS = ("n_classes", "positive")
OVER_GROUPS = ("n_groups", "n_classes")


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """What a metric is, and how it is built: ``build`` is called with the keyword arguments named in ``takes``."""

    about: str
    build: Callable[..., DifferentiableMetric]
    takes: tuple[str, ...] = ()

    @property
    def is_of_one_class(self) -> bool:
        """Whether the metric is about a positive class, which may follow its name in brackets."""
        return "positive" in self.takes

    @property
    def is_over_groups(self) -> bool:
        """Whether the metric reads groups of rows."""
        return "n_groups" in self.takes

    def metric(self, **known: Any) -> DifferentiableMetric:
        """Build the metric, given ``n_classes``, the position ``positive`` (or None) and ``n_groups`` as needed."""
        return self.build(**{name: known[name] for name in self.takes})


def _rate(stem: str, kind: Callable[..., RateMetric], about: str) -> dict[str, CatalogueEntry]:
    """Return the entries of a rate: that of the positive class, and its averages over the classes."""
    return {
        stem: CatalogueEntry(
            f"{about}, for the positive of two classes", partial(_of_one_class, stem, kind), OF_ONE_CLASS
        ),
        f"{stem}_macro": CatalogueEntry(
            f"{about}, mean over the classes", MacroF1 if kind is FBeta else partial(kind, average="macro")
        ),
        f"{stem}_macro_present": CatalogueEntry(
            f"{about}, mean over the classes that have rows", partial(kind, average="macro_present")
        ),
        f"{stem}_micro": CatalogueEntry(f"{about}, pooled over the classes", partial(kind, average="micro")),
        f"{stem}_weighted": CatalogueEntry(
            f"{about}, mean over the classes, weighted by their sizes", partial(kind, average="weighted")
        ),
    }


def _of_one_class(stem: str, kind: Callable[..., RateMetric], *, n_classes: int, positive: int | None) -> RateMetric:
    """Return the rate of one class, by default the second of two; with more classes, against the rest."""
    if n_classes == 2:
        positive = 1 if positive is None else positive
        return BinaryF1(positive) if kind is FBeta else kind(average="binary", positive=positive)
    if positive is None:
        raise SettingError(
            f"metric {stem!r} is for two classes, but there are {n_classes}: use '{stem}_macro', or name one class, "
            f"'{stem}[CLASS]'"
        )
    return kind(average="one_vs_rest", positive=positive)


METRICS: dict[str, CatalogueEntry] = {
    "accuracy": CatalogueEntry("share of correct predictions", Accuracy),
    "balanced_accuracy": CatalogueEntry("mean of the recalls", BalancedAccuracy),
    "g_mean": CatalogueEntry("geometric mean of the recalls", GMean),
    "h_mean": CatalogueEntry("harmonic mean of the recalls", HMean),
    "q_mean": CatalogueEntry("1 - RMS of the miss rates", QMean),
    "min_recall": CatalogueEntry("lowest recall", MinRecall),
    "matthews_corrcoef": CatalogueEntry("correlation of true and predicted classes", MatthewsCorrelation),
    "cohen_kappa": CatalogueEntry("agreement above chance", CohenKappa),
    "cohen_kappa_linear": CatalogueEntry(
        "linearly weighted kappa: agreement above chance; the cost of an error is the distance between the classes",
        partial(CohenKappa, "linear"),
    ),
    "cohen_kappa_quadratic": CatalogueEntry(
        "quadratic weighted kappa (QWK): agreement above chance; the cost of an error is the squared distance between "
        "the classes",
        partial(CohenKappa, "quadratic"),
    ),
    **_rate("f1", FBeta, "harmonic mean of precision and recall"),
    **_rate("precision", Precision, "share of the predictions of a class that are correct"),
    **_rate("recall", Recall, "share of the rows of a class that are found"),
    **_rate(
        "jaccard", Jaccard, "share of correct predictions among the rows that belong to a class or are predicted as it"
    ),
    "group_g_mean": CatalogueEntry(
        "geometric mean of the recalls of all (group, class) pairs", GroupGMean, OVER_GROUPS
    ),
    "worst_group_accuracy": CatalogueEntry("lowest accuracy of a group", partial(WorstGroup, "accuracy"), OVER_GROUPS),
    "worst_group_balanced_accuracy": CatalogueEntry(
        "lowest mean recall of a group", partial(WorstGroup, "balanced_accuracy"), OVER_GROUPS
    ),
    "worst_group_g_mean": CatalogueEntry(
        "lowest geometric mean of the recalls of a group", partial(WorstGroup, "g_mean"), OVER_GROUPS
    ),
}
USUAL_NAMES = {  # that people use elsewhere: the error for an unknown name suggests ours
    "qwk": "cohen_kappa_quadratic",
    "quadratic_kappa": "cohen_kappa_quadratic",
    "quadratic_weighted_kappa": "cohen_kappa_quadratic",
    "linear_kappa": "cohen_kappa_linear",
    "linear_weighted_kappa": "cohen_kappa_linear",
}
GAPS: dict[str, type[GapMetric]] = {
    gap.name: gap for gap in (DemographicParityGap, EqualOpportunityGap, EqualizedOddsGap)
}


def metric_catalogue() -> Mapping[str, str]:
    """Return the names that ``metric_named`` knows, each with a short description.

    In ``"accuracy - demographic_parity"`` and the names like it, any metric of the classes may replace the accuracy,
    and the gap may have a strength: ``"f1_macro - 0.5 * demographic_parity"``. A metric of one class and a gap may name
    the class: ``"recall[yes]"``, ``"accuracy - equal_opportunity[yes]"``.

    Examples
    --------
    >>> metric_catalogue()["g_mean"]
    'geometric mean of the recalls'
    """
    gaps = {f"accuracy{MINUS}{name}": f"a metric minus the largest {gap.about}" for name, gap in GAPS.items()}
    return {name: entry.about for name, entry in METRICS.items()} | gaps


def find_metric(name: str, *, label: str | None = None, with_gap: bool = False) -> CatalogueEntry:
    """Return the entry of a metric.

    Raise if the name is unknown, if a metric over groups has a gap subtracted from it (``with_gap``), or if a metric
    that is not about one class has a class in brackets (``label``).
    """
    entry = METRICS.get(name)
    if entry is None or (with_gap and entry.is_over_groups):
        of_classes = [each for each, entry in METRICS.items() if not entry.is_over_groups]
        known = of_classes if with_gap else metric_catalogue()
        raise SettingError(unknown(name, known, what="metric", usual=USUAL_NAMES))
    if label is not None and not entry.is_of_one_class:
        instead = ", ".join(f"{each}[{label}]" for each, entry in METRICS.items() if entry.is_of_one_class)
        raise SettingError(f"metric {name!r} is not about one class: leave [{label}] out, or use one of {instead}")
    return entry
