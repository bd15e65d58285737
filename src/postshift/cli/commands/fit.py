"""``postshift fit``: from a file of probabilities to a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.console import Console, user_scores
from postshift.cli.options import Debug, Json, PosLabel, Quiet, Scheduler, TrustModel

# Options of each part of the help; the name of an option is that of its parameter.
_rows, _metric, _rule, _run = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Rows", "Metric", "Rule", "Run")
)


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """The options of ``postshift fit`` that are about the fit."""

    val: Path
    out: Path
    train: Path | None = None
    label: str | None = None
    proba: str | None = None
    positive: str | None = None
    model: Path | None = None
    trust_model: bool = False
    metric: str | None = None
    pos_label: str | None = None
    metric_command: str | None = None
    metric_timeout: float = 60.0
    metric_scale: float = 1.0
    less_is_better: bool = False
    basis: str = "auto"
    features: str | None = None
    method: str = "auto"
    budget: int | None = None
    groups: str | None = None
    sample_weight: str | None = None
    normalise: bool = False
    random_state: int = 0
    n_jobs: int | None = None
    scheduler: str | None = None
    force: bool = False
    resume: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the options that the result depends on, except the files."""
        others = ("val", "out", "train", "model", "trust_model", "metric_timeout", "n_jobs", "scheduler")
        return {name: each for name, each in vars(self).items() if name not in (*others, "force", "resume")}

    def check(self) -> None:
        """Raise if options contradict each other."""
        from postshift.cli.errors import UsageError
        from postshift.cli.program import split_command

        if self.proba is not None and self.model is not None:
            raise UsageError("--proba and --model both say where the probabilities come from: give one of them")
        if self.positive is not None and (self.proba is None or "*" in self.proba):
            raise UsageError(
                "--positive goes with one column of probabilities, as in --proba score --positive yes: name that "
                "column, or leave it out"
            )
        if self.scheduler is not None and self.train is None:
            raise UsageError(
                "--scheduler is for training rows: name their Parquet files with --train, or leave it out; "
                "validation rows are read into memory"
            )
        if (self.metric is None) == (self.metric_command is None):
            raise UsageError(
                "give one metric: either --metric NAME (postshift metrics lists the names) or --metric-command PROGRAM"
            )
        if self.metric_command is not None:
            split_command(self.metric_command)
            if self.pos_label is not None:
                raise UsageError("--pos-label is for a --metric by name, not for a metric program: leave it out")
            if self.groups is not None:
                raise UsageError("--groups is for metrics over groups, not for a metric program: leave it out")
        elif self.less_is_better:
            raise UsageError("--less-is-better is for a --metric-command: leave it out")


def command(
    *,
    val: Annotated[
        Path,
        _rows(
            help="Validation rows: .csv, .tsv, .parquet, .feather, .arrow or .npz (arrays eta and labels; optional: X, "
            "classes, groups, weights). Rows are counted from 0.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, _run(help="The folder to write the run to.", show_default=False)],
    train: Annotated[
        Path | None,
        _rows(
            help="Training rows (optional); their labels may be wrong. A file, a folder of Parquet files, or a pattern "
            "in quotes: 'rows/*.parquet'."
        ),
    ] = None,
    label: Annotated[str | None, _rows(help="The column of the labels.")] = None,
    proba: Annotated[
        str | None,
        _rows(
            help="The columns of probabilities; the star stands for the class. Default: 'p_*'. For two classes one "
            "column is enough: --proba score --positive yes."
        ),
    ] = None,
    positive: Annotated[
        str | None, _rows(help="The class whose probabilities the single column of --proba holds.")
    ] = None,
    model: Annotated[
        Path | None,
        _rows(
            help="A fitted model (.skops or .joblib) that gives the probabilities; give training rows that it was not "
            "fitted to."
        ),
    ] = None,
    trust_model: TrustModel = False,
    normalise: Annotated[bool, _rows("--normalise", help="Divide each row of probabilities by its sum.")] = False,
    features: Annotated[
        str | None, _rows(help="Columns for bases and model, as in 'age,income,x*'. Default: all other columns.")
    ] = None,
    groups: Annotated[str | None, _rows(help="The column of the groups, for a metric over groups.")] = None,
    sample_weight: Annotated[str | None, _rows(help="The column of the sample weights.")] = None,
    metric: Annotated[
        str | None,
        _metric(
            help="What to maximise: a name (see postshift metrics), 'f1\\[yes]' for one class against the rest, "
            "my_metrics.py:profit or cost:costs.csv."
        ),
    ] = None,
    pos_label: PosLabel = None,
    metric_command: Annotated[
        str | None,
        _metric(
            help="A program that reads predictions (CSV with the columns row,label) and prints a number on its last "
            "line: './score.sh {predictions}'. It is run without a shell."
        ),
    ] = None,
    metric_timeout: Annotated[float, _metric(min=0.001, help="Kill the program after this many seconds.")] = 60.0,
    metric_scale: Annotated[
        float,
        _metric(
            min=1e-12,
            help="The width of the range of the program's numbers; the noise of the scores is estimated from it.",
        ),
    ] = 1.0,
    less_is_better: Annotated[bool, _metric("--less-is-better", help="Minimise the program's number.")] = False,
    budget: Annotated[
        int | None, _metric(min=1, help="The maximum number of queries, for a metric that is a program.")
    ] = None,
    basis: Annotated[
        str, _rule(help="Where the weights may differ, as in 'col:region,kmeans:5,tree:4' (see postshift bases).")
    ] = "auto",
    method: Annotated[
        str,
        _rule(
            help="auto (an average of the rules, weighted by their scores), best, or one rule: paper, influence, "
            "plug-in search, smoothed plug-in, stack, ..."
        ),
    ] = "auto",
    random_state: Annotated[int, _rule(min=0, help="Seed of folds and random samples.")] = 0,
    n_jobs: Annotated[int | None, _rule(help="Number of processes; -1 for one per core.")] = None,
    scheduler: Scheduler = None,
    force: Annotated[bool, _run("--force", help="Replace an existing run when the new one is finished.")] = False,
    resume: Annotated[bool, _run("--resume", help="Resume a run that was stopped.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a rule to validation rows and write a run: the rule, scores, labels and a report.

    Example: postshift fit --val val.csv --label y --proba 'p_*' --metric f1_macro --out run
    """
    given = dict(locals())
    from postshift.cli.fitting import fit_run
    from postshift.cli.run.folder import METRICS, as_written

    console = Console(quiet=quiet, as_json=json)
    request = FitRequest(**{name: given[name] for name in FitRequest.__dataclass_fields__})
    with console.warnings_shown():
        found = fit_run(request, console)
    with as_written(out / METRICS):  # a finished run is resumed: the scores are read from the file
        show(found, console)
    console.result(found)


def show(found: Mapping[str, Any], console: Console) -> None:
    """Write the result of a fit in a few lines."""
    found = user_scores(found)
    on = found["scored_on"]
    where = "rows, which were used for the fit" if on["used_for_the_fit"] else "rows not used for the fit"
    if on["rows"] < found["validation_rows"]:
        where += f" (a random sample of the {found['validation_rows']:,} validation rows)"
    limits = (found["intervals"] or {}).get("gain")
    within = "" if limits is None else f" ({limits[0]:+.4f} to {limits[1]:+.4f})"
    console.say(
        f"{found['metric']}: {found['before']:.4f} -> {found['after']:.4f}, "
        f"{'change' if found['less_is_better'] else 'gain'} {found['gain']:+.4f}{within} on {on['rows']:,} {where}"
    )
    if found.get("positive_class") is not None:
        console.say(f"positive class: {found['positive_class']}")
    if found["less_is_better"]:  # the reason has scores with a minus
        from postshift.report.sentences import result_sentence

        weights = {rule["name"]: rule["weight"] for rule in found["rules"]}
        console.say(result_sentence(weights, how=found["how"], fallback=found["fallback"]))
    else:
        console.say(str(found["reason"]))
    if found["queries"]:
        console.say(f"{found['queries']} queries were asked")
    console.say(f"report: {found['report']}")
