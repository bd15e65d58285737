"""The three comparisons: stored figures show what they must, a small run works."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import recall_score

from experiments.harness import metrics, runner
from experiments.harness.files import OUT
from experiments.studies import classifier_table, threshold_comparison, xcolumns_comparison
from experiments.studies.comparison import BASE, OURS, SEARCH, by_cell
from postshift.exceptions import DataNotFoundError


def stored(module):
    """Return the stored values of a comparison, by task and metric."""
    return by_cell(runner.stored(module.EXPERIMENT, OUT))


class TestWhatTheyMustShow:
    def test_no_cell_is_worse_than_the_base(self, record_property):
        cells = stored(classifier_table)
        record_property("figure", f"classifier table: {classifier_table.verdict(cells)}")
        assert len(cells) == 3 * 10
        assert classifier_table.worse_cells(cells) == []

    def test_as_good_as_a_tuned_threshold(self, record_property):
        cells = stored(threshold_comparison)
        record_property("figure", f"against a tuned threshold: {threshold_comparison.verdict(cells)}")
        assert {"balanced_accuracy", "f1", "matthews_corrcoef", "g_mean"} <= {metric for _, metric in cells}
        assert min(threshold_comparison.gaps(cells).values()) >= -threshold_comparison.TOLERANCE

    def test_as_good_as_xcolumns(self, record_property):
        cells = stored(xcolumns_comparison)
        record_property("figure", f"against xCOLUMNs: {xcolumns_comparison.verdict(cells)}")
        assert min(xcolumns_comparison.gaps(cells).values()) >= -xcolumns_comparison.TOLERANCE


class TestVerdicts:
    """On figures that are known to be bad, so that silence is no proof."""

    @staticmethod
    def cells(**values):
        return {("a task", "f1"): {name.replace("_", " "): np.array(each) for name, each in values.items()}}

    def test_a_worse_cell_is_named(self):
        bad = self.cells(base=[0.9, 0.91, 0.92], ours=[0.8, 0.805, 0.83])
        assert classifier_table.worse_cells(bad) == [("a task", "f1")]
        assert "-0.005: f1 on a task" in classifier_table.verdict(bad)
        assert "3 of 3" in classifier_table.table(bad, "a task")

    def test_a_better_rival_is_named(self):
        one = {**self.cells(base=[0.5, 0.5], ours=[0.6, 0.7])[("a task", "f1")], SEARCH: np.array([0.7, 0.8])}
        assert classifier_table.ahead(one) == ["plug-in search by 0.1000 (beyond noise)"]
        assert classifier_table.ahead({**one, SEARCH: one[OURS]}) == []

    def test_a_lost_comparison_is_named(self):
        lost = {("adult", "f1"): {OURS: np.array([0.5, 0.6]), threshold_comparison.TUNED: np.array([0.6, 0.7])}}
        assert "0.002 below: f1 on adult (-0.1000)" in threshold_comparison.verdict(lost)
        values = {name: np.array([0.6, 0.7]) for name in xcolumns_comparison.VARIANTS}
        lost = {("digits", "f1_macro"): {OURS: np.array([0.5, 0.6]), **values}}
        assert "0.001 below: digits (-0.1000)" in xcolumns_comparison.verdict(lost)


class TestSmallRun:
    def test_classifier_table(self):
        rows = classifier_table.measure("breast_cancer", 0, False, metrics=("accuracy", "g_mean"))
        assert {row.method for row in rows} == {BASE, OURS, SEARCH, classifier_table.TUNED}
        assert all(list(row.values) == ["accuracy", "g_mean"] for row in rows)
        assert all(0.5 < value <= 1 for row in rows for value in row.values.values())

    def test_threshold_comparison(self, monkeypatch):
        monkeypatch.setitem(threshold_comparison.N_TRAIN, "synthetic", 2000)
        rows = threshold_comparison.measure("synthetic", 0, False, metrics=("f1", "g_mean"))
        values = {row.method: row.values for row in rows}
        assert [len(found) for found in values.values()] == [2, 2, 2]
        assert values[OURS]["g_mean"] > values[BASE]["g_mean"]
        assert values[OURS]["g_mean"] == pytest.approx(values[threshold_comparison.TUNED]["g_mean"], abs=0.03)

    def test_adult(self):
        try:
            X, y = threshold_comparison.load("adult")
        except DataNotFoundError as error:
            pytest.skip(f"THE COMPARISON ON ADULT WAS NOT TRIED: {error}")
        assert X.shape == (48_842, 106)
        assert y.mean() == pytest.approx(0.239, abs=0.001)

    def test_xcolumns(self):
        pytest.importorskip("xcolumns", reason="THE COMPARISON WITH XCOLUMNS WAS NOT TRIED: pip install -e '.[bench]'")
        rows = xcolumns_comparison.measure("digits", 0, False)
        assert {row.method for row in rows} == {BASE, OURS, SEARCH, *xcolumns_comparison.VARIANTS}
        assert all(0.9 < row.values["f1_macro"] <= 1 for row in rows)

    @pytest.mark.parametrize("name", ["digits", "digits_wrong_labels"])
    def test_our_side_of_it_needs_no_xcolumns(self, name):
        rows = xcolumns_comparison.measure(name, 0, False, rival=lambda *_: {"nobody": 0.0})
        assert [row.method for row in rows] == [BASE, SEARCH, OURS, "nobody"]

    @pytest.mark.slow
    def test_a_stored_split_is_made_again(self):
        cells = stored(classifier_table)
        rows = classifier_table.measure("wine", 0, False)
        found = {(metric, row.method): value for row in rows for metric, value in row.values.items()}
        kept = {(metric, name): cells["wine", metric][name][0] for metric, name in found}
        assert len(found) == sum(len(methods) for (task, _), methods in cells.items() if task == "wine")
        assert np.median([abs(found[cell] - kept[cell]) for cell in found]) < 0.005


class TestData:
    def test_labels_are_spoilt_as_announced(self):
        task = classifier_table.TASKS["digits"]
        clean = np.repeat(np.arange(10), 2000)
        spoilt = classifier_table.spoil(clean, task, rng=np.random.default_rng(0))
        for label in range(10):
            recorded = spoilt[clean == label]
            share = np.mean(recorded != label)
            assert share == pytest.approx(task.share if label in task.flips else 0, abs=0.03)
            assert set(recorded) <= {label, task.flips.get(label, label)}

    def test_only_training_labels_are_spoilt(self):
        first, again, other = (classifier_table.load_split("wine", split) for split in (0, 0, 1))
        assert [len(first.y_train), len(first.y_val), len(first.y_test)] == [68, 50, 60]
        clean = classifier_table.TASKS["wine"].load(return_X_y=True)[1]
        total = np.bincount(np.concatenate([first.y_val, first.y_test])) + np.bincount(first.y_train)
        moved = np.bincount(clean) - total
        assert moved[0] == 0
        assert moved[1] == -moved[2] > 0
        np.testing.assert_array_equal(first.X_train, again.X_train)
        assert not np.array_equal(first.X_train, other.X_train)

    def test_synthetic_classes_are_imbalanced(self):
        data = xcolumns_comparison.load_split("synthetic", 0)
        counts = np.bincount(data.y_val)
        assert len(counts) == 10
        assert counts.max() > 5 * counts.min() > 0


class TestMetrics:
    def test_own_metrics(self):
        true, predicted = np.array([0, 0, 1, 1, 2, 2, 2, 2]), np.array([0, 0, 1, 0, 2, 2, 2, 0])
        recalls = recall_score(true, predicted, average=None)
        assert metrics.g_mean(true, predicted) == pytest.approx((1 * 0.5 * 0.75) ** (1 / 3))
        assert metrics.min_recall(true, predicted) == recalls.min() == 0.5
