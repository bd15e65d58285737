"""What a fit writes for people: scores, history and validation rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from postshift._validation import IntArray
from postshift.cli.files.file_rows import FileRows
from postshift.report.facts import Metric

COPIED_CELLS = 1_000_000  # probabilities in validation.csv: about 20 MB
COPIED_ROWS = 25_000  # more than the rows on which rules are compared, and which are held out
OF_VALIDATION = ("label", "before", "after", "held_out")  # columns of validation.csv, beside identifiers and p_CLASS
_SEED = 0


def metrics_of(shifter: Any, metric: Metric) -> dict[str, Any]:
    """Return the content of metrics.json: scores on held-out rows, the rules of the menu, diagnostics."""
    record, diagnostics = shifter.diagnostics_.choice, shifter.diagnostics_
    return {
        "metric": metric.name,
        "positive_class": metric.positive,
        "before": shifter.base_score_,
        "after": shifter.score_,
        "gain": shifter.score_ - shifter.base_score_,
        "less_is_better": metric.is_cost,
        "intervals": None if record.intervals is None else asdict(record.intervals),
        "noise": record.noise,
        "fallback": bool(shifter.fallback_),
        "reason": record.reason,
        "how": record.how,
        "scored_on": {"rows": len(shifter.held_out_.rows), "used_for_the_fit": bool(shifter.held_out_.in_fit)},
        "rules": [asdict(entry) for entry in record.entries],
        "constraints": [asdict(each) for each in shifter.constraints_],
        "confidence": shifter.confidence,
        "certificate": None if shifter.certificate_ is None else asdict(shifter.certificate_),
        "queries": shifter.n_queries_,
        "training_rows": diagnostics.n_train,
        "validation_rows": diagnostics.n_val,
        "conditioning": [asdict(each) for each in diagnostics.conditioning],
        "notes": list(record.notes),
        "warnings": list(diagnostics.warnings),
    }


def history_csv(shifter: Any) -> str:
    """Return the history as CSV, one line for each iteration."""
    return str(shifter.history_.to_frame().to_csv(index=False, lineterminator="\n"))


def most_rows(n_classes: int) -> int:
    """Return the maximum number of rows of validation.csv.

    Examples
    --------
    >>> most_rows(10)
    25000
    """
    return max(1, min(COPIED_ROWS, COPIED_CELLS // n_classes))


def validation_csv(shifter: Any, rows: FileRows, class_names: tuple[str, ...], phi: Mapping[str, Any]) -> str:
    """Return the validation rows: true labels if known, labels before and after, held-out labels, probabilities.

    Rows without identifiers are numbered from 0. If there are too many, the held-out rows and a random sample of the
    others are returned.
    """
    import pandas as pd

    held, values = shifter.held_out_, shifter.classes_.astype(object)
    copied = _copied_rows(len(rows), most_rows(len(class_names)), first=held.rows)
    eta, held_out = rows.eta[copied], np.full(len(copied), None, dtype=object)
    kept = np.isin(held.rows, copied)
    held_out[np.searchsorted(copied, held.rows[kept])] = values[held.labels[kept]]
    columns: dict[str, Any] = {"row": copied} if rows.ids is None else {rows.ids.name: rows.ids.to_numpy()[copied]}
    if rows.labels is not None:
        columns["label"] = rows.labels[copied].astype(object)
    columns["before"] = values[np.argmax(eta, axis=1)]
    columns["after"] = shifter.predict(eta, {name: each[copied] for name, each in phi.items()}).astype(object)
    columns["held_out"] = held_out
    columns |= {f"p_{name}": eta[:, place] for place, name in enumerate(class_names)}
    return str(pd.DataFrame(columns).to_csv(index=False, lineterminator="\n"))


def _copied_rows(n_rows: int, most: int, *, first: IntArray) -> IntArray:
    """Return the numbers of at most ``most`` rows, sorted: those in ``first``, then a random sample of the others."""
    if n_rows <= most:
        return np.arange(n_rows)
    rng = np.random.default_rng(_SEED)
    is_other = np.ones(n_rows, dtype=bool)
    is_other[first] = False
    others = np.flatnonzero(is_other)
    some = first if len(first) <= most else rng.choice(first, size=most, replace=False)
    return np.sort(np.concatenate([some, rng.choice(others, size=most - len(some), replace=False)]))
