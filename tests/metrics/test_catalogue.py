from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import get_scorer, get_scorer_names

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics import BinaryF1, MacroF1, Precision, metric_catalogue, metric_named

from .rows import Rows

BINARY = ["f1", "precision", "recall", "jaccard"]


@pytest.mark.parametrize("name", metric_catalogue())
def test_every_name_gives_a_metric_of_that_name(name):
    metric = metric_named(name, n_classes=2, n_groups=2)
    assert isinstance(metric, DifferentiableMetric)
    assert metric.greater_is_better
    assert metric.name == ("cohen_kappa" if name.startswith("cohen_kappa") else name)
    size = getattr(metric, "n_categories", 2)
    assert np.isfinite(metric.value(np.full((size, 2), 1 / (2 * size))))


def test_every_name_has_a_line():
    assert all(text and "\n" not in text for text in metric_catalogue().values())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", sorted(set(metric_catalogue()) & set(get_scorer_names())))
def test_names_of_scikit_learn_mean_the_same(name, n_classes):
    if name in BINARY and n_classes > 2:
        return
    rows, scorer = Rows(3, n_classes=n_classes, soft=True), get_scorer(name)
    truth, labels, weights, _ = rows.repeated()
    expected = scorer._score_func(truth, labels, sample_weight=weights, **scorer._kwargs)
    assert metric_named(name, n_classes=n_classes).value(rows.confusion) == pytest.approx(expected)


def test_scikit_learn_s_names_are_there():
    stems = {f"{stem}{ending}" for stem in BINARY for ending in ("", "_macro", "_micro", "_weighted")}
    assert stems | {"accuracy", "balanced_accuracy", "matthews_corrcoef"} <= set(metric_catalogue())


def test_the_positive_class():
    assert metric_named("f1", n_classes=2, positive=0) == BinaryF1(0)
    assert metric_named("precision", n_classes=2, positive=0) == Precision("binary", 0)
    assert metric_named("f1_macro", n_classes=3, positive=2) == MacroF1()


@pytest.mark.parametrize(
    ("name", "strength"),
    [
        ("g_mean - equalized_odds", 1),
        ("g_mean - 0.5 * equalized_odds", 0.5),
        ("g_mean - 1e-3*equalized_odds", 0.001),
    ],
)
def test_expressions(name, strength):
    metric = metric_named(name, n_classes=3, n_groups=2)
    assert (metric.inner.name, metric.gap, metric.strength) == ("g_mean", "equalized_odds", strength)


def test_a_gap_is_about_the_positive_of_two_classes():
    assert metric_named("accuracy - equal_opportunity", n_classes=2, n_groups=2, positive=0).positive == 0
    assert metric_named("accuracy - equal_opportunity", n_classes=3, n_groups=2).positive is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("g_maen", r"there is no metric 'g_maen'; did you mean 'g_mean'\?"),
        ("f1_binary", "there is no metric 'f1_binary'"),
        ("f1_samples", "there is no metric 'f1_samples'"),
        ("acuracy - equalized_odds", "did you mean 'accuracy'"),
        ("group_g_mean - equalized_odds", "there is no metric 'group_g_mean'"),
        ("accuracy - equalised_odds", "did you mean 'equalized_odds'"),
        ("accuracy - ", "there is no gap ''"),
        ("accuracy - half * equalized_odds", "must be a number. Got 'half'"),
        ("accuracy - -1 * equalized_odds", "strength"),
        (3, "must be a str. Got 3"),
    ],
)
def test_names_that_are_none(name, message):
    with pytest.raises(SettingError, match=message):
        metric_named(name, n_classes=3, n_groups=2)


@pytest.mark.parametrize("name", ["group_g_mean", "worst_group_accuracy", "accuracy - demographic_parity"])
def test_metrics_over_groups_need_groups(name):
    with pytest.raises(SettingError, match="pass groups"):
        metric_named(name, n_classes=2)


@pytest.mark.parametrize("name", BINARY)
def test_metrics_of_two_classes(name):
    with pytest.raises(SettingError, match=f"is for two classes, and there are 3: use '{name}_macro'"):
        metric_named(name, n_classes=3)
