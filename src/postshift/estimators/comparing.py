"""Compare the labels of a rule with those of the base on test rows, for ``postshift evaluate`` and for reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.rows import Rows
from postshift.estimators.task import function_of, goal_of, known_groups, labelled_problem
from postshift.metrics import LabelFunction
from postshift.metrics.metadata import GROUPS
from postshift.rules.verdict import DRAWS, Comparison, compare, summary

T = TypeVar("T")
_TRIES = 100  # draws of rows until every class is among them


def compare_labels(
    metric: Any,
    *,
    labels: IntArray,
    base: IntArray,
    val: Rows,
    classes: Any,
    groups: Any,
    metadata: Mapping[str, Any],
    pos_label: Any = None,
    fallback: bool = False,
) -> Comparison:
    """Compare a rule's labels with the base's on rows with labels; ``groups`` are all groups of the fit, if any.

    A function of labels is called with reweighted rows or, if it takes no weights, with rows drawn with replacement.
    For a metric of the confusion matrix, see :func:`postshift.rules.verdict.compare`. If the rule is the base itself
    (``fallback``), its gain is exactly 0.
    """
    found = known_groups(metric, metadata)
    groups = groups if groups is not None and GROUPS in metadata else found
    goal = goal_of(metric, classes=classes, groups=groups, metadata=metadata, pos_label=pos_label)
    if fallback:
        labels = base
    function = function_of(goal)
    if not isinstance(function, LabelFunction):
        problem = labelled_problem(function, val=val, groups=groups, metadata=metadata)
        return compare(problem, labels, base, same=fallback)
    assert val.labels is not None  # noqa: S101
    truth = val.labels

    def score(rows: IntArray, weights: FloatArray | None) -> tuple[float, float]:
        about = {name: values[rows] for name, values in metadata.items()}

        def of(found: IntArray) -> float:
            return function.sign * function(classes[truth[rows]], classes[found[rows]], weights=weights, metadata=about)

        return of(labels), of(base)

    weights = val.weights if function.takes_weights else None
    now, before = score(np.arange(val.n_rows), weights)
    return summary(now, before, np.array(list(_drawn(score, truth, weights, reweighted=function.takes_weights))))


def _drawn(
    score: Callable[[IntArray, FloatArray | None], T], truth: IntArray, weights: FloatArray | None, *, reweighted: bool
) -> Iterator[T]:
    """Yield the scores for draws of the rows."""
    rng = np.random.default_rng(0)
    rows, each = np.arange(len(truth)), np.ones(len(truth)) if weights is None else weights
    for _ in range(DRAWS):
        if reweighted:
            yield score(rows, each * rng.standard_exponential(len(rows)))
        else:
            yield score(_with_every_class(truth, rng), None)


def _with_every_class(truth: IntArray, rng: np.random.Generator) -> IntArray:
    """Return rows drawn with replacement, with rows of every class: a function may need them."""
    n_classes = len(np.unique(truth))
    for _ in range(_TRIES):
        rows = rng.integers(len(truth), size=len(truth))
        if len(np.unique(truth[rows])) == n_classes:
            return rows
    return np.arange(len(truth))
