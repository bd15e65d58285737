"""A user's program as the metric: it reads a file of predictions and prints one number.

The estimator's session keeps every answer in the run folder. A run that is resumed does not run the program again for
predictions that it has scored.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from postshift.cli.errors import UsageError, WorkError, one_line
from postshift.cli.files.file_table import digest_of

PLACE = "{predictions}"
_SHOWN = 200


class Program:
    """A metric that a program computes: ``program(labels) -> number``.

    Parameters
    ----------
    command : str
        With ``{predictions}`` in place of the file's path; it is split into words as in a shell, and run without one.
    timeout : float
        Seconds after which the program is killed with its children.
    """

    def __init__(self, command: str, *, timeout: float) -> None:
        self._arguments, self._timeout = split_command(command), timeout
        self.name = self._arguments[0]
        self.n_runs = 0

    def __call__(self, labels: Any) -> float:
        """Return the program's number for labels, in the order of the validation rows."""
        with tempfile.TemporaryDirectory(prefix="postshift-") as folder:
            path = Path(folder) / "predictions.csv"
            path.write_bytes(predictions_file(labels))
            value = self._run([part.replace(PLACE, str(path)) for part in self._arguments])
        self.n_runs += 1
        return value

    def _run(self, arguments: Sequence[str]) -> float:
        """Run the program once, in a new process group, and return its number."""
        name = self.name
        try:
            process = subprocess.Popen(  # noqa: S603 -- the user's command, without a shell
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkError(f"the metric program {name!r} cannot be run: {error.strerror}") from error
        try:
            out, err = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired as error:
            raise WorkError(
                f"the metric program {name!r} timed out after {self._timeout:g} s and was killed: fix it, or allow "
                "more with --metric-timeout"
            ) from error
        finally:
            if process.returncode is None:
                _kill(process)
        if process.returncode:
            raise WorkError(f"the metric program {name!r} {_how_it_ended(process.returncode)}: {_last_line(err)}")
        return number_in(out.decode(errors="replace"), name)


def split_command(command: str) -> list[str]:
    """Return the words of a command; raise if it does not name the file of predictions or an existing program.

    Examples
    --------
    >>> split_command("sh -c 'wc -l < {predictions}'")
    ['sh', '-c', 'wc -l < {predictions}']
    """
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--metric-command {command!r} cannot be split into words: {error}") from error
    if not any(PLACE in part for part in parts):
        raise UsageError(
            f"--metric-command must name the file of predictions, as in './score.sh {PLACE}'. Got {command!r}"
        )
    if shutil.which(parts[0]) is None:
        raise UsageError(
            f"there is no program {parts[0]!r} that can be run: check the path, and that the file is executable "
            "(chmod +x)"
        )
    return parts


def program_digest(command: str) -> str:
    """Return a digest of the files in a command, which shows whether the program was changed."""
    files = [Path(part) for part in shlex.split(command) if Path(part).is_file()]
    return digest_of(b"".join(file.read_bytes() for file in files))


def predictions_file(labels: Any) -> bytes:
    """Return the content of the file for the program: the columns row (from 0) and label.

    Examples
    --------
    >>> predictions_file(["cat", "dog"]).decode().split()
    ['row,label', '0,cat', '1,dog']
    """
    lines = [f"{row},{_quoted(str(label))}" for row, label in enumerate(labels)]
    return "\n".join(["row,label", *lines, ""]).encode()


def number_in(text: str, name: str) -> float:
    r"""Return the number on the last non-empty line of a program's output.

    Examples
    --------
    >>> number_in("reading ...\n0.75\n\n", "score.sh")
    0.75
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise WorkError(f"the metric program {name!r} printed nothing: its last line must be one number")
    try:
        value = float(lines[-1])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WorkError(
            f"the metric program {name!r} must print one finite number on its last line. Got {lines[-1][:_SHOWN]!r}"
        )
    return value


def _quoted(text: str) -> str:
    """Return a cell of a CSV file."""
    return '"' + text.replace('"', '""') + '"' if any(each in text for each in ',"\r\n') else text


def _how_it_ended(code: int) -> str:
    """Return how a process ended."""
    return f"failed with exit code {code}" if code > 0 else f"was ended by signal {-code}"


def _last_line(err: bytes) -> str:
    """Return the last line that a program wrote to stderr."""
    lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
    return one_line(lines[-1])[:_SHOWN] if lines else "it wrote nothing to stderr"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its children, wait for it, and close its pipes."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()
