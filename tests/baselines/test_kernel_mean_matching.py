"""Kernel mean matching: the quadratic program's optimality conditions, other solvers, known densities, memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize
from scipy.spatial.distance import cdist, pdist
from scipy.stats import norm, spearmanr
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from postshift.baselines import kernel_mean_matching
from postshift.baselines.kernel_mean_matching import KernelMeanMatching, MatchingProgram
from postshift.exceptions import InputError, SettingError


def shifted(seed=0, n_rows=300, n_val=80, n_columns=2):
    rng = np.random.default_rng(seed)
    X, X_val = rng.normal(size=(n_rows, n_columns)), rng.normal(0.7, 0.8, size=(n_val, n_columns))
    return X, (X.sum(axis=1) > 0).astype(int), X_val, (X_val.sum(axis=1) > 0.5).astype(int)


def matching(**params):
    """Distances are taken of the rows as they are, so that the tests can do the same."""
    return KernelMeanMatching(LogisticRegression(), **{"embedding": np.asarray, **params})


def program(rows, *, width, on):
    """Return K, kappa and the mean kernel among validation rows, from the definition."""
    X, y, X_val, y_val = rows

    def kernel(A, a, B, b):
        return np.exp(-cdist(A, B, "sqeuclidean") / (2 * width**2)) * ((a[:, None] == b) if on == "xy" else 1)

    kappa = len(X) / len(X_val) * kernel(X, y, X_val, y_val).sum(axis=1)
    return kernel(X, y, X, y), kappa, kernel(X_val, y_val, X_val, y_val).mean()


def violation(weights, K, kappa, *, bound, slack):
    """Return how far weights are from satisfying the conditions of an optimum, relative to the largest kappa.

    There must be a multiplier, 0 unless the mean is at an end of its range and else of the right sign, so that a step
    against the gradient leads out of the box in every coordinate that it would change.
    """
    gradient, gap, multiplier = (K @ weights - kappa) / kappa.max(), weights.mean() - 1, 0.0
    if abs(gap) >= slack - 1e-4:  # between the most that some weight would gain by falling, and another by rising
        falling, rising = gradient[weights > 1e-4].max(), gradient[weights < bound - 1e-4].min()
        ends = (-np.inf, np.inf) if slack == 0 else (0, np.inf) if gap > 0 else (-np.inf, 0)
        multiplier = np.clip(-(falling + rising) / 2, *ends)
    step = np.clip(weights - gradient - multiplier, 0, bound) - weights
    return max(np.abs(step).max(), abs(gap) - slack)


# -- the program ---------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    on=st.sampled_from(["x", "xy"]),
    width=st.floats(0.2, 3.0),
    slack=st.sampled_from([0.0, 0.02, None]),
    bound=st.sampled_from([2.0, 10.0, 1000.0]),
)
def test_the_weights_satisfy_the_optimality_conditions(seed, on, width, slack, bound):
    rows = shifted(seed, n_rows=120, n_val=40)
    model = matching(kernel_width=width, on=on, slack=slack, bound=bound).fit(*rows)
    K, kappa, _ = program(rows, width=width, on=on)
    slack = 1 - 1 / np.sqrt(120) if slack is None else slack
    weights = model.density_ratio_
    assert weights.min() >= 0
    assert weights.max() <= bound
    assert violation(weights, K, kappa, bound=bound, slack=slack) <= 1e-4 + 1e-9


def test_the_conditions_are_violated_by_other_weights():
    rows = shifted(n_rows=120, n_val=40)
    K, kappa, _ = program(rows, width=1.0, on="x")
    weights = matching(kernel_width=1.0, on="x").fit(*rows).density_ratio_
    assert violation(weights * 1.001, K, kappa, bound=1000, slack=0.9) > 3e-4
    assert violation(np.ones(120), K, kappa, bound=1000, slack=0.9) > 0.1


@pytest.mark.parametrize(
    ("slack", "bound", "gap"),
    [(None, 1000.0, None), (0.0, 1000.0, 0.0), (0.0, 1.8, 0.0), (0.05, 1000.0, -0.05), (None, 1.8, None)],
)
def test_a_general_solver_finds_the_same_weights(slack, bound, gap):
    X, y, X_val, y_val = shifted(1, n_rows=30, n_val=20)
    rows = X, y, X_val + 1.0, y_val  # far enough for the mean to fall below 1
    K, kappa, _ = program(rows, width=0.5, on="x")  # a narrow kernel: the program has one solution, well conditioned
    free = 1 - 1 / np.sqrt(30) if slack is None else slack
    reference = minimize(
        lambda b: b @ K @ b / 2 - kappa @ b,
        np.ones(30),
        jac=lambda b: K @ b - kappa,
        method="SLSQP",
        bounds=[(0, bound)] * 30,
        constraints=LinearConstraint(np.ones(30) / 30, 1 - free, 1 + free),
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert reference.success
    found = matching(kernel_width=0.5, on="x", slack=slack, bound=bound, tol=1e-6).fit(*rows).density_ratio_
    np.testing.assert_allclose(found, reference.x, atol=1e-4 * reference.x.max())
    if gap is not None:
        assert found.mean() - 1 == pytest.approx(gap, abs=1e-6)


def test_a_peer_finds_no_better_weights():
    rows = shifted(2, n_rows=80, n_val=40)
    with sklearn.config_context():  # the import of skada turns metadata routing on for everybody
        skada = pytest.importorskip("skada")
        adapter = skada.KMMReweightAdapter(gamma=1 / 2, solver="scipy", tol=1e-10, max_iter=2000)
        domain = np.r_[np.ones(80), -2 * np.ones(40)]
        adapter.fit(np.r_[rows[0], rows[2]], sample_domain=domain)
    ours = matching(kernel_width=1.0, on="x", tol=1e-7).fit(*rows).density_ratio_
    K, kappa, _ = program(rows, width=1.0, on="x")

    def value(weights):
        return weights @ K @ weights / 2 - kappa @ weights

    assert value(ours) == pytest.approx(value(adapter.source_weights_), rel=1e-6)
    assert value(ours) < value(adapter.source_weights_) + 1e-9
    np.testing.assert_allclose(ours, adapter.source_weights_, atol=0.03 * ours.max())


@pytest.mark.parametrize("on", ["x", "xy"])
@pytest.mark.parametrize("max_rows", [70, 2000])
def test_the_means_in_feature_space_come_nearer(on, max_rows):
    rows = shifted(3, n_columns=4)
    model = matching(on=on, max_rows=max_rows).fit(*rows)
    K, kappa, own = program(rows, width=model.kernel_width_, on=on)

    def distance(weights):
        return np.sqrt(weights @ K @ weights / len(K) ** 2 - 2 * kappa @ weights / len(K) ** 2 + own)

    assert distance(model.sample_weight_) < 0.2 * distance(np.ones(len(K)))


def test_known_densities():
    rng = np.random.default_rng(4)
    X, X_val = rng.normal(size=(2000, 1)), rng.normal(0.5, 0.8, size=(1000, 1))
    truth = norm.pdf(X[:, 0], 0.5, 0.8) / norm.pdf(X[:, 0])
    y, y_val = (X[:, 0] > 0).astype(int), (X_val[:, 0] > 0).astype(int)
    weights = matching(on="x").fit(X, y, X_val, y_val).sample_weight_
    assert spearmanr(weights, truth).statistic > 0.98
    assert np.abs(weights - truth).mean() < 0.06


def test_a_label_shift_is_undone():
    rng = np.random.default_rng(5)
    X, X_val = rng.normal(size=(600, 2)), rng.normal(size=(300, 2))
    y, y_val = (rng.random(600) < 0.2).astype(int), (rng.random(300) < 0.7).astype(int)
    model = matching().fit(X, y, X_val, y_val)
    assert np.average(y, weights=model.sample_weight_) == pytest.approx(y_val.mean(), abs=0.02)


# -- the width, the parts, the memory --------------------------------------------------------------------------


def test_the_width_is_the_median_distance():
    rows = shifted()
    model = matching().fit(*rows)
    assert model.kernel_width_ == pytest.approx(np.median(pdist(rows[0])))
    X, y, X_val, y_val = rows
    scaled = matching().fit(128 * X, y, 128 * X_val, y_val)  # a power of two: nothing is rounded otherwise
    np.testing.assert_array_equal(scaled.sample_weight_, model.sample_weight_)


def test_every_part_is_matched_on_its_own(monkeypatch):
    solved = []

    def solve(self):
        solved.append(self)
        return np.full(len(self.kappa), float(len(solved)))

    monkeypatch.setattr(MatchingProgram, "solve", solve)
    rows = shifted(n_rows=250)
    model = matching(max_rows=100, on="x", kernel_width=1.0).fit(*rows)
    assert [len(part.kappa) for part in solved] == [84, 83, 83]
    _, kappa, _ = program(rows, width=1.0, on="x")
    for number, part in enumerate(solved, start=1):
        chosen = np.flatnonzero(model.density_ratio_ == number)
        np.testing.assert_allclose(np.sort(part.kappa), np.sort(kappa[chosen] * len(chosen) / 250))
        assert [kernel.shape for _, kernel in part.kernels] == [(len(chosen), len(chosen))]


def test_the_mean_kernel_does_not_depend_on_the_blocks(monkeypatch):
    rows = shifted()
    whole = matching().fit(*rows).density_ratio_
    monkeypatch.setattr(kernel_mean_matching, "BLOCK", 1000)
    np.testing.assert_allclose(matching().fit(*rows).density_ratio_, whole)


def test_the_seed_divides_the_rows():
    rows = shifted()
    first, again, other = (matching(max_rows=100, random_state=seed).fit(*rows).density_ratio_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_ten_thousand_rows_in_little_memory():
    rows = shifted(6, n_rows=10_000, n_val=1000, n_columns=5)  # the kernel of all rows would be 800 MB
    model = matching()
    tracemalloc.start()
    try:
        model.fit(*rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6
    assert spearmanr(model.sample_weight_, rows[0].sum(axis=1)).statistic > 0.2


# -- what it takes -------------------------------------------------------------------------------------------


def test_sparse_rows_weigh_as_dense_ones():
    rng = np.random.default_rng(7)
    X, X_val = ((rng.random((n, 12)) < 0.3).astype(float) for n in (300, 80))
    y, y_val = X[:, 0], X_val[:, 1]
    dense = KernelMeanMatching(LogisticRegression()).fit(X, y, X_val, y_val)
    light = KernelMeanMatching(LogisticRegression()).fit(sp.csr_array(X), y, sp.csr_array(X_val), y_val)
    np.testing.assert_allclose(light.sample_weight_, dense.sample_weight_, atol=1e-3)


def test_a_frame_with_categories_a_pipeline_and_names_of_classes():
    X, y, X_val, y_val = shifted()
    names = np.array(["no", "yes"])
    frame = pd.DataFrame({"a": 100 * X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    frame_val = pd.DataFrame({"a": 100 * X_val[:, 0], "colour": np.where(X_val[:, 1] > 0, "red", "green")})
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), remainder=StandardScaler())
    pipeline = make_pipeline(encoder, LogisticRegression())
    model = KernelMeanMatching(pipeline).fit(frame, names[y], frame_val, names[y_val])
    red = (frame["colour"] == "red").to_numpy()
    assert model.sample_weight_[red].mean() > 2 * model.sample_weight_[~red].mean()
    assert set(model.predict(frame_val)) <= {"no", "yes"}
    by_hand = clone(pipeline).fit(frame, names[y], logisticregression__sample_weight=model.sample_weight_)
    np.testing.assert_allclose(model.predict_proba(frame_val), by_hand.predict_proba(frame_val))


def test_a_class_missing_on_one_side():
    X, y, X_val, y_val = shifted()
    extra, only_val = np.where(X[:, 1] > 1, 2, y), np.where(X_val[:, 1] > 1.5, 3, y_val)
    model = KernelMeanMatching(LogisticRegression()).fit(X, extra, X_val, only_val)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(model.sample_weight_[extra == 2], 0, atol=1e-3)
    proba = model.predict_proba(X_val)
    np.testing.assert_array_equal(proba[:, 3], 0)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_parameters_are_kept_as_given():
    model = clone(matching(kernel_width=2.0, bound=5.0, slack=0.1, max_rows=50))
    assert (model.kernel_width, model.bound, model.slack, model.max_rows) == (2.0, 5.0, 0.1, 50)
    assert model.get_params()["estimator__C"] == 1.0


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel_width": "mean"}, "kernel_width must be a number or 'median'. Got 'mean' instead"),
        ({"kernel_width": 0.0}, r"kernel_width must be a number in \(0, inf\)"),
        ({"bound": 0.5}, r"bound must be a number in \[1, inf\). Got 0.5 instead"),
        ({"slack": -0.1}, r"slack must be a number in \[0, inf\]. Got -0.1 instead"),
        ({"max_rows": 0}, "max_rows must be a whole number >= 1. Got 0 instead"),
        ({"tol": 0.0}, r"tol must be a number in \(0, 1\]. Got 0.0 instead"),
        ({"on": "y"}, "there is no value of on 'y'"),
        ({"estimator": KNeighborsClassifier()}, "KNeighborsClassifier takes no sample_weight in fit"),
    ],
)
def test_bad_settings(params, message):
    with pytest.raises(SettingError, match=message):
        matching().set_params(**params).fit(*shifted(n_rows=40, n_val=20))


def test_a_kernel_too_narrow():
    with pytest.raises(InputError, match=r"no training row is near a validation row with kernel_width=0.0001"):
        matching(kernel_width=1e-4).fit(*shifted(n_rows=40, n_val=20))


def test_rows_that_are_all_the_same():
    X, y = np.ones((20, 2)), np.tile([0, 1], 10)
    with pytest.raises(InputError, match="the 20 training rows drawn are all equal: give a number as kernel_width"):
        matching().fit(X, y, X, y)
    assert matching(kernel_width=1.0).fit(X, y, X, y).sample_weight_ == pytest.approx(np.ones(20), abs=1e-3)


def test_a_solver_that_is_stopped_says_so(monkeypatch):
    monkeypatch.setattr(kernel_mean_matching, "MAX_STEPS", 3)
    monkeypatch.setattr(kernel_mean_matching, "MAX_RUNS", 2)
    with pytest.warns(ConvergenceWarning, match=r"the weights violate the optimality conditions by .* \(tol=0.0001\)"):
        matching().fit(*shifted())


def test_a_mean_that_is_not_reached_is_told(monkeypatch):
    monkeypatch.setattr(kernel_mean_matching, "MAX_ROUNDS", 1)
    monkeypatch.setattr(kernel_mean_matching, "PENALTY", 1e-9)
    X, y, X_val, y_val = shifted(n_rows=40, n_val=20)
    with pytest.warns(ConvergenceWarning, match="the mean weight is .* instead of 1"):
        matching(slack=0.0, kernel_width=0.2).fit(X, y, X_val, y_val)
