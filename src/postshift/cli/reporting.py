"""The facts of a run's report: those that the fit left, or those of test rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from postshift.cli.commands.evaluate import labelled_reading, scoring_metric
from postshift.cli.errors import UsageError
from postshift.cli.inputs import Part
from postshift.cli.metric_option import MetricOption
from postshift.cli.parquet_files import read_rows
from postshift.cli.predicting import LoadedRun
from postshift.cli.run_files import FACTS, as_written
from postshift.metrics.metadata import GROUPS
from postshift.report import Facts


def stored_facts(file: Path) -> Facts:
    """Return what the fit left in a file of the run."""
    with as_written(file):
        return Facts.from_json(file.read_text(encoding="utf-8"))


def facts_of_test_rows(
    loaded: LoadedRun,
    data: Path,
    *,
    columns: Mapping[str, str | None],
    metric: str | None,
    pos_label: str | None,
    trust_metric: bool,
) -> Facts:
    """Return the facts of the rows of a file that were not used for the fit.

    Parameters
    ----------
    loaded : LoadedRun
        The run.
    data : Path
        Rows with labels.
    columns : mapping of str to str
        The columns of labels and groups; None for those of the fit.
    metric, pos_label : str, optional
        What to score by, and its positive class; by default as in the fit.
    trust_metric : bool
        Whether a metric that is a Python file of the run may be read.
    """
    label, groups = columns["label"] or loaded.layout.label, columns["groups"] or loaded.layout.groups
    layout = replace(loaded.layout, label=label, groups=groups)
    chosen = scoring_metric(loaded, layout, metric, pos_label=pos_label, trust_metric=trust_metric)
    if chosen.keeps_labels:
        raise UsageError(
            f"metric {chosen.name!r} knows the labels of the validation rows only: score other rows with --metric NAME"
        )
    part = labelled_reading(loaded, layout, chosen).part(read_rows(data))
    chosen.check(layout, part.groups, asked=False)
    stored = stored_facts(loaded.run.file(FACTS))
    found = _gathered(loaded, part, chosen, stored)
    if found.test is None:
        raise UsageError(f"{data} has the validation rows of the fit: give rows that were not used for it")
    shares = replace(
        found.shares, training=stored.shares.training, by_model_in_training=stored.shares.by_model_in_training
    )
    return replace(found, shares=shares, fit_metric=None if metric is None else stored.metric)


def _gathered(loaded: LoadedRun, part: Part, chosen: MetricOption, stored: Facts) -> Facts:
    """Return the facts of the rows by a metric; what the fit left says what was used, and how to go on."""
    shifter = loaded.rule.shifter
    shifter.metric, shifter.pos_label = chosen.metric, None
    with as_written(loaded.rule.path):
        return Facts.of(
            shifter,
            part.eta,
            part.labels(loaded.layout.classes),
            phi=loaded.rule.named_functions(part.table) or None,
            metric_name=chosen.name,
            sample_weight=part.weights,
            groups=part.groups,
            used=[*stored.used, ("test rows", str(part.table))],
            how_to_use=stored.how_to_use,
            **{name: values for name, values in chosen.metadata(part).items() if name != GROUPS},
        )
