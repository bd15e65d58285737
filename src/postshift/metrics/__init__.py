"""Metrics: functions of the confusion matrix, and drivers that answer the loop's questions."""

from __future__ import annotations

from postshift.metrics.confusion import Accuracy, ExpectedReward, GMean, MacroF1
from postshift.metrics.drivers import ConfusionDriver, HardDriver, SoftDriver

__all__ = ["Accuracy", "ConfusionDriver", "ExpectedReward", "GMean", "HardDriver", "MacroF1", "SoftDriver"]
