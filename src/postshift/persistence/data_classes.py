"""The classes of postshift that a file may hold without being named in ``trusted``.

They only hold data: numbers, strings, arrays, models, and each other. None of them runs a program, reads or writes a
path, or calls a function that its user did not name. They are listed by name: a file imports only those that it holds.
"""

from __future__ import annotations

from typing import Any

from postshift.core.psi import ConfusionMetric, DifferentiableMetric
from postshift.core.rows import Posterior
from postshift.core.weighting import Weighting


def class_name(kind: Any) -> str:
    """Return the full name of a class or a function, as skops writes it.

    Examples
    --------
    >>> class_name(Weighting)
    'postshift.core.weighting.Weighting'
    """
    return f"{getattr(kind, '__module__', None)}.{kind.__name__}"  # older ufuncs have no module


def _names(modules: dict[str, str]) -> tuple[str, ...]:
    """Return the full names of classes that are listed by module."""
    return tuple(f"postshift.{module}.{name}" for module, names in modules.items() for name in names.split())


_ESTIMATORS = _names({
    "estimators.classifier": "PostShiftClassifier",
    "estimators.shifter": "PostShifter",
    "baselines.adaptive_surrogates": "AdaptiveSurrogates",
    "baselines.cross_entropy": "CrossEntropyOnTrain CrossEntropyOnValidation",
    "baselines.direct_search": "DirectSearch",
    "baselines.fine_tuning": "FineTuned",
    "baselines.forward_correction": "ForwardCorrection",
    "baselines.importance": "ImportanceWeighting",
    "baselines.kernel_mean_matching": "KernelMeanMatching",
    "baselines.learn_to_reweight": "LearnToReweight",
    "baselines.opt_metric": "OptMetric",
    "baselines.plugin_search": "CoordinatePlugin",
    "baselines.prior_correction": "PriorCorrection",
    "baselines.softmax": "SoftmaxRegression",
})  # fmt: skip
_BASES = _names({
    "basis.clusters": "KMeansBasis RBFBasis",
    "basis.groups": "ConstantBasis GroupBasis",
    "basis.tree": "TreeBasis",
    "basis.user": "CoverBasis TransformerBasis UnionBasis",
})  # fmt: skip
_METRICS = _names({
    "core.psi": "Negated NegatedDifferentiable",
    "metrics.adapters": "ConfusionFunction LabelFunction PredictionFunction",
    "metrics.confusion": "Accuracy CohenKappa ExpectedCost ExpectedReward MatthewsCorrelation",
    "metrics.gaps": "DemographicParityGap EqualOpportunityGap EqualizedOddsGap",
    "metrics.over_groups": "GroupGMean PooledMetric WorstGroup",
    "metrics.penalised": "Penalised",
    "metrics.rates": "BinaryF1 FBeta Jaccard MacroF1 Precision PredictedRate Recall",
    "metrics.recalls": "BalancedAccuracy GMean HMean MinRecall QMean",
})  # fmt: skip
_TERMS = _names({"constraints.terms": "Constraint Term"})
_WEIGHTINGS = _names({"core.weighting": "Entries _Columns _Diagonal _Full"})
_POSTERIORS = _names({"rules.posterior": "Identity Stack"})
_RECORDS = _names({
    "basis.tree": "Splits",
    "constraints.p_values": "TestResult",
    "core.frank_wolfe": "Iteration",
    "core.mixture": "Mixture",
    "core.plugin": "PlugIn",
    "estimators.records": "Conditioning ConstraintRecord Diagnostics History HistoryRecord",
    "rules.choice": "AveragedRule Chosen",
    "rules.few_rows": "FewRows",
    "rules.fitted": "FittedRule",
    "rules.record": "Certificate Entry Record",
    "rules.scoring": "HeldOut",
    "rules.verdict": "Comparison Intervals",
})  # fmt: skip

WHOLE = frozenset((*_ESTIMATORS, *_BASES, *_METRICS, *_TERMS))  # allowed where an estimator or a metric is
PARTS = frozenset((*_WEIGHTINGS, *_POSTERIORS, *_RECORDS))  # where an annotation says so, or as the whole file
NAMES = WHOLE | PARTS
KINDS: dict[Any, tuple[str, ...]] = {  # the classes for annotations that are protocols
    Posterior: _POSTERIORS,
    Weighting: _WEIGHTINGS,
    ConfusionMetric: _METRICS,
    DifferentiableMetric: _METRICS,
}
