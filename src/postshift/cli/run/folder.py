"""A run folder: what is in it, who may write to it, and how a stopped run is resumed.

==================  =============================================================================================
file                what it holds
==================  =============================================================================================
run.json            format, version, state (running, finished or failed), settings, digests of the inputs, layout
rule.skops          the fitted PostShifter and its bases
model.*             a copy of the model, if one was given
metric.*            a copy of the metric's file, if there is one
metrics.json        scores, intervals, the rules of the menu, diagnostics
history.csv         the iterations of iterative rules
validation.csv      the validation rows: labels before and after, held-out labels, probabilities
facts.json          everything the report shows
report.html         the report
test_report.html    the report on test rows, if one was asked for
answers.jsonl       the answers of a metric program, in their order
==================  =============================================================================================

A run folder may come from anywhere: run.json is checked whole before any of it is used, links are not followed, nothing
is unpickled, and only files that a run writes are removed.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import postshift
from postshift.cli.console import as_json
from postshift.cli.errors import FileError, UsageError, one_line
from postshift.cli.files.file_rows import Layout
from postshift.cli.files.file_table import digest_of
from postshift.cli.files.folders import Ours, check_ours, put_in_place, remove_ours
from postshift.cli.files.model_file import SUFFIXES
from postshift.cli.metric_option import MetricOption, check_stored, copy_suffix, read_stored
from postshift.core.archive import CONTENT_ERRORS, locked, write_atomically
from postshift.exceptions import PostshiftError

FORMAT = 2
RUN, RULE, METRICS, HISTORY = "run.json", "rule.skops", "metrics.json", "history.csv"
VALIDATION, FACTS, REPORT, ANSWERS = "validation.csv", "facts.json", "report.html", "answers.jsonl"
TEST_REPORT = "test_report.html"
MODEL, METRIC = "model", "metric"  # the copies of the user's files, without their suffixes
_NAMES = frozenset((RUN, RULE, METRICS, HISTORY, VALIDATION, FACTS, REPORT, TEST_REPORT, ANSWERS))
_COPY = re.compile(rf"({MODEL}|{METRIC})(\.[a-z]+)+")
_DRAFT = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.part")  # a killed process leaves such a file
_BEGINNING = re.compile(r'\{\s*"format":\s*\d+,\s*"postshift":\s*"')
_TRACES = ({RULE, FACTS}, {ANSWERS})  # they identify a run whose run.json is damaged
_IN_PLACE = "is a link, but only files inside the run folder are read: replace it with the file"

State = Literal["running", "finished", "failed"]


# -- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class RunFolder:
    """A run folder and the checked content of run.json.

    Attributes
    ----------
    path : Path
        The folder.
    state : {"running", "finished", "failed"}
        The state of the run.
    settings, digests : mapping
        The options of the fit and the digests of its files; None for a file that was not given.
    layout : Layout
        Which columns are what.
    metric_text, metric_kind : str
        The metric as in :class:`~postshift.cli.metric_option.MetricOption`.
    copies : mapping of str to str
        The names, never paths, of the copies of the user's model and metric.
    program : str, optional
        The digest of a metric program.
    """

    path: Path
    state: State
    settings: Mapping[str, Any]
    digests: Mapping[str, str | None]
    layout: Layout
    metric_text: str
    metric_kind: Any
    copies: Mapping[str, str]
    program: str | None

    @classmethod
    def of(cls, path: Path, content: Mapping[str, Any]) -> Self:
        """Return a run from run.json; raise TypeError or ValueError for content that a fit does not write."""
        state = _entry(content, "state", str)
        if state not in get_args(State):
            raise ValueError(f"the state {state!r} is not one of {', '.join(get_args(State))}")
        digests, copies = _entry(content, "digests", dict), _entry(content, "copies", dict)
        program = content.get("program")
        if not all(isinstance(each, str | None) for each in (program, *digests.values())):
            raise ValueError("digests must be strings")
        if not all(isinstance(each, str) for each in copies.values()):
            raise ValueError("the names of copies must be strings")
        metric = _entry(content, "metric", dict)
        text, kind = check_stored(metric)
        _check_copies(copies, digests, metric_suffix=copy_suffix(text, kind))
        if metric.get("digest") != digests.get(METRIC):
            raise ValueError("the digest of the metric differs from the digest of its copy")
        return cls(
            path=path,
            state=state,
            settings=_entry(content, "settings", dict),
            digests=digests,
            layout=Layout.from_json(_entry(content, "layout", dict)),
            metric_text=text,
            metric_kind=kind,
            copies=copies,
            program=program,
        )

    def file(self, name: str) -> Path:
        """Return the path of a file that a finished run must have."""
        found = self.path / name
        if found.is_symlink():
            raise FileError(f"{found} {_IN_PLACE}")
        if not found.is_file():
            raise FileError(
                f"the run {self.path} has no {name}: some of its files were removed; {fit_again(self.path)}"
            )
        return found

    def json(self, name: str) -> Any:
        """Return the content of a JSON file of the run."""
        return _read_json(self.file(name))

    def model(self) -> Path | None:
        """Return the copy of the user's model, if there is one; raise if it was changed."""
        if MODEL not in self.copies:
            return None
        path = self.file(self.copies[MODEL])
        if digest_of(path.read_bytes()) != self.digests[MODEL]:
            raise damaged(path, "it is not the model that the run was made with (its digest differs)")
        return path

    def metric(self, layout: Layout, *, pos_label: str | None, trust: bool) -> MetricOption:
        """Return the metric of the run; the copy of a Python file is run only if ``trust``."""
        copy = self.file(self.copies[METRIC]) if METRIC in self.copies else None
        how: dict[str, Any] = {"copy": copy, "digest": self.digests.get(METRIC)}
        return read_stored(self.metric_text, self.metric_kind, layout, **how, pos_label=pos_label, trust=trust)


def open_run(path: Path, *, finished: bool = True) -> RunFolder:
    """Return the run in a folder; raise if there is none, or if it has another format."""
    if not path.is_dir():
        raise FileError(f"there is no run folder {str(path)!r}: make one with postshift fit ... --out {path}")
    file = path / RUN
    if file.is_symlink():
        raise FileError(f"{file} {_IN_PLACE}")
    if not file.is_file():
        raise UsageError(f"{path} is not a run folder: it has no {RUN}; make one with postshift fit ... --out RUN")
    content = _read_json(file)
    if not isinstance(content, dict) or "format" not in content:
        raise damaged(file, "postshift did not write it")
    if content["format"] != FORMAT:
        raise UsageError(
            f"{path} was written by postshift {content.get('postshift')} in format {content['format']!r}; this is "
            f"postshift {postshift.__version__}, which reads format {FORMAT}: use the version that wrote it, or fit "
            "again"
        )
    try:
        run = RunFolder.of(path, content)
    except (TypeError, ValueError) as error:
        raise damaged(file, str(error)) from error
    if finished and run.state != "finished":
        raise UsageError(
            f"the run {path} is not finished (its state is {run.state!r}): resume it with the same postshift fit "
            "command and --resume"
        )
    return run


def _entry(content: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return an entry that run.json must have."""
    if name not in content:
        raise ValueError(f"it lacks {name!r}")
    if not isinstance(content[name], kind):
        raise TypeError(f"{name!r} must be {'an object' if kind is dict else 'a text'}")
    return content[name]


def _check_copies(copies: Mapping[str, Any], digests: Mapping[str, str | None], *, metric_suffix: str | None) -> None:
    """Raise if a copy does not have the name that a fit gives it, or has no digest."""
    if unknown := set(copies) - {MODEL, METRIC}:
        raise ValueError(f"a run has no copy called {min(unknown)!r}")
    models = [f"{MODEL}{suffix}" for suffix in SUFFIXES] if digests.get(MODEL) is not None else [None]
    metric = None if metric_suffix is None else f"{METRIC}{metric_suffix}"
    if copies.get(MODEL) not in models:
        raise ValueError(f"the copy of the model must be {models[0]!r}. Got {copies.get(MODEL)!r} instead")
    if copies.get(METRIC) != metric or (metric is None) != (digests.get(METRIC) is None):
        raise ValueError(f"the copy of the metric must be {metric!r}. Got {copies.get(METRIC)!r} instead")


def _read_json(path: Path) -> Any:
    """Return the content of a JSON file of a run."""
    try:
        text = path.read_bytes().decode()
        content = json.loads(text)
        # Half a character, which nothing can print, is refused; a path may hold bytes that are no text.
        json.dumps(content, ensure_ascii=False).encode(errors="surrogateescape")
    except (ValueError, RecursionError) as error:
        raise damaged(path, error) from error
    return content


def damaged(path: Path, why: object) -> FileError:
    """Return the error for a file of a run that was changed."""
    what = one_line(why) if isinstance(why, str) else f"{type(why).__name__}: {one_line(why)}"
    return FileError(f"{path} was damaged or changed: {what}: {fit_again(path.parent)}")


@contextlib.contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Report errors from the content of a file of a run as damage, because content written by a fit raises none."""
    try:
        yield
    except PostshiftError:
        raise
    except CONTENT_ERRORS as error:
        raise damaged(path, error) from error


def fit_again(folder: Path) -> str:
    """Return how to make a run again: in the same folder, if that may be replaced."""
    try:
        check_replaceable(folder.resolve())
    except UsageError:
        return "fit again, into another folder"
    return "fit again with --force"


# -- which folders and files are ours --------------------------------------------------------------------------


def is_run(folder: Path) -> bool:
    """Return whether a folder was made by a run: finished, failed, interrupted or damaged.

    The beginning of run.json identifies it; if that is damaged or lost, other files that only a run has. A process that
    was killed at once leaves only drafts.
    """
    names = {each.name for each in folder.iterdir()}
    if _is_file(folder / RUN):
        with (folder / RUN).open(encoding="utf-8", errors="replace") as stream:
            if _BEGINNING.match(stream.read(200)):
                return True
    drafts = [name for name in names if (found := _DRAFT.fullmatch(name)) and _may_be_ours(found["name"])]
    return any(trace <= names for trace in _TRACES) or (bool(drafts) and len(drafts) == len(names))


def check_replaceable(folder: Path) -> None:
    """Raise if a folder is not a run, or if it holds files that a run does not write."""
    if folder.is_symlink() or not folder.is_dir() or not is_run(folder):
        raise UsageError(
            f"{folder} is not empty and is not a run folder: nothing in it was changed; name another folder"
        )
    check_ours(folder, files_of(folder))


def files_of(folder: Path) -> Ours:
    """Return a function that says whether the run wrote a file of its folder."""
    copies = _copies(folder)

    def ours(path: Path) -> bool:
        draft = _DRAFT.fullmatch(path.name)
        name = path.name if draft is None else draft["name"]
        return _is_file(path) and (name in _NAMES or (_may_be_ours(name) if copies is None else name in copies))

    return ours


def _is_file(path: Path) -> bool:
    """Return whether a path is a file and not a link."""
    return path.is_file() and not path.is_symlink()


def _may_be_ours(name: str) -> bool:
    """Return whether a run may write a file of this name."""
    return name in _NAMES or _COPY.fullmatch(name) is not None


def _copies(folder: Path) -> set[str] | None:
    """Return the names of the copies in run.json; None if it cannot be read."""
    try:
        header = json.loads((folder / RUN).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    copies = header.get("copies") if isinstance(header, Mapping) else None
    if not isinstance(copies, Mapping):
        return None
    return {name for name in copies.values() if isinstance(name, str) and _COPY.fullmatch(name)}


# -- writing ---------------------------------------------------------------------------------------------------


class RunWriter:
    """Writes a new run; nothing is written before :meth:`writing`.

    Parameters
    ----------
    out : Path
        The folder of the run.
    force : bool
        Whether a run in it may be replaced. The new run is then made in a folder beside it, which replaces the old one
        when the run is finished.
    resume : bool
        Whether to resume a stopped run.

    Attributes
    ----------
    path : Path
        The folder that is written to: ``out``, or the folder beside it.
    resumed : bool
        Whether it has a run to resume.
    """

    def __init__(self, out: Path, *, force: bool, resume: bool) -> None:
        self.out, self.path, self.resumed = out, out, False
        if out.exists() and not out.is_dir():
            raise FileError(f"{out} is a file: name a folder for the run")
        if not _has_files(out):
            return
        if force:
            self.out = out.resolve()  # a link stays a link, and "." gets a name
            check_replaceable(self.out)
            self.path = self.out.with_name(f".{self.out.name}.next")
            if self.path.is_symlink() or _has_files(self.path):
                check_replaceable(self.path)
            self.resumed = resume and (self.path / RUN).is_file()
            return
        if not is_run(out):
            raise UsageError(
                f"{out} is not empty and is not a run folder: nothing in it was changed; name another folder"
            )
        if not resume:
            raise UsageError(
                f"{out} already has a run: add --resume to resume it, --force to replace it, or name another folder"
            )
        open_run(out, finished=False)
        self.resumed = True

    def stored(self, header: Mapping[str, Any]) -> RunFolder:
        """Return the run to resume; raise if its settings or files are not those of ``header``."""
        run = open_run(self.path, finished=False)
        before, now = run.settings, header["settings"]
        if strange := set(before) - set(now):
            raise damaged(self.path / RUN, f"it has a setting {min(strange)!r}, which postshift fit does not have")
        differences = [
            f"--{name.replace('_', '-')} was {before.get(name)!r} and is now {now.get(name)!r}"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name)
        ]
        before, now = run.digests, header["digests"]
        differences += [
            f"the {name} file has changed" for name in sorted({*before, *now}) if before.get(name) != now.get(name)
        ]
        if differences:
            raise UsageError(
                f"the run {self.out} cannot be resumed: {'; '.join(differences)}: use the settings and files it was "
                "started with, or start again with --force"
            )
        return run

    @contextlib.contextmanager
    def writing(self, header: Mapping[str, Any], *, resumable: bool) -> Iterator[None]:
        """Lock the folder while the run is made; the run is finished at the end, or failed after an error.

        ``header`` is the content of run.json except state, format and version. A new run that fails and cannot be
        resumed leaves no folder.
        """
        whole = {"format": FORMAT, "postshift": postshift.__version__, **header}

        def write_state(state: State, **more: Any) -> None:
            self.write(RUN, as_json({**whole, "state": state, **more}) + "\n")

        with contextlib.ExitStack() as locks:
            if self.path != self.out:
                locks.enter_context(held(self.out))
                if not self.resumed and _has_files(self.path):  # an earlier attempt left them
                    check_replaceable(self.path)
                    remove_ours(self.path, files_of(self.path))
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError(f"cannot create the folder {self.path}: {error.strerror}: name another one") from error
            locks.enter_context(held(self.path))
            write_state("running")
            try:
                yield
            except Exception as error:
                if resumable or self.resumed:
                    write_state("failed", why=one_line(error))
                else:
                    remove_ours(self.path, files_of(self.path))
                raise
            except BaseException:
                write_state("failed", why="interrupted")
                raise
            write_state("finished")
            if self.path != self.out:
                put_in_place(self.path, self.out, files_of(self.out))

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the run, atomically."""
        data = content.encode() if isinstance(content, str) else content
        write_atomically(self.path / name, lambda stream: stream.write(data))


def _has_files(folder: Path) -> bool:
    """Return whether a folder exists and is not empty."""
    return folder.is_dir() and any(folder.iterdir())


@contextlib.contextmanager
def held(folder: Path, *, doing: str = "making a run in") -> Iterator[None]:
    """Lock a folder, so that no other process works in it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except BlockingIOError as error:
            raise UsageError(f"another process is {doing} {folder}: wait for it, or stop it") from error
        yield
