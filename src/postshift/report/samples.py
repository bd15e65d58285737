"""Which rows a page is about: the validation rows of the fit, or test rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.utils.validation import _num_samples

from postshift._validation import FloatArray, IntArray
from postshift.estimators.marks import compared, mark_of
from postshift.exceptions import InputError, SettingError, ShapeError


def check_rows(estimator: Any, rows: Any, *, what: str = "without labels y, X") -> None:
    """Refuse rows that cannot be the validation rows of the fit."""
    wanted, found = estimator.diagnostics_.n_val, _num_samples(rows)
    if wanted != found:
        raise ShapeError(
            f"{what} must be of the {wanted} validation rows of the fit, in the same order; where the fit was given "
            f"none, they are the training rows that it held out. Got {found} rows instead"
        )


def are_of_the_fit(estimator: Any, eta: FloatArray, codes: IntArray | None) -> bool:
    """Return whether rows are the validation rows of the fit; test rows are not, and have labels."""
    if codes is None:
        check_rows(estimator, eta)
    diagnostics, new = estimator.diagnostics_, mark_of(eta, codes)
    kept = getattr(diagnostics, "val_mark", None)
    if kept is None:  # of an older version
        return len(eta) == int(diagnostics.n_val)
    found = compared(kept, new)
    if found == "same":
        return True
    if found == "other order" or codes is None:
        raise ShapeError(
            f"X must be the {len(eta)} validation rows of the fit in the same order and with the same labels, or test "
            "rows with their labels y. Got the same number of rows, which are neither"
        )
    trained = getattr(diagnostics, "train_mark", None)
    if trained is not None and compared(trained, new) != "other rows":
        raise InputError(
            f"X has the {len(eta)} training rows of the fit, and scores of these say nothing of new rows: give the "
            "validation rows of the fit, or test rows"
        )
    return False


def check_nothing_for_test_rows(metric: Any, metadata: Mapping[str, Any]) -> None:
    """Refuse what only test rows are scored by: the scores of validation rows are those of the fit."""
    if metric is not None or metadata:
        names = [*(["metric"] if metric is not None else []), *metadata]
        raise SettingError(
            f"{names[0]!r} is for test rows, and X has the validation rows, whose scores are those of the fit: leave "
            "it out"
        )
