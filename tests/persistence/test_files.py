"""Models to files and back."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from postshift import Mixture, PlugIn, Rows
from postshift.basis import GroupBasis, TreeBasis
from postshift.core.queries import without_queries
from postshift.core.weighting import weighting_named
from postshift.exceptions import ArchiveError, PostshiftError, SettingError
from postshift.metrics import (
    ExpectedReward,
    GMean,
    MacroF1,
    MinRecall,
    WorstGroup,
    metric_catalogue,
    metric_named,
)
from postshift.persistence import dump, files, load
from postshift.rules import Choice, FittedRule
from tests.persistence.helpers import short_menu
from tests.rules.helpers import labelled

SUFFIXES = ("skops", "joblib")


class Holder(BaseEstimator):
    """A model with anything in it."""

    def __init__(self, metric=None, groups=None):
        self.metric = metric
        self.groups = groups


def module_metric(confusion):
    return confusion.trace()


def read(path):
    return load(path, trust=True, trusted=[Holder, "tests.persistence.test_files.module_metric"])


@pytest.fixture(scope="module")
def chosen():
    problem = labelled(MinRecall(), basis="overlapping", n_bases=2)
    return without_queries(Choice(entries=short_menu(), n_folds=2).fit(problem)), problem.val


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_choice_comes_back_as_it_was(chosen, tmp_path, suffix):
    found, table = chosen
    dump(found, tmp_path / f"choice.{suffix}")
    again = load(tmp_path / f"choice.{suffix}", trust=True)
    assert again.record == found.record
    for what in ("labels", "scores", "distribution"):
        np.testing.assert_array_equal(getattr(again.rule, what)(table), getattr(found.rule, what)(table))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("weighting", ["diagonal", "columns", "full", "entries 0-1 1-1"])
def test_weightings_are_the_same_after_loading(tmp_path, weighting, suffix):
    rng = np.random.default_rng(0)
    alpha = rng.uniform(size=(1, weighting_named(weighting).n_terms(3)))
    member = PlugIn(weighting=weighting, alpha=alpha, n_classes=3)
    rule = FittedRule(name="given", mixture=Mixture.of([member], [1.0]))
    dump(rule, tmp_path / f"rule.{suffix}")
    table = Rows.of(rng.dirichlet(np.ones(3), size=50))
    again = load(tmp_path / f"rule.{suffix}", trust=True)
    np.testing.assert_array_equal(again.scores(table), rule.scores(table))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "model",
    [
        GMean(),
        MacroF1(),
        WorstGroup("accuracy", n_groups=2, n_classes=3),
        LogisticRegression(),
        Holder(metric=module_metric, groups={"region": [1, 2]}),
        Holder(metric=GMean(), groups=GroupBasis(unseen=True)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_and_metrics_come_back(tmp_path, model, suffix):
    dump(model, tmp_path / f"model.{suffix}")
    again = read(tmp_path / f"model.{suffix}")
    assert type(again) is type(model)
    assert repr(again) == repr(model)


def test_every_metric_by_name_comes_back(tmp_path):
    for name in metric_catalogue():
        metric = metric_named(name, n_classes=2, n_groups=2)
        dump(metric, tmp_path / "metric.skops")
        assert repr(load(tmp_path / "metric.skops")) == repr(metric)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_and_fitted_bases_come_back(tmp_path, suffix):
    reward, rows = ExpectedReward(np.arange(4.0).reshape(2, 2)), np.arange(8.0)[:, None]
    basis = TreeBasis(max_leaf_nodes=3).fit(rows, rows[:, 0] > 3)
    dump([reward, basis], tmp_path / f"both.{suffix}")
    again, tree = read(tmp_path / f"both.{suffix}")
    np.testing.assert_array_equal(again.reward, reward.reward)
    np.testing.assert_array_equal(tree.transform(rows), basis.transform(rows))


def test_pickle_runs_code_and_needs_trust(tmp_path):
    dump(GMean(), tmp_path / "metric.joblib")
    with pytest.raises(ArchiveError, match=r"runs any code that it holds.*trust=True"):
        load(tmp_path / "metric.joblib")
    with pytest.raises(ArchiveError, match="trust=True"):
        load(tmp_path / "metric.joblib", trusted=["everything"])


def test_skops_lists_what_is_not_trusted(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = Holder(metric=GMean(), groups=LGBMClassifier(n_estimators=2, verbose=-1).fit(X, X[:, 0] > 0))
    dump(model, tmp_path / "model.skops")
    with pytest.raises(ArchiveError, match=r"not trusted: .*lightgbm.*Holder") as caught:
        load(tmp_path / "model.skops")
    assert "postshift.metrics" not in str(caught.value)
    assert all(name in str(caught.value) for name in caught.value.names)
    again = load(tmp_path / "model.skops", trusted=[Holder, *caught.value.names])
    np.testing.assert_array_equal(again.groups.predict_proba(X), model.groups.predict_proba(X))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_and_missing_files(tmp_path, suffix):
    (tmp_path / f"broken.{suffix}").write_bytes(b"not a model")
    with pytest.raises(ArchiveError, match=f"broken.{suffix} is not a {suffix} file"):
        load(tmp_path / f"broken.{suffix}", trust=True)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / f"nothing.{suffix}", trust=True)


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"no file format '\.skop'; did you mean '\.skops'"):
        dump(GMean(), tmp_path / "metric.skop")
    with pytest.raises(SettingError, match="no file format ''"):
        load(tmp_path / "metric")


def test_onnx_is_written_and_not_read_back(chosen, tmp_path):
    found, table = chosen
    path = tmp_path / "rule.onnx"
    dump(SimpleNamespace(classes_=["a", "b", "c"], rule_=found.rule), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {each.name: table.eta if each.name == "eta" else table.functions("user") for each in session.get_inputs()}
    labels = session.run(["label"], feeds)[0]
    np.testing.assert_array_equal(labels, np.array(["a", "b", "c"])[found.rule.labels(table)])
    with pytest.raises(SettingError, match=r"onnxruntime.*\.skops"):
        load(path)


def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "metric.skops"
    dump(GMean(), path)

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        dump(MacroF1(), path)
    assert [each.name for each in tmp_path.iterdir()] == ["metric.skops"]
    assert isinstance(load(path), GMean)


def test_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib, "import_module", _without("skops"))
    with pytest.raises(PostshiftError, match=r"pip install '\.\[export\]'"):
        dump(GMean(), tmp_path / "metric.skops")


def _without(package):
    original = importlib.import_module

    def found(name, *rest):
        if name.startswith(package):
            raise ImportError(name)
        return original(name, *rest)

    return found
