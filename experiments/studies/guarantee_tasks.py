"""The tasks of the guarantee: populations of finite size, metrics and constraints.

A task has rows without labels, which make the path of rules, and a population, from which labelled rows are drawn with
replacement. So the value of a constraint on the population is its true value. No row is in both, and the model was
fitted to other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from experiments.paper.macro_f_data import adult_by_sex, compas_by_race, default_by_sex
from experiments.studies.menu_tasks import load_task, softmax_regression
from experiments.studies.verdict_settings import Setting
from postshift import Rows
from postshift.constraints import Value
from postshift.constraints.terms import read_constraints
from postshift.core.rows import CONSTANT, PHI
from postshift.estimators.subject_to import SubjectTo
from postshift.metrics import ExpectedCost, resolve_metric
from postshift.rules.certified import make_path
from postshift.rules.constrained_program import ConstrainedProgram, Expectation, RateObjective
from postshift.rules.posterior import Identity

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

SIZES, DELTAS = (300, 1_000, 5_000), (0.05, 0.1)
N_UNLABELLED = 10_000  # rows that test how often classes are predicted
N_TRAIN, N_MAKING, MAX_POPULATION = 10_000, 5_000, 15_000


# -- rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Probabilities, labels and groups of rows."""

    eta: Floats
    labels: Ints
    groups: Ints | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.eta.shape[1]

    @property
    def phi(self) -> Floats | None:
        """The groups as a basis, so that rules may differ by group."""
        return None if self.groups is None else np.eye(self.groups.max() + 1)[self.groups]

    def take(self, places: Any) -> Sample:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[places]
        return Sample(eta=self.eta[places], labels=self.labels[places], groups=groups)

    def rows(self) -> Rows:
        """Return the rows as rules read them, without labels."""
        phi = self.phi
        return Rows.of(self.eta, bases={} if phi is None else {PHI: phi})


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """The rows that make the path, and the population."""

    making: Sample
    population: Sample


def halves(sample: Sample, n_making: int) -> Source:
    """Return the first rows to make the path, and the others as the population."""
    return Source(
        making=sample.take(slice(n_making)), population=sample.take(slice(n_making, n_making + MAX_POPULATION))
    )


def modelled(X: Any, y: Any, groups: Any, *, n_train: int, n_making: int) -> Source:
    """Return a source whose model is a softmax regression on some of the rows."""
    order = np.random.default_rng(0).permutation(len(y))
    train, others = order[:n_train], order[n_train:]
    eta = softmax_regression().fit(X[train], y[train]).predict_proba(X[others])
    sample = Sample(eta=eta, labels=y[others].astype(np.intp), groups=None if groups is None else groups[others])
    return halves(sample, n_making)


@cache
def adult() -> Source:
    """Return Adult; the groups are men and women."""
    data = adult_by_sex()
    return modelled(data.X, data.y, data.groups["sex"], n_train=N_TRAIN, n_making=N_MAKING)


@cache
def default() -> Source:
    """Return Default."""
    data = default_by_sex()
    return modelled(data.X, data.y, None, n_train=N_TRAIN, n_making=N_MAKING)


@cache
def compas() -> Source:
    """Return COMPAS; the groups are African-Americans and all others."""
    data = compas_by_race()
    return modelled(data.X, data.y, data.groups["race"], n_train=2_000, n_making=1_500)


@cache
def digits() -> Source:
    """Return digits; in training every digit is a quarter rarer than the one before, and the model is a forest."""
    return of_menu("digits_long_tail")


@cache
def occupation() -> Source:
    """Return Adult, occupation in four groups, with wrong training labels near the boundary."""
    return of_menu("adult_occupation")


def of_menu(name: str) -> Source:
    """Return a task of the study of the menu: its validation rows make the path."""
    data = load_task(name, split=0)
    making = Sample(eta=data.eta_val, labels=data.y_val)
    return Source(making=making, population=Sample(eta=data.eta_test, labels=data.y_test))


def synthetic(**how: Any) -> Source:
    """Return normal clouds around points of a circle; the probabilities are true, but for a shift."""
    drawn = Setting(name="", metric="accuracy", **how).draw(N_MAKING + MAX_POPULATION, np.random.default_rng(0))
    return halves(Sample(eta=drawn.eta, labels=drawn.labels, groups=drawn.groups), N_MAKING)


@cache
def five_classes() -> Source:
    """Return five imbalanced classes."""
    return synthetic(prior=(0.5, 0.2, 0.15, 0.1, 0.05), apart=2.0)


@cache
def ten_classes() -> Source:
    """Return ten classes with probabilities that are too high for half of the classes."""
    return spoilt(synthetic(prior=(0.1,) * 10, apart=5.0, shift=(0.8, -0.8) * 5))


@cache
def three_classes() -> Source:
    """Return three classes in two groups, of which one is harder to tell."""
    return synthetic(prior=(0.5, 0.3, 0.2), apart=1.6, far=(1.0, 0.7))


@cache
def spoilt_adult() -> Source:
    """Return Adult with wrong probabilities."""
    return spoilt(adult())


def spoilt(source: Source) -> Source:
    """Return a source with wrong probabilities: twice too sure, noisy, and too high for the last class."""
    return Source(making=_spoilt(source.making, 1), population=_spoilt(source.population, 2))


def _spoilt(sample: Sample, seed: int) -> Sample:
    """Return rows with wrong probabilities."""
    noise = np.random.default_rng(seed).normal(size=sample.eta.shape)
    logits = 2 * np.log(np.maximum(sample.eta, 1e-9)) + noise
    logits[:, -1] += 1.5
    return replace(sample, eta=softmax(logits, axis=1))


def without_groups(source: Callable[[], Source]) -> Source:
    """Return a source without its groups."""
    found = source()
    return Source(making=replace(found.making, groups=None), population=replace(found.population, groups=None))


# -- tasks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A metric to maximise, and constraints.

    Attributes
    ----------
    source : callable
        Returns the rows.
    metric : str
        A name of the catalogue.
    subject_to : tuple
        The constraints, as estimators take them.
    about : str
        What stands on the page.
    rival : tuple of (str, float)
        The risks that MAPIE controls, with their levels; empty if it cannot serve the task.
    """

    source: Callable[[], Source]
    metric: str
    subject_to: tuple[Any, ...]
    about: str
    rival: tuple[tuple[str, float], ...] = ()

    @property
    def n_groups(self) -> int | None:
        """Number of groups, None if there are none."""
        groups = self.source().population.groups
        return None if groups is None else int(groups.max()) + 1

    @property
    def limits(self) -> SubjectTo:
        """The constraints for the classes and groups of the rows."""
        groups = None if self.n_groups is None else np.arange(self.n_groups)
        classes = np.arange(self.source().population.n_classes)
        return SubjectTo.of(read_constraints(list(self.subject_to)), classes=classes, groups=groups, pos_label=None)

    @property
    def resolved(self) -> Any:
        """The metric, as a function of the confusion matrix of the constraints."""
        n_classes = self.source().population.n_classes
        return self.limits.pooled(resolve_metric(self.metric, classes=np.arange(n_classes)), n_classes)

    def path(self, making: Sample, *, n_rows: int, delta: float) -> list[Any]:
        """Return the path that a fit makes from rows without labels."""
        basis = CONSTANT if making.groups is None else PHI
        rows, limits = making.rows().over(basis), self.limits
        expectation = Expectation.of(rows, making.groups, n_groups=limits.n_groups)
        program = ConstrainedProgram(expectation, RateObjective.of(self.resolved), limits.constraints)
        return make_path(program, basis=basis, posterior=Identity(), n_rows=n_rows, delta=delta)


ONE_ADULT = partial(without_groups, adult)
TEN_COSTS = 1.0 - np.eye(10) + np.triu(np.ones((10, 10)), 1)  # a class that is too high costs twice as much
TASKS = {
    "Adult, recall": Task(
        source=ONE_ADULT,
        metric="precision",
        subject_to=("recall >= 0.9",),
        about="precision given recall >= 0.9",
        rival=(("recall", 0.9),),
    ),
    "Adult, precision": Task(
        source=ONE_ADULT,
        metric="recall",
        subject_to=("precision >= 0.7",),
        about="recall given precision >= 0.7",
        rival=(("precision", 0.7),),
    ),
    "Adult, wrong probabilities": Task(
        source=partial(without_groups, spoilt_adult),
        metric="recall",
        subject_to=("precision >= 0.7",),
        about="the same; probabilities are too sure, noisy and too high",
        rival=(("precision", 0.7),),
    ),
    "Adult, rate": Task(
        source=ONE_ADULT,
        metric="accuracy",
        subject_to=("rate <= 0.15",),
        about="accuracy given rate <= 0.15",
        rival=(("predicted_positive_fraction", 0.15),),
    ),
    "Adult, parity": Task(
        source=adult,
        metric="accuracy",
        subject_to=("demographic_parity <= 0.1",),
        about="accuracy given demographic_parity <= 0.1, by sex",
    ),
    "Default, F1": Task(
        source=default,
        metric="accuracy",
        subject_to=("f1 >= 0.45",),
        about="accuracy given f1 >= 0.45",
        rival=(("jaccard", 0.45 / 1.55),),
    ),
    "Default, two": Task(
        source=default,
        metric="accuracy",
        subject_to=("recall >= 0.5", "precision >= 0.4"),
        about="accuracy given recall >= 0.5 and precision >= 0.4",
        rival=(("recall", 0.5), ("precision", 0.4)),
    ),
    "COMPAS, opportunity": Task(
        source=compas,
        metric="accuracy",
        subject_to=("equal_opportunity <= 0.15",),
        about="accuracy given equal_opportunity <= 0.15, by race",
    ),
    "COMPAS, odds": Task(
        source=compas,
        metric="accuracy",
        subject_to=("equalized_odds <= 0.2",),
        about="accuracy given equalized_odds <= 0.2, by race",
    ),
    "5 classes, recall": Task(
        source=five_classes,
        metric="accuracy",
        subject_to=("recall[4] >= 0.7",),
        about="accuracy given recall >= 0.7 of the rarest class",
    ),
    "5 classes, three": Task(
        source=five_classes,
        metric="balanced_accuracy",
        subject_to=("recall[3] >= 0.7", "precision[4] >= 0.4", "rate[0] >= 0.42"),
        about="balanced accuracy given recall[3] >= 0.7, precision[4] >= 0.4 and rate[0] >= 0.42",
    ),
    "10 classes, cost": Task(
        source=ten_classes,
        metric="recall[9]",
        subject_to=(Value(ExpectedCost(TEN_COSTS)) <= 0.35,),
        about="recall of a class given a cost <= 0.35; probabilities are wrong",
    ),
    "digits, minimum": Task(
        source=digits,
        metric="accuracy",
        subject_to=("min_recall >= 0.5",),
        about="accuracy given min_recall >= 0.5; some digits were rare in training",
    ),
    "occupation, recall": Task(
        source=occupation,
        metric="accuracy",
        subject_to=("recall[3] >= 0.5",),
        about="Adult, 4 classes: accuracy given recall >= 0.5 of the rarest class; wrong labels",
    ),
    "3 classes, opportunity": Task(
        source=three_classes,
        metric="accuracy",
        subject_to=("equal_opportunity <= 0.15",),
        about="accuracy given equal_opportunity <= 0.15 in every class, two groups",
    ),
}
