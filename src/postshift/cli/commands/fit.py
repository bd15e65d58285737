"""``postshift fit``: from a file of probabilities to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import loads as parsed
from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.console import Console, as_json, user_scores
from postshift.cli.options import Debug, Json, PosLabel, Quiet, Scheduler, TrustModel

# Options of each part of the help; the name of an option is that of its parameter.
_rows, _metric, _constraints, _rule, _run = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Rows", "Metric", "Constraints", "Rule", "Run")
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
    rho: float | None = None
    less_is_better: bool = False
    basis: str = "auto"
    features: str | None = None
    method: str = "auto"
    budget: int | None = None
    subject_to: Sequence[str] | None = None
    margin: Sequence[float] | None = None
    confidence: float | None = None
    if_uncertified: str | None = None
    unlabelled: Path | None = None
    groups: str | None = None
    sample_weight: str | None = None
    normalise: bool = False
    random_state: int = 0
    n_jobs: int | None = None
    scheduler: str | None = None
    memory_limit: str | None = None
    force: bool = False
    resume: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the options that the result depends on, except the files."""
        files = ("val", "out", "train", "model", "unlabelled")
        others = ("trust_model", "metric_timeout", "n_jobs", "scheduler", "memory_limit", "force", "resume")
        return {name: each for name, each in vars(self).items() if name not in (*files, *others)}

    def check(self) -> None:
        """Raise if options contradict each other."""
        from postshift.cli.errors import UsageError
        from postshift.cli.metric_option import URLS
        from postshift.cli.program import split_command

        self.check_columns()
        if self.scheduler is not None and self.train is None:
            raise UsageError(
                "--scheduler is for training rows: name their Parquet files with --train, or leave it out; "
                "validation rows are read into memory"
            )
        self._check_memory_limit()
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
        if self.rho is not None and not (self.metric or "").startswith(URLS):
            raise UsageError("--rho is for a --metric that is the URL of a service: leave it out")
        self._check_constraints()

    def check_columns(self) -> None:
        """Raise if options about the columns of probabilities contradict each other."""
        from postshift.cli.errors import UsageError

        if self.proba is not None and self.model is not None:
            raise UsageError("--proba and --model both say where the probabilities come from: give one of them")
        if self.positive is not None and (self.proba is None or "*" in self.proba):
            raise UsageError(
                "--positive goes with one column of probabilities, as in --proba score --positive yes: name that "
                "column, or leave it out"
            )

    def _check_memory_limit(self) -> None:
        """Raise if the limit is no size, or if there are no rows that it is for."""
        from postshift.cli.errors import UsageError
        from postshift.engines.blocks.block_engine import bytes_of

        if self.memory_limit is None:
            return
        if self.train is None or self.scheduler is not None:
            raise UsageError(
                "--memory-limit is for training rows in files that this process reads: add --train, and leave "
                "--scheduler out"
            )
        bytes_of(self.memory_limit, name="--memory-limit")

    def _check_constraints(self) -> None:
        """Raise if options contradict the constraints, or need some that are not given."""
        from postshift.cli.errors import UsageError

        if self.subject_to is None:
            for name in ("margin", "confidence", "if_uncertified", "unlabelled"):
                if getattr(self, name) is not None:
                    raise UsageError(
                        f"--{name.replace('_', '-')} is about constraints: add --subject-to, or leave it out"
                    )
            return
        if self.metric_command is not None:
            raise UsageError("--subject-to needs a --metric, not a metric program: leave one of them out")
        if self.method != "auto":
            raise UsageError("--subject-to has its own method: leave --method out")
        if self.margin is not None and len(self.margin) not in {1, len(self.subject_to)}:
            raise UsageError(
                f"--margin is given {len(self.margin)} times and --subject-to {len(self.subject_to)} times: give one "
                "margin for all constraints, or one for each"
            )
        if self.if_uncertified not in (None, "raise", "closest"):
            raise UsageError(f"--if-uncertified must be raise or closest. Got {self.if_uncertified!r} instead")
        if self.confidence is None and self.if_uncertified is not None:
            raise UsageError("--if-uncertified is about a guarantee: add --confidence, or leave it out")
        if self.confidence is None and self.unlabelled is not None:
            raise UsageError("--unlabelled gives rows for a guarantee: add --confidence, or leave it out")


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
    groups: Annotated[
        str | None, _rows(help="The column of the groups, for a metric or a constraint over groups.")
    ] = None,
    sample_weight: Annotated[str | None, _rows(help="The column of the sample weights.")] = None,
    metric: Annotated[
        str | None,
        _metric(
            help="What to maximise: a name (see postshift metrics), 'f1\\[yes]' for one class against the rest, "
            "my_metrics.py:profit, cost:costs.csv, or the URL of a service (its token is in POSTSHIFT_TOKEN)."
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
            help="The width of the range of the numbers of a program or a service; the noise of the scores is "
            "estimated from it.",
        ),
    ] = 1.0,
    rho: Annotated[
        float | None,
        _metric(help="For a service in private mode: how much of its budget the fit may spend. Default: all of it."),
    ] = None,
    less_is_better: Annotated[bool, _metric("--less-is-better", help="Minimise the program's number.")] = False,
    budget: Annotated[
        int | None, _metric(min=1, help="The maximum number of queries, for a metric that is a program.")
    ] = None,
    subject_to: Annotated[
        list[str] | None,
        _constraints(
            help="A constraint to respect while the metric is maximised, in quotes: 'recall\\[fraud] >= 0.9', "
            "'rate\\[fraud] <= 0.02', 'demographic_parity <= 0.05'. Repeat the option for several."
        ),
    ] = None,
    margin: Annotated[
        list[float] | None,
        _constraints(
            help="How many standard errors to stay on the safe side of the bounds. Default: 0. Repeat the option to "
            "give each --subject-to its own, in the same order."
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        _constraints(help="Certify the rule: the probability with which all constraints must hold, such as 0.95."),
    ] = None,
    if_uncertified: Annotated[
        str | None,
        _constraints(help="If no rule can be certified: raise (an error, the default), or closest (use that rule)."),
    ] = None,
    unlabelled: Annotated[
        Path | None,
        _constraints(
            help="With --confidence: rows without labels, from the same source as the validation rows. They leave all "
            "validation rows to the tests, and certify how often classes are predicted."
        ),
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
    memory_limit: Annotated[
        str | None,
        _rows(
            help="Leave the training rows (Parquet or Arrow) in their files and read them in blocks, with at most this "
            "much memory: '512 MB'. Rules are chosen on a random sample."
        ),
    ] = None,
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
    given["subject_to"], given["margin"] = subject_to or None, margin or None
    request = FitRequest(**{name: given[name] for name in FitRequest.__dataclass_fields__})
    if margin and confidence is not None:
        console.note("note: --margin is not used with --confidence, because the tests decide")
    with console.warnings_shown():
        found = fit_run(request, console)
    with as_written(out / METRICS):  # a finished run is resumed: the scores are read from the file
        show(found, console)
    console.result(found)


def show(found: Mapping[str, Any], console: Console) -> None:
    """Write the result of a fit in a few lines."""
    found = user_scores(found)
    console.say(f"{_constrained_scores(found) if found.get('constraints') else _scores(found)} on {_which_rows(found)}")
    if found.get("positive_class") is not None:
        console.say(f"positive class: {found['positive_class']}")
    if found.get("constraints"):
        show_constraints(found["constraints"], console)
        _show_guarantee(found, console)
    elif found["less_is_better"]:  # the reason has scores with a minus
        from postshift.report.sentences import result_sentence

        weights = {rule["name"]: rule["weight"] for rule in found["rules"]}
        console.say(result_sentence(weights, how=found["how"], fallback=found["fallback"]))
    else:
        console.say(str(found["reason"]))
    if found["queries"]:
        console.say("1 query was asked" if found["queries"] == 1 else f"{found['queries']} queries were asked")
    console.say(f"report: {found['report']}")


def _scores(found: Mapping[str, Any]) -> str:
    """Return the scores before and after, and the gain."""
    limits = (found["intervals"] or {}).get("gain")
    within = "" if limits is None else f" ({limits[0]:+.4f} to {limits[1]:+.4f})"
    gain = f"{'change' if found['less_is_better'] else 'gain'} {found['gain']:+.4f}{within}"
    return f"{found['metric']}: {found['before']:.4f} -> {found['after']:.4f}, {gain}"


def _constrained_scores(found: Mapping[str, Any]) -> str:
    """Return the score of the constrained rule, and that of the model, which has no constraints."""
    limits = (found["intervals"] or {}).get("score")
    within = "" if limits is None else f" ({limits[0]:.4f} to {limits[1]:.4f})"
    both = f"{found['after']:.4f}{within} with the constraints, {found['before']:.4f} by the model without constraints,"
    return f"{found['metric']}: {both}"


def _which_rows(found: Mapping[str, Any]) -> str:
    """Return a phrase that names the rows of the scores."""
    on = found["scored_on"]
    where = "rows, which were used for the fit" if on["used_for_the_fit"] else "rows not used for the fit"
    if on["rows"] < found["validation_rows"]:
        where += f" (a random sample of the {found['validation_rows']:,} validation rows)"
    return f"{on['rows']:,} {where}"


def show_constraints(records: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Write how constraints hold as a table."""
    rows = [
        (
            each["name"],
            f"{each['sense']} {each['bound']:g}",
            f"{each['value']:.4f}",
            f"{each['low']:.4f} to {each['high']:.4f}",
            "yes" if each["holds"] else "NO",
        )
        for each in records
    ]
    console.table(("constraint", "bound", "value", "95 % interval", "holds"), rows, numbers=4)


def _show_guarantee(found: Mapping[str, Any], console: Console) -> None:
    """Write which guarantee there is, in one sentence."""
    from postshift.report.codec import from_plain
    from postshift.report.formats import NO_BREAK
    from postshift.report.sentences import guarantee_sentence
    from postshift.rules.record import Certificate

    plain = parsed(as_json(found["certificate"]))  # a new run has tuples, a stored one has lists
    certificate = None if plain is None else from_plain(Certificate, plain)
    console.say(guarantee_sentence(found["confidence"], certificate).replace(NO_BREAK, " "))
