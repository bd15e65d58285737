"""The scikit-learn estimators. They are imported when they are first used, because scikit-learn is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postshift.estimators.records import Diagnostics, History, HistoryRecord

if TYPE_CHECKING:
    from postshift.estimators.classifier import PostShiftClassifier
    from postshift.estimators.shifter import PostShifter

__all__ = ["Diagnostics", "History", "HistoryRecord", "PostShiftClassifier", "PostShifter"]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first used."""
    if name not in ("PostShiftClassifier", "PostShifter"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from postshift.estimators import classifier, shifter

    return getattr(classifier if name == "PostShiftClassifier" else shifter, name)
