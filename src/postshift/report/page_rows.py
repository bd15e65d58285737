"""The rows a page is about: the validation rows of the fit, or test rows with their scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from postshift._validation import IntArray
from postshift.core.rows import Rows
from postshift.estimators.comparing import compare_labels
from postshift.estimators.marks import compared, mark_of
from postshift.estimators.model import one_a_row
from postshift.exceptions import InputError, SettingError, ShapeError
from postshift.metrics.metadata import GROUPS, metadata_names
from postshift.report.facts import Scores


def check_number_of_rows(estimator: Any, rows: Any, *, what: str = "without labels y, X") -> None:
    """Raise if there are not as many rows as validation rows of the fit."""
    wanted, found = estimator.diagnostics_.n_val, _num_samples(rows)
    if wanted != found:
        raise ShapeError(
            f"{what} must be of the {wanted} validation rows of the fit, in the same order; if the fit was given none, "
            f"they are the training rows that it held out. Got {found} rows instead"
        )


def are_validation_rows(estimator: Any, table: Rows) -> bool:
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


def check_no_test_options(metric: Any, metadata: Mapping[str, Any]) -> None:
    """Raise for options that only test rows have: validation rows keep the scores of the fit."""
    names = [*([] if metric is None else ["metric"]), *metadata]
    if names:
        raise SettingError(
            f"{names[0]!r} is for test rows. X has the validation rows, whose scores are those of the fit: leave it out"
        )


def scores_of_test_rows(
    estimator: Any,
    table: Rows,
    labels: tuple[IntArray, IntArray],
    *,
    metric: Any,
    groups: Any,
    metadata: Mapping[str, Any],
) -> Scores:
    """Return the scores of test rows and their intervals, computed as ``postshift evaluate`` does.

    Parameters
    ----------
    estimator : PostShifter or PostShiftClassifier
        The fitted estimator.
    table : Rows
        The rows, with their labels.
    labels : pair of arrays
        Labels before and after, as positions.
    metric : str, metric, scorer or callable, optional
        The metric to score by; that of the fit by default.
    groups : array, optional
        The group of every row.
    metadata : mapping of str to array
        Other arrays that the metric reads.
    """
    arrays = {name: one_a_row(values, name=name) for name, values in metadata.items()}
    if groups is not None and GROUPS in metadata_names(estimator.metric if metric is None else metric):
        arrays[GROUPS] = groups
    before, after = labels
    found = compare_labels(
        estimator.metric if metric is None else metric,
        labels=after,
        base=before,
        val=table,
        classes=np.asarray(estimator.classes_),
        groups=estimator.groups_,
        metadata=arrays,
        pos_label=estimator.pos_label if metric is None else None,
        fallback=estimator.fallback_,
    )
    return Scores(
        before=found.base_score,
        after=found.score,
        before_interval=found.intervals.base,
        after_interval=found.intervals.score,
        gain_interval=found.intervals.gain,
        n_rows=table.n_rows,
    )
