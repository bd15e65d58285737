"""What is made of a network's probabilities: bases, halves and folds, the paper's method, our rules, by queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from experiments.paper.images import embeddings
from experiments.paper.images.embeddings import Reduction
from experiments.paper.images.tasks import (
    CONSTANT,
    ImageTask,
    by_folds,
    by_halves,
    folds,
    halves,
    likeliest,
    ours,
    plain,
    rival,
)
from postshift.baselines import CoordinatePlugin
from postshift.metrics import Accuracy, BinaryF1

SIZES = {"train": 3000, "validation": 300, "test": 2000}
BY_CLASS = "by class"


def make_task(metric=None, *, n_classes=3, flip=0.6, quick=False):
    """Return rows near one of three centres; most training labels of the last class are those of the first."""
    rng = np.random.default_rng(0)
    clean = {part: np.arange(n) % n_classes for part, n in SIZES.items()}
    labels = dict(clean)
    moved = (clean["train"] == n_classes - 1) & (rng.random(SIZES["train"]) < flip)
    labels["train"] = np.where(moved, 0, clean["train"])
    centres = 3 * np.eye(n_classes)
    places = {part: centres[clean[part]] + rng.normal(size=(n, n_classes)) for part, n in SIZES.items()}
    eta = {}
    for part, rows in places.items():
        near = np.exp(rows @ centres.T - 4.5)
        near /= near.sum(axis=1, keepdims=True)
        near[:, 0] += flip * near[:, -1]
        near[:, -1] *= 1 - flip
        eta[part] = near
    return ImageTask(
        eta=eta,
        labels=labels,
        metric=Accuracy() if metric is None else metric,
        places=places,
        groupings={BY_CLASS: clean["validation"]},
        seed=0,
        quick=quick,
    )


@pytest.fixture(scope="module")
def task():
    return make_task()


def accuracy(task, shifted):
    return accuracy_score(task.labels["test"], shifted.labels)


class TestTask:
    def test_values_are_those_of_scikit_learn(self, task):
        labels = np.argmax(task.eta["test"], axis=1)
        assert task.value("test", labels) == pytest.approx(accuracy_score(task.labels["test"], labels))
        rows = np.arange(50)
        assert task.value("test", labels[rows], rows) == pytest.approx(
            accuracy_score(task.labels["test"][rows], labels[rows])
        )
        assert task.value("test", np.eye(3)[labels]) == task.value("test", labels)
        two = make_task(BinaryF1(), n_classes=2)
        labels = np.argmax(two.eta["test"], axis=1)
        assert two.value("test", labels) == pytest.approx(f1_score(two.labels["test"], labels))

    def test_a_row_that_is_a_point_does_not_count_itself(self, task):
        kept, left = halves(task)
        view = task.view(BY_CLASS, kept)
        points = task.places["validation"]
        place, group = kept[0], task.labels["validation"][kept[0]]
        others = [row for row in kept if row != place and task.labels["validation"][row] == group]
        kernel = np.exp(-((points[others] - points[place]) ** 2).sum(axis=1) / 8).clip(0.01, 0.99)
        assert view.functions["validation"][place, group] == pytest.approx(kernel.mean())
        every = [row for row in kept if task.labels["validation"][row] == group]
        kernel = np.exp(-((points[every] - points[left[0]]) ** 2).sum(axis=1) / 8).clip(0.01, 0.99)
        assert view.functions["validation"][left[0], group] == pytest.approx(kernel.mean())

    def test_halves_and_folds_have_the_classes_in_their_shares(self, task):
        kept, left = halves(task)
        assert np.array_equal(np.sort([*kept, *left]), np.arange(300))
        assert np.bincount(task.labels["validation"][kept]).tolist() == [50, 50, 50]
        assert len(folds(task, 5)) == 5

    def test_a_quick_look_tries_few_settings(self):
        radii, ridges = [1, 0.1, 0.01], [1e-8, 1e-7, 1e-6]
        assert len(make_task(quick=True).settings(["a", "b"], radii, ridges)) == 8
        assert len(make_task().settings(["a", "b"], radii, ridges)) == 12
        assert len(make_task().settings([CONSTANT], radii, ridges)) == 3  # nothing to ridge

    def test_the_paper_has_averages_alone_or_beside_the_constant(self, task):
        averages = task.view(BY_CLASS)
        beside = replace(task, with_constant=[BY_CLASS]).view(BY_CLASS)
        assert averages.functions["train"].shape[1] == task.n_classes + 1
        assert averages.rows("train").phi.shape[1] == task.n_classes
        assert (beside.rows("train").phi[:, 0] == 1).all()
        assert np.array_equal(beside.rows("train").phi[:, 1:], averages.rows("train").phi)


class TestMethods:
    def test_all_of_them_undo_the_noise(self, task):
        methods = {
            "PI-EW": plain(),
            "PI-EW, full": plain(weighting="full"),
            "by halves": by_halves([CONSTANT, BY_CLASS], max_iter=1),
            "by folds": by_folds([CONSTANT, BY_CLASS], [0.1], max_iter=1),
            "known": by_folds([CONSTANT], [0.1], max_iter=3, known=True),
            "influence": ours("influence [constant]"),
            "by queries": ours("influence [constant]", by_queries=True),
            "default": ours("auto", [BY_CLASS]),
            "plug-in": rival(lambda model, task: CoordinatePlugin(model, metric=task.metric)),
        }
        base = accuracy(task, likeliest(task))
        found = {name: accuracy(task, method(task)) for name, method in methods.items()}
        assert base < 0.85
        assert {name: value for name, value in found.items() if value < base + 0.08} == {}

    def test_the_setting_and_the_queries_are_returned(self, task):
        found = by_halves([CONSTANT], [0.4, 0.1], max_iter=1)(task)
        assert found.setting["basis"] == CONSTANT
        assert found.setting["radius"] in {0.4, 0.1}
        assert found.queries == 2 * (1 + 3) + 2  # one more for each that is compared
        assert plain()(task).queries == 1 + 3

    def test_a_fit_reads_the_labels_of_its_own_half_only(self, task):
        kept, left = halves(task)
        fits = []
        for rows in (left, kept):
            labels = task.labels["validation"].copy()
            labels[rows] = 0
            other = replace(task, labels={**task.labels, "validation": labels})
            fits.append(other.view(CONSTANT, kept).fit(radius=0.1, max_iter=1).mixture.members[0].alpha)
        plain_fit = task.view(CONSTANT, kept).fit(radius=0.1, max_iter=1).mixture.members[0].alpha
        assert np.array_equal(fits[0], plain_fit)
        assert not np.allclose(fits[1], plain_fit)

    def test_by_queries_no_label_is_given(self, task, monkeypatch):
        given = []
        monkeypatch.setattr("experiments.paper.images.tasks.PostShifter.fit", lambda _, *args: given.append(args[1]))
        for by_queries in (True, False):
            with pytest.raises(AttributeError):
                ours("influence [constant]", by_queries=by_queries)(task)
        assert given[0] is None
        assert given[1] is task.labels["validation"]


@pytest.mark.usefixtures("cache")
class TestReduction:
    def test_coordinates_are_kept(self, monkeypatch):
        parts = {name: np.random.default_rng(0).normal(size=(60, 8)) for name in ("train", "test")}
        how = {"name": "some rows", "of": {"what": "numbers"}, "seed": 0, "quick": True}
        first = Reduction(n_components=3).kept(parts, **how)
        monkeypatch.setattr(Reduction, "of", None)
        again = Reduction(n_components=3).kept(parts, **how)
        assert first["test"].shape == (60, 3)
        assert np.array_equal(first["test"], again["test"])
        with pytest.raises(TypeError):
            Reduction(n_components=3).kept(parts, **{**how, "seed": 1})

    def test_test_rows_are_not_fitted(self):
        rng = np.random.default_rng(0)
        parts = {name: rng.normal(size=(60, 8)) for name in ("train", "validation", "test")}
        found = Reduction(n_components=3).of(parts, seed=0, quick=True)
        other = Reduction(n_components=3).of({**parts, "test": 9 + parts["test"]}, seed=0, quick=True)
        assert np.array_equal(found["validation"], other["validation"])
        assert not np.array_equal(found["test"], other["test"])

    def test_without_umap_it_says_how_to_install_it(self, monkeypatch):
        def missing(name):
            raise embeddings.PackageNotFoundError(name)

        monkeypatch.setattr(embeddings, "version", missing)
        with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\["):
            Reduction(n_components=3).kept({}, name="a", of={}, seed=0, quick=False)
