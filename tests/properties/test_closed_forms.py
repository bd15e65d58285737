"""What must come out exactly: closed forms, optimal plug-ins, the Frank-Wolfe bound."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from postshift import Rows, fw_eg, pi_ew
from postshift.metrics import Accuracy, ExpectedReward
from tests.problems import make_problem, problems


@given(problem=problems(bases=("overlapping",), max_bases=1, min_radius=0.01))
def test_constant_basis_and_accuracy_give_the_ratio_of_the_priors(problem):
    """PI-EW: alpha_i = (prior_val_i + c) / prior_train_i with one c for all classes, whatever the radius."""
    fit = pi_ew(problem.train, problem.val, Accuracy(), radius=problem.radius)
    train, val = (
        np.bincount(part.labels, weights=part.row_weights) / part.row_weights.sum()
        for part in (problem.train, problem.val)
    )
    constants = fit.mixture.members[0].alpha[0] * train - val
    np.testing.assert_allclose(constants, constants[0], atol=1e-9)


def finite_distribution(seed, *, n_points=12, n_classes=3):
    """All pairs (x, y) of a finite distribution, weighted by their probability; eta is exact."""
    rng = np.random.default_rng(seed)
    eta, mass = rng.dirichlet(np.ones(n_classes), size=n_points), rng.dirichlet(np.ones(n_points))
    rows = Rows.of(
        np.repeat(eta, n_classes, axis=0),
        labels=np.tile(np.arange(n_classes), n_points),
        weights=(mass[:, None] * eta).reshape(-1),
    )
    return eta, mass, rows


@pytest.mark.parametrize("weighting", ["diagonal", "full"])
@given(seed=st.integers(0, 10**6))
def test_linear_metric_gives_the_bayes_rule(weighting, seed):
    """On a linear metric the plug-in is argmax_j sum_i L_ij eta_i at every point (finite distribution, exact eta)."""
    eta, mass, rows = finite_distribution(seed)
    reward = np.random.default_rng(seed + 1).uniform(0.2, 1, size=(3, 3))
    if weighting == "diagonal":
        reward = np.diag(np.diag(reward))
    fit = pi_ew(rows, rows, ExpectedReward(reward), weighting=weighting, radius=0.5)
    expected = float(mass @ (eta @ reward).max(axis=1))
    assert fit.score == pytest.approx(expected, rel=1e-9)


def test_noisy_training_labels_on_a_linear_metric():
    """Training labels flipped by a known T, exact noisy eta: full weights still find the clean Bayes rule."""
    eta, mass, clean = finite_distribution(3, n_points=15)
    transition = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
    noisy_eta = eta @ transition
    noisy = Rows.of(
        np.repeat(noisy_eta, 3, axis=0),
        labels=np.tile(np.arange(3), 15),
        weights=(mass[:, None] * noisy_eta).reshape(-1),
    )
    val = Rows.of(np.repeat(noisy_eta, 3, axis=0), labels=clean.labels, weights=clean.weights)
    best = float(mass @ eta.max(axis=1))
    assert pi_ew(noisy, val, Accuracy(), weighting="full").score == pytest.approx(best, rel=1e-9)
    assert pi_ew(noisy, val, Accuracy()).score <= best + 1e-12


@dataclass(frozen=True)
class SquaredMiss:
    """1 - mean of (1 - recall)^2: concave, with a curvature constant that can be computed."""

    name: ClassVar[str] = "squared_miss"
    weighting: ClassVar[str] = "diagonal"

    def value(self, confusion):
        recall = np.diagonal(confusion, axis1=-2, axis2=-1) / confusion.sum(axis=-1)
        return 1 - ((1 - recall) ** 2).mean(axis=-1)

    def gradient(self, confusion):
        rows = confusion.sum(axis=-1)
        return np.diag(2 * (1 - np.diagonal(confusion) / rows) / rows / len(rows))


def best_by_convex_programming(eta, mass, metric):
    """Maximise over all randomised classifiers h(x) of the finite distribution (SLSQP on the simplex product)."""
    n_points, n_classes = eta.shape
    joint = mass[:, None] * eta

    def confusion(flat):
        return joint.T @ flat.reshape(n_points, n_classes)

    def slope(flat):
        return -(joint @ metric.gradient(confusion(flat))).reshape(-1)

    sums = np.kron(np.eye(n_points), np.ones(n_classes))
    found = minimize(
        lambda flat: -float(metric.value(confusion(flat))),
        np.full(n_points * n_classes, 1 / n_classes),
        jac=slope,
        method="SLSQP",
        bounds=[(0, 1)] * (n_points * n_classes),
        constraints=[LinearConstraint(sums, 1, 1)],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return -found.fun


def curvature_constant(eta, mass):
    """K = max over pairs of classifiers of (2 / m) |r - s|^2: psi is quadratic, the maximum is at vertices."""
    n_points, n_classes = eta.shape
    share = mass[:, None] * eta / (mass @ eta)  # what a hit at x adds to each recall
    choices = np.array(list(product(range(n_classes), repeat=n_points)))
    recalls = np.zeros((len(choices), n_classes))
    for point in range(n_points):
        recalls[np.arange(len(choices)), choices[:, point]] += share[point, choices[:, point]]
    squares = (recalls**2).sum(axis=1)
    return 2 / n_classes * float((squares[:, None] + squares - 2 * recalls @ recalls.T).max())


@pytest.mark.parametrize("seed", range(5))
def test_gap_of_frank_wolfe_on_a_concave_metric(seed):
    """FW-EG with exact eta: the gap after t iterations stays under 2 K / (t + 2), K the curvature constant."""
    eta, mass, rows = finite_distribution(seed, n_points=6)
    metric = SquaredMiss()
    best = best_by_convex_programming(eta, mass, metric)
    curvature = curvature_constant(eta, mass)
    fit = fw_eg(rows, rows, metric, linearise="gradient", max_iter=60)
    gaps = [best - line.score for line in fit.trace]
    for t, gap in enumerate(gaps[1:], start=1):
        assert -1e-6 <= gap <= 2 * curvature / (t + 2)


def test_probing_a_known_metric_at_a_small_radius_is_its_gradient():
    problem = make_problem(seed=2, n_bases=3, basis="soft")
    metric = SquaredMiss()
    known = pi_ew(problem.train, problem.val, metric, linearise="gradient")
    probed = pi_ew(problem.train, problem.val, metric, radius=1e-5)
    np.testing.assert_allclose(probed.mixture.members[0].alpha, known.mixture.members[0].alpha, rtol=1e-3)
