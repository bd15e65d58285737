"""Table 7: macro F-measure on COMPAS, Adult and Default without noise, in both readings of "macro".

``python -m experiments macro-f``. The mean over protected groups of the positive class's F1, as in Section 6.2 of Jiang
et al. (2020), and the mean over the classes. Groups are known of the validation rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import LINE, MARGIN, dots, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary, table
from experiments.paper.adult.ablation import fitted_labels
from experiments.paper.adult.chosen import CHOICE_FOLDS, CHOICE_ROWS, RATES, Labelled, fweg_by_cv, surrogates_by_cv
from experiments.paper.adult.methods import TunedThreshold
from experiments.paper.adult.splits import (
    RADII,
    C,
    Data,
    Floats,
    Score,
    Setting,
    Task,
    as_task,
    group_of,
    logistic,
    quietly,
)
from experiments.paper.adult.tables import LEGEND
from experiments.paper.macro_f_data import DATA_SETS, SHARES, load_split
from postshift import PostShiftClassifier
from postshift.baselines import CoordinatePlugin
from postshift.datasets import Dataset, Split
from postshift.metrics import from_confusion

GROUPS, CLASSES = "groups", "classes"
UNKNOWN_SD = float("nan")  # the paper gives none
TOLERANCE = 0.01
FWEG, SURROGATES, DEFAULT, BASE = "FW-EG", "adaptive surrogates", "default", "logistic regression"
SEARCH, SMOOTHED, TUNED, PRIOR = "plug-in search", "smoothed plug-in", "tuned threshold", "inverse prior"
BOOSTED = "gradient boosting, plug-in search"
OURS = (FWEG, DEFAULT)


# -- the metrics --------------------------------------------------------------------------------------------


def mean_f1(part: Dataset, *, reading: str) -> Score:
    """Return the mean F1 of class distributions: over groups (of the positive class), or over both classes."""
    everyone, groups = np.ones(len(part.y), dtype=bool), group_of(part)
    if reading == CLASSES or groups is None:
        units = [(everyone, 0), (everyone, 1)]
    else:
        units = [(groups == group, 1) for group in np.unique(groups)]
    counted = [(np.flatnonzero(rows & (part.y == k)), np.flatnonzero(rows), k) for rows, k in units]

    def score(distributions: Floats) -> float:
        values = [
            2 * distributions[own, k].sum() / (distributions[rows, k].sum() + len(own)) for own, rows, k in counted
        ]
        return float(np.mean(values))

    return score


def group_f1(confusion: Floats) -> Floats:
    """Return the mean over two groups of the positive class's F1, of matrices (..., 4, 2); 0 without rows."""
    hits = confusion[..., 1::2, 1]
    total = confusion[..., 0::2, 1] + hits + confusion[..., 1::2, :].sum(axis=-1)
    return np.asarray(np.mean(2 * hits / np.where(total > 0, total, 1), axis=-1))


METRICS: dict[str, Any] = {
    GROUPS: from_confusion(group_f1, name="mean F1 of the groups", stacked=True, n_categories=4),
    CLASSES: "f1_macro",
}


# -- the methods --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """A split, a reading of the metric, and the bases to choose from."""

    split: Split
    reading: str
    bases: tuple[tuple[str, ...], ...]
    seed: int
    quick: bool

    @property
    def metric(self) -> Any:
        """The metric, as the package takes it."""
        return METRICS[self.reading]

    @property
    def groups(self) -> dict[str, Any]:
        """What the metric reads beside labels."""
        return {"groups": group_of(self.split.validation)} if self.reading == GROUPS else {}

    @property
    def data(self) -> Data:
        """The split with its score."""
        score_of = partial(mean_f1, reading=self.reading)
        return Data(task="macro-f", seed=self.seed, split=self.split, score_of=score_of)

    def task(self) -> Task:
        """Return the split with the probabilities of logistic regression, fitted now."""
        return as_task(self.data)

    def fitted(self, model: Any) -> Labelled:
        """Fit a classifier that reads the metric."""
        train, val = self.split.train, self.split.validation
        with quietly():
            model.fit(train.X, train.y, val.X, val.y, **self.groups)
        return Labelled(labels=model.predict(self.split.test.X), queries=int(model.n_queries_))


def by_base(given: Given) -> Labelled:
    """Return the likelier labels."""
    return Labelled(labels=np.argmax(given.task().eta["test"], axis=1))


def by_fweg(given: Given) -> Labelled:
    """Return the paper's method: it asks for values; basis and radius by cross-validation."""
    grid: list[Setting] = [(basis, radius) for basis in given.bases for radius in RADII]
    return fweg_by_cv(given.task(), grid[2:9:6] if given.quick else grid)


def by_surrogates(given: Given) -> Labelled:
    """Return adaptive surrogates, basis and learning rates by cross-validation."""
    return surrogates_by_cv(given.task(), given.bases, quick=given.quick)


def by_tuned(given: Given) -> Labelled:
    """Return scikit-learn's tuned threshold, for the mean over classes."""
    return Labelled(labels=fitted_labels(TunedThreshold(metric="f1_macro"), given.split))


def by_boosting(given: Given) -> Labelled:
    """Return a stronger model than a linear one with its plug-in search: what these features can give."""
    model = HistGradientBoostingClassifier(max_iter=80, learning_rate=0.08, max_leaf_nodes=15, random_state=given.seed)
    return given.fitted(CoordinatePlugin(model, metric=given.metric))


def by_rule(given: Given, *, method: str) -> Labelled:
    """Return a rule of ours, or the choice among them."""
    return given.fitted(PostShiftClassifier(logistic(), metric=given.metric, method=method))


METHODS: dict[str, Callable[[Given], Labelled]] = {
    BASE: by_base,
    PRIOR: partial(by_rule, method="inverse prior"),
    SEARCH: lambda given: given.fitted(CoordinatePlugin(logistic(), metric=given.metric)),
    SMOOTHED: partial(by_rule, method="smoothed plug-in"),
    TUNED: by_tuned,
    BOOSTED: by_boosting,
    SURROGATES: by_surrogates,
    FWEG: by_fweg,
    DEFAULT: partial(by_rule, method="auto"),
}


@lru_cache(maxsize=2)
def cached_split(data_set: str, seed: int, *, quick: bool) -> Split:
    """Return a split; several methods in a row read the same one."""
    return load_split(data_set, seed=seed, quick=quick)


def measure(data_set: str, reading: str, method: str, seed: int, quick: bool) -> Row:
    """Return the test metric of a method."""
    split = cached_split(data_set, seed, quick=quick)
    given = Given(split=split, reading=reading, bases=DATA_SETS[data_set].bases, seed=seed, quick=quick)
    found, seconds = timed(METHODS[method], given)
    return Row(values={"test": given.data.score(found.labels)}, seconds=seconds, queries=found.queries)


# -- the page -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Section:
    """A data set in a reading, and the paper's figures, those of adaptive surrogates and of FW-EG."""

    data_set: str
    reading: str
    title: str
    paper: tuple[float, float] | None = None

    def key(self, method: str) -> str:
        """Return the stored name of a method."""
        return f"{self.data_set}, {self.reading}: {method}"

    @property
    def methods(self) -> list[str]:
        """The methods that apply."""
        left_out = SURROGATES if self.reading == CLASSES else TUNED  # slow, not compared; no metric over groups
        return [method for method in METHODS if method != left_out]


SECTIONS = (
    Section(data_set="COMPAS by race", reading=GROUPS, title="COMPAS, groups by race", paper=(0.629, 0.652)),
    Section(data_set="COMPAS by sex", reading=GROUPS, title="COMPAS, groups by sex", paper=(0.629, 0.652)),
    Section(data_set="Adult", reading=GROUPS, title="Adult, groups by sex", paper=(0.665, 0.670)),
    Section(data_set="Default", reading=GROUPS, title="Default, groups by sex", paper=(0.533, 0.536)),
    Section(data_set="COMPAS by sex", reading=CLASSES, title="COMPAS, mean over classes"),
    Section(data_set="Adult", reading=CLASSES, title="Adult, mean over classes"),
    Section(data_set="Default", reading=CLASSES, title="Default, mean over classes"),
)


def paper_figures() -> Mapping[str, tuple[float, float]]:
    """Return the paper's figures by stored name."""
    return {
        section.key(method): (figure, UNKNOWN_SD)
        for section in SECTIONS
        if section.paper is not None
        for method, figure in zip((SURROGATES, FWEG), section.paper, strict=True)
    }


def compared(results: Results) -> str:
    """Return the table that is the paper's: the mean over groups, both methods, beside our default."""
    lines = []
    for section in SECTIONS:
        if section.paper is None:
            continue
        values = {method: results.values(section.key(method)) for method in (SURROGATES, FWEG, DEFAULT)}
        if all(map(len, values.values())):
            means = {method: summary(each).mean for method, each in values.items()}
            lines.append(
                [
                    section.title,
                    *(f"{mean:.3f}" for mean in means.values()),
                    *(f"{figure:.3f}" for figure in section.paper),
                    *(verdict(means[method] - section.paper[1]) for method in (FWEG, DEFAULT)),
                ]
            )
    head = ["data", SURROGATES, FWEG, DEFAULT, "paper: surrogates", "paper: FW-EG", "FW-EG", "default"]
    return markdown(head, lines) if lines else ""


def reached(results: Results) -> str:
    """Say how often the paper's FW-EG is reached, in one sentence."""
    gaps = {
        method: [
            results.values(section.key(method)).mean() - section.paper[1]
            for section in SECTIONS
            if section.paper is not None and len(results.values(section.key(method)))
        ]
        for method in (FWEG, DEFAULT)
    }
    counts = [f"*{name}* in {sum(g >= -TOLERANCE for g in found)} of {len(found)}" for name, found in gaps.items()]
    return f"The paper's figure for FW-EG is reached by {' and by '.join(counts)} cases."


def verdict(difference: float) -> str:
    """Say whether a mean is within the tolerance of the paper's figure, or above it."""
    return f"{difference:+.3f} ({'reached' if difference >= -TOLERANCE else 'below'})"


ABOUT = f"""There is no noise: training, validation and test rows are random {SHARES} parts of the same data, stratified
by group and label, with one split for each seed. Numeric columns are put into quantile bins of the training rows (age
in Adult: of the file `adult.data`), or one-hot encoded if they have few values. The base model is logistic regression
(C = {C:g}). The paper says only that this table replicates Section 6.2 of Jiang et al. (2020), which averages the F1 of
the positive class over protected groups. We compare this average with the paper. The groups of the validation rows are
known, and only to the metric (sex is a feature of COMPAS; the other groups are not features)."""

HOW = f"""*FW-EG*: psi is unknown; basis and radius are chosen by 5-fold cross-validation. *adaptive surrogates*: basis
and both rates ({RATES[0]:g} or {RATES[1]:g}) are chosen by {CHOICE_FOLDS}-fold cross-validation, with fits to at most
{CHOICE_ROWS:,} training rows; only for the mean over groups. *default*: `PostShiftClassifier`. *plug-in search* and
*smoothed plug-in*: class weights are fitted on the validation rows. *tuned threshold*: scikit-learn's, which has no
metric over groups. *gradient boosting* is a different model: it shows what is possible with these features."""


def which_groups(results: Results) -> str:
    """Say what speaks for one or the other grouping of COMPAS, which the paper does not name."""
    race, sex = SECTIONS[:2]
    by_race = results.values(race.key(FWEG))
    by_sex = {m: results.values(sex.key(m)) for m in sex.methods}
    means = {method: float(values.mean()) for method, values in by_sex.items() if len(values)}
    if not len(by_race) or not means or race.paper is None:
        return ""
    best = max(means, key=means.__getitem__)
    return f"""**The groups of COMPAS.** The paper does not name them, and its figure is {race.paper[1]:.3f}. With
    groups by race (African-American or not), FW-EG scores {by_race.mean():.3f}. With groups by sex, the highest mean of
    all methods is {means[best]:.3f} ({best}), and gradient boosting scores {means.get(BOOSTED, np.nan):.3f}."""


def make_page(results: Results) -> str:
    """Return the page."""
    n_seeds = len(results.seeds)
    about = f"{ABOUT} {n_seeds} {'splits' if n_seeds > 1 else 'split'}."
    parts = [about, "## Comparison with the paper", compared(results)]
    parts += [f'"Reached" means at most {TOLERANCE} below the paper\'s FW-EG.', which_groups(results), HOW, LEGEND]
    for section in SECTIONS:
        methods = [section.key(method) for method in section.methods]
        if any(method in results.methods for method in methods):
            ours = [section.key(method) for method in OURS]
            parts += [f"## {section.title}", table(results, methods=methods, ours=ours, called=called)]
    lead = f"Mean F1 of the positive class over groups of rows, on three data sets without noise. {reached(results)}"
    return whole_page(results, parts, lead=lead)


def called(method: str) -> str:
    """Return a method's name without the data."""
    return method.partition(": ")[2]


PANELS = [
    dots(
        OURS,
        metric=f"{section.title}: F1",
        methods=[section.key(method) for method in section.methods],
        called=called,
        n_columns=2,
    )
    for section in SECTIONS
    if section.paper is not None
]


EXPERIMENT = Experiment(
    name="macro-f",
    title="Macro F-measure without noise (Table 7)",
    methods={
        section.key(method): partial(measure, section.data_set, section.reading, method)
        for section in SECTIONS
        for method in section.methods
    },
    paper=paper_figures(),
    page=make_page,
    figure=side_by_side(*PANELS, size=(6.2, MARGIN + LINE * len(METHODS))),
    config={"C": C, "radii": RADII},
    quick_methods=[
        *(SECTIONS[0].key(method) for method in SECTIONS[0].methods),
        *(SECTIONS[4].key(method) for method in (BASE, SEARCH, SMOOTHED, TUNED)),
    ],
)
