"""What the guarantee is compared with: tuning without a test, and MAPIE's risk control for two classes.

MAPIE (extra ``rivals``) is needed only to run its rows; without it they are left out.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.progress import say
from postshift._installing import install

THRESHOLDS = np.linspace(0, 0.99, 100)  # MAPIE's own
CERTIFIED, ON_PATH, BY_THRESHOLD = "certified", "naive, same rules", "naive, thresholds"
FIXED, HOLM = "MAPIE, fixed sequence", "MAPIE, Holm"
CONTROLS = {FIXED: "fixed_sequence", HOLM: "bonferroni_holm"}


def misses(constraints: Sequence[Any], confusions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much the worst constraint is missed under each matrix (K, R, m)."""
    found = [each.constraint.sign * (each.metric.value(confusions) - each.constraint.bound) for each in constraints]
    return np.max(found, axis=0)


def tuned(values: NDArray[np.float64], missed: NDArray[np.float64]) -> int | None:
    """Return the rule with the best metric among those that meet the constraints on the same rows; None for none."""
    if not (missed <= 0).any():
        return None
    return int(np.argmax(np.where(missed <= 0, values, -np.inf)))


@cache
def has_mapie() -> bool:
    """Return whether MAPIE is installed, and say so if it is not."""
    if importlib.util.find_spec("mapie") is None:
        say(f"the rows of MAPIE are skipped, the package is missing: {install('rivals')}")
        return False
    return True


def controls(risks: Sequence[tuple[str, float]]) -> list[str]:
    """Return the procedures of MAPIE that serve these risks; a fixed sequence takes one risk."""
    if not risks or not has_mapie():
        return []
    return [FIXED, HOLM] if len(risks) == 1 else [HOLM]


def controlled(
    control: str, risks: Sequence[tuple[str, float]], metric: str, *, eta: Any, labels: Any, delta: float
) -> int | None:
    """Return which of the thresholds MAPIE chooses; None if it controls the risks with none of them."""
    from mapie.risk_control import BinaryClassificationController

    controller = BinaryClassificationController(
        predict_function=np.asarray,  # the rows are their probabilities
        risk=[risk_named(name) for name, _ in risks],
        target_level=[level for _, level in risks],
        confidence_level=1 - delta,
        best_predict_param_choice=risk_named(metric),
        list_predict_params=THRESHOLDS,
        fwer_method=CONTROLS[control],
    )
    with warnings.catch_warnings(action="ignore"):  # risks that are not monotone, or not controlled
        controller.calibrate(eta, labels)
    if controller.best_predict_param is None:
        return None
    return int(np.argmin(np.abs(THRESHOLDS - controller.best_predict_param)))


def risk_named(name: str) -> Any:
    """Return a risk of MAPIE; it has no Jaccard index (through which F1 is bounded), so that is defined here."""
    from mapie.risk_control import BinaryRisk

    if name != "jaccard":
        return name
    return BinaryRisk(
        risk_occurrence=lambda true, predicted: (true == 1) & (predicted == 1),
        risk_condition=lambda true, predicted: (true == 1) | (predicted == 1),
        higher_is_better=True,
    )
