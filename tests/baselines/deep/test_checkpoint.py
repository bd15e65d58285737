"""Trainings that are interrupted and taken up again; files that are damaged, or of another fit."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from postshift.baselines._baseline import BothSides
from postshift.baselines.deep_methods import learn_to_reweight
from postshift.exceptions import ArchiveError, SettingError
from tests.baselines.deep.problems import digits, normalised, same_weights, small

torch = pytest.importorskip("torch")

KILLED = """
import os, signal, sys
from tests.baselines.deep.problems import digits, normalised, small

def stop(epoch):
    if epoch.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)

small(network=normalised, augment=True, checkpoint=sys.argv[1], progress=stop).fit(*digits(90))
"""


class Stopped(Exception):  # noqa: N818
    pass


def stop_after(n_epochs):
    def stop(epoch):
        if epoch.number == n_epochs:
            raise Stopped

    return stop


def model(folder=None, **params):
    return small(**{"network": normalised, "augment": True, "checkpoint": folder, **params})


@pytest.fixture(name="whole", scope="module")
def fixture_whole():
    return model().fit(*digits(90))


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_training_that_was_killed_goes_on_as_if_it_had_not_been(tmp_path, whole):
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -9
    told = []
    again = model(tmp_path, progress=told.append).fit(*digits(90))
    assert [epoch.number for epoch in told] == [3, 4]
    assert same_weights(again.weights_, whole.weights_)
    assert again.losses_ == whole.losses_


@pytest.mark.parametrize("n_epochs", [1, 2, 3, 4])
def test_it_may_stop_after_any_epoch(tmp_path, whole, n_epochs):
    X, y = digits(90)
    with pytest.raises(Stopped):
        model(tmp_path / "new" / "folder", progress=stop_after(n_epochs)).fit(X, y)
    again = model(tmp_path / "new" / "folder").fit(X, y)
    assert same_weights(again.weights_, whole.weights_)
    assert again.losses_ == whole.losses_


def test_a_training_that_is_done_is_not_done_again(tmp_path, whole):
    X, y = digits(90)
    model(tmp_path).fit(X, y)
    again = model(tmp_path, progress=stop_after(1)).fit(X, y)
    assert same_weights(again.weights_, whole.weights_)
    assert [file.name for file in tmp_path.iterdir()] == ["training.npz"]


def test_a_file_that_was_not_written_to_the_end_does_no_harm(tmp_path, whole, monkeypatch):
    X, y = digits(90)
    with pytest.raises(Stopped):
        model(tmp_path, progress=stop_after(2)).fit(X, y)

    def full(_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space left"):
            model(tmp_path).fit(X, y)
    assert [file.name for file in tmp_path.iterdir()] == ["training.npz"]
    told = []
    assert same_weights(model(tmp_path, progress=told.append).fit(X, y).weights_, whole.weights_)
    assert told[0].number == 3


@pytest.mark.parametrize("damage", ["cut short", "changed", "of another kind", "a pickle"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    X, y = digits(90)
    with pytest.raises(Stopped):
        model(tmp_path, progress=stop_after(1)).fit(X, y)
    file = tmp_path / "training.npz"
    content = bytearray(file.read_bytes())
    if damage == "cut short":
        file.write_bytes(content[:-100])
    elif damage == "changed":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "of another kind":
        np.savez(file, header=np.array("{}"))
    else:
        torch.save({"weights": torch.ones(3)}, file)
    with pytest.raises(ArchiveError, match=r"training.npz (is not a|must hold a|was damaged)"):
        model(tmp_path).fit(X, y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 5}, r"differ: epochs \(4 in the file, 5 here\). Give another folder, or delete"),
        (
            {"batch_size": 16, "augment": False},
            r"batch_size \(32 in the file, 16 here\), augment \(True in the file, False here\)",
        ),
        ({"random_state": 1}, r"seed \(0 in the file, 1 here\), first weights"),
        ({"network": "small"}, r"network \('normalised' in the file, 'small' here\), first weights"),
        ({"transition": np.eye(10)}, "these differ: objective. Give another folder"),
    ],
)
def test_a_file_of_other_parameters_is_refused(tmp_path, changes, message):
    X, y = digits(90)
    with pytest.raises(Stopped):
        model(tmp_path, progress=stop_after(1)).fit(X, y)
    with pytest.raises(ArchiveError, match=message):
        model(tmp_path, **changes).fit(X, y)


def test_a_file_of_other_rows_is_refused(tmp_path):
    X, y = digits(90)
    with pytest.raises(Stopped):
        model(tmp_path, progress=stop_after(1)).fit(X, y)
    for other in [(X + 1, y, None), (X, y[::-1], None), (X, y, np.arange(1.0, 91))]:
        with pytest.raises(ArchiveError, match=r"belongs to another fit; these differ: rows. Give another folder"):
            model(tmp_path).fit(*other)


def test_learning_to_reweight_goes_on_too(tmp_path):
    X, y = digits(90)
    rows = BothSides(X=X[:60], y=y[:60], X_val=X[60:], y_val=y[60:], n_classes=10)
    how = {"classes": np.arange(10), "val_batch_size": 20}
    whole = learn_to_reweight(model(), rows, **how)
    with pytest.raises(Stopped):
        learn_to_reweight(model(tmp_path, progress=stop_after(2)), rows, **how)
    assert [file.name for file in tmp_path.iterdir()] == ["reweighting.npz"]
    told = []
    again = learn_to_reweight(model(tmp_path, progress=told.append), rows, **how)
    assert told[0].number == 3
    assert same_weights(again.weights_, whole.weights_)
    with pytest.raises(ArchiveError, match="these differ: objective"):
        learn_to_reweight(model(tmp_path), rows, classes=np.arange(10), val_batch_size=21)


def test_what_cannot_be_taken_up_again_is_refused(tmp_path):
    with pytest.raises(SettingError, match=r"needs a whole number as random_state. Got None"):
        model(tmp_path, random_state=None).fit(*digits(90))
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=r"checkpoint must be a folder. Got the file"):
        model(tmp_path / "file").fit(*digits(90))
