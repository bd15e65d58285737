"""The twelve tasks: whole, deterministic, with the trouble that they announce; skipped where the data is missing."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from experiments.studies import menu_tasks
from experiments.studies.menu_tasks import TASKS, TaskData, describe, load_task
from postshift.exceptions import DataNotFoundError

SPLITS = (0, 1)
PARTS = ("train", "val", "test")
SMALL = {"wine_two_laboratories", "breast_cancer_small_tumours"}
GROUPED = ("adult_hidden_sex", "compas_hidden_race")
DRIFTING = ("adult_young_first", "compas_few_priors_first")
THINNED = ("default_rare", "digits_long_tail")
CLEAN = {*DRIFTING, *THINNED}
METRICS = {
    "accuracy", "g_mean", "f1_macro", "balanced_accuracy", "h_mean", "q_mean", "min_recall", "matthews_corrcoef",
    "cohen_kappa", "worst_group", "group_g_mean", "f1", "expected_reward",
}  # fmt: skip


@cache
def loaded(name: str, split: int) -> TaskData:
    return load_task(name, split=split)


def load(name: str, split: int = 0) -> TaskData:
    """Return a split, or skip and say which data is missing."""
    try:
        return loaded(name, split)
    except DataNotFoundError as error:
        pytest.skip(f"{name} is not tested: {error}")


@pytest.fixture(params=TASKS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=SPLITS)
def task(name: str, request: pytest.FixtureRequest) -> TaskData:
    return load(name, request.param)


def columns(task: TaskData, what: str) -> list[np.ndarray]:
    return [getattr(task, f"{what}_{part}") for part in PARTS]


def clean_labels(task: TaskData) -> np.ndarray:
    return menu_tasks._task(task.name).source().y[task.rows_train]


class TestList:
    def test_twelve_tasks_and_at_least_ten_metrics(self) -> None:
        metrics = {menu_tasks._task(name).metric for name in TASKS}
        assert len(TASKS) == len(set(TASKS)) == 12
        assert metrics <= METRICS
        assert len(metrics) >= 10

    def test_one_line_each(self, name: str) -> None:
        task = menu_tasks._task(name)
        line = describe(name)
        assert "\n" not in line + task.reason
        assert line.startswith(f"{name}: ")
        assert line.endswith(f"; {task.metric}; {task.n_val} validation rows")
        assert task.reason

    def test_unknown_name(self) -> None:
        with pytest.raises(ValueError, match=r"name must be one of adult_hidden_sex, .*Got 'iris'"):
            load_task("iris", split=0)


class TestWhole:
    def test_shapes_and_types(self, task: TaskData) -> None:
        m = task.n_classes
        sizes = [len(y) for y in columns(task, "y")]
        assert [X.shape for X in columns(task, "X")] == [(n, task.X_train.shape[1]) for n in sizes]
        assert [eta.shape for eta in columns(task, "eta")] == [(n, m) for n in sizes]
        assert [rows.shape for rows in columns(task, "rows")] == [(n,) for n in sizes]
        assert {X.dtype for X in (*columns(task, "X"), *columns(task, "eta"))} == {np.dtype(np.float64)}
        assert {y.dtype for y in (*columns(task, "y"), *columns(task, "rows"))} == {np.dtype(np.intp)}
        assert all(np.isfinite(X).all() for X in columns(task, "X"))

    def test_sizes(self, task: TaskData) -> None:
        n_train, n_val, n_test = (len(y) for y in columns(task, "y"))
        low, high = (60, 200) if task.name in SMALL else (150, 1000)
        assert n_train <= 15_000
        assert low <= n_val <= high
        assert n_test >= (48 if task.name == "wine_two_laboratories" else 300)
        assert n_test <= 10_000

    def test_rows_of_eta_are_distributions(self, task: TaskData) -> None:
        for eta in columns(task, "eta"):
            assert (eta >= 0).all()
            np.testing.assert_allclose(eta.sum(axis=1), 1, atol=1e-9)

    def test_every_class_occurs(self, task: TaskData) -> None:
        for y in columns(task, "y"):
            assert np.array_equal(np.unique(y), np.arange(task.n_classes))
        assert np.bincount(task.y_train).min() >= 5  # one a fold

    def test_no_row_twice(self, task: TaskData) -> None:
        rows = np.concatenate(columns(task, "rows"))
        assert len(np.unique(rows)) == len(rows)

    def test_validation_and_test_are_the_table_as_it_is(self, task: TaskData) -> None:
        source = menu_tasks._task(task.name).source()
        for part in ("val", "test"):
            rows = getattr(task, f"rows_{part}")
            np.testing.assert_array_equal(getattr(task, f"y_{part}"), source.y[rows])
            np.testing.assert_array_equal(getattr(task, f"X_{part}"), source.X[rows])

    def test_basis_is_a_partition(self, task: TaskData) -> None:
        tables = columns(task, "user_phi")
        if any(phi is None for phi in tables):
            assert tables == [None, None, None]
            return
        for phi, y in zip(tables, columns(task, "y"), strict=True):
            assert phi.shape[0] == len(y)
            assert 2 <= phi.shape[1] <= 4
            assert set(np.unique(phi)) == {0, 1}
            assert (phi.sum(axis=1) == 1).all()
            assert (phi.sum(axis=0) > 0).all()

    def test_groups(self, task: TaskData) -> None:
        if task.name not in GROUPED:
            assert task.group_val is None
            assert task.group_test is None
            return
        n_groups, n_classes = task.metric_options["n_groups"], task.metric_options["n_classes"]
        assert n_classes == task.n_classes
        for group, y in ((task.group_val, task.y_val), (task.group_test, task.y_test)):
            assert group.dtype == np.intp
            cells = np.bincount(group * n_classes + y)
            assert len(cells) == n_groups * n_classes
            assert cells.min() >= 10

    @pytest.mark.parametrize("name", GROUPED)
    def test_the_base_model_does_not_see_the_group(self, name: str) -> None:
        task = load(name)
        for group in range(task.metric_options["n_groups"]):
            member = (task.group_test == group)[:, None]
            seen = (task.X_test == member).all(axis=0) | (task.X_test == ~member).all(axis=0)
            assert not seen.any()

    def test_reward_fits(self, task: TaskData) -> None:
        if "reward" in task.metric_options:
            assert np.shape(task.metric_options["reward"]) == (task.n_classes, task.n_classes)


class TestDrawing:
    def test_name_and_split_decide(self, name: str) -> None:
        one, other = load(name, 0), load(name, 1)
        again = load_task(name, split=0)
        for item in fields(TaskData):
            np.testing.assert_array_equal(getattr(one, item.name), getattr(again, item.name), err_msg=item.name)
        for part in PARTS:
            mine, yours = (np.sort(getattr(task, f"rows_{part}")) for task in (one, other))
            assert not np.array_equal(mine, yours)

    def test_changing_a_split_does_not_change_the_next(self) -> None:
        first = load_task("wine_two_laboratories", split=0)
        first.X_val[:] = 0
        first.y_train[:] = 0
        again = load_task("wine_two_laboratories", split=0)
        assert again.X_val.any()
        assert again.y_train.any()

    def test_recorded_labels_follow_their_chances(self) -> None:
        chances = np.repeat([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], 20_000, axis=0)
        labels = menu_tasks._recorded(chances, rng=np.random.default_rng(0)).reshape(3, -1)
        shares = np.array([np.bincount(row, minlength=3) / len(row) for row in labels])
        np.testing.assert_allclose(shares, chances[::20_000], atol=0.01)
        np.testing.assert_array_equal(shares[1:], chances[::20_000][1:])


class TestTrouble:
    def test_noise_where_it_is_announced(self, task: TaskData) -> None:
        changed = (task.y_train != clean_labels(task)).mean()
        assert changed == 0 if task.name in CLEAN else 0.01 < changed < 0.5

    @pytest.mark.parametrize("name", sorted(set(TASKS) - CLEAN))
    def test_chances_are_distributions(self, name: str) -> None:
        task = load(name)
        made = menu_tasks._task(name)
        chances = made.noise(made.source().take(task.rows_train))
        assert chances.shape == (len(task.rows_train), task.n_classes)
        assert (chances >= 0).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1)

    def test_small_tumours_are_missed_more_often(self) -> None:
        source = menu_tasks._breast_cancer()
        missed = menu_tasks._small_tumours_missed(source)[:, 0]
        order = np.argsort(source.amount[source.y == 1])
        assert (np.diff(missed[source.y == 1][order]) <= 0).all()
        assert (missed[source.y == 0] == 1).all()

    def test_doubtful_occupations_are_recorded_as_commoner_ones(self) -> None:
        task = load("adult_occupation")
        clean = clean_labels(task)
        counts = np.bincount(clean)
        moved = task.y_train != clean
        assert (counts[task.y_train[moved]] > counts[clean[moved]]).all()

    @pytest.mark.parametrize("name", DRIFTING)
    def test_training_comes_from_the_other_end(self, name: str) -> None:
        task = load(name)
        early = menu_tasks._task(name).source().marked
        shares = [early[rows].mean() for rows in columns(task, "rows")]
        assert shares[0] > 0.8
        assert max(shares[1:]) < 0.25

    @pytest.mark.parametrize("name", THINNED)
    def test_training_is_imbalanced(self, name: str) -> None:
        task = load(name)
        train, _, test = (np.bincount(y) / len(y) for y in columns(task, "y"))
        assert train.max() / train.min() > 2 * test.max() / test.min() > 2


@pytest.mark.slow
class TestBaseModel:
    def test_better_than_chance(self, task: TaskData) -> None:
        """The labels in balanced accuracy; with two classes also the order of the probabilities."""
        labels = task.eta_test.argmax(axis=1)
        assert balanced_accuracy_score(task.y_test, labels) > 1 / task.n_classes + 0.01
        if task.n_classes == 2:
            assert roc_auc_score(task.y_test, task.eta_test[:, 1]) > 0.68

    def test_out_of_fold_is_not_in_sample(self) -> None:
        """A forest knows its own training rows by heart: probabilities of unseen rows are less sure."""
        task = load("digits_long_tail")
        sure = [eta.max(axis=1).mean() for eta in (task.eta_train, task.eta_test)]
        assert sure[0] < 0.75
        assert sure[0] == pytest.approx(sure[1], abs=0.2)
