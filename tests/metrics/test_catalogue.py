from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import get_scorer, get_scorer_names

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics import BinaryF1, GMean, GroupGMean, MacroF1, Precision, metric_catalogue, metric_named
from postshift.metrics.catalogue import GAPS, METRICS, USUAL_NAMES, find_metric

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
    stems = {f"{stem}{ending}" for stem in BINARY for ending in ("", "_macro", "_macro_present", "_micro", "_weighted")}
    assert stems | {"accuracy", "balanced_accuracy", "matthews_corrcoef"} <= set(metric_catalogue())


def test_an_entry_says_what_its_metric_needs():
    assert METRICS["accuracy"].takes == ()
    assert [name for name, entry in METRICS.items() if entry.is_of_one_class] == BINARY
    over_groups = [name for name, entry in METRICS.items() if entry.is_over_groups]
    assert over_groups == [
        "group_g_mean",
        *(f"worst_group_{inner}" for inner in ("accuracy", "balanced_accuracy", "g_mean")),
    ]


def test_an_entry_builds_its_metric():
    assert find_metric("g_mean").metric(n_classes=3) == GMean()
    assert find_metric("f1").metric(n_classes=2, positive=0) == BinaryF1(0)
    assert find_metric("f1").metric(n_classes=2, positive=None) == BinaryF1(1)
    assert find_metric("precision", label="2").metric(n_classes=3, positive=2) == Precision("one_vs_rest", 2)
    assert find_metric("f1_macro").metric() == MacroF1()
    assert find_metric("group_g_mean").metric(n_groups=2, n_classes=3) == GroupGMean(n_groups=2, n_classes=3)


def test_names_that_people_use_elsewhere():
    assert set(USUAL_NAMES.values()) <= set(METRICS)
    assert not set(USUAL_NAMES) & set(METRICS)
    assert all(name == name.lower() for name in USUAL_NAMES)
    assert [name for name, about in metric_catalogue().items() if "QWK" in about] == ["cohen_kappa_quadratic"]


def test_gaps_are_found_by_their_names():
    assert {name: gap.name for name, gap in GAPS.items()} == {name: name for name in GAPS}
    assert [name for name, gap in GAPS.items() if gap.is_symmetric] == ["demographic_parity", "equalized_odds"]


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("g_maen", {}, "did you mean 'g_mean'"),
        ("QWK", {}, "did you mean 'cohen_kappa_quadratic'"),
        ("quadratic_kapa", {}, "did you mean 'cohen_kappa_quadratic'"),
        ("Quadratic_Weighted_Kappa", {"with_gap": True}, "did you mean 'cohen_kappa_quadratic'"),
        ("linear_kappa", {}, "did you mean 'cohen_kappa_linear'"),
        ("group_g_mean", {"with_gap": True}, "there is no metric 'group_g_mean'"),
        ("f1_macro", {"label": "a"}, r"is not about one class: leave \[a\] out, or use one of f1\[a\], precision\[a\]"),
    ],
)
def test_what_is_not_found(name, more, message):
    with pytest.raises(SettingError, match=message):
        find_metric(name, **more)
