from __future__ import annotations

import pytest

from postshift.metrics import metric_named, resolve_metric
from postshift.metrics.class_order import doubtful_order

WEIGHTED = metric_named("cohen_kappa_quadratic", n_classes=3)
GRADES = ["bad", "good", "medium"]


@pytest.mark.parametrize("name", ["cohen_kappa_linear", "cohen_kappa_quadratic - demographic_parity"])
def test_the_order_of_strings_is_named(name):
    text = doubtful_order(resolve_metric(name, classes=GRADES, n_groups=2), GRADES)
    assert "in the order 'bad' < 'good' < 'medium', the alphabetical order" in text
    assert "use whole numbers as labels" in text


def test_only_some_of_many_classes_are_named():
    assert "'h' < ..., the" in doubtful_order(WEIGHTED, list("abcdefghijkl"))


@pytest.mark.parametrize(
    "classes",
    [
        [0, 1, 2],
        [0.5, 1.0, 2.0],
        ["bad", "medium", "good"],  # an order that was chosen
        ["stage 1", "stage 2", "stage 3"],
        ["1_low", "2_mid", "3_high"],
        ["bad", "good"],
    ],
)
def test_an_order_that_is_not_doubtful(classes):
    assert doubtful_order(WEIGHTED, classes) == ""


@pytest.mark.parametrize("classes", [["1", "10", "2"], ["stage 1", "stage 2", "unknown"]])
def test_numbers_in_strings_that_do_not_ascend(classes):
    assert " < ".join(map(repr, classes)) in doubtful_order(WEIGHTED, classes)


@pytest.mark.parametrize("name", ["cohen_kappa", "f1_macro"])
def test_other_metrics_do_not_read_the_order(name):
    assert doubtful_order(metric_named(name, n_classes=3), GRADES) == ""
