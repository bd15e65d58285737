"""What a fit leaves in its run: scores, history, validation rows, facts and the report."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from postshift._validation import IntArray
from postshift.cli.basis_option import Bases
from postshift.cli.columns import Classes
from postshift.cli.console import as_json
from postshift.cli.inputs import Part
from postshift.cli.run_files import FACTS, HISTORY, METRICS, REPORT, VALIDATION
from postshift.cli.run_folder import Writer
from postshift.estimators import HistoryRecord
from postshift.report import Facts, write_report
from postshift.report.gather import metric_facts

COPIED_CELLS = 1_000_000  # probabilities in the copy of the validation rows: about 20 MB
_SEED = 0


def metrics_of(shifter: Any, *, name: str, positive: str | None = None, n_runs: int | None = None) -> dict[str, Any]:
    """Return the scores, on rows not used for the fit, with all that was weighed against them."""
    record, diagnostics = shifter.diagnostics_.choice, shifter.diagnostics_
    found: dict[str, Any] = {
        "metric": name,
        "positive_class": positive,
        "before": shifter.base_score_,
        "after": shifter.score_,
        "gain": shifter.score_ - shifter.base_score_,
        "less_is_better": metric_facts(shifter, name).is_cost,
        "intervals": None if record.intervals is None else asdict(record.intervals),
        "noise": record.noise,
        "fallback": bool(shifter.fallback_),
        "reason": record.reason,
        "how": record.how,
        "scored_on": {"rows": len(shifter.held_out_.rows), "used_for_the_fit": bool(shifter.held_out_.in_fit)},
        "rules": [asdict(entry) for entry in record.entries],
        "queries": shifter.n_queries_,
        "training_rows": diagnostics.n_train,
        "validation_rows": diagnostics.n_val,
        "conditioning": [asdict(each) for each in diagnostics.conditioning],
        "notes": list(record.notes),
        "warnings": list(diagnostics.warnings),
    }
    return found if n_runs is None else {**found, "program_runs": n_runs}


def history_csv(shifter: Any) -> str:
    """Return the history as CSV, one line a look at an iterate."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(HistoryRecord.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(record) for record in shifter.history_)
    return stream.getvalue()


def most_rows(n_classes: int) -> int:
    """Return how many rows a copy of the validation rows may have.

    Examples
    --------
    >>> most_rows(10)
    100000
    """
    return max(1, COPIED_CELLS // n_classes)


def validation_csv(shifter: Any, part: Part, classes: Classes, phi: Mapping[str, Any]) -> str:
    """Return the validation rows: true labels where known, labels before and after, held-out ones, probabilities.

    Where they are too many, those that were held out, and a draw of the others.
    """
    import pandas as pd

    held, values = shifter.held_out_, classes.array.astype(object)
    held_out = np.full(len(part), None, dtype=object)
    held_out[held.rows] = values[held.labels]
    columns: dict[str, Any] = {"row": np.arange(len(part))}
    if part.codes is not None:
        columns["label"] = values[part.codes]
    columns["before"] = values[np.argmax(part.eta, axis=1)]
    columns["after"] = shifter.predict(part.eta, phi).astype(object)
    columns["held_out"] = held_out
    columns |= {f"p_{name}": part.eta[:, place] for place, name in enumerate(classes.names)}
    copied = _copied_rows(len(part), most_rows(len(classes.names)), first=held.rows)
    return str(pd.DataFrame(columns).iloc[copied].to_csv(index=False, lineterminator="\n"))


def _copied_rows(n_rows: int, most: int, *, first: IntArray) -> IntArray:
    """Return the numbers of at most so many rows, in their order: some before all others, and a draw of the rest."""
    if n_rows <= most:
        return np.arange(n_rows)
    rng = np.random.default_rng(_SEED)
    others = np.setdiff1d(np.arange(n_rows), first)
    some = first if len(first) <= most else rng.choice(first, size=most, replace=False)
    return np.sort(np.concatenate([some, rng.choice(others, size=most - len(some), replace=False)]))


def facts_of(
    shifter: Any,
    classes: Classes,
    bases: Bases,
    *,
    train: Part | None,
    val: Part,
    metric_name: str,
    used: list[tuple[str, str]],
    how_to_use: list[tuple[str, str]],
) -> Facts:
    """Return all that the report shows."""
    return Facts.of(
        shifter,
        val.eta,
        val.labels(classes),
        phi=bases.named_functions() or None,
        y_train=None if train is None else train.labels(classes),
        eta_train=None if train is None else train.eta,
        metric_name=metric_name,
        sample_weight=val.weights,
        groups=val.groups,
        used=used,
        how_to_use=how_to_use,
    )


def write_outputs(writer: Writer, *, metrics: Mapping[str, Any], history: str, validation: str, facts: Facts) -> None:
    """Write the files of a run that people read."""
    writer.write(METRICS, as_json(metrics) + "\n")
    writer.write(HISTORY, history)
    writer.write(VALIDATION, validation)
    writer.write(FACTS, facts.to_json())
    write_report(facts, writer.path / REPORT)
