"""Metrics: functions of the confusion matrix, and drivers that answer the loop's questions."""

from __future__ import annotations

from postshift.metrics.confusion import (
    Accuracy,
    BinaryF1,
    CohenKappa,
    ExpectedReward,
    MacroF1,
    MatthewsCorrelation,
)
from postshift.metrics.drivers import ConfusionDriver, HardDriver, SoftDriver
from postshift.metrics.groups import GroupGMean, WorstGroup
from postshift.metrics.recalls import BalancedAccuracy, GMean, HMean, MinRecall, QMean, SmoothedMinimum

__all__ = [
    "Accuracy",
    "BalancedAccuracy",
    "BinaryF1",
    "CohenKappa",
    "ConfusionDriver",
    "ExpectedReward",
    "GMean",
    "GroupGMean",
    "HMean",
    "HardDriver",
    "MacroF1",
    "MatthewsCorrelation",
    "MinRecall",
    "QMean",
    "SmoothedMinimum",
    "SoftDriver",
    "WorstGroup",
]
