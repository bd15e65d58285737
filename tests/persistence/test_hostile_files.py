"""Files that were made to do harm, or were damaged: no code of them runs, and the error says what is wrong."""

from __future__ import annotations

import json
import os
import pickle
from functools import partial

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from postshift import PostShiftClassifier
from postshift.basis import TreeBasis
from postshift.exceptions import ArchiveError, BasisError, UntrustedError
from postshift.metrics import GMean
from postshift.persistence import dump, load
from tests.estimators.data import noisy
from tests.persistence.skops_files import described

X = np.random.default_rng(0).normal(size=(200, 3))
RAN: list[str] = []


class Trap:
    """Records when it is made or filled."""

    def __new__(cls):
        RAN.append("made")
        return super().__new__(cls)

    def __setstate__(self, state):
        RAN.append("filled")


def touching(path):
    """Files that would write to a path if anything of them ran."""
    command = f"touch '{path}'"
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(command)}
    words = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [text]}
    metric = {"__class__": "GMean", "__module__": "postshift.metrics.recalls", "__loader__": "ObjectNode"}
    return {
        "posix.system": skops.io.dumps(FunctionTransformer(os.system, kw_args={"command": command})),
        "functools.partial, posix.system": skops.io.dumps([partial(os.system, command)]),
        "os.system": described("os", "system", "ConstructorFromReduceNode", words),
        "pathlib.Path": described("pathlib", "Path", "ConstructorFromReduceNode", words),
        "postshift.core.archive.Path": described("postshift.core.archive", "Path", "ConstructorFromReduceNode", words),
        "postshift.core.archive.write_archive": described(
            "postshift.core.archive", "write_archive", "ConstructorFromReduceNode", words
        ),
        "postshift.metrics.recalls.GMean.__reduce__": described(
            "postshift.metrics.recalls", "GMean", "MethodNode", {"obj": metric, "func": "__reduce__"}
        ),
    }


@pytest.mark.parametrize("named", touching("nothing"))
def test_functions_and_foreign_classes_are_refused_before_anything_runs(tmp_path, named):
    (tmp_path / "model.skops").write_bytes(touching(tmp_path / "ran")[named])
    ours = named.startswith("postshift.")
    said = (
        f"holds more than data: {named}. " if ours else f"holds types that are not trusted: {named}. If you know them"
    )
    with pytest.raises(UntrustedError, match=said) as caught:
        load(tmp_path / "model.skops")
    assert caught.value.names == tuple(named.split(", "))
    assert not (tmp_path / "ran").exists()


def test_object_of_a_foreign_class_is_not_made(tmp_path):
    (tmp_path / "model.skops").write_bytes(skops.io.dumps([GMean(), Trap()]))
    RAN.clear()
    with pytest.raises(ArchiveError, match=r"not trusted: tests.persistence.test_hostile_files.Trap\. "):
        load(tmp_path / "model.skops")
    assert RAN == []


def test_pickle_in_disguise_is_not_run(tmp_path):
    class Runs:
        def __reduce__(self):
            return os.system, (f"touch '{tmp_path / 'ran'}'",)

    for name in ("model.skops", "model.joblib"):
        (tmp_path / name).write_bytes(pickle.dumps(Runs()))
    with pytest.raises(ArchiveError, match="is not a skops file"):
        load(tmp_path / "model.skops", trust=True)
    with pytest.raises(ArchiveError, match=r"runs any code that it holds.*trust=True"):
        load(tmp_path / "model.joblib")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("suffix", ["skops", "joblib"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_truncated_file(tmp_path, suffix, share):
    path = tmp_path / f"model.{suffix}"
    dump([TreeBasis().fit(X, X[:, 0] > 0), X], path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ArchiveError, match=f"model.{suffix} is not a {suffix} file"):
        load(path, trust=True)


@pytest.mark.parametrize("suffix", ["skops", "joblib"])
def test_failed_dump_leaves_the_file_that_is_there(tmp_path, suffix):
    path = tmp_path / f"model.{suffix}"
    dump(GMean(), path)
    with pytest.raises(Exception, match="cannot be saved"):
        dump([GMean(), (row for row in X)], path)
    assert isinstance(load(path, trust=True), GMean)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("feature", [-3, 0, 0, 0, 0]),
        ("feature", [3, 0, 0, 0, 0]),
        ("left", [10**9, -1, 3, -1, -1]),
        ("left", [0, -1, 3, -1, -1]),
        ("right", [2, -1, -5, -1, -1]),
        ("right", [2, -1, 3, -1, -1]),
        ("right", [2]),
        ("left", []),
        ("missing_left", [2, 2, 2, 2, 2]),
        ("threshold", [[0.0], [0.0], [0.0], [0.0], [0.0]]),
    ],
)
def test_tree_that_was_tampered_with_is_refused_when_used(tmp_path, part, values):
    basis = TreeBasis(3).fit(X, np.digitize(X[:, 0], [0, 1]))
    assert basis.splits_.left.tolist() == [1, -1, 3, -1, -1]
    changed = np.array(values, dtype=float if part == "threshold" else int)
    object.__setattr__(basis.splits_, part, changed)  # as in a file made by hand
    dump(basis, tmp_path / "basis.skops")
    again = load(tmp_path / "basis.skops")
    with pytest.raises(BasisError, match="the splits are no tree over 3 columns"):
        again.transform(X)


class Mine(LogisticRegression):
    """An estimator of the user."""


def test_estimators_of_the_user_must_be_named(tmp_path):
    data, path = noisy(3), tmp_path / "model.skops"
    model = PostShiftClassifier(Mine(), method="smoothed plug-in").fit(data.X, data.y, data.X_val, data.y_val)
    dump(model, path)
    with pytest.raises(UntrustedError, match=r"types that are not trusted: tests.*\.Mine\. If you know them"):
        load(path)
    np.testing.assert_array_equal(load(path, trusted=[Mine]).predict(data.X), model.predict(data.X))
