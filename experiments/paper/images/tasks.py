"""A split of photographs as the methods that post-shift a network see it: probabilities, labels, bases, the metric."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold

from experiments.paper.adult.chosen import Labelled
from experiments.paper.images.embeddings import nearness
from experiments.paper.images.splits import PARTS
from postshift import MemoryEngine, PostShifter, Rows, fw_eg
from postshift.metrics import SoftOracle, from_predictions

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]
Places = NDArray[np.intp]  # of rows in a part
Setting = tuple[str, float, float]  # basis, radius, ridge of the equations

CONSTANT = "constant"
RADII = (1.0, 0.4, 0.1, 0.01, 0.001, 0.0001)  # the paper's grid
RADIUS = 0.1
N_FOLDS = 5  # of the choice by cross-validation
RIDGES = (1e-8, 1e-7, 1e-6, 1e-5)  # of the equations, at that radius: many averages of kernels are nearly the same


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageTask:
    """One split with a network's probabilities.

    ``places`` are the coordinates in which the Gaussian kernels of the bases are taken, and ``groupings`` say by which
    groups of validation rows they are averaged: a basis has the name of its grouping, or is the constant one. For the
    bases ``with_constant`` the paper's method has the constant function beside the averages.
    """

    eta: Mapping[str, Floats]
    labels: Mapping[str, Labels]
    metric: Any
    places: Mapping[str, NDArray[Any]]
    groupings: Mapping[str, Labels]
    seed: int
    quick: bool = False
    with_constant: Collection[str] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.eta["train"].shape[1])

    @property
    def waited(self) -> float:
        """The processor time that the coordinates have taken so far, where they are made when they are read."""
        return getattr(self.places, "seconds", 0.0)

    @property
    def n_val(self) -> int:
        """Number of validation rows."""
        return len(self.labels["validation"])

    def settings(self, bases: Sequence[str], radii: Sequence[float], ridges: Sequence[float]) -> list[Setting]:
        """Return the settings to choose among: every radius, and the ridges at one; two of either in a quick look."""
        tried = slice(2 if self.quick else None)
        without = product(bases, radii[tried], [0.0])
        return [*without, *product([each for each in bases if each != CONSTANT], [RADIUS], ridges[tried])]

    def value(self, part: str, table: Any, rows: Places | slice = slice(None)) -> float:
        """Return the metric of labels or of class distributions of some rows of a part."""
        found = np.asarray(table)
        given = np.eye(self.n_classes)[found] if found.ndim == 1 else found
        truth = np.eye(self.n_classes)[self.labels[part][rows]]
        return float(self.metric.value(truth.T @ given / len(given)))

    def view(self, basis: str, kept: Places | None = None) -> View:
        """Return the task over a basis whose points are some of the validation rows, all by default."""
        rows = np.arange(self.n_val) if kept is None else kept
        if basis == CONSTANT:
            return View(task=self, kept=rows, functions=dict.fromkeys(PARTS))
        points = self.places["validation"][rows]
        found = nearness(points, self.groupings[basis][rows])
        functions: dict[str, Any] = {part: found.transform(self.places[part]) for part in PARTS}
        functions["validation"][rows] = found.on_fit_rows(points)
        return View(task=self, kept=rows, functions=functions, with_constant=basis in self.with_constant)


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A task over one basis: ``functions`` of every part, None where they are constant, and the rows to fit to.

    The last function is the complement of the others' sum. Our rules need it; the paper's method does without, as
    averages of clipped kernels are above 0 everywhere, and a function of next to no rows spoils its equations.
    """

    task: ImageTask
    kept: Places
    functions: Mapping[str, Floats | None]
    with_constant: bool = False

    @cached_property
    def engine(self) -> MemoryEngine:
        """The training rows."""
        return MemoryEngine(self.rows("train", labels=True))

    def rows(self, part: str, rows: Places | slice = slice(None), *, labels: bool = False) -> Rows:
        """Return some rows of a part."""
        functions = self.functions[part]
        return Rows.of(
            self.task.eta[part][rows],
            phi=None if functions is None else self._averages(functions)[rows],
            labels=self.task.labels[part][rows] if labels else None,
        )

    def _averages(self, functions: Floats) -> Floats:
        """Return the functions of the paper's method."""
        found = functions[:, :-1]
        return np.column_stack([np.ones(len(found)), found]) if self.with_constant else found

    def fit(
        self, *, radius: float, max_iter: int, ridge: float = 0.0, known: bool = False, weighting: str = "diagonal"
    ) -> Any:
        """Return FW-EG (PI-EW with one iteration) fitted to the kept rows, from values only or from psi itself."""
        task, engine = self.task, self.engine
        options: dict[str, Any] = {"radius": radius, "max_iter": max_iter, "ridge": ridge, "weighting": weighting}
        if known:
            rows = self.rows("validation", self.kept, labels=True)
            return fw_eg(engine, rows, task.metric, linearise="gradient", **options)
        oracle = SoftOracle(lambda table: task.value("validation", table, self.kept))
        return fw_eg(engine, self.rows("validation", self.kept), oracle, **options)

    def predicted(self, found: Any, part: str, rows: Places | slice = slice(None)) -> Labels:
        """Return the deterministic labels of a fit."""
        shown = self.rows(part, rows)
        return np.asarray(found.mixture.labels(shown.eta, shown.phi))


Method = Callable[[ImageTask], Labelled]


# -- the paper's method -------------------------------------------------------------------------------------


def plain(**options: Any) -> Method:
    """Return PI-EW or FW-EG with the constant basis and a radius given beforehand, fitted to all validation rows."""

    def run(task: ImageTask) -> Labelled:
        view = task.view(CONSTANT)
        found = view.fit(**{"radius": RADIUS, "max_iter": 1, **options})
        return Labelled(labels=view.predicted(found, "test"), queries=found.n_queries)

    return run


def by_halves(
    bases: Sequence[str], radii: Sequence[float] = RADII, ridges: Sequence[float] = (), **options: Any
) -> Method:
    """Return PI-EW or FW-EG as the authors' program has it: half of the rows for the fit, half for choosing."""

    def run(task: ImageTask) -> Labelled:
        kept, left = halves(task)
        views = {basis: task.view(basis, kept) for basis in bases}
        fits = {
            each: views[each[0]].fit(radius=each[1], ridge=each[2], **options)
            for each in task.settings(bases, radii, ridges)
        }
        scores = {
            each: task.value("validation", views[each[0]].predicted(found, "validation", left), left)
            for each, found in fits.items()
        }
        best = max(scores, key=scores.__getitem__)
        return Labelled(
            labels=views[best[0]].predicted(fits[best], "test"),
            queries=sum(found.n_queries for found in fits.values()) + len(fits),
            setting=_stored(best),
        )

    return run


def by_folds(
    bases: Sequence[str],
    radii: Sequence[float] = RADII,
    ridges: Sequence[float] = (),
    **options: Any,
) -> Method:
    """Return PI-EW or FW-EG with basis and radius by cross-validation, then fitted to all validation rows."""

    def run(task: ImageTask) -> Labelled:
        settings, n_queries = task.settings(bases, radii, ridges), 0
        pooled = {setting: np.zeros(task.n_val, dtype=np.intp) for setting in settings}
        for kept, left in folds(task, N_FOLDS):
            views = {basis: task.view(basis, kept) for basis in bases}
            for setting in settings:
                basis, radius, ridge = setting
                found = views[basis].fit(radius=radius, ridge=ridge, **options)
                pooled[setting][left] = views[basis].predicted(found, "validation", left)
                n_queries += found.n_queries
        best = max(settings, key=lambda setting: task.value("validation", pooled[setting]))
        view = task.view(best[0])
        found = view.fit(radius=best[1], ridge=best[2], **options)
        return Labelled(
            labels=view.predicted(found, "test"),
            queries=n_queries + len(settings) + found.n_queries,
            setting=_stored(best),
        )

    return run


def _stored(setting: Setting) -> dict[str, Any]:
    """Return a setting as it is stored."""
    return dict(zip(("basis", "radius", "ridge"), setting, strict=True))


def halves(task: ImageTask) -> tuple[Places, Places]:
    """Return the validation rows in two halves with the same shares of every class."""
    return folds(task, 2)[0]


def folds(task: ImageTask, n_folds: int) -> list[tuple[Places, Places]]:
    """Return the rows to fit to and those left out, for each fold, stratified by class."""
    labels = task.labels["validation"]
    found = StratifiedKFold(n_folds, shuffle=True, random_state=task.seed).split(labels[:, None], labels)
    return list(found)


# -- our rules ----------------------------------------------------------------------------------------------


def ours(method: str, bases: Sequence[str] = (), *, by_queries: bool = False) -> Method:
    """Return a rule of the menu or the choice among them; by queries, it sees values of the metric only."""

    def run(task: ImageTask) -> Labelled:
        views = {basis: task.view(basis) for basis in bases}
        phi = {part: {name: view.functions[part] for name, view in views.items()} or None for part in PARTS}
        metric, labels = task.metric, task.labels["validation"]
        if by_queries:
            metric, labels = from_predictions(_asked(task), soft=True, name="a secret"), None
        shifter = PostShifter(metric, method=method, random_state=task.seed)
        shifter.fit(
            task.eta["validation"],
            labels,
            task.eta["train"],
            task.labels["train"],
            phi["validation"],
            phi["train"],
        )
        return Labelled(labels=shifter.predict(task.eta["test"], phi["test"]), queries=shifter.n_queries_)

    return run


def _asked(task: ImageTask) -> Callable[[Floats], float]:
    """Return the metric of class distributions of the validation rows."""
    return lambda table: task.value("validation", table)


# -- rivals that take a model of probabilities ---------------------------------------------------------------


class Known(ClassifierMixin, BaseEstimator):
    """A model whose rows are probabilities already."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(self, X: Any, y: Any = None) -> Known:  # noqa: ARG002
        """Learn nothing."""
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the rows."""
        return np.asarray(X)


def rival(make: Callable[[Any, ImageTask], Any]) -> Method:
    """Return a baseline made of the network, taken as it is, and of the task."""

    def run(task: ImageTask) -> Labelled:
        network = FrozenEstimator(Known(task.n_classes).fit(task.eta["train"]))
        model = make(network, task)
        model.fit(task.eta["train"], task.labels["train"], task.eta["validation"], task.labels["validation"])
        return Labelled(labels=model.predict(task.eta["test"]), queries=getattr(model, "n_queries_", 0))

    return run


def likeliest(task: ImageTask) -> Labelled:
    """Return the network's own labels."""
    return Labelled(labels=np.argmax(task.eta["test"], axis=1))
