"""Scores of test rows: rows that were not used for the fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.rows import Rows
from postshift.estimators.comparing import compare_labels
from postshift.estimators.model import one_a_row
from postshift.estimators.task import goal_of, known_groups
from postshift.exceptions import MetricError
from postshift.metrics import PredictionFunction
from postshift.metrics.metadata import GROUPS, metadata_names
from postshift.report.facts import Scores


def unseen_scores(
    metric: Any,
    estimator: Any,
    *,
    pos_label: Any,
    eta: FloatArray,
    codes: IntArray,
    weights: FloatArray | None,
    groups: Any,
    metadata: Mapping[str, Any],
    labels: tuple[IntArray, IntArray],
) -> Scores:
    """Return the scores of labels before and after, greater being better, with their intervals.

    The computation is that of ``postshift evaluate``.

    Parameters
    ----------
    metric : str, metric, scorer or callable
        What to score by.
    estimator : PostShifter or PostShiftClassifier
        Has the classes, and the groups of its fit.
    pos_label : label, optional
        The positive class, for a metric that has one.
    eta, codes, weights, groups : arrays
        Probabilities, labels as positions, sample weights and groups of the rows; the last two may be None.
    metadata : mapping of str to array
        What else the metric reads of every row.
    labels : pair of arrays
        Labels before and after, as positions.
    """
    reads_groups = groups is not None and GROUPS in metadata_names(metric)
    about = {name: one_a_row(values, name=name) for name, values in metadata.items()}
    if reads_groups:
        about[GROUPS] = groups
    known = known_groups(metric, about)
    how: dict[str, Any] = {
        "classes": np.asarray(estimator.classes_),
        "groups": estimator.groups_ if estimator.groups_ is not None and reads_groups else known,
        "metadata": about,
    }
    goal = goal_of(metric, **how, pos_label=pos_label)
    if isinstance(goal, PredictionFunction):
        raise MetricError(
            f"metric {goal.name!r} knows the labels of the validation rows only: score test rows by another one, "
            "metric=NAME"
        )
    table = Rows.of(eta, labels=codes, weights=weights)
    found = compare_labels(goal, labels=labels[1], base=labels[0], val=table, fallback=estimator.fallback_, **how)
    assert found.intervals.gain is not None  # noqa: S101
    return Scores(
        before=found.base_score,
        after=found.score,
        before_interval=found.intervals.base,
        after_interval=found.intervals.score,
        gain_interval=found.intervals.gain,
        n_rows=len(codes),
    )
