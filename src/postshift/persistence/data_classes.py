"""The classes of postshift that a file may hold without being named in ``trusted``.

They only hold data: numbers, strings, arrays, models, and each other. None of them runs a program, reads or writes a
path, or calls a function that its user did not name.
"""

from __future__ import annotations

from typing import Any

from postshift import baselines, basis, metrics
from postshift.basis.tree import Splits
from postshift.core.frank_wolfe import Iteration
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.psi import ConfusionMetric, DifferentiableMetric, NegatedDifferentiable
from postshift.core.rows import Posterior
from postshift.core.weighting import COLUMNS, DIAGONAL, FULL, Weighting
from postshift.estimators.classifier import PostShiftClassifier
from postshift.estimators.records import Conditioning, Diagnostics, History, HistoryRecord
from postshift.estimators.shifter import PostShifter
from postshift.rules.choice import AveragedRule, Chosen
from postshift.rules.few_rows import FewRows
from postshift.rules.fitted import FittedRule
from postshift.rules.posterior import Identity, Stack
from postshift.rules.record import Entry, Record
from postshift.rules.scoring import HeldOut
from postshift.rules.verdict import Comparison, Intervals

_ESTIMATORS = (
    PostShiftClassifier,
    PostShifter,
    baselines.AdaptiveSurrogates,
    baselines.CoordinatePlugin,
    baselines.CrossEntropyOnTrain,
    baselines.CrossEntropyOnValidation,
    baselines.DirectSearch,
    baselines.FineTuned,
    baselines.ForwardCorrection,
    baselines.ImportanceWeighting,
    baselines.KernelMeanMatching,
    baselines.LearnToReweight,
    baselines.OptMetric,
    baselines.PriorCorrection,
    baselines.SoftmaxRegression,
)
_BASES = (
    basis.ConstantBasis,
    basis.CoverBasis,
    basis.GroupBasis,
    basis.KMeansBasis,
    basis.RBFBasis,
    basis.TransformerBasis,
    basis.TreeBasis,
    basis.UnionBasis,
)
_METRICS = (
    metrics.Accuracy,
    metrics.BalancedAccuracy,
    metrics.BinaryF1,
    metrics.CohenKappa,
    metrics.ConfusionFunction,
    metrics.DemographicParityGap,
    metrics.EqualOpportunityGap,
    metrics.EqualizedOddsGap,
    metrics.ExpectedCost,
    metrics.ExpectedReward,
    metrics.FBeta,
    metrics.GMean,
    metrics.GroupGMean,
    metrics.HMean,
    metrics.Jaccard,
    metrics.LabelFunction,
    metrics.MacroF1,
    metrics.MatthewsCorrelation,
    metrics.MinRecall,
    metrics.Negated,
    NegatedDifferentiable,
    metrics.Penalised,
    metrics.Precision,
    metrics.PredictionFunction,
    metrics.QMean,
    metrics.Recall,
    metrics.WorstGroup,
)
_WEIGHTINGS = (type(DIAGONAL), type(COLUMNS), type(FULL))

WHOLE = frozenset[Any]((*_ESTIMATORS, *_BASES, *_METRICS))  # allowed where an estimator, a transformer or a metric is
PARTS = frozenset[Any]((  # allowed where an annotation says so, or as the whole file
    AveragedRule,
    Chosen,
    Comparison,
    Conditioning,
    Diagnostics,
    Entry,
    FewRows,
    FittedRule,
    HeldOut,
    History,
    HistoryRecord,
    Identity,
    Intervals,
    Iteration,
    Mixture,
    PlugIn,
    Record,
    Splits,
    Stack,
    *_WEIGHTINGS,
))  # fmt: skip
KINDS: dict[Any, tuple[Any, ...]] = {  # the classes for annotations that are protocols
    Posterior: (Identity, Stack),
    Weighting: _WEIGHTINGS,
    ConfusionMetric: _METRICS,
    DifferentiableMetric: _METRICS,
}


def class_name(kind: Any) -> str:
    """Return the full name of a class or a function, as skops writes it.

    Examples
    --------
    >>> class_name(PlugIn)
    'postshift.core.plugin.PlugIn'
    """
    return f"{getattr(kind, '__module__', None)}.{kind.__name__}"  # older ufuncs have no module


NAMES = frozenset(class_name(kind) for kind in WHOLE | PARTS)
