"""The two tables on photographs and the class weights: quick looks at the real data, pages made from stored results."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.harness import runner
from experiments.harness.experiment import Results
from experiments.harness.page import write_page
from experiments.harness.store import Row
from experiments.paper import adience_shift, adience_size, cifar10_noise, cifar10_weights
from experiments.paper.images import adience, networks, older_faces
from experiments.paper.images.splits import ADIENCE, BETTER, CIFAR10, LOADERS, PARTS, load_split
from experiments.paper.images.tasks import ImageTask
from experiments.studies import adience_albums, adience_better
from postshift.datasets.cifar10 import CLASSES
from postshift.exceptions import DataNotFoundError
from postshift.metrics import Accuracy

pytest.importorskip("torch")

TABLES = {ADIENCE: adience_shift, BETTER: adience_better, CIFAR10: cifar10_noise}


@pytest.fixture(params=TABLES)
def table(request):
    return TABLES[request.param]


def stored(experiment, values):
    """Return results of methods by seed, as they would be stored."""
    rows = [
        Row(method=method, seed=seed, values=named, seconds=1.0, versions="none")
        for method, seeds in values.items()
        for seed, named in enumerate(seeds)
    ]
    return Results(experiment=experiment, rows=tuple(rows))


@pytest.mark.usefixtures("made_up")
class TestMadeUp:
    def test_every_method_runs_and_the_page_is_made(self, table):
        outcome = runner.run(table.EXPERIMENT, folder=None, seeds=1, quick=True)
        assert outcome.failures == ()
        assert set(outcome.results.methods) == set(table.EXPERIMENT.methods)
        page = table.EXPERIMENT.page(outcome.results)
        assert all(f"| {method} |" in page for method in table.EXPERIMENT.methods)
        assert "Incomplete" not in page
        assert "UMAP is not run" in " ".join(page.split())

    def test_the_paper_has_a_figure_for_every_row_it_names(self, table):
        paper = table.EXPERIMENT.paper
        assert set(paper) <= set(table.EXPERIMENT.methods)
        assert all(0.3 < mean < 0.9 and 0 < sd < 0.1 for mean, sd in paper.values())

    def test_a_network_that_is_kept_is_not_trained_again(self, monkeypatch):
        method = cifar10_noise.EXPERIMENT.methods["cross-entropy [train]"]
        first = method(0, True)
        monkeypatch.setattr("experiments.paper.images.networks.WAYS", {})
        again = method(0, True)
        assert first.values == again.values
        assert first.seconds == again.seconds

    def test_recalls_average_to_the_accuracy_of_equal_classes(self):
        truth = np.arange(40) % 10
        labels = np.where(truth == 3, 5, truth)
        found = cifar10_noise.scores(truth, labels)
        assert found["test"] == pytest.approx(np.mean([found[f"recall of {name}"] for name in CLASSES]))
        assert found["recall of cat"] == 0

    def test_the_f_measure_is_the_mean_of_both_classes(self):
        truth, labels = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1])
        found = adience.scores(truth, labels)
        assert found["test"] == pytest.approx((0.8 + 0.8) / 2)
        assert adience.scores(truth, np.zeros(5, dtype=int))["test"] == pytest.approx(0.75 / 2)
        task = adience.load_task(ADIENCE, 0, quick=True)
        test = adience.scores(task.labels["validation"], task.eta["validation"].argmax(axis=1))["test"]
        assert task.value("validation", task.eta["validation"].argmax(axis=1)) == pytest.approx(test)

    def test_bases_see_through_the_better_network_and_others_through_what_they_say(self):
        task = adience.load_task(ADIENCE, 0, quick=True)
        seen = adience.own_places(BETTER, 0, quick=True)
        own = adience.own_places(ADIENCE, 0, quick=True)
        assert np.array_equal(task.places["test"], seen["test"])
        assert not np.array_equal(own["test"], seen["test"])
        given = []
        adience.over(adience.own_places, ADIENCE, given.append)(task)
        assert np.array_equal(given[0].places["test"], own["test"])

    def test_slow_tuning_is_at_the_rate_that_its_name_says(self):
        assert networks.TUNINGS[networks.SLOWLY]["rates"] == (1e-4,)
        assert adience_shift.SLOWLY.endswith("1e-4")

    def test_the_page_says_which_rivals_are_beaten(self):
        method = adience_shift.UNKNOWN
        values = {
            "cross-entropy [train]": (0.70, 0.71, 0.72),
            "fine-tuning": (0.79, 0.80, 0.81),
            "opt-metric [val]": (0.80, 0.81, 0.83),
            method: (0.80, 0.81, 0.82),
        }
        names = ("test", "F1 of men", "accuracy")
        values = {method: [dict.fromkeys(names, value) for value in found] for method, found in values.items()}
        text = " ".join(adience_shift.EXPERIMENT.page(stored(adience_shift.EXPERIMENT, values)).split())
        above = "significantly above (Welch's test, 95 %) cross-entropy [train] (+0.100)"
        assert f"**{method}** is {above}; above, but not significantly, fine-tuning (+0.010); not above " in text


@pytest.mark.parametrize("told_by", ["coordinates", "probabilities"])
def test_the_regression_of_validation_rows_sees_coordinates_and_probabilities(told_by):
    rng = np.random.default_rng(0)
    labels = {part: rng.integers(2, size=200) for part in PARTS}
    share = {part: y if told_by == "probabilities" else np.full(200, 0.5) for part, y in labels.items()}
    telling = {part: y if told_by == "coordinates" else np.zeros(200) for part, y in labels.items()}
    task = ImageTask(
        eta={part: np.column_stack([1 - each, each]) for part, each in share.items()},
        labels={"train": labels["train"], "validation": labels["validation"]},
        metric=Accuracy(),
        places={part: np.column_stack([each, rng.normal(size=200)]) for part, each in telling.items()},
        groupings={},
        seed=0,
    )
    assert np.array_equal(adience.on_coordinates(task).labels, labels["test"])


@pytest.mark.usefixtures("made_up")
class TestSizes:
    def test_every_method_runs_with_every_number_of_rows(self, tmp_path):
        outcome = runner.run(adience_size.EXPERIMENT, folder=tmp_path, seeds=2, quick=True)
        assert outcome.failures == ()
        for method in adience_size.METHODS:
            for size in adience_size.QUICK_SIZES:
                assert len(outcome.results.values(method, f"test@{size}")) == 2
        page = adience_size.EXPERIMENT.page(outcome.results)
        assert "PI-EW, basis by CV minus fine-tuning" in page
        write_page(outcome.results, tmp_path)
        assert (tmp_path / "adience-size.svg").exists()

    def test_rows_are_nested_and_no_test_rows(self):
        small, large = (adience_size.cut_of(0, size, quick=True) for size in (40, 80))
        assert set(small.validation) < set(large.validation)
        assert not set(large.validation) & set(large.test)
        assert np.array_equal(small.test, large.test)

    def test_probabilities_and_pixels_are_of_the_same_faces(self):
        split, cut = load_split(ADIENCE, 0, quick=True), adience_size.cut_of(0, 40, quick=True)
        faces = older_faces.older_faces(0, quick=True)
        task = older_faces.task_of(cut, Accuracy())
        assert np.array_equal(task.labels["validation"], faces.y[cut.validation])
        older = np.concatenate([split.validation.X, split.test.X])
        assert np.array_equal(faces.X, older)
        assert task.eta["test"].shape == (len(cut.test), 2)


@pytest.mark.usefixtures("made_up")
class TestAlbums:
    def test_every_method_runs_and_the_page_tells_of_known_persons(self):
        outcome = runner.run(adience_albums.EXPERIMENT, folder=None, seeds=1, quick=True)
        assert outcome.failures == ()
        assert set(outcome.results.methods) == set(adience_albums.METHODS)
        page = " ".join(adience_albums.EXPERIMENT.page(outcome.results).split())
        assert "In the paper's split, 100.0% of the test rows show a person" in page
        assert outcome.results.queries(adience.UNKNOWN) > 0
        assert outcome.results.queries(adience_albums.NETWORK) == 0
        assert outcome.results.seconds(adience_albums.NETWORK) > 0

    def test_no_album_is_on_both_sides(self):
        cut, faces = adience_albums.cut_of(0, quick=True), older_faces.older_faces(0, quick=True)
        albums = [set(faces.columns["user"][rows]) for rows in (cut.validation, cut.test)]
        assert not albums[0] & albums[1]
        assert len(cut.validation) + len(cut.test) == len(faces.y)

    def test_the_real_split_has_all_ages_and_genders_on_both_sides(self, monkeypatch):
        monkeypatch.setattr("experiments.paper.images.splits.LOADERS", LOADERS)
        load_split.cache_clear()
        try:
            faces = older_faces.older_faces(0, quick=False)
        except DataNotFoundError as error:
            pytest.skip(f"THE ALBUMS OF ADIENCE WERE NOT SEEN: {error}")
        cut = adience_albums.cut_of(0, quick=False)
        shares = [np.bincount(older_faces.strata(faces)[rows])[10:] / len(rows) for rows in (cut.validation, cut.test)]
        np.testing.assert_allclose(shares[0], shares[1], atol=0.03)
        assert 0.15 < len(cut.validation) / len(faces.y) < 0.25
        assert 0.5 < adience_albums.known_rows(0, quick=False)[adience_albums.KNOWN_PERSONS] < 1


@pytest.mark.usefixtures("made_up")
class TestWeights:
    @pytest.fixture
    def outcome(self):
        return runner.run(cifar10_weights.EXPERIMENT, folder=None, seeds=1, quick=True)

    def test_the_weights_are_those_of_the_priors_whatever_the_radius(self, outcome):
        results = outcome.results
        assert outcome.failures == ()
        assert len(results.methods) == 6
        for method in results.methods:
            assert results.values(method, "gap")[0] < 1e-6
            for name in CLASSES:
                weight = results.values(method, f"weight of {name}")[0]
                assert weight == results.values(cifar10_weights.SHOWN, f"weight of {name}")[0]
                assert weight == results.values(method, f"exact weight of {name}")[0]

    def test_the_check_finds_weights_that_are_others(self):
        task = cifar10_weights.load_task(0, quick=True)
        weights, _ = cifar10_weights.elicited(task, 0.1)
        wrong = weights * np.linspace(1, 1.1, 10)
        assert np.abs(weights / cifar10_weights.solved(task, weights)[0] - 1).max() < 1e-9
        assert np.abs(wrong / cifar10_weights.solved(task, wrong)[0] - 1).max() > 0.01

    def test_page_and_figures_are_made(self, outcome, tmp_path):
        write_page(outcome.results, tmp_path)
        assert {path.suffix for path in tmp_path.glob("weights.*")} == {".md", ".png", ".svg"}
        assert "less than 1e-6" in (tmp_path / "weights.md").read_text()

    def test_every_class_has_a_role(self):
        assert sorted(name for names in cifar10_weights.ROLES.values() for name in names) == sorted(CLASSES)


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("task", LOADERS)
def test_a_quick_look_at_the_real_photographs(task):
    try:
        load_split(task, 0, quick=True)
    except DataNotFoundError as error:
        pytest.skip(f"THE EXPERIMENTS WERE NOT RUN ON {task}: {error}")
    beside = {CIFAR10: [cifar10_weights], ADIENCE: [adience_size, adience_albums], BETTER: []}
    for experiment in (module.EXPERIMENT for module in (TABLES[task], *beside[task])):
        outcome = runner.run(experiment, folder=None, seeds=1, quick=True)
        assert outcome.failures == ()
        assert experiment.page(outcome.results).startswith(f"# {experiment.title}")
