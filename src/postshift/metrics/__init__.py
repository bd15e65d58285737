"""Metrics: functions of the confusion matrix, adapters of the user's own, and drivers that answer questions."""

from __future__ import annotations

from postshift.metrics.adapters import (
    ConfusionFunction,
    LabelFunction,
    PredictionFunction,
    from_confusion,
    from_labels,
    from_predictions,
)
from postshift.metrics.asking import LabelDriver, PredictionDriver
from postshift.metrics.catalogue import metric_catalogue, metric_named
from postshift.metrics.cells import CellMetric
from postshift.metrics.confusion import (
    Accuracy,
    CohenKappa,
    ExpectedCost,
    ExpectedReward,
    MatthewsCorrelation,
    Negated,
    maximised,
)
from postshift.metrics.drivers import ConfusionDriver, HardDriver, SoftDriver
from postshift.metrics.gaps import DemographicParityGap, EqualizedOddsGap, EqualOpportunityGap, Penalised
from postshift.metrics.groups import GroupGMean, WorstGroup
from postshift.metrics.rates import BinaryF1, FBeta, Jaccard, MacroF1, Precision, Recall
from postshift.metrics.recalls import BalancedAccuracy, GMean, HMean, MinRecall, QMean, SmoothedMinimum
from postshift.metrics.resolve import resolve_metric
from postshift.metrics.scorers import from_scorer

__all__ = [
    "Accuracy",
    "BalancedAccuracy",
    "BinaryF1",
    "CellMetric",
    "CohenKappa",
    "ConfusionDriver",
    "ConfusionFunction",
    "DemographicParityGap",
    "EqualOpportunityGap",
    "EqualizedOddsGap",
    "ExpectedCost",
    "ExpectedReward",
    "FBeta",
    "GMean",
    "GroupGMean",
    "HMean",
    "HardDriver",
    "Jaccard",
    "LabelDriver",
    "LabelFunction",
    "MacroF1",
    "MatthewsCorrelation",
    "MinRecall",
    "Negated",
    "Penalised",
    "Precision",
    "PredictionDriver",
    "PredictionFunction",
    "QMean",
    "Recall",
    "SmoothedMinimum",
    "SoftDriver",
    "WorstGroup",
    "from_confusion",
    "from_labels",
    "from_predictions",
    "from_scorer",
    "maximised",
    "metric_catalogue",
    "metric_named",
    "resolve_metric",
]
