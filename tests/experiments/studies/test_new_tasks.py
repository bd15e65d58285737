"""The sixteen tasks: whole, deterministic, with what they announce; no method runs on them.

They are skipped where the data or a package of the extra ``rivals`` is missing.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import numpy as np
import pytest

from experiments.studies import files_of_types, menu_tasks, new_tables, new_tasks, texts_of_wheels
from experiments.studies.menu_tasks import TaskData
from experiments.studies.new_tasks import ASIDE, FUNCTIONS, NEW_KNOWN, describe, load_task
from postshift.exceptions import DataNotFoundError
from postshift.metrics import Penalised, WorstGroup

ALL = (*NEW_KNOWN, *ASIDE)
READY = {"languages_of_texts": ("py3langid", "django"), "types_of_pieces": ("magika", "django")}
TINY = ("cifar_airfield", "adult_education_levels", "adult_marriage")
MANY = ("adult_birthplace", "digit_pairs", "adult_jobs", "languages_of_texts")
CLEAN = ("digits_grades", "breast_cancer_clean")
GROUPED = ("compas_odds", "default_six_groups")
QUICK = ("digits_grades", "digit_pairs", "breast_cancer_clean", "compas_odds", "languages_of_texts")


@cache
def loaded(name: str, split: int) -> TaskData:
    return load_task(name, split=split)


def load(name: str, split: int = 0) -> TaskData:
    """Return a split, or skip and say which data or package is missing."""
    for package in READY.get(name, ()):
        pytest.importorskip(package)
    try:
        return loaded(name, split)
    except DataNotFoundError as error:
        pytest.skip(f"{name} is not tested: {error}")


def parts(task: TaskData) -> tuple[str, ...]:
    return ("val", "test") if task.name in READY else ("train", "val", "test")


def columns(task: TaskData, what: str) -> list[np.ndarray]:
    return [getattr(task, f"{what}_{part}") for part in parts(task)]


@pytest.fixture(params=ALL)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def task(name: str) -> TaskData:
    return load(name)


class TestList:
    def test_two_to_look_at_and_fourteen_set_aside(self) -> None:
        assert (len(NEW_KNOWN), len(ASIDE)) == (2, 14)
        assert len({*ALL, *menu_tasks.TASKS}) == 16 + 12

    def test_one_line_each(self, name: str) -> None:
        task = new_tasks._task(name)
        line = describe(name)
        assert "\n" not in line + task.reason
        assert line.startswith(f"{name}: ")
        assert line.endswith(f"; {task.metric}; {task.n_val} validation rows")
        assert task.reason

    def test_unknown_name(self) -> None:
        with pytest.raises(ValueError, match=r"name must be one of tiny_classes, .*Got 'iris'"):
            load_task("iris", split=0)

    def test_three_tasks_with_opaque_functions(self) -> None:
        used = [new_tasks._task(name).metric for name in ALL if new_tasks._task(name).metric in FUNCTIONS]
        assert sorted(used) == sorted(FUNCTIONS)


class TestWhole:
    def test_shapes_and_types(self, task: TaskData) -> None:
        sizes = [len(y) for y in columns(task, "y")]
        assert [X.shape for X in columns(task, "X")] == [(n, task.X_val.shape[1]) for n in sizes]
        assert [eta.shape for eta in columns(task, "eta")] == [(n, task.n_classes) for n in sizes]
        assert [rows.shape for rows in columns(task, "rows")] == [(n,) for n in sizes]
        assert {X.dtype for X in (*columns(task, "X"), *columns(task, "eta"))} == {np.dtype(np.float64)}
        assert {y.dtype for y in (*columns(task, "y"), *columns(task, "rows"))} == {np.dtype(np.intp)}
        assert all(np.isfinite(X).all() for X in columns(task, "X"))

    def test_sizes(self, task: TaskData) -> None:
        assert 100 <= len(task.y_val) <= 2000
        assert len(task.y_test) == 60_000 if task.name == "tiny_classes" else 150 <= len(task.y_test) <= 10_000

    def test_rows_of_eta_are_distributions(self, task: TaskData) -> None:
        for eta in columns(task, "eta"):
            assert (eta >= 0).all()
            np.testing.assert_allclose(eta.sum(axis=1), 1, atol=1e-9)

    def test_every_class_occurs(self, task: TaskData) -> None:
        """Of the tiny classes, one may be missing in validation."""
        for part, y in zip(parts(task), columns(task, "y"), strict=True):
            if (task.name, part) != ("tiny_classes", "val"):
                assert np.array_equal(np.unique(y), np.arange(task.n_classes))
        if task.y_train is not None:
            assert np.bincount(task.y_train).min() >= 5  # one a fold

    def test_no_row_twice(self, task: TaskData) -> None:
        rows = np.concatenate(columns(task, "rows"))
        assert len(np.unique(rows)) == len(rows)

    def test_labels_of_the_base_model_are_not_constant(self, task: TaskData) -> None:
        assert len(np.unique(task.eta_test.argmax(axis=1))) > 1

    def test_basis_is_a_partition(self, task: TaskData) -> None:
        tables = columns(task, "user_phi")
        if any(phi is None for phi in tables):
            assert all(phi is None for phi in tables)
            return
        for phi, y in zip(tables, columns(task, "y"), strict=True):
            assert phi.shape[0] == len(y)
            assert (phi.sum(axis=1) == 1).all()

    def test_pretrained_models_have_no_training_rows(self, task: TaskData) -> None:
        training = [getattr(task, f"{what}_train") for what in ("X", "y", "eta", "rows")]
        assert all((values is None) == (task.name in READY) for values in training)


class TestKinds:
    @pytest.mark.parametrize("name", TINY)
    def test_classes_of_one_to_three_validation_rows(self, name: str) -> None:
        counts = np.sort(np.bincount(load(name).y_val))
        assert counts[0] >= 1
        assert counts[1] <= 3

    @pytest.mark.parametrize("name", MANY)
    def test_many_classes(self, name: str) -> None:
        assert 30 <= load(name).n_classes <= (100 if name == "digit_pairs" else 60)

    @pytest.mark.parametrize("name", CLEAN)
    def test_models_that_hardly_err(self, name: str) -> None:
        task = load(name)
        assert (task.eta_test.argmax(axis=1) == task.y_test).mean() > 0.94

    def test_groups(self, task: TaskData) -> None:
        if task.name not in GROUPED:
            assert task.group_val is None
            assert task.group_test is None
            return
        n_cells = task.metric_options["n_groups"] * task.n_classes
        for group, y in ((task.group_val, task.y_val), (task.group_test, task.y_test)):
            cells = np.bincount(group * task.n_classes + y, minlength=n_cells)
            assert len(cells) == n_cells
            assert cells.min() >= 10

    def test_group_metrics_exist(self) -> None:
        odds, groups = (new_tasks._task(name) for name in GROUPED)
        inner, gap = odds.metric.split(" - ")
        assert Penalised(inner, gap, positive=1, **odds.options).name == odds.metric
        assert WorstGroup(**groups.options).n_categories == 12

    def test_five_in_a_hundred_default(self) -> None:
        task = load("default_recall_floor")
        assert all(y.mean() == pytest.approx(0.05, abs=0.005) for y in columns(task, "y"))

    def test_an_image_is_in_one_sample_only(self) -> None:
        task = load("digit_pairs")
        images = [set(np.concatenate([rows // 1797, rows % 1797])) for rows in columns(task, "rows")]
        assert sum(map(len, images)) == len(set.union(*images))


class TestDrawing:
    @pytest.mark.parametrize("name", QUICK)
    def test_name_and_split_decide(self, name: str) -> None:
        one, other = load(name, 0), load(name, 1)
        again = load_task(name, split=0)
        for item in fields(TaskData):
            np.testing.assert_array_equal(getattr(one, item.name), getattr(again, item.name), err_msg=item.name)
        for part in parts(one):
            mine, yours = (np.sort(getattr(task, f"rows_{part}")) for task in (one, other))
            assert not np.array_equal(mine, yours)

    def test_changing_a_split_does_not_change_the_next(self) -> None:
        for name in ("breast_cancer_clean", "languages_of_texts"):
            first = load(name, 2)
            first.X_val[:] = 0
            first.eta_val[:] = 0
            again = load_task(name, split=2)
            assert again.X_val.any()
            assert again.eta_val.any()


class TestFunctions:
    TRUTH = np.repeat([1, 0], [10, 90])

    @pytest.mark.parametrize(("marked", "expected"), [(9, 1.0), (8, -0.2), (0, -1.0), (20, 0.5)])
    def test_precision_above_recall_floor(self, marked: int, expected: float) -> None:
        y_pred = (np.arange(100) < marked).astype(int)
        assert FUNCTIONS["precision_above_recall_floor"](self.TRUTH, y_pred) == pytest.approx(expected)

    @pytest.mark.parametrize(("called", "expected"), [(0, 0.0), (10, 0.27), (30, -0.13)])
    def test_capped_profit(self, called: int, expected: float) -> None:
        y_pred = (np.arange(100) < called).astype(int)
        assert FUNCTIONS["capped_profit"](self.TRUTH, y_pred) == pytest.approx(expected)

    def test_gains_are_capped(self) -> None:
        truth = np.repeat([1, 0], [20, 80])
        assert FUNCTIONS["capped_profit"](truth, truth) == pytest.approx(0.6 - 0.2 - 0.03)

    @pytest.mark.parametrize(("marked", "expected"), [(10, 1.0), (5, 0.5), (0, 0.0), (20, 0.5), (100, 0.1)])
    def test_hit_rate_of_budget(self, marked: int, expected: float) -> None:
        y_pred = (np.arange(100) < marked).astype(int)
        assert FUNCTIONS["hit_rate_of_budget"](self.TRUTH, y_pred) == pytest.approx(expected)


class TestOthersModels:
    def test_missing_packages_are_named(self) -> None:
        for find in (texts_of_wheels.package, texts_of_wheels.package_files):
            with pytest.raises(ImportError, match=r"needs the package 'no_such_one': pip install '\.\[rivals\]'"):
                find("no_such_one")

    def test_texts_are_short_and_differ(self) -> None:
        pytest.importorskip("django")
        texts = texts_of_wheels.chosen_texts("de", size=300)
        assert len(set(texts)) == len(texts) == 300
        assert all(4 <= len(text) <= 40 for text in texts)
        assert not any("%" in text or "<" in text for text in texts)

    def test_pieces_are_short_and_differ(self) -> None:
        content = b"".join(b"line %d of a file that is long enough\n" % number for number in range(100))
        pieces = files_of_types.pieces_of(content, most=5)
        assert len(set(pieces)) == 5
        assert all(40 <= len(piece) <= 160 and piece in content for piece in pieces)

    def test_types_agree_with_magika(self) -> None:
        magika = pytest.importorskip("magika").Magika()
        pytest.importorskip("django")
        network, settings = files_of_types._magika()
        pieces = files_of_types.chosen_pieces("css")[:5]
        tokens = np.stack([files_of_types._tokens(piece, settings) for piece in pieces])
        ours = network.run(["target_label"], {"bytes": tokens})[0].max(axis=1)
        theirs = [magika.identify_bytes(piece).score for piece in pieces]
        np.testing.assert_allclose(ours, theirs, atol=0.01)


def test_rare_images_are_as_announced() -> None:
    assert sum(new_tables.ON_AIRFIELD.values()) == 19_240
    assert new_tables.PRIOR.sum() == pytest.approx(1)
