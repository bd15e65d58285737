"""postshift: make the classifier you already have optimise the metric you actually care about."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from postshift.core.frank_wolfe import FitResult
from postshift.core.fw_eg import elicit_weights, fw_eg, fw_eg_session, pi_ew
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.engines import MemoryEngine

if TYPE_CHECKING:
    from postshift.estimators import PostShiftClassifier, PostShifter
    from postshift.estimators.frontier_of import frontier
    from postshift.rules.frontier import Frontier
    from postshift.rules.power import power

try:
    __version__ = version("postshift")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "FitResult",
    "Frontier",
    "MemoryEngine",
    "Mixture",
    "PlugIn",
    "PostShiftClassifier",
    "PostShifter",
    "Rows",
    "Session",
    "elicit_weights",
    "frontier",
    "fw_eg",
    "fw_eg_session",
    "pi_ew",
    "power",
]

_LAZY = {
    "Frontier": "postshift.rules.frontier",
    "PostShiftClassifier": "postshift.estimators",
    "PostShifter": "postshift.estimators",
    "frontier": "postshift.estimators.frontier_of",
    "power": "postshift.rules.power",
}


def __getattr__(name: str) -> Any:
    """Import these names when they are first used: importing scikit-learn takes a second."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
