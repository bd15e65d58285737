from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, make_scorer

from postshift.exceptions import SettingError
from postshift.metrics import (
    CellMetric,
    GMean,
    GroupGMean,
    LabelFunction,
    from_confusion,
    from_labels,
    from_predictions,
    resolve_metric,
)
from postshift.metrics.metadata import metadata_names, with_metadata

from .functions import CLASSES, gain, hits, plain_hits


def optional(y_true, y_pred, *, amount=None, sample_weight=None):  # noqa: ARG001
    return np.average(y_true == y_pred, weights=sample_weight)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("g_mean", []),
        ("worst_group_accuracy", ["groups"]),
        ("f1[a] - equal_opportunity", ["groups"]),
        (GMean(), []),
        (GroupGMean(n_groups=2, n_classes=2), ["groups"]),
        (from_confusion(np.trace), []),
        (from_confusion(np.trace, n_categories=4), ["groups"]),
        (from_predictions(len), []),
        (plain_hits, []),
        (optional, ["amount"]),
        (from_labels(optional), []),
        (from_labels(gain), ["amount"]),
        (make_scorer(gain), ["amount"]),
        (make_scorer(gain, amount=3), []),
        (make_scorer(accuracy_score), ["normalize"]),
        (functools.partial(gain), ["amount"]),
        (3, []),
    ],
)
def test_the_names_that_a_metric_reads(metric, expected):
    assert sorted(metadata_names(metric)) == expected


def test_a_function_reads_the_names_that_are_given():
    cells = resolve_metric(optional, classes=CLASSES)
    assert isinstance(cells, CellMetric)
    assert with_metadata(cells, []) is cells
    read = with_metadata(cells, ["amount"])
    assert isinstance(read, LabelFunction)
    assert read.metadata == ("amount",)


def test_other_metrics_are_left_alone():
    for metric in (GMean(), from_predictions(len), from_confusion(np.trace)):
        assert with_metadata(metric, ["groups"]) is metric
    assert with_metadata(from_labels(hits), []) == from_labels(hits)


def test_a_name_that_is_missing():
    with pytest.raises(SettingError, match=r"'gain' needs 'amount'.*fit\(..., amount=...\)"):
        with_metadata(from_labels(gain), [])
