"""One table of counts: the partition, what the counts say of each row, and the fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import confusion_matrix

from postshift import PostShifter, Rows
from postshift.core.queries import Query
from postshift.metrics import ConfusionOracle, GroupGMean, TableOracle, from_oracle
from postshift.rules.from_table import MOST_CELLS, ROWS_OF_NOISE, SharesOracle, partition, shares_of

PSI = GroupGMean(n_classes=2, n_groups=2)


def grouped(n_rows=3000, *, seed=0, n_classes=2):
    """Return eta, an indicator basis, labels and groups: the groups differ in the basis, the labels in eta."""
    rng = np.random.default_rng(seed)
    eta = softmax(rng.normal(size=(n_rows, n_classes)) * 1.5 + np.eye(n_classes)[0], axis=1)
    labels = (eta.cumsum(axis=1) < rng.uniform(size=(n_rows, 1))).sum(axis=1)
    flag = rng.uniform(size=n_rows) < 0.3
    groups = (rng.uniform(size=n_rows) < np.where(flag, 0.8, 0.2)).astype(int)
    return eta, np.column_stack([flag, ~flag]).astype(float), labels, groups


def rows_of(eta, phi):
    return Rows.of(eta, bases={"mine": phi})


def noisy(counts, noise, *, seed=0):
    return counts + np.round(np.random.default_rng(seed).normal(size=counts.shape) * noise)


class TestPartition:
    @pytest.mark.parametrize("n_classes", [2, 4])
    @pytest.mark.parametrize("noise", [0.0, 3.0, 30.0])
    def test_every_cell_has_rows_of_one_pattern_and_class(self, n_classes, noise):
        eta, phi, *_ = grouped(n_classes=n_classes)
        cells = partition(rows_of(eta, phi), noise=noise)
        assert sorted(np.unique(cells)) == list(range(cells.max() + 1))
        for cell in range(cells.max() + 1):
            inside = cells == cell
            assert len(np.unique(phi[inside], axis=0)) == 1
            assert len(np.unique(np.argmax(eta[inside], axis=1))) == 1

    def test_cells_follow_the_likelihood_of_the_class(self):
        eta, phi, *_ = grouped()
        cells = partition(rows_of(eta, phi), noise=3)
        top = eta.max(axis=1)
        order = np.argsort(top[(phi[:, 0] == 1) & (eta[:, 0] > 0.5)])
        assert (np.diff(cells[(phi[:, 0] == 1) & (eta[:, 0] > 0.5)][order]) >= 0).all()

    def test_more_noise_means_fewer_and_larger_cells(self):
        eta, phi, *_ = grouped(20_000)
        sizes = [partition(rows_of(eta, phi), noise=noise).max() + 1 for noise in (0, 10, 100)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] <= MOST_CELLS
        assert sizes[2] <= 20_000 / (ROWS_OF_NOISE * 100)

    def test_a_basis_of_many_values_is_divided_by_its_largest_function(self):
        eta, *_ = grouped(500)
        phi = np.random.default_rng(1).dirichlet(np.ones(3), size=500)
        cells = partition(rows_of(eta, phi), noise=5)
        for cell in range(cells.max() + 1):
            assert len(np.unique(np.argmax(phi[cells == cell], axis=1))) == 1

    @pytest.mark.parametrize("most_cells", [1, 3, 10, 50, 100])
    def test_there_are_never_more_cells_than_allowed(self, most_cells):
        eta, phi, *_ = grouped(2000, n_classes=12)
        cells = partition(rows_of(eta, phi), noise=0, most_cells=most_cells)
        assert sorted(np.unique(cells)) == list(range(cells.max() + 1))
        assert cells.max() < most_cells


class TestShares:
    def test_they_are_probabilities(self):
        eta, phi, labels, groups = grouped(400)
        rows = rows_of(eta, phi)
        cells = partition(rows, noise=20)
        counts = noisy(TableOracle(labels, n_classes=2, groups=groups).counts(cells), 20.0)
        found = shares_of(rows, cells, counts, noise=20)
        assert (found > 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1)

    def test_they_are_near_the_truth_and_nearer_with_less_noise(self):
        eta, phi, labels, groups = grouped(20_000)
        rows = rows_of(eta, phi)
        in_second = np.where(phi[:, 0] == 1, 0.8, 0.2)[:, None]
        truth = np.hstack([eta * (1 - in_second), eta * in_second])
        errors = []
        for noise in (0.0, 10.0, 60.0):
            cells = partition(rows, noise=noise)
            counts = noisy(TableOracle(labels, n_classes=2, groups=groups).counts(cells), noise)
            errors.append(np.abs(shares_of(rows, cells, counts, noise=noise) - truth).mean())
        assert errors == sorted(errors)
        assert errors[0] < 0.01
        assert errors[2] < 0.06

    def test_noise_alone_leaves_what_eta_says(self):
        eta, phi, labels, groups = grouped(300)
        rows = rows_of(eta, phi)
        cells = partition(rows, noise=1e5)
        counts = TableOracle(labels, n_classes=2, groups=groups).counts(cells)
        found = shares_of(rows, cells, counts, noise=1e5)
        np.testing.assert_allclose(found, np.hstack([eta, eta]) / 2, atol=1e-3)

    def test_what_the_model_cannot_say_is_read_from_the_cells(self):
        rng = np.random.default_rng(0)
        eta = rng.dirichlet([1, 1], size=20_000)
        true = np.where(np.abs(eta[:, 0] - 0.5) < 0.25, 0.9, 0.1)  # not monotone in eta
        labels = (rng.uniform(size=len(eta)) > true).astype(int)
        rows = Rows.of(eta)
        cells = partition(rows, noise=2)
        found = shares_of(rows, cells, TableOracle(labels, n_classes=2).counts(cells), noise=2)
        assert np.abs(found[:, 0] - true).mean() < 0.05

    def test_expected_confusions(self):
        eta, phi, labels, groups = grouped(200)
        rows = rows_of(eta, phi)
        exact = np.eye(4)[groups * 2 + labels]
        columns = np.column_stack([np.ones(200), phi])
        query = Query(
            key="a", kind="confusion", text="", n_rows=200, columns=columns, shape=(3, 4, 2), _predict=lambda: rows.eta
        )
        wanted = ConfusionOracle(labels, n_classes=2, groups=groups).answer(query)
        np.testing.assert_allclose(SharesOracle(exact).answer(query), wanted)


class Noisy(TableOracle):
    """A table with noise."""

    noise = 3.0
    asked = 0

    def answer(self, query):
        self.asked += 1
        return noisy(super().answer(query), self.noise)


class TestFit:
    @pytest.mark.parametrize("kind", [TableOracle, Noisy])
    def test_one_query_is_enough_for_a_gain(self, kind):
        eta, phi, labels, groups = grouped()
        shifted = eta * [1, 0.3]
        shifted /= shifted.sum(axis=1, keepdims=True)
        oracle = kind(labels, n_classes=2, groups=groups, metric=PSI)
        shifter = PostShifter(from_oracle(oracle, metric=PSI)).fit(shifted, phi_val=phi)
        assert shifter.n_queries_ == 1
        categories = groups * 2 + labels

        def score(predicted):
            return float(PSI.value(confusion_matrix(categories, predicted, labels=range(4), normalize="all")[:, :2]))

        base = score(np.argmax(shifted, axis=1))
        assert score(shifter.predict(shifted, phi)) > base + 0.05
        assert shifter.base_score_ == pytest.approx(base, abs=0.05)

    def test_a_rule_by_name(self):
        eta, phi, labels, groups = grouped()
        oracle = Noisy(labels, n_classes=2, groups=groups, metric=PSI)
        shifter = PostShifter(from_oracle(oracle, metric=PSI), method="inverse prior").fit(eta, phi_val=phi)
        assert [entry.name for entry in shifter.diagnostics_.choice.entries] == ["base", "inverse prior"]
        assert oracle.asked == 1

    def test_the_answer_is_kept_in_the_session(self, tmp_path):
        eta, phi, labels, groups = grouped(500)
        oracle = Noisy(labels, n_classes=2, groups=groups, metric=PSI)
        both = [
            PostShifter(from_oracle(oracle, metric=PSI), session=tmp_path / "run.jsonl").fit(eta, phi_val=phi)
            for _ in range(2)
        ]
        assert oracle.asked == 1
        np.testing.assert_array_equal(*(shifter.predict(eta, phi) for shifter in both))
