"""The order of ordinal classes, which a weighted kappa takes from their positions: a text if it may be a wrong one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from postshift.metrics.confusion import CohenKappa

_SHOWN = 8  # classes that a message names


def doubtful_order(metric: Any, classes: Any) -> str:
    """Return a warning if a metric reads the order of classes that are strings in alphabetical order; else "".

    There is none if the labels contain numbers that ascend ("stage 1", "stage 2", ...), or are in another order, which
    was chosen.

    Examples
    --------
    >>> doubtful_order(CohenKappa("quadratic"), ["bad", "good", "medium"])[:73]
    "the weighted kappa takes the classes in the order 'bad' < 'good' < 'mediu"
    >>> doubtful_order(CohenKappa("quadratic"), ["bad", "medium", "good"])
    ''
    """
    inner = getattr(metric, "inner", metric)  # of a metric minus a gap
    labels = np.asarray(classes).tolist()
    if not isinstance(inner, CohenKappa) or inner.weights is None or len(labels) < 3:
        return ""
    if not all(isinstance(each, str) for each in labels) or labels != sorted(labels) or _are_numbered(labels):
        return ""
    shown = " < ".join([*map(repr, labels[:_SHOWN]), *(["..."] if len(labels) > _SHOWN else [])])
    return (
        f"the weighted kappa takes the classes in the order {shown}, the alphabetical order of the labels. If you mean "
        "another order, use whole numbers as labels. If the probabilities are in columns, you can also put the columns "
        "in the right order"
    )


def _are_numbered(labels: list[str]) -> bool:
    """Return whether the first numbers in the labels ascend."""
    found = [re.search(r"[0-9]+", each) for each in labels]
    numbers = [int(each[0]) for each in found if each is not None]
    return len(numbers) == len(labels) and bool((np.diff(numbers) > 0).all())
