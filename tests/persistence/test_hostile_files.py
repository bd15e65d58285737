"""Files that were made to do harm, or were damaged: nothing of them runs, and the error says what is wrong."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pickle
import pkgutil
import zipfile
from dataclasses import fields, is_dataclass, replace
from functools import partial

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

import postshift
from postshift import Mixture, PlugIn, PostShiftClassifier
from postshift.basis import TreeBasis
from postshift.estimators.records import History
from postshift.exceptions import ArchiveError, BasisError, UntrustedError
from postshift.metrics import GMean, from_labels
from postshift.persistence import dump, load
from postshift.persistence.data_classes import NAMES, class_name
from postshift.rules.posterior import Identity
from tests.estimators.data import noisy

X = np.random.default_rng(0).normal(size=(200, 3))
RAN: list[str] = []


class Trap:
    """Says so when it is made or filled."""

    def __new__(cls):
        RAN.append("made")
        return super().__new__(cls)

    def __setstate__(self, state):
        RAN.append("filled")


def described(module, name, loader, content, **more):
    """A skops file of one entry, written by hand."""
    schema = {"__class__": name, "__module__": module, "__loader__": loader, "content": content, "__id__": 1, **more}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("schema.json", json.dumps({**schema, "protocol": 2, "_skops_version": skops.__version__}))
    return stream.getvalue()


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
    said = f"holds what is not data: {named}. " if ours else f"holds types that are not trusted: {named}. Load it with"
    with pytest.raises(UntrustedError, match=said) as caught:
        load(tmp_path / "model.skops")
    assert caught.value.names == tuple(named.split(", "))
    assert not (tmp_path / "ran").exists()


def classes_of_postshift():
    """All classes that modules of postshift define, by their full names."""
    found = {}
    for module in pkgutil.walk_packages(postshift.__path__, "postshift."):
        if not module.name.endswith("__main__"):
            for each in vars(importlib.import_module(module.name)).values():
                if isinstance(each, type) and each.__module__ == module.name:
                    found[class_name(each)] = each
    return found


def entry(value):
    """The entry of a text or a tuple of texts in a skops file."""
    if isinstance(value, str):
        return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}
    parts = [entry(each) for each in value]
    return {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": parts}


def made_by_every_loader(name, path):
    """Files that make an object of a class in all the ways that skops knows, of the text of a path."""
    module, _, attribute = name.rpartition(".")
    kind = {"__class__": attribute, "__module__": module, "__loader__": "TypeNode"}
    kinds = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [kind]}
    mapping = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "key_types": kinds}
    yield described(module, attribute, "ObjectNode", entry((path, path)))
    yield described(module, attribute, "ObjectNode", mapping | {"content": {}})
    yield described(module, attribute, "ListNode", [entry(path)])
    yield described(module, attribute, "SetNode", [entry(path)])
    yield described(module, attribute, "TypeNode", None)
    yield described(module, attribute, "FunctionNode", None)
    yield described("builtins", "dict", "DictNode", {path: entry(path)}, key_types=kinds)
    for n_words in range(4):
        yield described(module, attribute, "ConstructorFromReduceNode", entry((path,) * n_words))


def test_only_classes_that_hold_data_are_read(tmp_path):
    found = classes_of_postshift()
    assert found.keys() >= NAMES
    for name in found.keys() - NAMES:
        for content in made_by_every_loader(name, str(tmp_path / "ran")):
            (tmp_path / "model.skops").write_bytes(content)
            with pytest.raises(UntrustedError, match="holds what is not data"):
                load(tmp_path / "model.skops")
    assert [each.name for each in tmp_path.iterdir()] == ["model.skops"]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_no_class_that_is_read_does_anything_when_it_is_made(tmp_path, name):
    for content in made_by_every_loader(name, str(tmp_path / "ran")):
        (tmp_path / "model.skops").write_bytes(content)
        with contextlib.suppress(ArchiveError):
            load(tmp_path / "model.skops")
    assert [each.name for each in tmp_path.iterdir()] == ["model.skops"]


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
    with pytest.raises(ArchiveError, match=r"runs whatever code it holds.*trust=True"):
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
    with pytest.raises(BasisError, match="the splits are not a tree over 3 columns"):
        again.transform(X)


# -- every class in its place ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    """A classifier with a tree and a loop, of which one member and one look are left."""
    data = noisy(3)
    found = PostShiftClassifier(LogisticRegression(), method="influence [tree]")
    found.fit(data.X, data.y, data.X_val, data.y_val)
    rule = found.rule_.rules[0]
    mixture = Mixture.of([rule.mixture.members[0]], [1.0])
    kept = replace(rule, mixture=mixture, trace=rule.trace[:1], scales=np.ones(1))
    found.rule_ = replace(found.rule_, rules=(kept,), weights=np.ones(1))
    found.history_ = History.of(found.rule_)
    return found


def attributes_with_types(value, seen):
    """Every attribute of a part of a model that can hold one kind of thing only: the object and the name."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from attributes_with_types(part, seen)
    elif is_dataclass(value) or isinstance(value, PostShiftClassifier | TreeBasis):
        typed = [field.name for field in fields(value)] if is_dataclass(value) else TYPED
        yield from ((value, name) for name in typed if hasattr(value, name))
        names = typed if is_dataclass(value) else vars(value)
        for name in list(names):
            yield from attributes_with_types(getattr(value, name), seen)


TYPED = ("rule_", "diagnostics_", "history_", "held_out_", "splits_")


@pytest.mark.parametrize("thing", [FunctionTransformer(np.exp), np.exp, GMean(), Identity(), float], ids=str)
def test_every_part_of_a_rule_holds_its_own_kind_only(model, tmp_path, thing):
    places = {(type(value), name): value for value, name in attributes_with_types(model, {})}
    assert {"rule_", "posterior", "mixture", "members", "weighting", "alpha", "splits_"} <= {name for _, name in places}
    for (kind, name), value in places.items():
        if kind.__name__ == "FittedRule" and name == "posterior" and isinstance(thing, Identity):
            continue
        before = getattr(value, name)
        object.__setattr__(value, name, thing)
        try:
            (tmp_path / "model.skops").write_bytes(skops.io.dumps(model))
        finally:
            object.__setattr__(value, name, before)
        with pytest.raises(ArchiveError, match=rf"tampered with: .*{name}(\[0\])? must be"):
            load(tmp_path / "model.skops")


@pytest.mark.parametrize("name", ["predict", "score", "coef_", "__class__", "_leading"])
def test_no_attribute_stands_for_a_method(model, tmp_path, name):
    vars(model)[name] = np.exp
    try:
        (tmp_path / "model.skops").write_bytes(skops.io.dumps(model))
    finally:
        del vars(model)[name]
    with pytest.raises(ArchiveError, match=rf"{name} must be what every PostShiftClassifier has there"):
        load(tmp_path / "model.skops")


@pytest.mark.parametrize("alpha", [np.ones((1, 2)), np.full((1, 3), np.nan), np.ones(3)], ids=["short", "nan", "flat"])
def test_coefficients_that_no_rule_can_have_are_refused(tmp_path, alpha):
    member = PlugIn(weighting="diagonal", alpha=np.ones((1, 3)), n_classes=3)
    object.__setattr__(member, "alpha", alpha)
    (tmp_path / "rule.skops").write_bytes(skops.io.dumps(member))
    with pytest.raises(ArchiveError, match="alpha must"):
        load(tmp_path / "rule.skops")


def test_members_of_different_sizes_and_shares_of_none_are_refused(tmp_path):
    three, two = (PlugIn(weighting="diagonal", alpha=np.ones((1, size)), n_classes=size) for size in (3, 2))
    mixture = Mixture.of([three], [1.0])
    for name, wrong in (("members", (three, two)), ("shares", np.ones(2)), ("members", ())):
        before = getattr(mixture, name)
        object.__setattr__(mixture, name, wrong)
        (tmp_path / "rule.skops").write_bytes(skops.io.dumps(mixture))
        object.__setattr__(mixture, name, before)
        with pytest.raises(ArchiveError, match="members must be one plug-in or more"):
            load(tmp_path / "rule.skops")


def share_right(y_true, y_pred):
    return np.mean(y_true == y_pred)


def test_function_of_a_metric_must_be_named(tmp_path):
    path, here = tmp_path / "metric.skops", "tests.persistence.test_hostile_files.share_right"
    dump(from_labels(share_right), path)
    with pytest.raises(UntrustedError, match=f"not trusted: {here}. Load it with trusted="):
        load(path)
    assert load(path, trusted=[here]) == load(path, trusted=[share_right]) == from_labels(share_right)
    metric = from_labels(share_right)
    object.__setattr__(metric, "function", np.add)
    path.write_bytes(skops.io.dumps(metric))
    with pytest.raises(ArchiveError, match="function must be a function named in trusted"):
        load(path)


class Mine(LogisticRegression):
    """An estimator of a user's own."""


def test_estimator_of_ones_own_is_told_apart_by_its_name(tmp_path):
    data, path = noisy(3), tmp_path / "model.skops"
    model = PostShiftClassifier(Mine(), method="smoothed plug-in").fit(data.X, data.y, data.X_val, data.y_val)
    dump(model, path)
    with pytest.raises(UntrustedError, match=r"types that are not trusted: tests.*\.Mine\. Load it with"):
        load(path)
    np.testing.assert_array_equal(load(path, trusted=[Mine]).predict(data.X), model.predict(data.X))
