"""Several processes that train one network."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pytest

from postshift.baselines._processes import Leader, Member
from postshift.exceptions import SettingError
from tests.baselines.deep.problems import digits, normalised, same_weights, small
from tests.baselines.deep.work import add, end

torch = pytest.importorskip("torch")


class StopsWhenBuiltElsewhere:
    """A network that ends the process in which it is built, unless that is the one it was made in."""

    def __init__(self):
        self.pid = os.getpid()

    def __call__(self, n_classes, input_shape):
        if os.getpid() != self.pid:
            os._exit(7)
        return torch.nn.Linear(input_shape[0], n_classes)


def test_a_batch_is_divided_among_the_processes():
    parts = [Member(rank, 3).part(np.arange(8)) for rank in range(3)]
    assert [len(part) for part in parts] == [3, 3, 2]
    assert np.array_equal(np.concatenate(parts), np.arange(8))


def test_vectors_are_summed_over_three_processes():
    sums = [111.0, 114.0]
    with Leader(3, add, sums) as leader:
        for step, total in enumerate(sums):
            assert np.array_equal(leader.summed(np.full(3, 1.0 + step, np.float32)), np.full(3, total, np.float32))
    assert not multiprocessing.active_children()


def test_a_process_that_ends_is_noticed():
    with (
        pytest.raises(ChildProcessError, match=r"has ended \(exit code 4\).*`if __name__ == '__main__':`"),
        Leader(2, end, 3) as leader,
    ):
        leader.summed(np.ones(3, np.float32))
    assert not multiprocessing.active_children()


def test_two_processes_take_the_steps_of_one(tmp_path):
    X, y = digits(101)  # batches of 26 and 25, which two processes cannot halve
    weights = np.linspace(0.5, 2, 101)
    params = {"augment": True, "transition": 0.9 * np.eye(10) + 0.01}
    alone = small(**params).fit(X, y, sample_weight=weights)
    told = []
    together = small(**params, n_processes=2, progress=told.append, checkpoint=tmp_path)
    together.fit(X, y, sample_weight=weights)
    for name, array in alone.weights_.items():
        np.testing.assert_allclose(together.weights_[name], array, atol=2e-5)
    np.testing.assert_allclose(together.losses_, alone.losses_, rtol=1e-5)
    assert len(told) == 4
    assert not multiprocessing.active_children()


@pytest.mark.slow  # it starts three processes that import torch
def test_the_same_seed_gives_the_same_weights_on_two_processes_even_after_a_stop(tmp_path):
    X, y = digits(60)
    params = {"network": normalised, "augment": True, "n_processes": 2}
    whole = small(**params).fit(X, y)

    def stop(epoch):
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(**params, checkpoint=tmp_path, progress=stop).fit(X, y)
    assert not multiprocessing.active_children()
    again = small(**params, checkpoint=tmp_path).fit(X, y)
    assert same_weights(again.weights_, whole.weights_)
    assert again.losses_ == whole.losses_


def test_a_process_that_ends_while_training_is_told_of():
    X, y = digits(40, flat=True)
    with pytest.raises(ChildProcessError, match="exit code 7"):
        small(network=StopsWhenBuiltElsewhere(), n_processes=2).fit(X, y)
    assert not multiprocessing.active_children()


def test_a_network_that_cannot_be_sent_is_refused():
    X, y = digits(40, flat=True)
    with pytest.raises(SettingError, match=r"cannot be sent to another process .* not a lambda or a local function"):
        small(network=lambda m, shape: torch.nn.Linear(shape[0], m), n_processes=2).fit(X, y)
    assert not multiprocessing.active_children()
