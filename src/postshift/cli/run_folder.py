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
test_report.html    the report on test rows, where one was asked for
answers.jsonl       the answers of a metric program, as they came
==================  =============================================================================================
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import postshift
from postshift.cli.console import as_json
from postshift.cli.errors import FileError, UsageError, one_line
from postshift.cli.folders import put_in_place, remove_ours
from postshift.cli.inputs import Layout
from postshift.cli.metric_option import MetricOption
from postshift.cli.run_files import (
    MODEL,
    RUN,
    check_replaceable,
    damaged,
    files_of,
    fit_again,
    is_own_file,
    is_run,
    read_json,
)
from postshift.cli.run_header import Header, State
from postshift.cli.tables import digest_of
from postshift.core.archive import locked, write_atomically

FORMAT = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run on the disk: its folder, and what run.json says, checked whole."""

    path: Path
    header: Header

    @property
    def state(self) -> str:
        """The state: running, finished or failed."""
        return self.header.state

    def file(self, name: str) -> Path:
        """Return the path of a file that a finished run must have."""
        found = self.path / name
        if found.is_symlink():
            raise FileError(f"{found} is a link, and nothing outside of a run is read: put the file in its place")
        if not is_own_file(found):
            raise FileError(f"the run {self.path} has no {name}: files of it were removed; {fit_again(self.path)}")
        return found

    def json(self, name: str) -> Any:
        """Return the content of a JSON file of the run."""
        return read_json(self.file(name))

    def model(self) -> Path | None:
        """Return the copy of the user's model, if there is one, as it was when the run was made."""
        if MODEL not in self.header.copies:
            return None
        path = self.file(self.header.copies[MODEL])
        if digest_of(path.read_bytes()) != self.header.digests[MODEL]:
            raise damaged(path, "it is not the model that the run was made with (it has another digest)")
        return path

    def metric(self, layout: Layout, *, pos_label: str | None, trust: bool) -> MetricOption:
        """Return the metric of the run; the copy of a Python file is run only where ``trust`` is."""
        stored = self.header.metric
        copy = None if stored.copy is None else self.file(stored.copy)
        return stored.read(layout, copy, pos_label=pos_label, trust=trust)


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
    if file.is_symlink():
        raise FileError(f"{file} is a link, and nothing outside of a run is read: put the file in its place")
    if not file.is_file():
        raise UsageError(f"{path} is not a run folder: it has no {RUN}; make one with postshift fit ... --out RUN")
    content = read_json(file)
    if not isinstance(content, dict) or "format" not in content:
        raise damaged(file, "it is not what postshift writes")
    if content["format"] != FORMAT:
        raise UsageError(
            f"{path} was written by postshift {content.get('postshift')} in format {content['format']!r}; this is "
            f"postshift {postshift.__version__}, which reads format {FORMAT}: use the version that wrote it, or fit "
            "again"
        )
    try:
        run = Run(path=path, header=Header.of(content))
    except (TypeError, ValueError) as error:
        raise damaged(file, str(error)) from error
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
    if not _has_files(out):
        return Target(out=out, work=out, resumed=False)
    if force:
        place = out.resolve()  # a link stays a link, and "." has a name
        check_replaceable(place)
        work = place.with_name(f".{place.name}.next")
        if work.is_symlink() or _has_files(work):
            check_replaceable(work)
        return Target(out=place, work=work, resumed=resume and (work / RUN).is_file())
    if not is_run(out):
        raise UsageError(f"{out} is not empty and is not a run folder: nothing in it was touched; name another folder")
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
                self._make_room()
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
                    remove_ours(self.path, files_of(self.path))
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

    def _make_room(self) -> None:
        """Remove what an earlier attempt left where this run is made, unless it is to go on."""
        if not self._target.resumed and _has_files(self.path):
            check_replaceable(self.path)
            remove_ours(self.path, files_of(self.path))

    def _put_in_place(self) -> None:
        """Let the new run take the place of the old one."""
        out = self._target.out
        if self.path != out:
            put_in_place(self.path, out, files_of(out))


def check_same(stored: Header, asked: Mapping[str, Any], out: Path) -> None:
    """Refuse to go on with a run of other settings or data; what differs is named."""
    differences = []
    before, now = stored.settings, asked["settings"]
    if strange := set(before) - set(now):
        raise damaged(out / RUN, f"it has a setting {min(strange)!r}, which postshift fit does not have")
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            option = f"--{name.replace('_', '-')}"
            differences.append(f"{option} was {before.get(name)!r} and is now {now.get(name)!r}")
    before, now = stored.digests, asked["digests"]
    differences += [
        f"the {name} file has changed" for name in sorted({*before, *now}) if before.get(name) != now.get(name)
    ]
    if differences:
        raise UsageError(
            f"the run {out} cannot be resumed: {'; '.join(differences)}: give what it was begun with, or begin anew "
            "with --force"
        )


def _has_files(folder: Path) -> bool:
    """Return whether there is a folder with something in it."""
    return folder.is_dir() and any(folder.iterdir())


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder so that no other process makes a run in it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except BlockingIOError as error:
            raise UsageError(f"another process is making a run in {folder}: wait for it, or stop it") from error
        yield
