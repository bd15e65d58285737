"""A run's folder: what it holds, who may write to it, and how a run that was stopped is taken up again.

==================  =============================================================================================
file                what it holds
==================  =============================================================================================
run.json            format, version, state (running, finished or failed), settings, digests of the inputs, layout
rule.skops          the fitted PostShifter and its bases
model.*             a copy of the model, where one was given
metric.*            a copy of the file of the metric, where there is one
metrics.json        scores, intervals, the rules of the menu, diagnostics
history.csv         the iterations of the rules that loop
validation.csv      the validation rows: labels before and after, held-out labels, probabilities
facts.json          all that the report shows
report.html         the report
answers.jsonl       the answers of a metric program, as they came
==================  =============================================================================================
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import postshift
from postshift.cli.console import as_json
from postshift.cli.errors import FileError, UsageError, one_line
from postshift.cli.folders import put_in_place
from postshift.core.archive import write_atomically

FORMAT = 1
RUN, RULE, METRICS, HISTORY = "run.json", "rule.skops", "metrics.json", "history.csv"
VALIDATION, FACTS, REPORT, ANSWERS = "validation.csv", "facts.json", "report.html", "answers.jsonl"
State = Literal["running", "finished", "failed"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run on the disk: its folder, and what run.json says."""

    path: Path
    header: Mapping[str, Any]

    @property
    def state(self) -> str:
        """The state: running, finished or failed."""
        return str(self.header["state"])

    def file(self, name: str) -> Path:
        """Return the path of a file that a finished run must have."""
        found = self.path / name
        if not found.is_file():
            raise FileError(f"the run {self.path} has no {name}: files of it were removed; fit again with --force")
        return found

    def json(self, name: str) -> Any:
        """Return the content of a JSON file of the run."""
        return _read_json(self.file(name))

    def copy_of(self, stem: str) -> Path | None:
        """Return the copy of the user's model or metric, if there is one."""
        name = self.header["copies"].get(stem)
        return None if name is None else self.file(name)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a new run goes: ``work`` is the folder itself, or one beside it that takes its place when the run is done.

    ``resumed`` says whether there is a run in ``work`` to go on with.
    """

    out: Path
    work: Path
    resumed: bool


def open_run(path: Path, *, finished: bool = True) -> Run:
    """Return the run in a folder, refused where there is none or it is of another format."""
    if not path.is_dir():
        raise FileError(f"there is no run folder {str(path)!r}: make one with postshift fit ... --out {path}")
    file = path / RUN
    if not file.is_file():
        raise UsageError(f"{path} is not a run folder: it has no {RUN}; make one with postshift fit ... --out RUN")
    header = _read_json(file)
    if not isinstance(header, dict) or "format" not in header or "state" not in header:
        raise FileError(f"{file} is not what postshift writes: fit again with --force")
    if header["format"] != FORMAT:
        raise UsageError(
            f"{path} was written by postshift {header.get('postshift')} in format {header['format']!r}; this is "
            f"postshift {postshift.__version__}, which reads format {FORMAT}: use the version that wrote it, or fit "
            "again"
        )
    run = Run(path=path, header=header)
    if finished and run.state != "finished":
        raise UsageError(
            f"the run {path} is not finished (its state is {run.state!r}): go on with it by the same postshift fit "
            "command with --resume"
        )
    return run


def target_of(out: Path, *, force: bool, resume: bool) -> Target:
    """Return where a new run goes; nothing is written yet, and what must not be overwritten is refused."""
    if out.exists() and not out.is_dir():
        raise FileError(f"{out} is a file: name a folder for the run")
    there = out.is_dir() and any(out.iterdir())
    if not there:
        return Target(out=out, work=out, resumed=False)
    if not (out / RUN).is_file():
        raise UsageError(f"{out} is not empty and is not a run folder: nothing in it was touched; name another folder")
    if force:
        place = out.resolve()  # a link stays a link, and "." has a name
        work = place.with_name(f".{place.name}.next")
        return Target(out=place, work=work, resumed=resume and (work / RUN).is_file())
    if not resume:
        raise UsageError(
            f"{out} has a run already: add --resume to go on with it, --force to replace it, or name another folder"
        )
    open_run(out, finished=False)
    return Target(out=out, work=out, resumed=True)


class Writer:
    """A run that is being written.

    Parameters
    ----------
    target : Target
        Where it goes.
    header : mapping
        What run.json says but for state, format and version; where a run is taken up again, the same settings and
        digests as it has (:func:`check_same`).
    """

    def __init__(self, target: Target, header: Mapping[str, Any]) -> None:
        self.path, self._target = target.work, target
        self._header = {"format": FORMAT, "postshift": postshift.__version__, **header}

    @contextlib.contextmanager
    def writing(self, *, resumable: bool) -> Iterator[None]:
        """Hold the folder while the run is made; it is finished at the end, or failed after an error.

        A new run that fails and has nothing to go on with leaves no folder behind.
        """
        with contextlib.ExitStack() as held:
            if self.path != self._target.out:
                held.enter_context(_held(self._target.out))
                if not self._target.resumed:
                    shutil.rmtree(self.path, ignore_errors=True)
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError(f"the folder {self.path} cannot be made: {error.strerror}: name another one") from error
            held.enter_context(_held(self.path))
            self._state("running")
            try:
                yield
            except Exception as error:
                if resumable or self._target.resumed:
                    self._state("failed", why=one_line(error))
                else:
                    shutil.rmtree(self.path, ignore_errors=True)
                raise
            except BaseException:
                self._state("failed", why="interrupted")
                raise
            self._state("finished")
            self._put_in_place()

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the run, atomically."""
        data = content.encode() if isinstance(content, str) else content
        write_atomically(self.path / name, lambda stream: stream.write(data))

    def _state(self, state: State, **more: Any) -> None:
        """Write run.json."""
        self.write(RUN, as_json({**self._header, "state": state, **more}) + "\n")

    def _put_in_place(self) -> None:
        """Let the new run take the place of the old one."""
        out = self._target.out
        if self.path == out:
            return
        put_in_place(self.path, out)


def check_same(stored: Mapping[str, Any], asked: Mapping[str, Any], out: Path) -> None:
    """Refuse to go on with a run of other settings or data; what differs is named."""
    differences = []
    before, now = stored["settings"], asked["settings"]
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            option = f"--{name.replace('_', '-')}"
            differences.append(f"{option} was {before.get(name)!r} and is now {now.get(name)!r}")
    before, now = stored["digests"], asked["digests"]
    differences += [
        f"the {name} file has changed" for name in sorted({*before, *now}) if before.get(name) != now.get(name)
    ]
    if differences:
        raise UsageError(
            f"the run {out} cannot be resumed: {'; '.join(differences)}: give what it was begun with, or begin anew "
            "with --force"
        )


def _read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise FileError(f"{path} was damaged: {one_line(error)}: fit again with --force") from error


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder so that no other process makes a run in it; where the system has no such locks, do without."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another process is making a run in {folder}: wait for it, or stop it") from error
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(place)
