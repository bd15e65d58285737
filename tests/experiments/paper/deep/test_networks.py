"""The networks of the experiments: kept, taken up again, made with what they say, listed and trained by a command."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.paper.images import networks
from experiments.paper.images.cache import place_of, read_arrays, write_arrays
from experiments.paper.images.networks import (
    FORWARD,
    MATCHED,
    REWEIGHTED,
    TRAIN,
    TUNED,
    VALIDATION,
    Clock,
    Wanted,
    every,
    trained,
)
from experiments.paper.images.splits import ADIENCE, BETTER, CIFAR10, load_split, scaled, shortened

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("made_up")


def wanted(task=CIFAR10, method=TRAIN, seed=0):
    return Wanted(task=task, method=method, seed=seed, quick=True)


class Stopped(Exception):  # noqa: N818
    pass


class TestCache:
    def test_a_network_is_trained_once(self, tmp_path, monkeypatch):
        first = trained(wanted())
        monkeypatch.setattr(networks, "WAYS", {})
        again = trained(wanted())
        assert all(np.array_equal(first.eta[part], again.eta[part]) for part in first.eta)
        assert first.seconds == again.seconds > 0
        assert sorted(path.name for path in wanted().folder.iterdir()) == ["lock", "network.npz", "spent.txt"]
        assert wanted().folder.is_relative_to(tmp_path)

    def test_what_is_kept_has_a_row_for_every_photograph(self):
        found = trained(wanted())
        split = load_split(CIFAR10, 0, quick=True)
        for part in ("train", "validation", "test"):
            n_rows = len(getattr(split, part).y)
            assert found.eta[part].shape == (n_rows, 10)
            assert len(found.embeddings[part]) == n_rows
            np.testing.assert_allclose(found.eta[part].sum(axis=1), 1)

    def test_a_stopped_training_goes_on_as_if_it_had_not_been(self, monkeypatch, tmp_path):
        monkeypatch.setitem(networks.QUICK_RECIPE, "epochs", 3)
        seen = []

        def stop(epoch):
            seen.append(epoch.number)
            if epoch.number == 2:
                raise Stopped

        with pytest.raises(Stopped):
            trained(wanted(), report=stop)
        assert networks.state(wanted()) == "2 of 3 epochs"
        resumed = trained(wanted(), report=lambda epoch: seen.append(epoch.number))
        assert seen == [1, 2, 3]
        monkeypatch.setenv("POSTSHIFT_CACHE", str(tmp_path / "other"))
        whole = trained(wanted())
        assert np.array_equal(resumed.eta["test"], whole.eta["test"])

    def test_of_two_that_want_a_network_one_trains_it(self, monkeypatch):
        ways, n_trained = dict(networks.WAYS), []

        def counted(job):
            n_trained.append(1)
            return ways[TRAIN](job)

        monkeypatch.setitem(networks.WAYS, TRAIN, counted)
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda _: trained(wanted()), range(2))
        assert len(n_trained) == 1
        assert np.array_equal(first.eta["test"], second.eta["test"])

    def test_an_interrupted_write_leaves_what_was_there(self, tmp_path):
        path = tmp_path / "new" / "arrays.npz"
        write_arrays(path, {"a": np.arange(3)})
        with pytest.raises(TypeError):
            write_arrays(path, {"a": np.arange(3), 7: np.arange(2)})
        assert list(path.parent.iterdir()) == [path]
        assert read_arrays(path)["a"].tolist() == [0, 1, 2]
        assert read_arrays(tmp_path / "none.npz") is None

    def test_another_configuration_is_another_place(self, tmp_path, monkeypatch):
        places = {each.folder for each in (wanted(), wanted(seed=1), wanted(method=TUNED), wanted(task=ADIENCE))}
        places.add(Wanted(task=CIFAR10, method=TRAIN, seed=0).folder)
        monkeypatch.setitem(networks.RECIPE, "weight_decay", 0.1)
        places |= {wanted().folder, wanted(method=TUNED).folder}
        assert len(places) == 7
        assert place_of("networks", "a/b", {"x": 1}).parent == tmp_path / "networks"


class TestWays:
    @pytest.mark.parametrize(("task", "method"), networks.NETWORKS)
    def test_every_network_can_be_trained(self, task, method):
        found = trained(wanted(task, method))
        assert np.isfinite(found.eta["test"]).all()
        assert np.ptp(found.eta["test"], axis=0).max() > 0.01

    def test_the_network_learns(self, monkeypatch):
        monkeypatch.setitem(networks.QUICK_RECIPE, "epochs", 8)
        accurate = {
            method: np.mean(trained(wanted(ADIENCE, method)).eta["test"].argmax(axis=1) == np.arange(120) % 2)
            for method in (TRAIN, VALIDATION, REWEIGHTED, MATCHED)
        }
        assert min(accurate.values()) > 0.9

    def test_tuning_starts_from_the_network_of_the_training_rows(self, monkeypatch):
        monkeypatch.setitem(networks.QUICK_TUNING, "max_epochs", 0)
        base, tuned = trained(wanted()), trained(wanted(method=TUNED))
        np.testing.assert_allclose(tuned.eta["test"], base.eta["test"], atol=1e-6)

    @pytest.mark.parametrize("method", [FORWARD, REWEIGHTED])
    def test_others_are_trained_on_from_that_network(self, method):
        job = networks.Job(wanted=wanted(method=method), split=load_split(CIFAR10, 0, quick=True), pixels={})
        start, base = job.network().initial_weights, trained(wanted()).weights
        assert all(np.array_equal(start[name], weights) for name, weights in base.items())
        assert networks.Job(wanted=wanted(), split=job.split, pixels={}).network().initial_weights is None

    def test_the_rate_of_tuning_is_the_one_with_the_least_loss(self, monkeypatch):
        monkeypatch.setitem(networks.QUICK_TUNING, "rates", (0.0, 0.02))
        monkeypatch.setitem(networks.QUICK_TUNING, "max_epochs", 5)
        assert trained(wanted(method=TUNED)).setting["rate"] == 0.02

    def test_forward_correction_reads_the_noise_off_the_base_network(self):
        assert 0 < trained(wanted(method=FORWARD)).setting["largest flip"] < 1

    def test_matching_weights_rows_that_are_like_validation_rows(self):
        rows = trained(wanted(BETTER, MATCHED)).setting["rows of weight"]
        assert 1 < rows <= 200

    def test_what_a_network_is_built_on_is_trained_before_it_and_not_in_its_time(self, monkeypatch):
        times = iter([10.0, 11.0, 13.0, 20.0, 22.0])  # of the base: begin, epoch, end; of tuning: begin, end
        monkeypatch.setattr(networks.time, "process_time", lambda: next(times))
        assert trained(wanted(method=TUNED)).seconds == 2.0
        assert trained(wanted()).seconds == 3.0

    def test_one_process_tunes_and_several_train(self):
        found = {method: networks.Wanted(task=ADIENCE, method=method, seed=0).n_processes for method in (TRAIN, TUNED)}
        assert found == {TRAIN: networks.RECIPE["n_processes"], TUNED: 1}

    def test_the_coordinates_are_part_of_what_matching_is(self, monkeypatch):
        before = wanted(ADIENCE, MATCHED).folder
        monkeypatch.setattr(networks, "COORDINATES", networks.Reduction(n_components=3))
        assert wanted(ADIENCE, MATCHED).folder != before


class TestRows:
    def test_a_quick_look_has_all_labels_and_ages(self):
        images = load_split(ADIENCE, 0, quick=False).test
        few = shortened(images, 12)
        assert len(few.y) == 12
        assert set(few.y) == {0, 1}
        assert set(few.columns["age_bucket"]) == {5, 6, 7}
        assert (np.diff(few.rows) > 0).all()
        assert len(shortened(images, 10_000).y) == len(images.y)

    def test_colours_are_scaled_by_the_training_rows(self):
        split = load_split(CIFAR10, 0, quick=False)
        pixels = scaled(split)
        assert pixels["test"].shape == (120, 3, 8, 8)
        assert pixels["test"].dtype == np.float32
        np.testing.assert_allclose(pixels["train"].mean(axis=(0, 2, 3)), 0, atol=1e-5)
        np.testing.assert_allclose(pixels["train"].std(axis=(0, 2, 3)), 1, atol=1e-5)
        assert abs(pixels["validation"].mean()) > 1e-5


class TestCommand:
    def test_networks_that_others_build_on_come_first(self):
        found = every(["all"])
        places = {(each.task, each.method, each.seed): place for place, each in enumerate(found)}
        assert len(places) == sum(networks.SEEDS[task] for task, _ in networks.NETWORKS)
        assert all(places[each.task, TRAIN, each.seed] <= place for place, each in enumerate(found))

    def test_one_network_of_one_seed(self):
        assert every([f"{CIFAR10}/{FORWARD}"], seeds=[4]) == [Wanted(task=CIFAR10, method=FORWARD, seed=4)]
        assert {each.task for each in every([ADIENCE])} == {ADIENCE}

    def test_list_and_train(self, capsys):
        arguments = ["--train", f"{CIFAR10}/{TRAIN}", "--seed", "0", "--quick"]
        assert networks.main(["--list", *arguments]) == 0
        assert " - " in capsys.readouterr().out
        assert networks.main(arguments) == 0
        assert "epoch 1 of 1" in capsys.readouterr().err
        assert networks.main(["--list", *arguments]) == 0
        assert "trained" in capsys.readouterr().out

    def test_a_name_that_is_not_known(self, capsys):
        with pytest.raises(SystemExit):
            networks.main(["--train", "cifar"])
        assert "cifar10-noise" in capsys.readouterr().err

    def test_ctrl_c_says_how_to_go_on(self, monkeypatch, capsys):
        def stop(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(networks, "trained", stop)
        assert networks.main(["--train", CIFAR10, "--quick"]) == 130
        assert "goes on" in capsys.readouterr().err

    def test_the_time_left_follows_the_pace(self, monkeypatch, capsys):
        ticks = itertools.count(step=600)
        monkeypatch.setattr(networks.time, "monotonic", lambda: next(ticks))
        plain = Wanted(task=CIFAR10, method=TRAIN, seed=0)
        clock = Clock([plain, Wanted(task=CIFAR10, method=TRAIN, seed=1)])
        clock.report(SimpleNamespace(number=1, n_epochs=20, loss=1.0))
        assert "3 h 10 min left, 6 h 30 min of all" in capsys.readouterr().err
        clock.report(SimpleNamespace(number=2, n_epochs=20, loss=1.0))
        assert "3 h 00 min left" in capsys.readouterr().err

    def test_a_training_that_is_taken_up_again_counts_its_own_epochs(self, monkeypatch, capsys):
        ticks = itertools.count(step=60)
        monkeypatch.setattr(networks.time, "monotonic", lambda: next(ticks))
        clock = Clock([Wanted(task=CIFAR10, method=TRAIN, seed=0)])
        clock.report(SimpleNamespace(number=11, n_epochs=20, loss=1.0))
        text = capsys.readouterr().err
        assert "9 min left" in text
        assert "taken up after epoch 10" in text
        clock.finished()
        assert "0 networks" in capsys.readouterr().err
