"""The default on the paper's tasks: what is run, what is stored, and how versions are compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.harness.experiment import Experiment
from experiments.harness.store import Row, Store
from experiments.paper import default_on_paper_tasks as study
from experiments.paper.default_on_paper_tasks import (
    COLUMNS,
    STORED,
    TASKS,
    PaperTask,
    by_version,
    lines,
    report,
    run,
    version_of,
)
from experiments.paper.images.stored_arrays import NotStoredError, stored

MEANS = {  # of the stored results when the study was written
    "adult-proxy": 0.7058,
    "adult-fairness": 0.8249,
    "cifar10-noise": 0.8347,
    "adience-shift": 0.8189,
}


class Made(PaperTask):
    """A task of two seeds."""

    @property
    def before(self):
        return {0: 0.5, 1: 0.6}


def made(value=0.7, failing=()):
    """Return a task whose default has a value, and no networks for some seeds."""

    def method(seed, _):
        if seed in failing:
            raise NotStoredError("no network")
        return Row(values={"test": value + seed / 10, "more": 1.0}, queries=3)

    experiment = Experiment(name="made up", title="", methods={"default": method}, page=str)
    return Made(name="made up", experiment=experiment, method="default")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "paper-default.csv", COLUMNS)


class TestTasks:
    def test_they_are_the_papers_and_the_better_network(self):
        names = [task.name for task in TASKS]
        assert len(names) == len(set(names)) == 9
        assert [name for name in names if name.startswith("macro-f")] == names[2:6]

    @pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
    def test_every_one_has_stored_results(self, task):
        assert sorted(task.before) == list(range(3 if task.name in {"cifar10-noise", *names_on_adience()} else 5))
        if task.name in MEANS:
            assert np.mean([*task.before.values()]) == pytest.approx(MEANS[task.name], abs=5e-5)

    def test_photographs_are_read_from_the_stored_arrays_alone(self, monkeypatch):
        seen = []

        def load_task(*_, see, **__):
            seen.append(see)
            raise NotStoredError

        monkeypatch.setattr(study.adience, "load_task", load_task)
        monkeypatch.setattr(study.cifar10_noise, "load_task", load_task)
        tasks = (study.on_cifar10(), study.on_adience(study.adience_shift.EXPERIMENT))
        for task in tasks:
            with pytest.raises(NotStoredError):
                task.measured(0)
        assert seen == [stored, stored]


def names_on_adience():
    return {"adience-shift", "adience-better"}


class TestRun:
    def test_rows_have_the_version_and_the_stored_value(self, store):
        run([made()], store, "a1")
        first, second = store.read()
        assert (first.task, first.method, first.seed, first.queries) == ("made up", "a1", 0, 3)
        assert first.values == {"test": 0.7, "stored": 0.5}
        assert second.values == {"test": 0.8, "stored": 0.6}

    def test_a_version_is_run_once(self, store):
        run([made()], store, "a1")
        run([made(value=0.1)], store, "a1")
        assert [row.values["test"] for row in store.read()] == [0.7, 0.8]
        run([made(value=0.1)], store, "b2")
        assert [row.method for row in store.read()] == ["a1", "a1", "b2", "b2"]

    def test_what_has_no_network_is_left_out_until_it_has_one(self, store, capsys):
        run([made(failing=[0])], store, "a1")
        assert [row.seed for row in store.read()] == [1]
        assert "seed 0 left out: no network" in capsys.readouterr().err
        run([made()], store, "a1")
        assert [row.seed for row in store.read()] == [1, 0]

    def test_a_version_is_the_source_of_the_package(self, tmp_path):
        (tmp_path / "core").mkdir()
        (tmp_path / "core" / "rows.py").write_text("a = 1\n")
        first = version_of(tmp_path)
        (tmp_path / "core" / "notes.txt").write_text("no source")
        assert version_of(tmp_path) == first
        (tmp_path / "core" / "rows.py").write_text("a = 2\n")
        changed = version_of(tmp_path)
        (tmp_path / "core" / "rows.py").rename(tmp_path / "rows.py")
        assert len({first, changed, version_of(tmp_path)}) == 3


class TestReport:
    def rows(self, now=0.7):
        old = [Row(task="t", method="old", seed=s, values={"test": 0.60 + s / 10, "stored": 0.5}) for s in (0, 1)]
        new = [Row(task="t", method="new", seed=s, values={"test": now + s / 5, "stored": 0.4}) for s in (0, 1)]
        return [*old, *new, replace(new[0], seed=2)]

    def test_differences_are_paired_by_seed(self):
        (first, second) = lines(by_version(self.rows()), "new")
        assert first[:6] == ["t", STORED, "3", "0.4667", "0.7667", "+0.3000"]  # the first stored value of a seed counts
        assert second[:6] == ["t", "old", "2", "0.6500", "0.8000", "+0.1500"]
        assert second[7:] == ["+0.1000 +0.2000", ""]
        low, high = (float(each) for each in second[6].split(" to "))
        assert (low + high) / 2 == pytest.approx(0.15)

    def test_the_goal_is_the_stored_mean_less_a_little(self):
        rows = [Row(task="t", method="new", seed=0, values={"test": value, "stored": 0.5}) for value in (0.4981,)]
        assert "0.4980 reached" in report(rows, "new")
        missed = [replace(rows[0], values={"test": 0.4979, "stored": 0.5})]
        assert "0.4980 NOT reached" in report(missed, "new")

    def test_a_version_without_results_has_no_lines(self):
        assert list(lines(by_version(self.rows()), "other")) == []

    def test_the_command_runs_and_prints(self, monkeypatch, capsys, tmp_path):
        monkeypatch.setattr(study, "TASKS", (made(),))
        assert study.main(["--out", str(tmp_path)]) == 0
        assert "| made up | stored results | 2 |" in capsys.readouterr().out
        assert study.main(["--out", str(tmp_path / "none"), "--tasks", "adience"]) == 0
        assert not (tmp_path / "none" / "paper-default.csv").exists()
