"""Rows with labels, scored before and after, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from postshift._validation import IntArray
from postshift.cli.errors import UsageError
from postshift.cli.inputs import Layout, Part
from postshift.cli.metric_option import MetricOption
from postshift.cli.rule_file import RuleFile
from postshift.core.rows import Rows
from postshift.estimators.comparing import compare_labels
from postshift.estimators.model import positions
from postshift.estimators.task import goal_of, known_groups
from postshift.metrics.metadata import GROUPS
from postshift.report.counts import confusion
from postshift.rules.verdict import Comparison


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
    found = _compared(rule, part, layout, metric, labels=after, base=before)
    limits = found.intervals
    return {
        "metric": metric.name,
        "rows": len(part),
        "before": found.base_score,
        "after": found.score,
        "gain": found.gain,
        "intervals": {"before": limits.base, "after": limits.score, "gain": limits.gain},
        "changed": int((before != after).sum()),
        "classes": list(layout.class_values),
        "confusion": {
            name: confusion(part.codes, each, n_classes=part.eta.shape[1], weights=part.weights).tolist()
            for name, each in (("before", before), ("after", after))
        },
    }


def _compared(
    rule: RuleFile, part: Part, layout: Layout, metric: MetricOption, *, labels: IntArray, base: IntArray
) -> Comparison:
    """Compare labels of the rows with the base's."""
    groups, fallback = rule.shifter.groups_, rule.shifter.fallback_
    metadata = metric.metadata(part)
    metric.check(layout, part.groups, asked=False)
    how: dict[str, Any] = {
        "classes": layout.classes.array,
        "groups": groups if groups is not None and GROUPS in metadata else known_groups(metric.metric, metadata),
    }
    goal = goal_of(metric.metric, **how, metadata=metadata)
    table = Rows.of(part.eta, labels=part.codes, weights=part.weights)
    return compare_labels(goal, labels=labels, base=base, val=table, metadata=metadata, fallback=fallback, **how)
