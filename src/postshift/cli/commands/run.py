"""``postshift run``: a metric that takes a week; one query at a time, and the answers arrive when they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postshift.cli.commands.fit import FitRequest, show
from postshift.cli.console import Console
from postshift.cli.errors import EXIT_CODES
from postshift.cli.options import Debug, Json, Quiet

if TYPE_CHECKING:  # slow to import
    from postshift.cli.session_folder import SessionSettings

app = typer.Typer(
    help="Ask for one score at a time, over days and on any machine.", epilog=EXIT_CODES, no_args_is_help=True
)
_rows, _metric, _rule, _session = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Rows", "Metric", "Rule", "Session")
)
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder that postshift run start made.", show_default=False)
]
_RADIUS = 0.4  # NOISY_RADIUS of the rules, which are slow to import


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """The options of ``postshift run start``."""

    val: Path
    out: Path
    budget: int
    train: Path | None = None
    label: str | None = None
    proba: str | None = None
    positive: str | None = None
    normalise: bool = False
    features: str | None = None
    ids: str | None = None
    metric_name: str = "score"
    metric_scale: float = 1.0
    less_is_better: bool = False
    soft: bool = False
    basis: str = "constant"
    radius: float = _RADIUS
    file_format: str = "csv"
    force: bool = False

    def check(self) -> None:
        """Raise if an option cannot be used."""
        from postshift.cli.errors import UsageError
        from postshift.cli.query_files import FORMATS

        self.fit_request().check_columns()
        if self.file_format not in FORMATS:
            raise UsageError(f"--format must be {' or '.join(FORMATS)}. Got {self.file_format!r} instead")
        if not 0 < self.radius <= 1:
            raise UsageError(f"--radius must be above 0 and at most 1. Got {self.radius:g} instead")

    def fit_request(self) -> FitRequest:
        """Return the options about files as those of a fit."""
        return FitRequest(
            val=self.val,
            out=self.out,
            train=self.train,
            label=self.label,
            proba=self.proba,
            positive=self.positive,
            normalise=self.normalise,
            features=self.features,
            basis=self.basis,
        )

    def settings(self) -> SessionSettings:
        """Return what the session stores of them."""
        from postshift.cli.session_folder import SessionSettings

        return SessionSettings(
            budget=self.budget,
            soft=self.soft,
            radius=self.radius,
            scale=self.metric_scale,
            less_is_better=self.less_is_better,
            name=self.metric_name,
            basis=self.basis,
            file_format=self.file_format,
            **({} if self.ids is None else {"ids": self.ids}),
        )


@app.command(epilog=EXIT_CODES)
def start(
    *,
    val: Annotated[
        Path,
        _rows(help="The rows whose predictions are scored; their labels need not be known.", show_default=False),
    ],
    out: Annotated[Path, _session(help="The folder of the session, which is made.", show_default=False)],
    budget: Annotated[int, _metric(min=1, help="The maximum number of queries.", show_default=False)],
    train: Annotated[Path | None, _rows(help="Training rows with labels, which may be wrong.")] = None,
    label: Annotated[str | None, _rows(help="The column of the labels.")] = None,
    proba: Annotated[
        str | None, _rows(help="The columns of probabilities, as in postshift fit. Default: 'p_*'.")
    ] = None,
    positive: Annotated[
        str | None, _rows(help="The class whose probabilities the single column of --proba holds.")
    ] = None,
    normalise: Annotated[bool, _rows("--normalise", help="Divide each row of probabilities by its sum.")] = False,
    features: Annotated[str | None, _rows(help="Columns for bases. Default: all other columns.")] = None,
    ids: Annotated[
        str | None,
        _rows("--id", help="The column that identifies the rows in the predictions. Default: numbers from 0."),
    ] = None,
    metric_name: Annotated[str, _metric(help="What the score is called in the report.")] = "score",
    metric_scale: Annotated[
        float,
        _metric(min=1e-12, help="The width of the range of the scores; smaller differences between rules are noise."),
    ] = 1.0,
    less_is_better: Annotated[bool, _metric("--less-is-better", help="The score is a loss.")] = False,
    soft: Annotated[
        bool, _metric("--soft", help="Ask about probabilities of classes, which you draw labels from, not labels.")
    ] = False,
    basis: Annotated[
        str, _rule(help="Where the weights may differ (see postshift bases). Each function costs a query per class.")
    ] = "constant",
    radius: Annotated[
        float, _rule(help="How far the probes are from the current rule, up to 1: more for answers with more noise.")
    ] = _RADIUS,
    file_format: Annotated[str, _session("--format", help="The format of the predictions: csv or parquet.")] = "csv",
    force: Annotated[bool, _session("--force", help="Replace an existing session and its answers.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a session folder from files of probabilities; nothing is asked yet.

    Example: postshift run start --train train.csv --val val.csv --label y --budget 40 --out week
    """
    given = dict(locals())
    from postshift.cli.session_work import start as make

    console = Console(quiet=quiet, as_json=json)
    request = StartRequest(**{name: given[name] for name in StartRequest.__dataclass_fields__})
    with console.warnings_shown():
        found = make(request, console)
    console.say(f"{out}: at most {found['at_most']} queries, one score each; nothing is asked twice")
    console.say(f"next: {found['command']}")
    console.result(found)


@app.command("next", epilog=EXIT_CODES)
def next_(folder: Folder, *, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Write the predictions to be scored; the same file until you tell their score.

    Example: postshift run next week
    """
    from postshift.cli.session_work import write_next

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found = write_next(folder)
    if found["finished"]:
        console.say("all queries are answered")
    else:
        what = "probabilities" if found["soft"] else "labels"
        console.say(f"query {found['name']} of at most {found['at_most']}: what is the score of these {what}?")
        console.say(f"{found['file']}: {found['rows']:,} rows")
    console.say(f"then: {found['command']}")
    console.result(found)


@app.command(epilog=EXIT_CODES, context_settings={"ignore_unknown_options": True})  # -0.3 is a number
def tell(
    folder: Folder,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The score, such as 0.71 or -3.", show_default=False)],
    *,
    query: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="The query, such as 7, as next names it. Default: the one that is open."),
    ] = None,
    correct: Annotated[bool, typer.Option("--correct", help="Replace the last answer; needs --query.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Store the score of the predictions; it is on disk when this returns.

    Example: postshift run tell week 0.71 --query 3
    """
    from postshift.cli.session_answer import tell as store

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found = store(folder, value, query=query, correct=correct)
    for text in found["warnings"]:
        console.note(f"warning: {text}")
    how = "was stored before" if found["repeated"] else "is stored"
    console.say(
        f"query {found['name']}: {found['score']!r} {how}; {found['answered']} of at most {found['at_most']} "
        "queries are answered"
    )
    console.say(f"{'that was the last query; ' if found['finished'] else ''}next: {found['command']}")
    console.result(found)


@app.command(epilog=EXIT_CODES)
def status(folder: Folder, *, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Show the answers so far, the best rule so far, and what comes next.

    Example: postshift run status week
    """
    from postshift.cli.session_work import status as read

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found = read(folder)
    _show_status(found, console)
    console.result(found)


@app.command(epilog=EXIT_CODES)
def finish(
    folder: Folder,
    *,
    out: Annotated[Path, typer.Option(help="The folder to write the run to.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run when the new one is ready.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the best rule so far as a run, for postshift predict; the session can go on.

    Example: postshift run finish week --out run
    """
    from postshift.cli.session_work import finish as write

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found = write(folder, out, console, force=force)
    show(found, console)
    console.result(found)


def _show_status(found: Mapping[str, Any], console: Console) -> None:
    """Write the status in a few lines and a table."""
    console.say(f"{found['session']}: {found['answered']} of at most {found['at_most']} queries are answered")
    rows = [(str(each["query"]), each["about"], f"{each['score']:.6g}") for each in found["answers"]]
    if rows:
        console.table(("query", "about", found["metric"]), rows, numbers=1)
        console.say(f"base: {found['base']:.6g}; best so far: {found['best']['score']:.6g}, {found['best']['rule']}")
    if found["open"] is not None:
        console.say(f"open: query {found['open']['name']}, {found['open']['file']}")
    console.say(f"next: {found['command']}")
