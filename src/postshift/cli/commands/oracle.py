"""``postshift oracle``: the metric as a service, for the owner of labels that must not leave."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.console import Console
from postshift.cli.errors import EXIT_CODES
from postshift.cli.options import Debug, Json, PosLabel, Quiet

app = typer.Typer(
    help="Score predictions for others; labels and groups stay here.", epilog=EXIT_CODES, no_args_is_help=True
)
tokens = typer.Typer(help="Create, list and revoke the tokens of learners and owners.", no_args_is_help=True)
app.add_typer(tokens, name="token")

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder that postshift oracle init made.", show_default=False)
]
_RHO = 0.1


@app.command(epilog=EXIT_CODES)
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.", show_default=False)],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The validation rows, with labels.", show_default=False)],
    *,
    label: Annotated[str, typer.Option(help="The column of the true classes.", show_default=False)],
    metric: Annotated[
        str,
        typer.Option(help="A name (postshift metrics), FILE.py:function, or cost:FILE.csv.", show_default=False),
    ],
    ids: Annotated[
        str | None, typer.Option("--id", help="The column of row identifiers. Default: row numbers.")
    ] = None,
    groups: Annotated[str | None, typer.Option(help="The column of the groups, for a metric over groups.")] = None,
    release: Annotated[
        list[str] | None, typer.Option(help="A column that learners get; repeat it for more. Default: none.")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="private: answers with noise; trusted: exact answers, which give labels away.")
    ] = "private",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="What is answered: table, confusion, value; repeat it. Default: table and confusion in "
            "private mode, confusion and value in trusted mode."
        ),
    ] = None,
    rho: Annotated[
        float | None, typer.Option(help=f"Private mode: the privacy budget (zCDP). Default: {_RHO}.")
    ] = None,
    queries: Annotated[int | None, typer.Option(help="Trusted mode: the number of queries. Default: 100.")] = None,
    pos_label: PosLabel = None,
    title: Annotated[str | None, typer.Option(help="What learners see. Default: the name of the folder.")] = None,
    database: Annotated[
        str | None, typer.Option(help="postgresql://USER@HOST/NAME, for several servers. Default: a file in DIR.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Create a folder with the labels, the metric and the terms; show the owner's token, once.

    Example: postshift oracle init labels val.csv --label y --groups gender --id id --release age --metric
    group_g_mean
    """
    from postshift.cli.oracle_work import OwnerRequest, create

    console = Console(quiet=quiet, as_json=json)
    request = OwnerRequest(
        folder=folder,
        data=data,
        label=label,
        metric=metric,
        ids=ids,
        groups=groups,
        release=tuple(release or ()),
        mode=mode,
        kinds=tuple(kind or ()),
        rho=rho,
        queries=queries,
        pos_label=pos_label,
        title=title or folder.resolve().name,
        database=database,
    )
    with console.warnings_shown():
        found = create(request)
    _say_created(console, found, folder)
    console.result(found)


def _say_created(console: Console, found: dict[str, Any], folder: Path) -> None:
    """Show what was created, and what comes next."""
    console.say(f"{folder}: {found['rows']:,} rows, metric {found['metric']}, {found['mode']} mode")
    console.say(f"answered: {', '.join(found['kinds'])}; budget: {found['budget_text']}")
    console.say(found["risk"])
    console.say()
    console.say(f"your token (it is shown only now): {found['token']}")
    console.say(f"next: postshift oracle token create {folder} --name LEARNER; {found['serve']}")


@app.command(epilog=EXIT_CODES)
def serve(
    folder: Folder,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    certificate: Annotated[Path | None, typer.Option(help="The file of the TLS certificate.")] = None,
    key: Annotated[Path | None, typer.Option(help="The file of its private key.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front of it encrypts the connection.")
    ] = False,
    trust_metric: Annotated[
        bool, typer.Option("--trust-metric", help="Trust the folder's copy of a metric in a Python file, which is run.")
    ] = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Answer learners until Ctrl-C; the owner's page is at /.

    Example: postshift oracle serve labels
    """
    from postshift.cli.oracle_work import serve as run

    console = Console(quiet=quiet)
    with console.warnings_shown():
        run(
            folder,
            console,
            host=host,
            port=port,
            certificate=certificate,
            key=key,
            behind_proxy=behind_proxy,
            trust_metric=trust_metric,
        )


@app.command(epilog=EXIT_CODES)
def log(
    folder: Folder,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many lines, the newest first.")] = 20,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Show the last lines of the log.

    Example: postshift oracle log labels
    """
    from postshift.cli.oracle_work import log_lines, unit_of

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found, unit = log_lines(folder, limit=limit), unit_of(folder)
    _table(console, found, ("number", "time", "event", "token", "cost", "text"), unit=unit)
    console.result({"lines": found})


def _table(console: Console, lines: list[dict[str, Any]], names: tuple[str, ...], *, unit: str) -> None:
    """Show lines as a table; amounts of the budget have their unit in the header."""
    header = [f"{name} ({unit})" if name in ("cost", "spent", "most") else name for name in names]
    console.table(
        header, [tuple("-" if line[name] in (None, "") else str(line[name]) for name in names) for line in lines]
    )


@app.command(epilog=EXIT_CODES)
def audit(folder: Folder, *, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Replay the log: every charge, every answer, the chain of digests; exit code 1 if something is wrong.

    Example: postshift oracle audit labels
    """
    from postshift.cli.errors import WorkError
    from postshift.cli.oracle_work import audited

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found = audited(folder)
    console.result(found)
    if found["problems"]:
        raise WorkError(f"the ledger of {folder} is wrong: {'; '.join(found['problems'])}")
    console.say(f"{found['lines']:,} lines, {found['answers']:,} answers, spent {found['spent_text']}: all in order")


@app.command(epilog=EXIT_CODES)
def accept(
    folder: Folder,
    *,
    clock: Annotated[bool, typer.Option("--clock", help="Accept a clock that is before the last line.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Continue with a ledger that was restored from an older copy; what it forgot is charged as far as it is known.

    Example: postshift oracle accept labels
    """
    from postshift.cli.oracle_work import accept_clock, accept_restored

    console = Console(quiet=quiet)
    with console.warnings_shown():
        accepted = (accept_clock if clock else accept_restored)(folder)
    if accepted:
        console.say(f"{folder}: the {'clock' if clock else 'restored ledger'} is accepted, and this is in its log")
    else:
        reason = "the clock is not before the last line" if clock else "the ledger has every answer that was given out"
        console.say(f"{folder}: {reason}, so there is nothing to accept")


@app.command(epilog=EXIT_CODES)
def demo(*, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Play owner, learner and attacker on this machine, with data that come with scikit-learn.

    Example: postshift oracle demo
    """
    from postshift.cli.oracle_demo import play

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found = play(console)
    console.result(found)


# -- tokens -------------------------------------------------------------------------------------------


@tokens.command(epilog=EXIT_CODES)
def create(
    folder: Folder,
    *,
    name: Annotated[str, typer.Option(help="Who gets it.", show_default=False)],
    scope: Annotated[str, typer.Option(help="learner or owner.")] = "learner",
    expires: Annotated[datetime | None, typer.Option(help="When it ends (UTC). Default: in 30 days.")] = None,
    most: Annotated[float | None, typer.Option(help="The most it may spend: rho, or queries.")] = None,
    per_minute: Annotated[int, typer.Option(min=1, help="The most queries in a minute.")] = 600,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Create a token and show it, once; only its digest is kept.

    Example: postshift oracle token create labels --name ann --most 0.05
    """
    from postshift.cli.oracle_work import create_token

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found = create_token(folder, name=name, scope=scope, expires=expires, most=most, per_minute=per_minute)
    console.say(f"token {found['id']} of {name}, until {found['expires']} (it is shown only now):")
    console.say(found["token"])
    console.result(found)


@tokens.command(epilog=EXIT_CODES)
def revoke(
    folder: Folder,
    token: Annotated[str, typer.Argument(metavar="ID", help="Its ID, as token list shows it.", show_default=False)],
    *,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Revoke a token at once.

    Example: postshift oracle token revoke labels 3f2a91c0
    """
    from postshift.cli.oracle_work import revoke_token

    console = Console(quiet=quiet)
    with console.warnings_shown():
        revoke_token(folder, token)
    console.say(f"token {token} is revoked")


@tokens.command("list", epilog=EXIT_CODES)
def list_(folder: Folder, *, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """List the tokens; what is secret is not kept.

    Example: postshift oracle token list labels
    """
    from postshift.cli.oracle_work import token_lines, unit_of

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        found, unit = token_lines(folder), unit_of(folder)
    _table(console, found, ("id", "name", "scope", "expires", "revoked", "spent", "most"), unit=unit)
    console.result({"tokens": found})
