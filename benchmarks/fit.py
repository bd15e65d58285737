"""Whole fits of the estimator against scikit-learn, xCOLUMNs and differential evolution, metric and time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, make_scorer

from benchmarks.data import draw, draw_sparse
from benchmarks.opponents import (
    as_xcolumns,
    evolved_weights,
    macro_f1,
    tuned_threshold,
    xcolumns_fit,
    xcolumns_sparse_value,
    xcolumns_value,
)
from benchmarks.timing import Outcome, Times, interleaved
from postshift import PostShifter

METRICS: dict[str, Callable[[Any, Any], float]] = {"balanced_accuracy": balanced_accuracy_score, "f1": f1_score}
N_WARM = 1000
SPARSE_METRIC = "f1_macro_present"
_STARTS: dict[str, dict[str, Any]] = {
    "from random": {"init_classifier": "random"},
    "from argmax": {"init_classifier": "top"},
}
XCOLUMNS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "start": {"init_classifier": "top"},
    "steps": {"init_classifier": "top", "search_for_best_alpha": False},
}


def against_tuned_threshold(*, method: str, metric: str, n: int, tolerance: float, repeats: int = 2) -> Outcome:
    """Compare with 100 thresholds by scikit-learn, two classes, both scored on the rows they were fitted to."""
    rows, few = draw(n, 2), draw(N_WARM, 2)
    _fit(metric, method, few.eta, few.labels)  # compiles
    least, results = interleaved(
        {
            "theirs": lambda: tuned_threshold(rows.eta, rows.labels, scoring=metric),
            "ours": lambda: _fit(metric, method, rows.eta, rows.labels),
        },
        repeats=repeats,
    )
    values = {name: float(METRICS[metric](rows.labels, fit.predict(rows.eta))) for name, fit in results.items()}
    return _with_values(least, values, tolerance=tolerance)


def against_xcolumns(*, variant: str, n: int, n_new: int, tolerance: float, m: int = 10, repeats: int = 3) -> Outcome:
    """Compare with xCOLUMNs' Frank-Wolfe for macro-F1 of new rows; its value is that of its randomised classifier."""
    rows, few, new = draw(n, m), draw(N_WARM, m), draw(n_new, m, seed=1)
    true, options = np.eye(m)[rows.labels], XCOLUMNS[variant]
    xcolumns_fit(few.eta, np.eye(m)[few.labels], **options)  # compiles, or says what is missing
    _fit("f1_macro", "paper", few.eta, few.labels)
    least, results = interleaved(
        {
            "theirs": lambda: xcolumns_fit(rows.eta, true, **options),
            "ours": lambda: _fit("f1_macro", "paper", rows.eta, rows.labels),
        },
        repeats=repeats,
    )
    values = {
        "theirs": xcolumns_value(results["theirs"], new.eta, np.eye(m)[new.labels]),
        "ours": macro_f1(new.labels, results["ours"].predict(new.eta)),
    }
    return _with_values(least, values, tolerance=tolerance)


def on_sparse_rows(*, n: int, m: int, repeats: int = 3) -> Outcome:
    """Compare with xCOLUMNs' Frank-Wolfe on CSR rows from both of its starts, on new rows.

    Its time is that of both starts, and its value the better of the two. The values are means over the classes that
    have rows; the argmax and the inverse prior are in the note.
    """
    (eta, y), (few, few_y) = draw_sparse(n, m), draw_sparse(N_WARM, m)
    new, new_y = draw_sparse(n, m, seed=1)
    given = [(as_xcolumns(each), as_xcolumns(_onehot(labels, m))) for each, labels in ((few, few_y), (eta, y))]
    for options in _STARTS.values():
        xcolumns_fit(*given[0], **options)  # compiles, or says what is missing
    sides: dict[str, Callable[[], Any]] = {
        name: partial(xcolumns_fit, *given[1], **options) for name, options in _STARTS.items()
    }
    sides["ours"] = lambda: _fit(SPARSE_METRIC, "auto", eta, y)
    least, results = interleaved(sides, repeats=repeats)
    values = {name: xcolumns_sparse_value(results[name], new, new_y) for name in _STARTS}
    simple = {name: _fit(SPARSE_METRIC, name, eta, y) for name in ("base", "inverse prior")}
    values |= {name: fit.score(new, new_y) for name, fit in (("ours", results["ours"]), *simple.items())}
    starts = [f"xCOLUMNs {name} {values[name]:.3f} in {least[name].cpu:.2g} s" for name in _STARTS]
    others = [f"{name} {values[name]:.3f}" for name in simple]
    theirs = Times(cpu=sum(least[name].cpu for name in _STARTS), wall=sum(least[name].wall for name in _STARTS))
    both = {"ours": least["ours"], "theirs": theirs}
    best = {"ours": values["ours"], "theirs": max(values[name] for name in _STARTS)}
    return replace(_with_values(both, best, tolerance=0), note=", ".join(starts + others))


def _onehot(labels: np.ndarray, n_classes: int) -> csr_array:
    """Return labels as rows with a single 1."""
    return csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)), shape=(len(labels), n_classes))


def against_evolution(*, n: int, max_iter: int, m: int = 10, repeats: int = 2) -> Outcome:
    """Compare plug-in search with differential evolution of the class weights, for macro-F1."""
    rows, few = draw(n, m), draw(N_WARM, m)
    _fit("f1_macro", "plug-in search", few.eta, few.labels)
    least, results = interleaved(
        {
            "theirs": lambda: evolved_weights(rows.eta, rows.labels, max_iter=max_iter),
            "ours": lambda: _fit("f1_macro", "plug-in search", rows.eta, rows.labels),
        },
        repeats=repeats,
    )
    values = {
        "theirs": macro_f1(rows.labels, np.argmax(results["theirs"] * rows.eta, axis=1)),
        "ours": macro_f1(rows.labels, results["ours"].predict(rows.eta)),
    }
    return _with_values(least, values, tolerance=np.inf)


def against_regression(*, n: int, m: int, repeats: int = 2) -> Outcome:
    """Compare the default with one logistic regression on the logarithms of the same probabilities, for macro-F1."""
    rows, few = draw(n, m), draw(N_WARM, 3)
    _fit("f1_macro", "auto", few.eta, few.labels)
    logs = np.log(np.maximum(rows.eta, 1e-12))
    least, results = interleaved(
        {
            "theirs": lambda: LogisticRegression(max_iter=1000).fit(logs, rows.labels),
            "ours": lambda: _fit("f1_macro", "auto", rows.eta, rows.labels),
        },
        repeats=repeats,
    )
    values = {
        "theirs": macro_f1(rows.labels, results["theirs"].predict(logs)),
        "ours": macro_f1(rows.labels, results["ours"].predict(rows.eta)),
    }
    return _with_values(least, values, tolerance=np.inf)


def with_an_opaque_function(*, n: int, seconds: float, repeats: int = 1) -> Outcome:
    """Compare with scikit-learn's tuned threshold where a call of the metric takes long; the calls are counted."""
    rows, calls = draw(n, 2), {"theirs": 0, "ours": 0}

    def counted(side: str) -> Callable[[Any, Any], float]:
        def score(y_true: Any, y_pred: Any) -> float:
            calls[side] += 1
            until = time.process_time() + seconds
            value = float(f1_score(y_true, y_pred))
            while time.process_time() < until:
                pass
            return value

        return score

    least, results = interleaved(
        {
            "theirs": lambda: tuned_threshold(rows.eta, rows.labels, scoring=make_scorer(counted("theirs")), cv=5),
            "ours": lambda: _fit(counted("ours"), "auto", rows.eta, rows.labels),
        },
        repeats=repeats,
    )
    values = {name: float(f1_score(rows.labels, fit.predict(rows.eta))) for name, fit in results.items()}
    per_fit = {name: count // repeats for name, count in calls.items()}
    found = _with_values(least, values, tolerance=np.inf)
    return replace(found, note=f"{per_fit['ours']} calls against {per_fit['theirs']}")


def _fit(metric: Any, method: str, eta: np.ndarray, y: np.ndarray) -> PostShifter:
    """Return the fitted estimator; small samples are expected in warm-ups and tests."""
    with warnings.catch_warnings(action="ignore"):
        return PostShifter(metric, method=method).fit(eta, y)


def _with_values(least: Any, values: dict[str, float], *, tolerance: float) -> Outcome:
    """Return the outcome, marked where our metric is lower by more than the tolerance."""
    behind = values["theirs"] - values["ours"]
    return Outcome(
        ours=least["ours"],
        theirs=least["theirs"],
        ours_value=values["ours"],
        theirs_value=values["theirs"],
        failed=f"our metric is lower by {behind:.2g}" if behind > tolerance else "",
    )
