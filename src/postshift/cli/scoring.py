"""Rows with labels, scored before and after, with a paired bootstrap interval."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.cli.errors import UsageError
from postshift.cli.inputs import Layout, Part
from postshift.cli.metric_option import MetricOption
from postshift.cli.rule_file import RuleFile
from postshift.estimators.model import positions
from postshift.estimators.task import goal_of, known_groups, value_of
from postshift.exceptions import MissingClassWarning
from postshift.metrics.metadata import GROUPS
from postshift.report.counts import confusion
from postshift.rules.table import Table

RESAMPLES, LEVEL, SEED = 500, 0.95, 0


def evaluation(rule: RuleFile, part: Part, labels: Any, layout: Layout, *, metric: MetricOption) -> dict[str, Any]:
    """Return the metric before and after, their difference with its interval, and both confusion matrices.

    Parameters
    ----------
    rule : RuleFile
        The fitted rule.
    part : Part
        Rows with labels.
    labels : array
        Their labels by the rule.
    layout : Layout
        Has the classes.
    metric : MetricOption
        What to score by; greater is better, costs get a minus.
    """
    if metric.keeps_labels:
        raise UsageError(
            f"metric {metric.name!r} knows the labels of the validation rows only: score other rows with --metric NAME"
        )
    assert part.codes is not None  # noqa: S101
    after = positions(labels, rule.shifter.classes_, name="the predicted labels")
    before = np.argmax(part.eta, axis=1)
    score = _Score(part, layout, metric, groups=rule.shifter.groups_)
    values = np.array([score(before), score(after)])
    drawn = _resampled(score, part, before, after)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    intervals = {name: [low[place], high[place]] for place, name in enumerate(("before", "after", "gain"))}
    return {
        "metric": metric.name,
        "rows": len(part),
        "before": values[0],
        "after": values[1],
        "gain": values[1] - values[0],
        "intervals": intervals,
        "changed": int((before != after).sum()),
        "classes": list(layout.class_values),
        "confusion": {
            name: confusion(part.codes, each, n_classes=part.eta.shape[1], weights=part.weights).tolist()
            for name, each in (("before", before), ("after", after))
        },
    }


class _Score:
    """The metric of labels of some of the rows."""

    def __init__(self, part: Part, layout: Layout, metric: MetricOption, *, groups: Any) -> None:
        self._metadata = metric.metadata(part)
        metric.check(layout, part.groups, asked=False)
        known = known_groups(metric.metric, self._metadata)
        self._how: dict[str, Any] = {
            "classes": layout.classes.array,
            "groups": groups if groups is not None and GROUPS in self._metadata else known,
        }
        self._goal = goal_of(metric.metric, **self._how, metadata=self._metadata)
        self._table = Table.of(part.eta, labels=part.codes, weights=part.weights)

    def __call__(self, labels: IntArray, rows: IntArray | None = None) -> float:
        """Return the metric, greater being better."""
        if rows is None:
            return value_of(self._goal, labels=labels, val=self._table, metadata=self._metadata, **self._how)
        metadata = {name: values[rows] for name, values in self._metadata.items()}
        return value_of(self._goal, labels=labels[rows], val=self._table.take(rows), metadata=metadata, **self._how)


def _resampled(score: _Score, part: Part, before: IntArray, after: IntArray) -> FloatArray:
    """Return before, after and gain (500, 3) of rows drawn anew within each class, and group where there are groups.

    Both are scored on the same rows; no class gets lost, as a metric may need every one.
    """
    rng = np.random.default_rng(SEED)
    strata = np.asarray(part.codes)
    if part.groups is not None:
        strata = strata + (strata.max() + 1) * np.unique(part.groups, return_inverse=True)[1]
    members = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    found = np.empty((RESAMPLES, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)  # said once, of all rows
        for draw in range(RESAMPLES):
            rows = np.concatenate([rng.choice(each, size=len(each)) for each in members])
            found[draw, :2] = score(before, rows), score(after, rows)
    found[:, 2] = found[:, 1] - found[:, 0]
    return found
