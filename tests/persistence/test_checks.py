"""Files in which an object of postshift is in a wrong place are refused."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from postshift import Mixture, PlugIn, PostShiftClassifier
from postshift.basis import RBFBasis, TreeBasis
from postshift.estimators.records import History
from postshift.exceptions import ArchiveError, UntrustedError
from postshift.metrics import GMean, from_labels
from postshift.persistence import dump, load
from postshift.rules.posterior import Identity
from tests.estimators.data import noisy


@pytest.fixture(scope="module")
def model():
    """A classifier with a tree and a loop, of which one member and one iteration are kept."""
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
def test_no_attribute_replaces_a_method(model, tmp_path, name):
    vars(model)[name] = np.exp
    try:
        (tmp_path / "model.skops").write_bytes(skops.io.dumps(model))
    finally:
        del vars(model)[name]
    with pytest.raises(ArchiveError, match=rf"{name} must be the fixed value that every PostShiftClassifier has there"):
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
        with pytest.raises(ArchiveError, match="members must be one or more plug-ins"):
            load(tmp_path / "rule.skops")


def test_a_parameter_of_an_estimator_may_be_anything_that_fit_accepts(tmp_path):
    basis = RBFBasis(width=np.float64(1.0), max_points=np.int64(5), clip=[0.01, 0.99]).fit([[0.0], [2.0]], ["a", "b"])
    dump(basis, tmp_path / "basis.skops")
    assert load(tmp_path / "basis.skops").transform([[1.0]]).tolist() == basis.transform([[1.0]]).tolist()


def share_right(y_true, y_pred):
    return np.mean(y_true == y_pred)


def test_function_of_a_metric_must_be_named(tmp_path):
    path, here = tmp_path / "metric.skops", "tests.persistence.test_checks.share_right"
    dump(from_labels(share_right), path)
    with pytest.raises(UntrustedError, match=f"not trusted: {here}. If you know"):
        load(path)
    assert load(path, trusted=[here]) == load(path, trusted=[share_right]) == from_labels(share_right)
    metric = from_labels(share_right)
    object.__setattr__(metric, "function", np.add)
    path.write_bytes(skops.io.dumps(metric))
    with pytest.raises(ArchiveError, match="function must be a function named in trusted"):
        load(path)
