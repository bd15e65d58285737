"""Rivals from other libraries: xCOLUMNs for macro metrics, OxonFair and fairlearn for metrics over groups.

All are imported when they are used: ``pip install -e '.[bench,rivals]'``. Without a package its rival is not usable.

Groups are hidden at prediction time. So OxonFair infers them from the user's basis, and fairlearn's ThresholdOptimizer
gets the groups of that basis as if they were the sensitive ones. fairlearn's ExponentiatedGradient retrains the model
and is left out. MAPIE is left out too: it controls risks at a level that the user gives, and these tasks have none.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments.studies.constraint_rivals import Prefit, _first_columns, _GroupsOfBasis
from experiments.studies.menu_tasks import TaskData
from experiments.studies.rival_value import Ints, Value, is_of_matrix
from postshift.metrics import WorstGroup

_EPSILON = 1e-6  # as in xCOLUMNs
MACRO = ("f1_macro", "balanced_accuracy", "g_mean", "h_mean", "q_mean")
OXONFAIR_METRICS = ("accuracy", "balanced_accuracy")


def has(package: str) -> bool:
    """Return whether a package is installed."""
    return find_spec(package) is not None


# -- xCOLUMNs -----------------------------------------------------------------------------------------------


def suits_xcolumns(data: TaskData, metric: Any) -> bool:
    """Return whether the metric is a macro metric of the classes, and all classes have validation rows."""
    counts = np.bincount(data.y_val, minlength=data.n_classes)
    return has("xcolumns") and getattr(metric, "name", None) in MACRO and bool(counts.all())


def run_xcolumns(data: TaskData, value: Value) -> Ints:
    """Fit the Frank-Wolfe method of xCOLUMNs from the model's labels; the labels are one draw of its classifier.

    xCOLUMNs has the macro-F1. Its G-mean and others are of one class against the rest, so those of all recalls are
    given here. They are known functions: nothing is asked, and the count is 0.
    """
    from xcolumns.frank_wolfe import find_classifier_using_fw

    found = find_classifier_using_fw(
        np.eye(data.n_classes)[data.y_val],
        data.eta_val,
        _macro_metric(value.metric.name),
        1,
        init_classifier="top",
        skip_tn=True,
        seed=0,
    )
    return np.asarray(found.predict(data.eta_test, seed=0).argmax(axis=1), dtype=np.intp)


def _macro_metric(name: str) -> Any:
    """Return a metric in the form of xCOLUMNs: a function of the four cells of every class."""
    import autograd.numpy as anp
    from xcolumns.metrics import macro_f1_score_on_conf_matrix

    means = {
        "balanced_accuracy": anp.mean,
        "g_mean": lambda recalls: anp.exp(anp.mean(anp.log(recalls + _EPSILON))),
        "h_mean": lambda recalls: 1 / anp.mean(1 / (recalls + _EPSILON)),
        "q_mean": lambda recalls: 1 - anp.sqrt(anp.mean((1 - recalls) ** 2) + _EPSILON**2),
    }
    if name == "f1_macro":
        return macro_f1_score_on_conf_matrix
    return lambda tp, _fp, fn, _tn: means[name](tp / (tp + fn + _EPSILON))


# -- libraries for groups -----------------------------------------------------------------------------------


def suits_oxonfair(data: TaskData, metric: Any) -> bool:
    """Return whether the metric is a worst group's accuracy of two classes, and there is a basis to infer groups."""
    return (
        has("oxonfair")
        and isinstance(metric, WorstGroup)
        and metric.inner in OXONFAIR_METRICS
        and data.n_classes == 2
        and data.user_phi_val is not None
    )


def run_oxonfair(data: TaskData, value: Value) -> Ints:
    """Fit OxonFair's FairPredictor for the worst group; a logistic regression on the basis infers the groups."""
    from oxonfair import FairPredictor
    from oxonfair.utils import group_metrics

    phi_val, phi_test = np.asarray(data.user_phi_val), np.asarray(data.user_phi_test)
    inferred = _GroupsOfBasis(LogisticRegression().fit(phi_val, data.group_val))
    rows = {"target": data.y_val, "data": np.column_stack([data.eta_val, phi_val]), "groups": data.group_val}
    found = FairPredictor(_first_columns, rows, inferred_groups=inferred, threshold=0)
    metric = getattr(group_metrics, value.metric.inner)
    found.fit(metric.min, metric, 0.0)
    new = {"target": np.zeros(len(data.eta_test), dtype=np.intp), "data": np.column_stack([data.eta_test, phi_test])}
    return np.asarray(found.predict(new), dtype=np.intp)


def suits_thresholds(data: TaskData, metric: Any) -> bool:
    """Return whether the metric is over groups of two classes, and every group of the basis has rows of both."""
    if not (has("fairlearn") and is_of_matrix(metric)) or data.n_classes != 2 or data.user_phi_val is None:
        return False
    shown = np.asarray(data.user_phi_val).argmax(axis=1)
    pairs = np.unique(shown * 2 + data.y_val)
    known = np.isin(np.asarray(data.user_phi_test).argmax(axis=1), shown).all()
    return getattr(metric, "n_categories", 2) > 2 and bool(known) and len(pairs) == 2 * len(np.unique(shown))


def run_thresholds(data: TaskData, value: Value) -> Ints:
    """Fit fairlearn's ThresholdOptimizer to equal error rates over the visible groups; the labels are one draw."""
    from fairlearn.postprocessing import ThresholdOptimizer

    by_accuracy = getattr(value.metric, "inner", None) == "accuracy"
    found = ThresholdOptimizer(
        estimator=Prefit(),
        constraints="equalized_odds",
        objective="accuracy_score" if by_accuracy else "balanced_accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    )
    shown = [np.asarray(phi).argmax(axis=1) for phi in (data.user_phi_val, data.user_phi_test)]
    found.fit(data.eta_val, data.y_val, sensitive_features=shown[0])
    return np.asarray(found.predict(data.eta_test, sensitive_features=shown[1], random_state=0), dtype=np.intp)
