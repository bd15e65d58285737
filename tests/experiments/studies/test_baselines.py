"""The comparison of every baseline on Adult: figures show what they must, cells are made again."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

import postshift.baselines
from experiments.harness import runner
from experiments.harness.files import OUT
from experiments.harness.store import Row
from experiments.paper.adult import splits
from experiments.paper.adult.methods import METHODS
from experiments.paper.adult.splits import FAIRNESS, PROXY, TASKS
from experiments.studies import baselines
from experiments.studies.baselines import EXPERIMENT, PAPER
from postshift.exceptions import DataNotFoundError

NOT_ON_ADULT = {"NetworkClassifier", "SoftmaxRegression"}  # a network, and the model that others train
WHY = {  # the topics of baselines_why.md, whose script is in the history of the repository
    "cross-entropy [train]": TASKS,
    "cross-entropy [val]": TASKS,
    "fine-tuning": TASKS,
    "opt-metric [val]": (PROXY,),
    "learn-to-reweight": TASKS,
    "accuracy of learn-to-reweight": TASKS,
    "forward correction, anchors": (PROXY,),
}


@pytest.fixture(scope="module")
def stored():
    return runner.stored(EXPERIMENT, OUT)


@pytest.fixture(scope="module")
def why():
    with (OUT / "baselines_why.csv").open(encoding="utf-8", newline="") as stream:
        assert stream.readline().startswith("# postshift ")
        return list(csv.DictReader(stream))


def loaded(task):
    try:
        return splits.load(task, 0)
    except DataNotFoundError as error:
        pytest.skip(f"THE BASELINES WERE NOT RUN ON ADULT: {error}")


class TestStored:
    def test_every_method_and_seed_is_there_once(self, stored):
        assert sorted(stored.done) == sorted(EXPERIMENT.wanted(seeds=5))
        assert len(stored.rows) == len(stored.done)
        assert all(0 < row.values["test"] < 1 and row.seconds >= 0 and row.queries >= 0 for row in stored.rows)

    def test_every_topic_and_seed_is_there_with_all_variants(self, why):
        variants = {}
        for row in why:
            variants.setdefault((row["topic"], row["task"], int(row["seed"])), []).append(row["variant"])
        assert set(variants) == {(topic, task, seed) for topic in WHY for task in WHY[topic] for seed in range(5)}
        for (topic, _, _), names in variants.items():
            assert names == variants[topic, PROXY, 0]

    def test_every_figure_of_the_paper_is_compared(self, stored):
        rows = baselines.with_quoted(stored).rows
        assert {(row.task, row.method) for row in rows} >= set(PAPER)


class TestWhatTheyShow:
    def test_every_marked_difference_is_looked_into(self, stored):
        marked = baselines.marked(stored)
        assert {method for _, method in marked} <= set(WHY)
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
        found = [row for row in why if (row["topic"], row["task"], row["variant"]) == (method, task, variant)]
        values = np.array([float(row["test"]) for row in found])
        record_property(
            "figure", f"{task:9s} {method:20s} {variant}: {values.mean():.3f}, paper {PAPER[task, method][0]}"
        )
        assert len(values) == 5
        assert abs(baselines.apart(values, PAPER[task, method])) < 1

    def test_forward_correction_is_above_the_base_model(self, stored):
        found = stored.by_method(PROXY)
        assert found["forward correction, anchors"].min() > found["cross-entropy [train]"].max()

    def test_ours_is_not_below_the_baselines(self, stored, record_property):
        record_property("figure", f"baselines on Adult: {baselines.verdict(stored)}")
        for task in TASKS:
            means = {name: values.mean() for name, values in stored.by_method(task).items()}
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
        loaded(task)
        (found,) = runner.measure(EXPERIMENT, f"{task}: {name}", 0, quick=False)
        expected = stored.of(name, task=task)[0]
        assert found.key == expected.key == (task, name, 0, 0)
        assert found.values["test"] == pytest.approx(expected.values["test"], abs=0.002)
        assert found.queries == expected.queries

    @pytest.mark.slow
    def test_the_quick_methods_of_a_split_are_made_again(self, stored):
        loaded(PROXY)
        for name in (name for name in EXPERIMENT.quick_methods if name.startswith(PROXY)):
            (row,) = runner.measure(EXPERIMENT, name, 0, quick=False)
            expected = stored.of(row.method, task=PROXY)[0].values["test"]
            assert row.values["test"] == pytest.approx(expected, abs=0.01), name


class TestPage:
    ROWS = tuple(
        Row(task=PROXY, method="cross-entropy [train]", seed=seed, values={"test": test}, seconds=1.0)
        for seed, test in enumerate([0.653, 0.655])
    )

    def test_a_difference_is_marked(self):
        near = EXPERIMENT.results(self.ROWS)
        far = EXPERIMENT.results(replace(row, values={"test": row.values["test"] + 0.2}) for row in self.ROWS)
        assert baselines.marked(near) == []
        assert baselines.marked(far) == [(PROXY, "cross-entropy [train]")]
        assert "**+0.200 (81.6 sd)**" in baselines.table(far, PROXY)
        assert "| 0.654 ± 0.002 | +0.000 (0.0 sd) |" in baselines.table(near, PROXY)

    def test_one_split_has_no_spread(self):
        assert "| 0.653 |  |  | 1.0 | 0 |" in baselines.table(EXPERIMENT.results(self.ROWS[:1]), PROXY)
