"""Gather the facts: from a fitted estimator and rows, either the validation rows of its fit or test rows."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d

from postshift._validation import FloatArray, IntArray, check_eta, check_weights
from postshift.core.rows import CONSTANT, PHI, Rows
from postshift.estimators import PostShiftClassifier, PostShifter
from postshift.estimators.dask_rows import in_memory
from postshift.estimators.frontier_of import frontier, is_fitted_to
from postshift.estimators.model import one_a_row, positions
from postshift.estimators.records import ConstraintRecord, compared, mark_of
from postshift.estimators.shifts import effective_weights
from postshift.estimators.subject_to import constraints_of, is_known_by_scores, names_read, new_records
from postshift.exceptions import InputError, SettingError, ShapeError
from postshift.metrics import CellMetric, LabelFunction, MinRecall, Negated, PredictionFunction, resolve_metric
from postshift.metrics.catalogue import metric_catalogue
from postshift.metrics.named import metric_about
from postshift.metrics.rates import RateMetric
from postshift.metrics.recalls import RecallMetric
from postshift.metrics.resolve import GROUPS, metadata_names
from postshift.report import counts
from postshift.report.facts import (
    ConfusionChange,
    Constraints,
    FunctionWeights,
    Metric,
    Pairs,
    Scores,
    Shares,
    Verdict,
    Weights,
)
from postshift.report.frontier_facts import FrontierFacts

_BLOCK_ROWS = 1 << 14  # their weights stay in the cache
_BOUNDS = 15  # of the frontier
_PACKAGES = ("postshift", "numpy", "scipy", "scikit-learn")


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
    if y is None:
        check_number_of_rows(estimator, X)
    table = table_of(estimator, X, phi)
    codes = None if y is None else codes_of(estimator, y, n_rows=table.n_rows)
    train = None if y_train is None else codes_of(estimator, y_train, name="y_train")
    weights = check_weights(weights, n_rows=table.n_rows, name="sample_weight")
    table = replace(table, labels=codes, weights=weights)
    groups = None if groups is None else _checked_groups(groups, n_rows=table.n_rows)
    about_metric = metric_facts(estimator, metric_name, metric=metric, groups=groups)
    if _are_validation_rows(estimator, table):
        _check_no_test_options(metric, metadata)
        held = estimator.held_out_
        numbers, before, after, test = held.rows, held.base_labels, held.labels, None
        records = estimator.constraints_
    else:
        numbers, labels = np.arange(table.n_rows), both_labels(estimator, table)
        test = _scores_of_test_rows(estimator, table, labels, metric=metric, groups=groups, metadata=metadata)
        before, after = labels
        records = new_records(estimator, after, val=table, groups=groups, metadata=metadata)
    shown = table.take(numbers)  # the rows with labels before and after: all, or those held out of the fit
    return {
        **_labels_facts(shown, before, after, numbers=numbers, groups=groups),
        "weights": weights_facts(estimator, table, phi),
        "shares": _shares(table, before, after, weights=shown.weights, train=train, eta_train=eta_train),
        "beliefs": () if codes is None else counts.beliefs(table.eta, codes, weights=weights),
        **_fit_facts(estimator, about_metric, n_test=None if test is None else test.n_rows),
        "metric": about_metric,
        "test": test,
        "fit_metric": None if metric is None else metric_facts(estimator, None),
        "constraints": _constraints(estimator, records),
        "frontier": None if test is not None else frontier_facts(estimator, table, X, y=y, phi=phi, groups=groups),
    }


def frontier_facts(
    estimator: Any, table: Rows, X: Any, *, y: Any, phi: Any = None, groups: Any = None
) -> FrontierFacts | None:
    """Return the frontier of a fit with constraints on its validation rows; None if these rows cannot show it."""
    given = constraints_of(estimator)
    over_groups = GROUPS in names_read(estimator)
    if not given or y is None or (over_groups and groups is None) or is_fitted_to(estimator, table):
        return None
    if is_known_by_scores(estimator):
        return None
    metadata = {GROUPS: groups} if over_groups else {}
    found = frontier(estimator, X, y, phi=phi, bounds=_BOUNDS, sample_weight=table.weights, **metadata)
    return FrontierFacts.of(found, bound=given[0].bound)


def _labels_facts(shown: Rows, before: IntArray, after: IntArray, *, numbers: IntArray, groups: Any) -> dict[str, Any]:
    """Return the facts about the labels before and after."""
    how: dict[str, Any] = {"n_classes": shown.n_classes, "weights": shown.weights}
    found: dict[str, Any] = {
        "confusion": None,
        "changes": counts.changes(before, after, numbers=numbers, eta=shown.eta, codes=shown.labels),
        "refitted": bool((np.argmax(shown.eta, axis=1) != before).any()),
        "groups": (),
    }
    if shown.labels is not None:
        cells = counts.cells(shown.labels, before, after, **how)
        found["confusion"] = ConfusionChange(cells=cells, weighted=shown.weights is not None)
        if groups is not None:
            found["groups"] = counts.group_facts(groups[numbers], shown.labels, before, after, **how)
    return found


def _fit_facts(estimator: Any, metric: Metric, *, n_test: int | None) -> dict[str, Any]:
    """Return the facts about the fit, which are the same for every page."""
    diagnostics = estimator.diagnostics_
    return {
        "classes": class_names(estimator),
        "verdict": _verdict(estimator),
        "rules": tuple(diagnostics.choice.entries),
        "trace": tuple(estimator.history_),
        "conditioning": tuple(replace(each, condition=_finite(each.condition)) for each in diagnostics.conditioning),
        "n_queries": int(estimator.n_queries_),
        "warnings": tuple(diagnostics.warnings),
        "notes": tuple(diagnostics.choice.notes),
        "used": _used(estimator, metric, n_test=n_test),
        "how_to_use": _how_to_use(estimator),
        "settings": _settings(estimator, metric),
        "versions": _versions(),
    }


def check_estimator(estimator: Any) -> None:
    """Raise if this is not a fitted estimator of postshift."""
    if not isinstance(estimator, PostShifter | PostShiftClassifier):
        raise InputError(
            f"estimator must be a fitted PostShifter or PostShiftClassifier. Got {type(estimator).__name__} instead"
        )
    check_is_fitted(estimator, "rule_")
    if not hasattr(estimator, "held_out_"):
        raise InputError("the estimator was fitted by an older version that kept no held-out labels: fit it again")


def class_names(estimator: Any) -> tuple[str, ...]:
    """Return the names of the classes."""
    return tuple(str(label) for label in np.asarray(estimator.classes_).tolist())


def table_of(estimator: Any, X: Any, phi: Any = None) -> Rows:
    """Return rows as the estimator's own methods read them."""
    X = in_memory(X, name="X")
    if isinstance(estimator, PostShifter):
        return estimator._new_rows(X, in_memory(phi, name="phi"), dense="the report")  # noqa: SLF001
    return estimator._new_rows(X)  # type: ignore[no-any-return]  # noqa: SLF001


def codes_of(estimator: Any, y: Any, *, name: str = "y", n_rows: int | None = None) -> IntArray:
    """Return labels as positions of classes; raise if there are not ``n_rows`` of them."""
    codes = positions(column_or_1d(y), np.asarray(estimator.classes_), name=name)
    if n_rows is not None and len(codes) != n_rows:
        raise ShapeError(f"{name} must have one label for each of the {n_rows} rows. Got {len(codes)} instead")
    return codes


def both_labels(estimator: Any, table: Rows) -> tuple[IntArray, IntArray]:
    """Return the labels of rows before and after, as positions."""
    return np.argmax(table.eta, axis=1), estimator.rule_.labels(table)


def weights_facts(estimator: Any, table: Rows, phi: Any = None) -> Weights:
    """Return the weights per class, over all rows and under every basis function that has rows."""
    bases = list(dict.fromkeys(rule.basis for rule in estimator.rule_.rules if rule.basis != CONSTANT))
    names = [(basis, name) for basis in bases for name in _function_names(estimator, basis, table, phi)]
    columns = [column for basis in bases for column in table.functions(basis).T]
    sizes = [float(column.sum()) for column in columns]
    held = [column if table.weights is None else column * table.weights for column in columns]
    counted = [place for place, each in enumerate(held) if each.sum() > 0]
    overall, *by_function = _class_weights(estimator, table, [table.weights, *(held[place] for place in counted)])
    functions = tuple(
        FunctionWeights(basis=names[place][0], name=names[place][1], n_rows=sizes[place], by_class=by_class)
        for place, by_class in zip(counted, by_function, strict=True)
    )
    return Weights(by_class=overall, functions=functions)


def _class_weights(estimator: Any, table: Rows, counts_of_rows: list[FloatArray | None]) -> list[tuple[float, ...]]:
    """Return the weights per class for several weights of the rows; blocks of rows are read one after the other."""
    n_classes = table.n_classes
    sums = [(np.zeros((n_classes, n_classes)), np.zeros(n_classes)) for _ in counts_of_rows]
    first = 0
    for block in table.blocks(_BLOCK_ROWS):
        example_weights = effective_weights(estimator.rule_, block)
        for total, rows in zip(sums, counts_of_rows, strict=True):
            some = None if rows is None else rows[first : first + block.n_rows]
            laplacian, right = counts.weight_sums(example_weights, block.eta, some)
            total[0][:] += laplacian
            total[1][:] += right
        first += block.n_rows
    return [tuple(counts.solved_weights(*total).tolist()) for total in sums]


def _function_names(estimator: Any, basis: str, table: Rows, phi: Any) -> list[str]:
    """Return the names of the functions of a basis."""
    if isinstance(estimator, PostShiftClassifier):
        return [str(each) for each in estimator.bases_[basis].get_feature_names_out()]
    given = phi[basis] if isinstance(phi, Mapping) else phi
    if hasattr(given, "columns"):
        return [str(each) for each in given.columns]
    prefix = "" if basis == PHI else f"{basis} "
    return [f"{prefix}function {k + 1}" for k in range(table.functions(basis).shape[1])]


def metric_facts(estimator: Any, name: str | None, *, metric: Any = None, groups: Any = None) -> Metric:
    """Describe a metric, by default the metric of the fit; a cost is recognised by the sign of its scores."""
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
    macro = isinstance(inner, RateMetric) and inner.average in ("macro", "macro_present")
    own = given if isinstance(given, str) else str(inner.name)
    positive = [class_names(estimator)[place] for place in getattr(goal, "positive_classes", ())]
    return Metric(
        name=name or own,
        about=metric_about(own) if isinstance(given, str) else metric_catalogue().get(own, ""),
        is_cost=is_cost,
        counts_classes_evenly=macro or isinstance(inner, RecallMetric | MinRecall),
        positive=", ".join(positive) or None,
    )


def _checked_groups(groups: Any, *, n_rows: int) -> Any:
    """Return the groups of rows as an array."""
    found = one_a_row(groups, name="groups")
    if len(found) != n_rows:
        raise ShapeError(f"groups must have one value for each of the {n_rows} rows. Got {len(found)} instead")
    return found


# -- the rows that a page is about: the validation rows of the fit, or test rows --------------------------------


def check_number_of_rows(estimator: Any, rows: Any, *, what: str = "without labels y, X") -> None:
    """Raise if there are not as many rows as validation rows of the fit."""
    wanted, found = estimator.diagnostics_.n_val, _num_samples(rows)
    if wanted != found:
        raise ShapeError(
            f"{what} must be of the {wanted} validation rows of the fit, in the same order (without X_val, these are "
            f"the training rows that were held out). Got {found} rows instead"
        )


def _are_validation_rows(estimator: Any, table: Rows) -> bool:
    """Return whether rows are the validation rows of the fit; raise if they are neither these nor test rows."""
    diagnostics, new = estimator.diagnostics_, mark_of(table.eta, table.labels)
    kept = getattr(diagnostics, "val_mark", None)
    if kept is None:  # fitted by an older version
        return table.n_rows == int(diagnostics.n_val)
    found = compared(kept, new)
    if found == "same":
        return True
    if found == "other order" or table.labels is None:
        raise ShapeError(
            f"X must be the {table.n_rows} validation rows of the fit in the same order and with the same labels, or "
            "test rows with their labels y. Got the same number of rows, which are neither"
        )
    trained = getattr(diagnostics, "train_mark", None)
    if trained is not None and compared(trained, new) != "other rows":
        raise InputError(
            f"X has the {table.n_rows} training rows of the fit, whose scores do not hold for new rows: give the "
            "validation rows of the fit, or test rows"
        )
    return False


def _check_no_test_options(metric: Any, metadata: Mapping[str, Any]) -> None:
    """Raise for options that only test rows have: validation rows keep the scores of the fit."""
    names = [*([] if metric is None else ["metric"]), *metadata]
    if names:
        raise SettingError(
            f"{names[0]!r} is for test rows. X has the validation rows, whose scores are those of the fit: leave it out"
        )


def _scores_of_test_rows(
    estimator: Any,
    table: Rows,
    labels: tuple[IntArray, IntArray],
    *,
    metric: Any,
    groups: Any,
    metadata: Mapping[str, Any],
) -> Scores:
    """Return the scores of test rows and their intervals, computed as ``postshift evaluate`` does.

    ``labels`` are those before and after, as positions; ``metric`` is by default that of the fit.
    """
    from postshift.estimators.task import compare_labels

    pos_label = estimator.pos_label if metric is None else None
    metric = estimator.metric if metric is None else metric
    arrays = {name: one_a_row(values, name=name) for name, values in metadata.items()}
    if groups is not None and GROUPS in metadata_names(metric):
        arrays[GROUPS] = groups
    before, after = labels
    found = compare_labels(
        metric,
        labels=after,
        base=before,
        val=table,
        classes=np.asarray(estimator.classes_),
        groups=estimator.groups_,
        metadata=arrays,
        pos_label=pos_label,
        fallback=estimator.fallback_,
    )
    return Scores(**_both_scores(found), n_rows=table.n_rows)


def _both_scores(found: Any) -> dict[str, Any]:
    """Return the scores before and after with their intervals, of a comparison or of the record of a fit."""
    limits = found.intervals
    return {
        "before": float(found.base_score),
        "after": float(found.score),
        "before_interval": None if limits is None else limits.base,
        "after_interval": None if limits is None else limits.score,
        "gain_interval": None if limits is None else limits.gain,
    }


# -- facts of the fit ------------------------------------------------------------------------------------------


def _verdict(estimator: Any) -> Verdict:
    """Return the scores and their intervals."""
    record, held = estimator.diagnostics_.choice, estimator.held_out_
    return Verdict(
        **_both_scores(record),
        n_rows=len(held.rows),
        n_val=int(estimator.diagnostics_.n_val),
        in_fit=bool(held.in_fit),
        fallback=bool(estimator.fallback_),
        how=str(record.how),
        reason=str(record.reason),
    )


def _shares(table: Rows, before: IntArray, after: IntArray, *, weights: Any, train: Any, eta_train: Any) -> Shares:
    """Return the class shares; ``weights`` are of the rows with labels before and after, ``train`` are labels."""
    how: dict[str, Any] = {"n_classes": table.n_classes}
    return Shares(
        before=counts.shares(before, weights=weights, **how),
        after=counts.shares(after, weights=weights, **how),
        by_model=counts.mean_eta(table.eta, weights=table.weights),
        validation=None if table.labels is None else counts.shares(table.labels, weights=table.weights, **how),
        training=None if train is None else counts.shares(train, **how),
        by_model_in_training=None if eta_train is None else counts.mean_eta(check_eta(eta_train, name="eta_train")),
    )


def _constraints(estimator: Any, records: tuple[ConstraintRecord, ...]) -> Constraints | None:
    """Return how the constraints hold, and the guarantee, if the fit had constraints."""
    if not records:
        return None
    confidence = None if estimator.confidence is None else float(estimator.confidence)
    return Constraints(records=records, confidence=confidence, certificate=estimator.certificate_)


def _used(estimator: Any, metric: Metric, *, n_test: int | None) -> Pairs:
    """Return what the estimator knows about its data."""
    n_train, n_val = estimator.diagnostics_.n_train, estimator.diagnostics_.n_val
    pairs = [
        ("metric", f"{metric.name}: {metric.about}" if metric.about else metric.name),
        ("validation rows", f"{n_val:,}"),
        ("training rows", f"{n_train:,}" if n_train else "none other than the validation rows"),
        *([] if n_test is None else [("test rows", f"{n_test:,}")]),
        ("classes", f"{len(estimator.classes_):,}"),
    ]
    if isinstance(estimator, PostShiftClassifier):
        pairs.insert(0, ("model", type(getattr(estimator.estimator, "estimator", estimator.estimator)).__name__))
    return tuple(pairs)


def _settings(estimator: Any, metric: Metric) -> Pairs:
    """Return the settings of the estimator."""
    pairs = [] if metric.positive is None else [("positive class", metric.positive)]
    pairs += [("method", str(estimator.method)), ("seed", str(estimator.random_state))]
    if estimator.constraints_:
        pairs.append(("subject to", ", ".join(each.text for each in estimator.constraints_)))
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
        ("Save the model", f'from postshift.persistence import dump\n\ndump({name}, "model.skops")'),
        ("Load the model", f'from postshift.persistence import load\n\n{name} = load("model.skops")\nlabels = {call}'),
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


def _finite(value: float | None) -> float | None:
    """Return a number if it is finite."""
    return float(value) if value is not None and np.isfinite(value) else None
