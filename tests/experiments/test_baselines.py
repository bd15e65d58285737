"""The comparison of every baseline on Adult: pages agree with their CSV, stopped runs go on, cells are made again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import softmax

import postshift.baselines
from experiments import baseline_methods, baselines, baselines_why, descent
from experiments.baseline_methods import FAIRNESS, METHODS, PROXY, TASKS
from experiments.baselines import PAPER, Row, by_method, read_rows, run, run_missing, scores, wanted, write_rows
from postshift.exceptions import DataNotFoundError

NOT_ON_ADULT = {"NetworkClassifier", "SoftmaxRegression"}  # a network, and the model that others train


@pytest.fixture(scope="module")
def stored():
    return read_rows(baselines.CSV, Row)


@pytest.fixture(scope="module")
def why():
    return read_rows(baselines_why.CSV, baselines_why.Row)


def loaded(task):
    try:
        return baseline_methods.load(task, 0)
    except DataNotFoundError as error:
        pytest.skip(f"THE BASELINES WERE NOT RUN ON ADULT: {error}")


class TestStored:
    def test_the_page_is_made_from_the_stored_results(self, stored):
        assert baselines.PAGE.read_text() == baselines.render(*stored)

    def test_the_page_that_explains_is_made_from_the_stored_results(self, stored, why):
        assert baselines_why.PAGE.read_text() == baselines_why.render(*why, stored[0])

    def test_every_method_and_seed_is_there_once(self, stored):
        rows, made_with = stored
        assert [(row.task, row.method, row.seed) for row in rows] == wanted(seeds=5)
        assert all(0 < row.test < 1 and row.seconds >= 0 and row.queries >= 0 for row in rows)
        assert all(name in made_with for name in ("postshift", "scikit-learn", "Python"))

    def test_every_topic_and_seed_is_there_with_all_variants(self, why):
        variants = {}
        for row in why[0]:
            variants.setdefault((row.topic, row.task, row.seed), []).append(row.variant)
        topics = baselines_why.TOPICS
        assert set(variants) == {(t.method, task, seed) for t in topics for task in t.tasks for seed in range(5)}
        for (topic, _, _), names in variants.items():
            assert names == variants[topic, PROXY, 0]

    def test_every_figure_of_the_paper_is_compared(self, stored):
        rows = [*stored[0], *baselines.quoted()]
        assert {(row.task, row.method) for row in rows} >= set(PAPER)


class TestWhatTheyShow:
    def test_every_marked_difference_is_looked_into(self, stored):
        marked = baselines.marked(stored[0])
        assert {method for _, method in marked} <= {topic.method for topic in baselines_why.TOPICS}
        assert all((task, method) in PAPER for task, method in marked)
        assert len(marked) < len(PAPER) / 2

    @pytest.mark.parametrize(
        ("method", "task", "variant"),
        [
            ("cross-entropy [val]", PROXY, "batches of 32, epoch 100"),
            (
                "cross-entropy [val]",
                FAIRNESS,
                "batches of 32, two thirds of the rows, the best of 100 epochs by the rest",
            ),
            ("learn-to-reweight", PROXY, "one weight for a whole batch of 1,024, 75 epochs"),
            ("learn-to-reweight", FAIRNESS, "one weight for a whole batch of 1,024, 75 epochs"),
            (
                "opt-metric [val]",
                PROXY,
                "model of the training rows, the best of 100 mixtures, G-mean of its confusion matrix",
            ),
        ],
    )
    def test_the_authors_program_gives_the_papers_figure(self, why, method, task, variant, record_property):
        values = np.array([r.test for r in why[0] if (r.topic, r.task, r.variant) == (method, task, variant)])
        record_property(
            "figure", f"{task:9s} {method:20s} {variant}: {values.mean():.3f}, paper {PAPER[task, method][0]}"
        )
        assert len(values) == 5
        assert abs(baselines.apart(values, PAPER[task, method])) < 1

    def test_forward_correction_is_above_the_base_model(self, stored):
        found = by_method(stored[0], PROXY)
        assert scores(found["forward correction, anchors"]).min() > scores(found["cross-entropy [train]"]).max()

    def test_ours_is_not_below_the_baselines(self, stored, record_property):
        record_property("figure", f"baselines on Adult: {baselines.verdict(stored[0])}")
        for task in TASKS:
            means = {name: scores(rows).mean() for name, rows in by_method(stored[0], task).items()}
            rivals = [mean for name, mean in means.items() if not baselines.is_ours(name)]
            assert means[baselines.DEFAULT] > max(rivals)


class TestRuns:
    def test_every_class_of_the_package_is_compared(self):
        data = loaded(PROXY)
        used = {type(method.make(data)).__name__ for method in METHODS if PROXY in method.tasks}
        assert used == {*postshift.baselines.__all__, "PostShiftClassifier"} - NOT_ON_ADULT

    @pytest.mark.parametrize(
        ("task", "name"),
        [
            (PROXY, "cross-entropy [val]"),
            (PROXY, "forward correction, anchors"),
            (FAIRNESS, "plug-in [train-val], spacing 1e-4"),
        ],
    )
    def test_a_stored_cell_is_made_again(self, stored, task, name):
        method = next(method for method in METHODS if method.name == name)
        found = run(method, loaded(task))
        expected = next(row for row in stored[0] if (row.task, row.method, row.seed) == (task, name, 0))
        assert (found.task, found.method, found.seed) == (task, name, 0)
        assert found.test == pytest.approx(expected.test, abs=0.002)
        assert found.queries == expected.queries

    @pytest.mark.slow
    def test_the_quick_methods_of_a_split_are_made_again(self, stored, tmp_path):
        loaded(PROXY)
        cells = [cell for cell in wanted(seeds=1, quick=True) if cell[0] == PROXY]
        run_missing(tmp_path / "again.csv", cells)
        again, _ = read_rows(tmp_path / "again.csv", Row)
        expected = {(row.task, row.method, row.seed): row.test for row in stored[0]}
        assert [(row.task, row.method, row.seed) for row in again] == cells
        for row in again:
            assert row.test == pytest.approx(expected[row.task, row.method, row.seed], abs=0.01), row.method


class TestStorage:
    """Without data: fits are replaced by figures."""

    @pytest.fixture
    def fits(self, monkeypatch):
        """Return the list of what was fitted; the fourth fit is stopped by hand, once."""
        made = []

        def fake(method, data):
            made.append((data.task, method.name, data.seed))
            if len(made) == 4:
                raise KeyboardInterrupt
            return Row(task=data.task, method=method.name, seed=data.seed, test=0.5, seconds=0.25, queries=7)

        monkeypatch.setattr(baselines, "load", lambda task, seed: SimpleNamespace(task=task, seed=seed))
        monkeypatch.setattr(baselines, "run", fake)
        return made

    def test_a_stopped_run_goes_on_where_it_was(self, fits, tmp_path):
        path, cells = tmp_path / "some.csv", wanted(seeds=2)[:6]
        with pytest.raises(KeyboardInterrupt):
            run_missing(path, cells)
        assert [(row.task, row.method, row.seed) for row in read_rows(path, Row)[0]] == cells[:3]
        run_missing(path, cells)
        assert fits == [*cells[:4], *cells[3:]]
        rows, made_with = read_rows(path, Row)
        assert [(row.task, row.method, row.seed) for row in rows] == cells
        assert made_with.startswith("postshift ")
        assert [each.name for each in tmp_path.iterdir()] == ["some.csv"]

    def test_rows_are_in_order_whatever_was_run_first(self, fits, tmp_path):  # noqa: ARG002
        cells = wanted(seeds=2)[:3]
        run_missing(tmp_path / "some.csv", cells[::-1])
        assert [(row.task, row.method, row.seed) for row in read_rows(tmp_path / "some.csv", Row)[0]] == cells

    def test_rows_come_back_as_they_were(self, tmp_path):
        rows = [baselines_why.Row(topic="a, b", task=PROXY, variant='"c"', seed=3, test=0.123456)]
        write_rows(tmp_path / "rows.csv", rows, made_with="some versions")
        assert read_rows(tmp_path / "rows.csv", baselines_why.Row) == (rows, "some versions")


class TestPage:
    ROWS = tuple(
        Row(task=PROXY, method="cross-entropy [train]", seed=seed, test=test, seconds=1.0, queries=0)
        for seed, test in enumerate([0.653, 0.655])
    )

    def test_a_difference_is_marked(self):
        far = [replace(row, test=row.test + 0.2) for row in self.ROWS]
        assert baselines.marked(self.ROWS) == []
        assert baselines.marked(far) == [(PROXY, "cross-entropy [train]")]
        assert "**+0.200 (81.6 sd)**" in baselines.table(far, PROXY)
        assert "| 0.654 ± 0.002 | +0.000 (0.0 sd) |" in baselines.table(self.ROWS, PROXY)

    def test_one_split_has_no_spread(self):
        assert "| 0.653 |  |  | 1.0 | 0 |" in baselines.table(self.ROWS[:1], PROXY)


class TestDescent:
    """What ``--why`` trains with, against other ways to compute the same."""

    @pytest.fixture
    def rows(self):
        rng = np.random.default_rng(0)
        return descent.Sample.of(rng.normal(size=(40, 3)), rng.integers(2, size=40))

    @pytest.fixture
    def theta(self):
        return np.array([0.5, -1.0, 0.3, 0.2])

    def test_slopes_are_those_of_the_losses(self, rows, theta):
        noise = np.array([[0.9, 0.1], [0.4, 0.6]])
        assert check_grad(descent.loss, descent.slope, theta, rows) < 1e-6
        given = {"rows": rows, "transition": noise}
        assert (
            check_grad(
                lambda t: descent.corrected_loss(t, **given), lambda t: descent.corrected_slope(t, **given), theta
            )
            < 1e-6
        )

    def test_one_vector_stands_for_two_columns(self, rows):
        columns = np.random.default_rng(1).normal(size=(4, 2))
        *_, theta = descent.descent(
            columns[:, 1] - columns[:, 0], rows, rng=np.random.default_rng(2), n_epochs=2, batch=7
        )
        rng, targets = np.random.default_rng(2), np.eye(2)[rows.y.astype(int)]
        for _ in range(2):
            order = rng.permutation(40)
            for batch in (order[begin : begin + 7] for begin in range(0, 40, 7)):
                residuals = softmax(rows.X[batch] @ columns, axis=1) - targets[batch]
                columns = columns - descent.RATE * rows.X[batch].T @ residuals / len(batch)
        np.testing.assert_allclose(theta, columns[:, 1] - columns[:, 0])

    def test_a_column_of_weights_times_a_row_of_losses_gives_every_row_the_same_weight(self, rows, theta):
        """The derivative of the validation loss by each weight, of a step on ``sum(losses[None, :] * weights)``."""
        val = rows.take(np.arange(10))
        towards = descent.slope(theta, val)
        losses_of_rows = [descent.slope(theta, rows.take(np.array([k]))) for k in range(40)]
        table = np.tile(losses_of_rows, (40, 1, 1))  # weight, row, parameter
        helps = (table @ towards).sum(axis=1) / 40
        np.testing.assert_allclose(helps, descent.slope(theta, rows) @ towards)
        expected = np.maximum(helps, 0) / max(np.maximum(helps, 0).sum(), 1e-12)
        np.testing.assert_allclose(baselines_why._one_weight(theta, rows, towards), expected)
        np.testing.assert_array_equal(baselines_why._one_weight(theta, rows, -towards), 0 if helps[0] > 0 else 1 / 40)

    def test_weights_of_rows(self, rows, theta):
        val = rows.take(np.arange(10))
        weights = baselines_why._row_weights(theta, rows, descent.slope(theta, val))
        helps = [descent.slope(theta, rows.take(np.array([k]))) @ descent.slope(theta, val) for k in range(40)]
        assert weights.sum() == pytest.approx(1 / 40)
        np.testing.assert_allclose(weights * 40, np.maximum(helps, 0) / np.maximum(helps, 0).sum())
