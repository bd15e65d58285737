"""The application: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import postshift
from postshift.cli.commands import bases, demo, doctor, evaluate, fit, metrics, oracle, predict, report
from postshift.cli.commands import run as run_group
from postshift.cli.console import show_error, show_traceback
from postshift.cli.errors import EXIT_CODES, STOPPED, SUCCESS, USAGE, StoppedError, TerminatedError, explained, one_line

app = typer.Typer(
    name="postshift",
    help="Make the classifier you already have optimise the metric you actually care about.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _command in (demo, fit, predict, evaluate, report, metrics, bases, doctor):
    app.command(name=_command.__name__.rpartition(".")[2], epilog=EXIT_CODES)(_command.command)
app.add_typer(run_group.app, name="run")
app.add_typer(oracle.app, name="oracle")


def _version(value: bool) -> None:  # noqa: FBT001 -- the form of typer's callbacks
    """Show the version and exit."""
    if value:
        typer.echo(f"postshift {postshift.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Make the classifier you already have optimise the metric you actually care about."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and return the exit code; an error is one line on stderr, after a traceback with --debug."""
    state = {"debug": False}  # set by --debug before the command runs
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        code = typer.main.get_command(app).main(
            list(arguments), prog_name="postshift", standalone_mode=False, obj=state
        )
        if code == STOPPED:  # typer has caught Ctrl-C
            show_error("stopped")
        return code if isinstance(code, int) else SUCCESS
    except (KeyboardInterrupt, StoppedError, typer.Abort) as stop:
        show_error(one_line(stop) or "stopped")
        return stop.code if isinstance(stop, StoppedError) else STOPPED
    except Exception as error:  # noqa: BLE001 -- every error becomes one line here
        if state["debug"]:
            show_traceback()
        code, text = _of_typer(error) or explained(error)
        if text:
            show_error(text)
        return code
    finally:
        signal.signal(signal.SIGTERM, previous)


def _of_typer(error: Exception) -> tuple[int, str] | None:
    """Return the exit code and message for wrong usage (no message if help was shown); None for any other error."""
    message: Any = getattr(error, "format_message", None)
    if message is None:
        return None
    context = getattr(error, "ctx", None)
    where = f" (see {context.command_path} --help)" if context is not None else ""
    text = one_line(message())
    return USAGE, text and text + where


def _terminate(*_: object) -> None:
    """Raise on SIGTERM, so that programs started by this process end too."""
    raise TerminatedError("stopped by a request to terminate")
