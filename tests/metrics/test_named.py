from __future__ import annotations

import pytest

from postshift.exceptions import SettingError
from postshift.metrics import BinaryF1, MacroF1, Precision, metric_named
from postshift.metrics.named import is_over_groups, metric_about, metric_of_classes, with_positive_class

BINARY = ["f1", "precision", "recall", "jaccard"]


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
    with pytest.raises(SettingError, match=f"is for two classes, but there are 3: use '{name}_macro'"):
        metric_named(name, n_classes=3)


def test_metrics_that_take_no_positive_class():
    with pytest.raises(SettingError, match="leave pos_label"):
        metric_of_classes("g_mean", classes=["a", "b"], pos_label="a")
    with pytest.raises(SettingError, match="leave pos_label"):
        with_positive_class("g_mean", "a", classes=["a", "b"])


def test_a_positive_class_that_is_not_clear():
    with pytest.raises(SettingError, match=r"write 'f1\[ham\]' or 'f1\[spam\]'"):
        metric_of_classes("f1", classes=["ham", "spam"])
    assert metric_of_classes("f1", classes=["ham", "spam"], pos_label="ham") == BinaryF1(0)


def test_a_class_is_written_in_brackets():
    assert with_positive_class("recall", 2, classes=[1, 2, 3]) == "recall[2]"
    written = with_positive_class("f1[a] - equal_opportunity", "b", classes=["a", "b"])
    assert written == "f1[a] - equal_opportunity[b]"
    with pytest.raises(SettingError, match="cannot be written in brackets"):
        with_positive_class("f1", "x] - equal_opportunity[y", classes=["x] - equal_opportunity[y", "z"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accuracy", False),
        ("f1[a]", False),
        ("group_g_mean", True),
        ("worst_group_accuracy", True),
        ("accuracy - equalized_odds", True),
        ("f1[a - b]", False),
        ("no such metric", False),
    ],
)
def test_which_metrics_read_groups(text, expected):
    assert is_over_groups(text) == expected


def test_descriptions():
    assert metric_about("g_mean") == "geometric mean of the recalls"
    assert metric_about("f1[ham]") == "harmonic mean of precision and recall, of class ham"
    assert (
        metric_about("accuracy - equal_opportunity")
        == "a metric minus the largest difference between groups in the recall"
    )
    for text in ("f1_macro - 0.5 * equal_opportunity", "accuracy[ham]", "no such metric"):
        assert metric_about(text) == ""
