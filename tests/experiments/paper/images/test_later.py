"""Coordinates that are made when they are read, and that do not count in the time of a method."""

from __future__ import annotations

import time

import numpy as np

from experiments.paper.adult.chosen import Labelled
from experiments.paper.images.cache import Later
from experiments.paper.images.tables import of_shift
from experiments.paper.images.tasks import PARTS, ImageTask
from postshift.metrics import Accuracy


def work(seconds):
    """Use the processor for a time."""
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass


def slowly():
    work(0.3)
    return {part: np.zeros((4, 2)) for part in PARTS}


def task_with(places):
    return ImageTask(eta={}, labels={"test": np.zeros(4)}, metric=Accuracy(), places=places, groupings={}, seed=0)


def test_arrays_are_made_once_and_only_when_they_are_read():
    calls = []
    found = Later(lambda: calls.append(1) or {"train": np.arange(3)})
    assert calls == []
    assert found["train"].tolist() == [0, 1, 2]
    assert list(found) == ["train"]
    assert len(found) == 1
    assert calls == [1]


def test_the_time_they_take_is_that_of_the_coordinates():
    found = Later(slowly)
    assert found.seconds == 0
    assert found["test"].shape == (4, 2)
    assert 0.3 <= found.seconds < 3


def test_a_method_that_reads_them_first_has_its_own_time_only():
    task = task_with(Later(slowly))

    def method(given):
        work(0.1)
        return Labelled(labels=given.places["test"][:, 0])

    run = of_shift(lambda *_, **__: task, method, lambda *_: {"test": 1.0})
    for _ in range(2):
        assert 0.1 <= run(0, False).seconds < 0.25


def test_a_task_with_coordinates_at_hand_has_waited_for_nothing():
    assert task_with({}).waited == 0
