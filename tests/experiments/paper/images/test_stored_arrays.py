"""The arrays that the repository has of networks: what is kept, what counts as the same network and the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.paper.images import adience, networks, stored_arrays
from experiments.paper.images.cache import write_arrays
from experiments.paper.images.networks import TRAIN, TUNED, Wanted, every
from experiments.paper.images.splits import ADIENCE, BETTER, CIFAR10, PARTS, load_split
from experiments.paper.images.stored_arrays import (
    FOLDER,
    NotStoredError,
    WrongRowsError,
    identity_in,
    is_stored,
    path_of,
    read_arrays,
    seen,
    store,
    stored,
)
from postshift.exceptions import DataNotFoundError

TASKS = (ADIENCE, BETTER, CIFAR10)
STORED = [each for each in every(f"{task}/{TRAIN}" for task in TASKS) if path_of(each).exists()]


def wanted(task=ADIENCE, method=TRAIN, seed=0):
    return Wanted(task=task, method=method, seed=seed)


def labels_of(task=ADIENCE, seed=0):
    split = load_split(task, seed)
    return {part: getattr(split, part).y for part in PARTS}


def train(network):
    """Put a network into the cache that was never trained: its probabilities are drawn at random."""
    rng = np.random.default_rng(network.seed)
    labels = labels_of(network.task, network.seed)
    n_classes = len(np.unique(labels["train"]))
    arrays = {f"eta/{part}": rng.dirichlet(np.ones(n_classes), size=len(y)) for part, y in labels.items()}
    write_arrays(network.folder / "network.npz", {**arrays, "seconds": np.array(1.0), "setting": np.array("{}")})
    return {part: arrays[f"eta/{part}"] for part in PARTS}


def coordinates(network):
    """Return coordinates at random, in place of UMAP's."""
    rng = np.random.default_rng(network.seed)
    return {part: 20 * rng.normal(size=(len(y), 10)) for part, y in labels_of(network.task, network.seed).items()}


@pytest.fixture
def folder(made_up, monkeypatch):
    """Photographs that are made up, an empty cache, an empty folder of stored arrays, and no UMAP."""
    monkeypatch.setattr(stored_arrays, "FOLDER", made_up / "stored")
    monkeypatch.setattr(stored_arrays, "reduced_layer", coordinates)
    return made_up / "stored"


@pytest.fixture
def no_training(monkeypatch):
    """Networks cannot be trained."""
    monkeypatch.setattr("experiments.paper.images.networks.WAYS", {})


def forget(network):
    (network.folder / "network.npz").unlink()


@pytest.mark.usefixtures("folder", "no_training")
class TestArrays:
    @pytest.mark.parametrize("task", TASKS)
    def test_probabilities_are_nearly_those_of_the_network_and_add_up_to_one(self, task):
        whole = train(wanted(task))
        store(wanted(task))
        found = stored(wanted(task), labels_of(task)).eta
        for part in PARTS:
            np.testing.assert_allclose(found[part], whole[part], rtol=2e-3, atol=1e-7)
            np.testing.assert_allclose(found[part].sum(axis=1), 1, rtol=1e-14)

    def test_coordinates_are_kept_of_the_better_network_alone(self):
        for task in (ADIENCE, BETTER):
            train(wanted(task))
            store(wanted(task))
        assert dict(stored(wanted(ADIENCE), labels_of()).places) == {}
        found, whole = stored(wanted(BETTER), labels_of()).places, coordinates(wanted(BETTER))
        assert all(np.abs(found[part] - whole[part]).max() < 0.05 for part in PARTS)

    def test_the_file_is_small_and_has_no_photograph(self):
        train(wanted(BETTER))
        path = store(wanted(BETTER))
        names = {f"{kind}/{part}" for kind in ("eta", "places") for part in PARTS}
        arrays = read_arrays(path)
        assert set(arrays) == {*names, "identity"}
        assert {arrays[name].dtype for name in names} == {np.dtype(np.float16)}

    def test_the_same_network_gives_the_same_bytes(self):
        train(wanted())
        assert store(wanted()).read_bytes() == store(wanted()).read_bytes()

    def test_other_rows_are_refused(self):
        train(wanted())
        store(wanted())
        labels = labels_of()
        for other in (1 - labels["test"], labels["test"][:-1]):
            with pytest.raises(WrongRowsError, match="of other rows"):
                stored(wanted(), {**labels, "test": other})

    def test_another_recipe_is_another_network(self, monkeypatch):
        train(wanted())
        store(wanted())
        assert is_stored(wanted())
        assert not is_stored(wanted(method=TUNED))
        assert not is_stored(Wanted(task=ADIENCE, method=TRAIN, seed=0, quick=True))
        monkeypatch.setitem(networks.RECIPES[ADIENCE], "epochs", 7)
        assert not is_stored(wanted())
        with pytest.raises(NotStoredError, match="train the network and store it"):
            stored(wanted(), labels_of())


@pytest.mark.usefixtures("folder", "no_training")
class TestSeen:
    def test_the_cache_comes_first_and_the_stored_arrays_second(self):
        whole = train(wanted())
        store(wanted())
        assert np.array_equal(seen(wanted(), labels_of()).eta["test"], whole["test"])
        forget(wanted())
        found = seen(wanted(), labels_of()).eta["test"]
        assert not np.array_equal(found, whole["test"])
        np.testing.assert_allclose(found, whole["test"], rtol=2e-3)

    def test_without_either_the_network_is_trained(self):
        with pytest.raises(KeyError, match=TRAIN):  # there is no way to train here
            seen(wanted(), labels_of())

    def test_a_task_needs_no_training(self):
        for network in (wanted(ADIENCE), wanted(BETTER)):
            train(network)
            store(network)
            forget(network)
        by_prior = adience.of_task(ADIENCE, adience.SHIFTS["ours: inverse prior"])
        assert 0 < by_prior(0, False).values["test"] < 1
        task = adience.load_task(ADIENCE, 0, quick=False)
        assert task.places["test"].shape == (len(task.labels["test"]), 10)


@pytest.mark.usefixtures("folder", "no_training")
class TestCommand:
    def test_what_the_cache_has_is_stored_once(self, capsys, monkeypatch):
        train(wanted(seed=1))
        assert stored_arrays.main([]) == 1
        out = capsys.readouterr().out
        assert out.count("not stored; training: -") == 8
        assert "MB" in out
        assert is_stored(wanted(seed=1))
        monkeypatch.setattr(stored_arrays, "store", None)
        stored_arrays.main([])

    def test_the_list_stores_nothing(self, folder, capsys):
        train(wanted())
        assert stored_arrays.main(["--list"]) == 1
        assert "adience-shift/train      seed 0  not stored; training: trained" in capsys.readouterr().out
        assert not folder.exists()

    def test_0_when_all_are_stored(self):
        for task in TASKS:
            for seed in range(3):
                train(wanted(task, seed=seed))
        assert stored_arrays.main([]) == 0


class TestRepository:
    @pytest.mark.slow
    @pytest.mark.parametrize("network", STORED, ids=lambda each: f"{each.task}-{each.seed}")
    def test_every_file_is_of_the_rows_of_the_data(self, network):
        try:
            labels = labels_of(network.task, network.seed)
        except DataNotFoundError as error:
            pytest.skip(f"THE STORED ARRAYS WERE NOT COMPARED WITH THE DATA: {error}")
        found = stored(network, labels)
        likeliest = found.eta["train"].argmax(axis=1)
        assert np.mean(likeliest == labels["train"]) > 0.4  # of the flipped labels of CIFAR-10 too

    @pytest.mark.parametrize("network", STORED, ids=lambda each: f"{each.task}-{each.seed}")
    def test_every_file_is_of_a_network_as_it_is_trained_now(self, network):
        assert is_stored(network)

    def test_the_folder_is_small_and_has_nothing_else(self):
        files = [path for path in FOLDER.iterdir() if path.name[0] != "."]
        assert set(files) == {path_of(each) for each in STORED}
        assert sum(path.stat().st_size for path in files) < 20e6

    @pytest.mark.parametrize("network", STORED, ids=lambda each: f"{each.task}-{each.seed}")
    def test_the_identity_says_what_made_it(self, network):
        found = identity_in(read_arrays(path_of(network)))
        assert "torch" in found["made with"]
        assert list(found["labels"]) == sorted(PARTS)
