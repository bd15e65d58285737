"""The methods that the paper compares with, and other simple rivals: one module per method.

Each is a scikit-learn classifier with ``fit(X, y, X_val, y_val)``, like :class:`~postshift.PostShiftClassifier`. A
fitted one has ``classes_`` (those of both sides), ``n_features_in_`` and ``feature_names_in_``, as in scikit-learn. The
simple rules of the menu (inverse prior, smoothed plug-in, stacking with each) are selected by name:
``PostShiftClassifier(model, method="inverse prior")``. Networks need torch (the extra ``deep``); the other methods do
not import it.
"""

from postshift.baselines.adaptive_surrogates import AdaptiveSurrogates
from postshift.baselines.cross_entropy import CrossEntropyOnTrain, CrossEntropyOnValidation
from postshift.baselines.deep import NetworkClassifier
from postshift.baselines.direct_search import DirectSearch
from postshift.baselines.fine_tuning import FineTuned
from postshift.baselines.forward_correction import ForwardCorrection
from postshift.baselines.importance import ImportanceWeighting
from postshift.baselines.kernel_mean_matching import KernelMeanMatching
from postshift.baselines.learn_to_reweight import LearnToReweight
from postshift.baselines.opt_metric import OptMetric
from postshift.baselines.plugin_search import CoordinatePlugin
from postshift.baselines.prior_correction import PriorCorrection
from postshift.baselines.softmax import SoftmaxRegression

__all__ = [
    "AdaptiveSurrogates",
    "CoordinatePlugin",
    "CrossEntropyOnTrain",
    "CrossEntropyOnValidation",
    "DirectSearch",
    "FineTuned",
    "ForwardCorrection",
    "ImportanceWeighting",
    "KernelMeanMatching",
    "LearnToReweight",
    "NetworkClassifier",
    "OptMetric",
    "PriorCorrection",
    "SoftmaxRegression",
]
