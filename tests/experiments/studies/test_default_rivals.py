"""The rivals of the default: valid labels, searches near a brute-force grid, counted queries, fixed seeds."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss

from experiments.studies import library_rivals
from experiments.studies.calibrations import matrix_scaling, temperature_scaling
from experiments.studies.cwplugin import STEP, cwplugin, golden_section, grid_search
from experiments.studies.default_rivals import MENU, RIVALS, SIMPLE, Rival, labels_of
from experiments.studies.dnip import LEVELS, anneal, cost, dnip_on_metric, n_evaluations
from experiments.studies.menu_tasks import TaskData
from experiments.studies.rival_value import Value, folds, weighted
from experiments.studies.weight_search import N_THRESHOLDS, coordinate_search, search_weights, tuned_threshold
from postshift import metrics

BY_NAME = {rival.name: rival for rival in RIVALS}
CLASS_METRICS = {2: metrics.GMean(), 3: metrics.MacroF1()}


def macro_f1(y_true, y_pred) -> float:
    """Return scikit-learn's macro-F1, faster."""
    table = np.bincount(3 * y_true + y_pred, minlength=9).reshape(3, 3)
    sizes = table.sum(axis=0) + table.sum(axis=1)
    return float(np.mean(2 * np.diag(table)[sizes > 0] / sizes[sizes > 0]))


METRICS = {
    "matrix": CLASS_METRICS,
    "opaque": {2: macro_f1, 3: macro_f1},
    "groups": {m: metrics.WorstGroup("accuracy", n_groups=2, n_classes=m) for m in (2, 3)},
}


@cache
def task(n_classes: int = 3, n_rows: int = 300) -> TaskData:
    """Return rows of unequal classes whose model takes all classes for equally frequent and is too sure."""
    rng = np.random.default_rng(n_classes)
    shares = np.array([0.6, 0.4]) if n_classes == 2 else np.array([0.7, 0.2, 0.1])
    y = rng.choice(n_classes, size=2 * n_rows, p=shares)
    X = 1.2 * np.eye(n_classes)[y] + rng.normal(size=(2 * n_rows, n_classes))
    logits = 2.4 * X + np.linspace(0, 1.5, n_classes)
    eta = np.exp(logits - logits.max(axis=1, keepdims=True))
    eta /= eta.sum(axis=1, keepdims=True)
    groups = rng.integers(2, size=2 * n_rows)
    phi = np.eye(2)[np.where(rng.random(2 * n_rows) < 0.8, groups, 1 - groups)]
    val, test = slice(n_rows), slice(n_rows, None)
    nothing: Any = None
    return TaskData(
        name="synthetic", metric="", metric_options={}, n_classes=n_classes,
        X_train=nothing, y_train=nothing, eta_train=nothing, rows_train=nothing, user_phi_train=None,
        X_val=X[val], y_val=y[val], eta_val=eta[val], group_val=groups[val], user_phi_val=phi[val],
        X_test=X[test], y_test=y[test], eta_test=eta[test], group_test=groups[test], user_phi_test=phi[test],
        rows_val=np.arange(n_rows), rows_test=np.arange(n_rows, 2 * n_rows),
    )  # fmt: skip


def value_of(n_classes: int = 3, metric: Any = None, *, n_rows: int = 300) -> Value:
    return Value.of(task(n_classes, n_rows), CLASS_METRICS[n_classes] if metric is None else metric)


@cache
def best_of_grid(n_rows: int) -> float:
    """Return the best macro-F1 over a fine grid of the two weights that matter."""
    value = value_of(metric=macro_f1, n_rows=n_rows)
    steps = np.exp(np.linspace(-4, 4, 33))
    return max(value(weighted(np.array([1.0, *pair]))(value.eta)) for pair in itertools.product(steps, steps))


class TestEveryRival:
    @pytest.mark.parametrize("kind", METRICS)
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
    def test_valid_and_repeatable_labels_without_training_rows(self, rival: Rival, n_classes: int, kind: str) -> None:
        data, metric = task(n_classes, 120), METRICS[kind][n_classes]
        if not rival.usable(data, metric):
            pytest.skip("not usable here")
        labels, n_queries = labels_of(rival, data, metric)
        again, n_again = labels_of(rival, data, metric)
        assert labels.shape == data.y_test.shape
        assert set(labels.tolist()) <= set(range(n_classes))
        assert n_queries == n_again
        assert np.array_equal(labels, again)

    def test_names_differ(self) -> None:
        assert len(BY_NAME) == len(RIVALS)

    def test_test_labels_are_out_of_reach(self) -> None:
        seen = []
        spy = Rival(
            name="spy",
            usable=lambda *_: True,
            fit=lambda data, _: seen.append((data.y_test, data.group_test)) or np.zeros(len(data.eta_test)),
        )
        labels_of(spy, task(), macro_f1)
        assert seen == [(None, None)]

    def test_other_test_rows_do_not_change_the_rule(self) -> None:
        data = task(n_rows=120)
        few = replace(data, eta_test=data.eta_test[:50])
        for name in (MENU, "CWPlugin", "DNIP", "matrix scaling + inverse prior"):
            whole, part = (labels_of(BY_NAME[name], each, macro_f1)[0] for each in (data, few))
            assert np.array_equal(whole[:50], part), name

    def test_missing_packages_are_no_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(library_rivals, "find_spec", lambda _: None)
        for name in ("xCOLUMNs", "OxonFair", "ThresholdOptimizer"):
            assert not any(BY_NAME[name].usable(task(2), METRICS[kind][2]) for kind in METRICS)

    @pytest.mark.parametrize(
        ("name", "n_classes", "kind"),
        [("xCOLUMNs", 3, "opaque"), ("xCOLUMNs", 3, "groups"), ("OxonFair", 3, "groups"), ("OxonFair", 2, "matrix"),
         ("ThresholdOptimizer", 2, "matrix"), ("ThresholdOptimizer", 3, "groups"), ("tuned threshold", 3, "matrix"),
         ("coordinate search", 2, "matrix"), ("temperature + expected utility", 3, "opaque"),
         ("matrix scaling + expected utility", 2, "groups")],
    )  # fmt: skip
    def test_not_usable(self, name: str, n_classes: int, kind: str) -> None:
        assert not BY_NAME[name].usable(task(n_classes), METRICS[kind][n_classes])

    def test_a_class_without_validation_rows(self) -> None:
        data = task(n_rows=120)
        rows = np.flatnonzero(data.y_val < 2)
        names = ("X_val", "y_val", "eta_val", "group_val", "user_phi_val", "rows_val")
        lacking = replace(data, **{name: getattr(data, name)[rows] for name in names})
        for rival in RIVALS:
            if rival.usable(lacking, CLASS_METRICS[3]):
                labels, _ = labels_of(rival, lacking, CLASS_METRICS[3])
                assert labels.shape == data.y_test.shape, rival.name


class TestSearches:
    @pytest.mark.parametrize(
        "rule",
        [cwplugin, coordinate_search, dnip_on_metric],
        ids=["CWPlugin", "coordinates", "annealing"],
    )
    @pytest.mark.parametrize("metric", [macro_f1, metrics.MacroF1()], ids=["opaque", "matrix"])
    def test_near_the_best_of_a_grid(self, rule, metric) -> None:
        value = value_of(metric=metric)
        base = value(value.eta.argmax(axis=1))
        found = value(rule(value)(value.eta))
        assert found >= 0.97 * best_of_grid(300)
        assert base < 0.97 * best_of_grid(300)  # the problem is not solved by doing nothing

    def test_the_golden_section_needs_many_rows(self) -> None:
        shares = []
        for n_rows in (300, 3000):  # the values of few rows have many small tops
            value = value_of(metric=macro_f1, n_rows=n_rows)
            shares.append(value(cwplugin(value, fast=True)(value.eta)) / best_of_grid(n_rows))
        assert shares[0] > 0.9
        assert shares[1] > 0.97

    def test_the_threshold_is_the_best_of_all(self) -> None:
        value = value_of(2)
        scores = value.eta[:, 1]
        best = max(value((scores >= threshold).astype(int)) for threshold in np.unique(scores))
        assert value(tuned_threshold(value)(value.eta)) >= 0.99 * best

    def test_golden_section_finds_the_top_of_a_hill(self) -> None:
        for top in (0.07, 0.31, 0.5, 0.93):
            assert abs(golden_section(lambda share, top=top: -((share - top) ** 2)) - top) <= STEP
            assert abs(grid_search(lambda share, top=top: -((share - top) ** 2)) - top) <= STEP

    def test_a_flat_metric_leaves_the_model_as_it_is(self) -> None:
        value = value_of(metric=lambda *_: 0.0)
        for fast in (False, True):
            assert np.array_equal(cwplugin(value, fast=fast)(value.eta), value.eta.argmax(axis=1))
        assert np.array_equal(anneal(lambda _: 0.0, value), np.ones(3))

    def test_annealing_finds_a_place_of_the_grid(self) -> None:
        aim = np.array([30, 11, 23]) / LEVELS
        found = anneal(lambda weights: float(np.abs(weights - aim).sum()), value_of())
        assert np.abs(found - aim).max() <= 2 / LEVELS

    def test_dnip_objective_by_hand(self) -> None:
        y, labels = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
        pmi = [np.log(0.5 / (0.75 * 0.5)), np.log(0.25 / (0.25 * 0.5))]
        assert cost(labels, y, 2) == pytest.approx(0.25 + 0.5 - 0.2 * np.mean(pmi), abs=1e-4)

    def test_the_menu_takes_what_helps(self) -> None:
        data, metric = task(), metrics.MacroF1()
        scored = Value.of(replace(data, eta_val=data.eta_test, y_val=data.y_test, group_val=None), metric)
        found = {name: scored(labels_of(BY_NAME[name], data, metric)[0]) for name in (MENU, "temperature + argmax")}
        assert found[MENU] > found["temperature + argmax"] + 0.02


class TestCalibrations:
    def test_temperature_is_that_of_scikit_learn(self) -> None:
        frozen = pytest.importorskip("sklearn.frozen")
        from sklearn.calibration import CalibratedClassifierCV

        from experiments.studies.constraint_rivals import Prefit

        data = task()

        class Model(Prefit):
            classes_ = np.arange(3)

            def predict(self, X):
                return X.argmax(axis=1)

        model = Model()
        rows = np.arange(len(data.y_val))
        theirs = CalibratedClassifierCV(frozen.FrozenEstimator(model), method="temperature", cv=[(rows, rows)])
        try:
            theirs.fit(data.eta_val, data.y_val)
        except ValueError as error:  # before 1.8
            pytest.skip(str(error))
        ours = temperature_scaling(data.eta_val, data.y_val)(data.eta_test)
        assert np.abs(ours - theirs.predict_proba(data.eta_test)).max() < 1e-3

    def test_matrix_scaling_repairs_what_a_temperature_cannot(self) -> None:
        data = task()
        raw, warm, full = (
            log_loss(data.y_test, each)
            for each in (
                data.eta_test,
                temperature_scaling(data.eta_val, data.y_val)(data.eta_test),
                matrix_scaling(data.eta_val, data.y_val)(data.eta_test),
            )
        )
        assert full < 0.9 * warm < 0.9 * raw

    def test_a_matrix_of_noise_stays_near_a_temperature(self) -> None:
        rng = np.random.default_rng(0)
        eta = rng.dirichlet(np.ones(4), size=60)
        y = np.array([rng.choice(4, p=row) for row in eta])
        new = rng.dirichlet(np.ones(4), size=500)
        assert np.abs(matrix_scaling(eta, y)(new) - new).mean() < 0.1


class TestValue:
    def test_counts_are_those_of_the_function(self) -> None:
        calls = []

        def metric(y_true, y_pred) -> float:
            calls.append(len(y_true))
            return macro_f1(y_true, y_pred)

        for rival in RIVALS:
            calls.clear()
            if rival.usable(task(n_rows=120), metric):
                assert labels_of(rival, task(n_rows=120), metric)[1] == len(calls), rival.name

    @pytest.mark.parametrize(
        ("name", "n_classes", "n_queries"),
        [("tuned threshold", 2, N_THRESHOLDS), ("CWPlugin", 2, 99), ("CWPlugin", 3, 2 * 99), ("DNIP", 3, 0),
         ("CWPlugin, all rows", 3, 2 * 99), ("CWPlugin, golden section", 3, 2 * 13),
         ("DNIP annealing on the metric", 3, n_evaluations(3)), ("temperature + argmax", 3, 0),
         ("inverse prior of the labels", 2, 0), ("matrix scaling + expected utility", 3, 0)],
    )  # fmt: skip
    def test_queries(self, name: str, n_classes: int, n_queries: int) -> None:
        assert labels_of(BY_NAME[name], task(n_classes), CLASS_METRICS[n_classes])[1] == n_queries

    def test_queries_of_the_menu(self) -> None:
        value = value_of()
        for fitted, _ in folds(value.y, 5):
            search_weights(value.take(fitted))
        inside = value.counter.n_queries
        search_weights(value)
        whole = value.counter.n_queries - inside
        found = labels_of(BY_NAME[MENU], task(), CLASS_METRICS[3])[1]
        assert found in (inside + len(SIMPLE), inside + len(SIMPLE) + whole)

    def test_the_fast_function_is_scikit_learns(self) -> None:
        data = task()
        labels = data.eta_val.argmax(axis=1)
        assert macro_f1(data.y_val, labels) == pytest.approx(f1_score(data.y_val, labels, average="macro"))

    def test_both_kinds_of_metric_agree_on_some_rows(self) -> None:
        rows = np.arange(0, 300, 2)
        ours, theirs = (value_of(metric=metric).take(rows) for metric in (metrics.MacroF1(), macro_f1))
        labels = ours.eta.argmax(axis=1)
        assert ours(labels) == pytest.approx(theirs(labels))
        assert np.array_equal(ours.y, task().y_val[rows])

    def test_groups(self) -> None:
        value, data = value_of(2, METRICS["groups"][2]), task(2)
        labels = data.eta_val.argmax(axis=1)
        hits = labels == data.y_val
        assert value(labels) == pytest.approx(min(hits[data.group_val == group].mean() for group in (0, 1)))

    def test_a_cost_is_minimised(self) -> None:
        value = value_of(2, metrics.ExpectedCost([[0, 1], [5, 0]]))
        assert value(value.y) == 0
        assert value(1 - value.y) < value(np.zeros(300, dtype=int)) < 0

    def test_folds_share_the_classes(self) -> None:
        y = task().y_val
        parts = folds(y, 5)
        assert np.array_equal(np.sort(np.concatenate([held for _, held in parts])), np.arange(len(y)))
        counts = np.array([np.bincount(y[held], minlength=3) for _, held in parts])
        assert np.ptp(counts, axis=0).max() <= 1
        assert all(not set(fitted) & set(held) for fitted, held in parts)


@pytest.mark.parametrize("metric", [metrics.BalancedAccuracy(), metrics.GMean(), metrics.HMean(), metrics.QMean(),
                                    metrics.MacroF1()], ids=lambda metric: metric.name)  # fmt: skip
def test_metrics_of_xcolumns_are_ours(metric) -> None:
    pytest.importorskip("xcolumns")
    confusion = np.array([[0.3, 0.1, 0.0], [0.05, 0.2, 0.05], [0.1, 0.05, 0.15]])
    tp = np.diag(confusion)
    cells = tp, confusion.sum(axis=0) - tp, confusion.sum(axis=1) - tp, None
    found = library_rivals._macro_metric(metric.name)(*cells)
    assert float(found) == pytest.approx(float(metric.value(confusion)), abs=1e-4)
