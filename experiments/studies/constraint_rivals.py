"""What constrained fits are compared with: a search of weights, fairlearn and OxonFair.

fairlearn and OxonFair are imported when they are used: ``pip install -e '.[rivals]'``. All get the same
probabilities and the same validation rows. ``ExponentiatedGradient`` retrains: it gets a logistic regression, the
features, and the training rows beside the validation rows, unless the groups of the training rows are hidden.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from experiments.studies.constraint_tasks import Draw, Floats, Ints, Sample

NAIVE, THRESHOLDS, GRADIENT, OXONFAIR = (
    "tuned weights",
    "ThresholdOptimizer",
    "ExponentiatedGradient",
    "OxonFair",
)
SCALES = np.repeat([0.3, 1.0, 2.0], 100)  # of log weights that are drawn
STEPS = ((0.5, 8), (0.5, 4), (0.1, 6), (0.02, 6))  # of log weights: how far apart, and how many on each side
PENALTY = 5.0  # of a unit of a missed bound
FAIR_CONSTRAINTS = {"demographic_parity": "demographic_parity", "equal_opportunity": "true_positive_rate_parity"}
FAIR_OBJECTIVES = {"accuracy": "accuracy_score", "balanced_accuracy": "balanced_accuracy_score"}

Chances = Callable[[Sample], Floats]  # of rows: the chances (n, m) of labels


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A method of another library: the package it needs, which tasks it has an entry for, and its fit."""

    package: str
    suits: Callable[[Draw], bool]
    fit: Callable[[Draw], Chances]

    @property
    def is_installed(self) -> bool:
        """Whether the package is there."""
        return find_spec(self.package) is not None


# -- a search of weights on the labelled rows ---------------------------------------------------------------


def tune_weights(draw: Draw) -> Chances:
    """Search class weights on the validation rows: the best of all tried that meets the bounds there.

    Weights are drawn at random; from the best, the search goes on coordinate by coordinate, by the metric less a
    penalty.
    """
    phi, rng = _basis(draw, draw.val), np.random.default_rng(0)
    shape = phi.shape[1], draw.n_classes
    tried = [_Tried.of(draw, phi, scale * rng.normal(size=shape)) for scale in (0.0, *SCALES)]
    here = max(tried, key=lambda each: each.penalised)
    for step, reach in STEPS:
        for place in _coordinates(here.log_weights):
            moves = step * np.arange(-reach, reach + 1)
            found = [_Tried.of(draw, phi, _moved(here.log_weights, place, move)) for move in moves]
            here = max([here, *found], key=lambda each: each.penalised)
            tried += found
    best = max(tried, key=lambda each: (-each.missed, each.objective))
    return lambda sample: np.eye(draw.n_classes)[_labels(sample, _basis(draw, sample), best.log_weights)]


@dataclass(frozen=True, eq=False)
class _Tried:
    """Weights, the metric on the validation rows, and the sum of the missed bounds."""

    log_weights: Floats
    objective: float
    missed: float

    @classmethod
    def of(cls, draw: Draw, phi: Floats, log_weights: Floats) -> _Tried:
        """Return what weights give."""
        found = draw.judged(draw.confusion(draw.val, _labels(draw.val, phi, log_weights)))
        objective = found.pop("objective")
        return cls(log_weights, objective, sum(max(miss, 0.0) for miss in found.values()))

    @property
    def penalised(self) -> float:
        """The metric, less a penalty for missed bounds."""
        return self.objective - PENALTY * self.missed


def _moved(log_weights: Floats, place: tuple[int, int], move: float) -> Floats:
    """Return weights of which one is moved."""
    found = log_weights.copy()
    found[place] += move
    return found


def _coordinates(log_weights: Floats) -> Iterator[tuple[int, int]]:
    """Yield the places of weights; those of the first class stay 1."""
    yield from ((each, label) for each in range(len(log_weights)) for label in range(1, log_weights.shape[1]))


def _labels(sample: Sample, phi: Floats, log_weights: Floats) -> Ints:
    """Return the labels of the plug-in rule of weights."""
    return np.asarray((sample.eta * (phi @ np.exp(log_weights))).argmax(axis=1), dtype=np.intp)


def _basis(draw: Draw, sample: Sample) -> Floats:
    """Return the basis functions; without groups a constant."""
    phi = draw.basis(sample)
    return np.ones((len(sample.y), 1)) if phi is None else phi


# -- fairlearn ----------------------------------------------------------------------------------------------


class Prefit(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model whose features are its probabilities."""

    def fit(self, X: Any, y: Any) -> Prefit:  # noqa: ARG002
        """Do nothing."""
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities."""
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True


def optimise_thresholds(draw: Draw) -> Chances:
    """Fit fairlearn's ThresholdOptimizer to the model's probabilities; its labels are randomised."""
    from fairlearn.postprocessing import ThresholdOptimizer

    (bounded,) = draw.constraints
    found = ThresholdOptimizer(
        estimator=Prefit(),
        constraints=FAIR_CONSTRAINTS[bounded.constraint.term.metric],
        objective=FAIR_OBJECTIVES[draw.task.metric],
        prefit=True,
        predict_method="predict_proba",
        tol=bounded.constraint.bound,
    )
    found.fit(draw.val.eta, draw.val.y, sensitive_features=draw.val.groups)
    return lambda sample: np.asarray(found._pmf_predict(sample.eta, sensitive_features=sample.groups))  # noqa: SLF001


def exponentiated_gradient(draw: Draw) -> Chances:
    """Fit fairlearn's ExponentiatedGradient over logistic regressions; its labels are randomised.

    fairlearn bounds the difference of a group to all rows: of two groups, the smaller one is the farther away.
    """
    from fairlearn.reductions import DemographicParity, ErrorRate, ExponentiatedGradient, TruePositiveRateParity

    (bounded,) = draw.constraints
    samples = [draw.val] if draw.task.groups == "hidden" else [draw.train, draw.val]
    X, y, groups = _features(draw, samples), _joined(samples, "y"), _joined(samples, "groups")
    parity = bounded.constraint.term.metric == "demographic_parity"
    share = np.mean(groups if parity else groups[y == 1])
    limit = bounded.constraint.bound * max(share, 1 - share)
    positives = y.mean() if draw.task.metric == "balanced_accuracy" else 0.5
    costs = {"fp": min(1.0, positives / (1 - positives)), "fn": min(1.0, (1 - positives) / positives)}
    found = ExponentiatedGradient(
        LogisticRegression(max_iter=2000),
        constraints=(DemographicParity if parity else TruePositiveRateParity)(difference_bound=limit),
        objective=ErrorRate(costs=costs),
    )
    found.fit(X, y, sensitive_features=groups)
    return lambda sample: np.asarray(found._pmf_predict(_features(draw, [sample])))  # noqa: SLF001


def _features(draw: Draw, samples: list[Sample]) -> Floats:
    """Return the model's features and, if they are known, the groups."""
    X = _joined(samples, "X")
    return X if draw.task.groups == "hidden" else np.column_stack([X, _joined(samples, "groups")])


def _joined(samples: list[Sample], name: str) -> Any:
    """Return an array of all samples."""
    return np.concatenate([getattr(sample, name) for sample in samples])


# -- OxonFair -----------------------------------------------------------------------------------------------


def oxonfair(draw: Draw) -> Chances:
    """Fit OxonFair's FairPredictor; hidden groups are inferred by a logistic regression on the basis functions."""
    from oxonfair import FairPredictor
    from oxonfair.utils import group_metrics

    (bounded,) = draw.constraints
    metric = {"rate": "pos_pred_rate"}.get(bounded.constraint.term.metric, bounded.constraint.term.metric)
    inferred: Any = False
    if draw.task.groups == "hidden":
        inferred = _GroupsOfBasis(LogisticRegression().fit(draw.val.basis, draw.val.groups))
    found = FairPredictor(_first_columns, _as_dict(draw, draw.val, fitting=True), inferred_groups=inferred, threshold=0)
    found.fit(
        getattr(group_metrics, draw.task.metric),
        getattr(group_metrics, metric),
        bounded.constraint.bound,
        greater_is_better_const=bounded.constraint.sense == ">=",
    )
    return lambda sample: np.eye(2)[np.asarray(found.predict(_as_dict(draw, sample, fitting=False)), dtype=np.intp)]


def _first_columns(data: Any) -> Any:
    """Return the probabilities, which are the first two columns."""
    return np.array(data[:, :2])


@dataclass(frozen=True)
class _GroupsOfBasis:
    """A model of the groups that reads the basis functions, which are the columns after the probabilities."""

    model: Any

    def predict_proba(self, data: Any) -> Any:
        """Return the chances of the groups."""
        return self.model.predict_proba(data[:, 2:])


def _as_dict(draw: Draw, sample: Sample, *, fitting: bool) -> dict[str, Any]:
    """Return rows in OxonFair's form; hidden groups are given for the fit only."""
    hidden = draw.task.groups == "hidden"
    found = {"target": sample.y, "data": np.column_stack([sample.eta, sample.basis]) if hidden else sample.eta}
    if draw.is_grouped and (fitting or not hidden):
        found["groups"] = sample.groups
    return found


# -- all ----------------------------------------------------------------------------------------------------


def _has_one_bound_of_two_classes(draw: Draw) -> bool:
    return draw.n_classes == 2 and len(draw.constraints) == 1


RIVALS = {
    THRESHOLDS: Rival(package="fairlearn", suits=lambda draw: draw.task.groups == "known", fit=optimise_thresholds),
    GRADIENT: Rival(package="fairlearn", suits=lambda draw: draw.is_grouped, fit=exponentiated_gradient),
    OXONFAIR: Rival(package="oxonfair", suits=_has_one_bound_of_two_classes, fit=oxonfair),
}


def quietly(fit: Callable[[Draw], Chances]) -> Callable[[Draw], Chances]:
    """Return a fit without its warnings."""

    def fitted(draw: Draw) -> Chances:
        with warnings.catch_warnings(action="ignore"):
            return fit(draw)

    return fitted
