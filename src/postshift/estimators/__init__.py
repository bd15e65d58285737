"""The scikit-learn estimators."""

from __future__ import annotations

from postshift.estimators.classifier import PostShiftClassifier
from postshift.estimators.records import Diagnostics, History, HistoryRecord
from postshift.estimators.shifter import PostShifter

__all__ = ["Diagnostics", "History", "HistoryRecord", "PostShiftClassifier", "PostShifter"]
