"""From a fitted estimator and rows, the validation rows of its fit or test rows, to facts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from postshift._validation import FloatArray, IntArray, check_eta, check_weights
from postshift.core.rows import CONSTANT, unit_rows
from postshift.estimators import PostShiftClassifier, PostShifter
from postshift.estimators.model import one_a_row, positions
from postshift.estimators.shifter import PHI
from postshift.exceptions import InputError, ShapeError
from postshift.metrics import CellMetric, LabelFunction, MinRecall, Negated, PredictionFunction, resolve_metric
from postshift.metrics.catalogue import metric_about, metric_catalogue
from postshift.metrics.rates import RateMetric
from postshift.metrics.recalls import RecallMetric
from postshift.report import counts
from postshift.report.facts import (
    Condition,
    ConfusionChange,
    FunctionWeights,
    Look,
    Metric,
    Pairs,
    Rival,
    Shares,
    Verdict,
    Weights,
)
from postshift.report.samples import are_of_the_fit, check_nothing_for_test_rows, check_rows
from postshift.report.unseen import unseen_scores

_PACKAGES = ("postshift", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """The rows: probabilities, labels as positions, weights, groups, example weights, bases in use by name."""

    eta: FloatArray
    codes: IntArray | None
    weights: FloatArray | None
    groups: Any
    example_weights: FloatArray
    bases: Mapping[str, tuple[FloatArray, list[str]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Labelled:
    """What the page shows of labels before and after: those of ``numbers`` among the rows."""

    before: IntArray
    after: IntArray
    numbers: IntArray


def gathered(
    estimator: Any,
    X: Any,
    *,
    y: Any,
    phi: Any,
    y_train: Any,
    eta_train: Any,
    metric: Any,
    metric_name: str | None,
    weights: Any,
    groups: Any,
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of the facts, all but the title."""
    check_estimator(estimator)
    rows = _rows(estimator, X, y=y, phi=phi, weights=weights, groups=groups)
    told = metric_facts(estimator, metric_name, metric=metric, groups=rows.groups)
    if are_of_the_fit(estimator, rows.eta, rows.codes):
        check_nothing_for_test_rows(metric, metadata)
        held = estimator.held_out_
        labelled = _Labelled(before=held.base_labels, after=held.labels, numbers=held.rows)
        scores = None
    else:
        before, after = both_labels(estimator, X, phi)
        labelled = _Labelled(before=before, after=after, numbers=np.arange(len(after)))
        assert rows.codes is not None  # noqa: S101
        scores = unseen_scores(
            estimator.metric if metric is None else metric,
            estimator,
            pos_label=estimator.pos_label if metric is None else None,
            eta=rows.eta,
            codes=rows.codes,
            weights=rows.weights,
            groups=groups,
            metadata=metadata,
            labels=(before, after),
        )
    return {
        **_of_rows(estimator, rows, labelled, y_train=y_train, eta_train=eta_train),
        **_of_fit(estimator, told, n_test=None if scores is None else scores.n_rows),
        "metric": told,
        "test": scores,
        "fit_metric": None if metric is None else metric_facts(estimator, None),
    }


def _of_rows(estimator: Any, rows: _Rows, labelled: _Labelled, *, y_train: Any, eta_train: Any) -> dict[str, Any]:
    """Return what is told of the rows that the page is about."""
    some = rows.eta[labelled.numbers]
    codes = None if rows.codes is None else rows.codes[labelled.numbers]
    how: dict[str, Any] = {
        "n_classes": len(estimator.classes_),
        "weights": None if rows.weights is None else rows.weights[labelled.numbers],
    }
    found: dict[str, Any] = {
        "confusion": None,
        "changes": counts.changes(labelled.before, labelled.after, numbers=labelled.numbers, eta=some, codes=codes),
        "weights": weights_facts(rows.example_weights, rows.eta, rows.bases, rows.weights),
        "shares": _shares(estimator, rows, labelled, y_train=y_train, eta_train=eta_train),
        "beliefs": () if rows.codes is None else counts.beliefs(rows.eta, rows.codes, weights=rows.weights),
        "refitted": bool((np.argmax(some, axis=1) != labelled.before).any()),
        "groups": (),
    }
    if codes is not None:
        cells = counts.cells(codes, labelled.before, labelled.after, **how)
        found["confusion"] = ConfusionChange(cells=cells, weighted=rows.weights is not None)
        if rows.groups is not None:
            own = rows.groups[labelled.numbers]
            found["groups"] = counts.group_facts(own, codes, labelled.before, labelled.after, **how)
    return found


def _of_fit(estimator: Any, metric: Metric, *, n_test: int | None) -> dict[str, Any]:
    """Return what is told of the fit, whatever rows the page is about."""
    diagnostics = estimator.diagnostics_
    return {
        "classes": class_names(estimator),
        "verdict": _verdict(estimator),
        "rivals": tuple(Rival(name=e.name, score=e.score, weight=e.weight) for e in diagnostics.choice.entries),
        "trace": looks(estimator),
        "conditioning": tuple(
            Condition(rule=each.rule, condition=_finite(each.condition), rank=each.rank)
            for each in diagnostics.conditioning
        ),
        "n_queries": int(estimator.n_queries_),
        "warnings": tuple(diagnostics.warnings),
        "notes": tuple(diagnostics.choice.notes),
        "used": _used(estimator, metric, n_test=n_test),
        "how_to_use": _how_to_use(estimator),
        "settings": _settings(estimator, metric),
        "versions": _versions(),
    }


def check_estimator(estimator: Any) -> None:
    """Refuse what is no fitted estimator of ours."""
    if not isinstance(estimator, PostShifter | PostShiftClassifier):
        raise InputError(
            f"estimator must be a fitted PostShifter or PostShiftClassifier. Got {type(estimator).__name__} instead"
        )
    check_is_fitted(estimator, "rule_")
    if not hasattr(estimator, "held_out_"):
        raise InputError("the estimator was fitted by an older version, which kept no held-out labels: fit it again")


def class_names(estimator: Any) -> tuple[str, ...]:
    """Return the names of the classes."""
    return tuple(str(label) for label in np.asarray(estimator.classes_).tolist())


def looks(estimator: Any) -> tuple[Look, ...]:
    """Return the history."""
    return tuple(
        Look(
            rule=record.rule,
            iteration=int(record.iteration),
            metric=float(record.metric),
            step=None if record.step is None else float(record.step),
            queries=int(record.queries),
        )
        for record in estimator.history_
    )


def probabilities(estimator: Any, X: Any) -> FloatArray:
    """Return the model's probabilities of rows."""
    if isinstance(estimator, PostShifter):
        return check_eta(X, name="X")
    return np.asarray(estimator.predict_proba(X))


def weights_of_rows(estimator: Any, X: Any, phi: Any = None) -> FloatArray:
    """Return the example weights of rows."""
    if isinstance(estimator, PostShifter):
        return np.asarray(estimator.example_weights(X, phi))
    return np.asarray(estimator.example_weights(X))


def both_labels(estimator: Any, X: Any, phi: Any = None) -> tuple[IntArray, IntArray]:
    """Return the labels of rows without and with the shift, as positions."""
    before = np.argmax(probabilities(estimator, X), axis=1)
    labels = estimator.predict(X, phi) if isinstance(estimator, PostShifter) else estimator.predict(X)
    return before, positions(labels, np.asarray(estimator.classes_), name="the labels")


def functions_of(estimator: Any, X: Any, phi: Any = None) -> dict[str, tuple[FloatArray, list[str]]]:
    """Return the functions, with their names, of the bases that the rule reads, the constant one excepted."""
    used = dict.fromkeys(rule.basis for rule in estimator.rule_.rules if rule.basis != CONSTANT)
    found = {}
    for name in used:
        if isinstance(estimator, PostShifter):
            given = phi[name] if isinstance(phi, Mapping) else phi
            table = np.asarray(given, dtype=np.float64)
            names = _column_names(given, name, table.shape[1])
        else:
            table = np.asarray(estimator.bases_[name].transform(X), dtype=np.float64)
            names = [str(each) for each in estimator.bases_[name].get_feature_names_out()]
        found[name] = unit_rows(table, name=name), names
    return found


def weights_facts(
    example_weights: FloatArray,
    eta: FloatArray,
    bases: Mapping[str, tuple[FloatArray, list[str]]],
    rows: FloatArray | None = None,
) -> Weights:
    """Return the weights per class, over all rows and in every basis function that has rows."""
    functions = []
    for basis, (phi, names) in bases.items():
        for column, name in zip(phi.T, names, strict=True):
            held = column if rows is None else column * rows
            if held.sum() > 0:
                by_class = counts.class_weights(example_weights, eta, held)
                functions.append(
                    FunctionWeights(
                        basis=basis, name=name, n_rows=float(column.sum()), by_class=tuple(by_class.tolist())
                    )
                )
    overall = counts.class_weights(example_weights, eta, rows)
    return Weights(by_class=tuple(overall.tolist()), functions=tuple(functions))


def metric_facts(estimator: Any, name: str | None, *, metric: Any = None, groups: Any = None) -> Metric:
    """Return what the metric is, by default that of the fit; a cost is known by the sign that the library gave it."""
    given = estimator.metric if metric is None else metric
    known = estimator.groups_ if estimator.groups_ is not None or groups is None else np.unique(groups)
    goal = resolve_metric(
        given,
        classes=estimator.classes_,
        n_groups=None if known is None else len(known),
        pos_label=estimator.pos_label if metric is None else None,
    )
    inner = goal.inner if isinstance(goal, Negated) else goal.function if isinstance(goal, CellMetric) else goal
    sign = inner.sign if isinstance(inner, LabelFunction | PredictionFunction) else 1.0
    is_cost = (isinstance(goal, Negated) or sign < 0) and not str(given).startswith("neg_")
    macro = isinstance(inner, RateMetric) and inner.average == "macro"
    own = given if isinstance(given, str) else str(inner.name)
    positive = [class_names(estimator)[place] for place in getattr(goal, "positive_classes", ())]
    return Metric(
        name=name or own,
        about=metric_about(own) if isinstance(given, str) else metric_catalogue().get(own, ""),
        is_cost=is_cost,
        counts_classes_evenly=macro or isinstance(inner, RecallMetric | MinRecall),
        positive=", ".join(positive) or None,
    )


def _rows(estimator: Any, X: Any, *, y: Any, phi: Any, weights: Any, groups: Any) -> _Rows:
    """Check the rows and return what is needed of them."""
    if y is None:
        check_rows(estimator, X)
    eta = probabilities(estimator, X)
    codes = None
    if y is not None:
        codes = positions(column_or_1d(y), np.asarray(estimator.classes_), name="y")
        if len(codes) != len(eta):
            raise ShapeError(f"y must have one label for each of the {len(eta)} rows. Got {len(codes)} instead")
    if groups is not None:
        groups = one_a_row(groups, name="groups")
        if len(groups) != len(eta):
            raise ShapeError(f"groups must have one value for each of the {len(eta)} rows. Got {len(groups)} instead")
    return _Rows(
        eta=eta,
        codes=codes,
        weights=check_weights(weights, n_rows=len(eta), name="sample_weight"),
        groups=groups,
        example_weights=weights_of_rows(estimator, X, phi),
        bases=functions_of(estimator, X, phi),
    )


def _verdict(estimator: Any) -> Verdict:
    """Return the scores and their intervals."""
    record, held = estimator.diagnostics_.choice, estimator.held_out_
    return Verdict(
        before=float(record.base_score),
        after=float(record.score),
        before_interval=None if record.intervals is None else record.intervals.base,
        after_interval=None if record.intervals is None else record.intervals.score,
        gain_interval=None if record.intervals is None else record.intervals.gain,
        n_rows=len(held.rows),
        n_val=int(estimator.diagnostics_.n_val),
        in_fit=bool(held.in_fit),
        fallback=bool(estimator.fallback_),
        how=str(record.how),
        reason=str(record.reason),
    )


def _shares(estimator: Any, rows: _Rows, labelled: _Labelled, *, y_train: Any, eta_train: Any) -> Shares:
    """Return the class shares."""
    classes = np.asarray(estimator.classes_)
    weights = None if rows.weights is None else rows.weights[labelled.numbers]
    how: dict[str, Any] = {"n_classes": len(classes)}
    training = None
    if y_train is not None:
        training = counts.shares(positions(column_or_1d(y_train), classes, name="y_train"), **how)
    return Shares(
        before=counts.shares(labelled.before, weights=weights, **how),
        after=counts.shares(labelled.after, weights=weights, **how),
        by_model=counts.mean_eta(rows.eta, weights=rows.weights),
        validation=None if rows.codes is None else counts.shares(rows.codes, weights=rows.weights, **how),
        training=training,
        by_model_in_training=None if eta_train is None else counts.mean_eta(check_eta(eta_train, name="eta_train")),
    )


def _used(estimator: Any, metric: Metric, *, n_test: int | None) -> Pairs:
    """Say what the estimator itself tells of its data."""
    n_train, n_val = estimator.diagnostics_.n_train, estimator.diagnostics_.n_val
    pairs = [
        ("metric", f"{metric.name}: {metric.about}" if metric.about else metric.name),
        ("validation rows", f"{n_val:,}"),
        ("training rows", f"{n_train:,}" if n_train else "none besides the validation rows"),
        *([] if n_test is None else [("test rows", f"{n_test:,}")]),
        ("classes", f"{len(estimator.classes_):,}"),
    ]
    if isinstance(estimator, PostShiftClassifier):
        pairs.insert(0, ("model", type(getattr(estimator.estimator, "estimator", estimator.estimator)).__name__))
    return tuple(pairs)


def _settings(estimator: Any, metric: Metric) -> Pairs:
    """Return how the estimator was set."""
    pairs = [] if metric.positive is None else [("positive class", metric.positive)]
    pairs += [("method", str(estimator.method)), ("seed", str(estimator.random_state))]
    if estimator.budget is not None:
        pairs.append(("budget", f"{estimator.budget:,} queries"))
    return tuple(pairs)


def _how_to_use(estimator: Any) -> Pairs:
    """Return the code that uses the model."""
    if isinstance(estimator, PostShiftClassifier):
        name, call, rows = "model", "model.predict(X)", "X has the columns of the fit"
    else:
        reads_phi = any(rule.basis != CONSTANT for rule in estimator.rule_.rules)
        name, call = "shifter", "shifter.predict(eta, phi)" if reads_phi else "shifter.predict(eta)"
        rows = "eta: the model's probabilities" + (", phi: the basis functions" if reads_phi else "")
    return (
        ("Label new rows", f"# {rows}\nlabels = {call}"),
        ("Keep the model", f'from postshift.persistence import dump\n\ndump({name}, "model.skops")'),
        ("Load it again", f'from postshift.persistence import load\n\n{name} = load("model.skops")\nlabels = {call}'),
    )


def _versions() -> Pairs:
    """Return the packages and their versions."""
    found = [("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # a source tree that was never installed
            found.append((name, "not known"))
    return tuple(found)


def _column_names(given: Any, basis: str, n_columns: int) -> list[str]:
    """Return the names of the columns of a frame, or numbers."""
    if hasattr(given, "columns"):
        return [str(each) for each in given.columns]
    return [f"{'' if basis == PHI else basis + ' '}function {k + 1}" for k in range(n_columns)]


def _finite(value: float | None) -> float | None:
    """Return a number if it is finite."""
    return float(value) if value is not None and np.isfinite(value) else None
