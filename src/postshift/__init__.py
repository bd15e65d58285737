"""postshift: make the classifier you already have optimise the metric you actually care about."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from postshift.core.frank_wolfe import FrankWolfe
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.queries import Query, converse
from postshift.core.records import FitResult, Settings
from postshift.core.rows import Rows
from postshift.engines import MemoryEngine
from postshift.metrics import (
    Accuracy,
    ConfusionOracle,
    ExpectedReward,
    GMean,
    HardOracle,
    MacroF1,
    SoftOracle,
)
from postshift.rules import fw_eg, pi_ew

if TYPE_CHECKING:
    from postshift.estimators import PostShiftClassifier, PostShifter

try:
    __version__ = version("postshift")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Accuracy",
    "ConfusionOracle",
    "ExpectedReward",
    "FitResult",
    "FrankWolfe",
    "GMean",
    "HardOracle",
    "MacroF1",
    "MemoryEngine",
    "Mixture",
    "PlugIn",
    "PostShiftClassifier",
    "PostShifter",
    "Query",
    "Rows",
    "Settings",
    "SoftOracle",
    "converse",
    "fw_eg",
    "pi_ew",
]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first used: scikit-learn takes a second."""
    if name not in ("PostShiftClassifier", "PostShifter"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from postshift import estimators

    return getattr(estimators, name)
