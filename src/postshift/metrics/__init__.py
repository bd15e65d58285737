"""Metrics: the catalogue, functions of the confusion matrix, adapters for your own functions, and oracles."""

from __future__ import annotations

from postshift.core.oracles import ConfusionOracle, HardOracle, SoftOracle, TableOracle
from postshift.core.psi import Negated, maximised
from postshift.metrics.adapters import (
    ConfusionFunction,
    LabelFunction,
    OracleMetric,
    PredictionFunction,
    from_confusion,
    from_labels,
    from_oracle,
    from_predictions,
)
from postshift.metrics.asking import LabelOracle, PredictionOracle
from postshift.metrics.catalogue import metric_catalogue
from postshift.metrics.cells import CellMetric
from postshift.metrics.confusion import (
    Accuracy,
    CohenKappa,
    ExpectedCost,
    ExpectedReward,
    MatthewsCorrelation,
)
from postshift.metrics.gaps import DemographicParityGap, EqualizedOddsGap, EqualOpportunityGap
from postshift.metrics.named import metric_named
from postshift.metrics.over_groups import GroupGMean, WorstGroup
from postshift.metrics.penalised import Penalised
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
    "ConfusionFunction",
    "ConfusionOracle",
    "DemographicParityGap",
    "EqualOpportunityGap",
    "EqualizedOddsGap",
    "ExpectedCost",
    "ExpectedReward",
    "FBeta",
    "GMean",
    "GroupGMean",
    "HMean",
    "HardOracle",
    "Jaccard",
    "LabelFunction",
    "LabelOracle",
    "MacroF1",
    "MatthewsCorrelation",
    "MinRecall",
    "Negated",
    "OracleMetric",
    "Penalised",
    "Precision",
    "PredictionFunction",
    "PredictionOracle",
    "QMean",
    "Recall",
    "SmoothedMinimum",
    "SoftOracle",
    "TableOracle",
    "WorstGroup",
    "from_confusion",
    "from_labels",
    "from_oracle",
    "from_predictions",
    "from_scorer",
    "maximised",
    "metric_catalogue",
    "metric_named",
    "resolve_metric",
]
