"""Which folders are runs of ours, and which of the files in them we wrote: no others are removed or read."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from postshift.cli.errors import FileError, UsageError, one_line
from postshift.cli.folders import Ours, check_ours
from postshift.core.archive import CONTENT_ERRORS
from postshift.exceptions import PostshiftError

RUN, RULE, METRICS, HISTORY = "run.json", "rule.skops", "metrics.json", "history.csv"
VALIDATION, FACTS, REPORT, ANSWERS = "validation.csv", "facts.json", "report.html", "answers.jsonl"
TEST_REPORT = "test_report.html"
MODEL, METRIC = "model", "metric"  # the stems of the copies of the user's files
_NAMES = frozenset((RUN, RULE, METRICS, HISTORY, VALIDATION, FACTS, REPORT, TEST_REPORT, ANSWERS))
_COPY = re.compile(rf"({MODEL}|{METRIC})(\.[a-z]+)+")
_DRAFT = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.part")  # what a killed process leaves of a file
_BEGINNING = re.compile(r'\{\s*"format":\s*\d+,\s*"postshift":\s*"')
_TRACES = ({RULE, FACTS}, {ANSWERS})  # by which a run is known whose run.json was damaged


def is_own_file(path: Path) -> bool:
    """Return whether a path is a file and no link: a run holds no links, and none is followed out of it."""
    return path.is_file() and not path.is_symlink()


def read_json(path: Path) -> Any:
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
    """Return the error of a file of a run that is not as it was written, with what to do."""
    what = one_line(why) if isinstance(why, str) else f"{type(why).__name__}: {one_line(why)}"
    return FileError(f"{path} was damaged or changed: {what}: {fit_again(path.parent)}")


@contextlib.contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Say of what goes wrong with the content of a file of a run that the file was changed.

    What a fit wrote fits together, so such errors come from a file that no fit wrote.
    """
    try:
        yield
    except PostshiftError:
        raise
    except CONTENT_ERRORS as error:
        raise damaged(path, error) from error


def fit_again(folder: Path) -> str:
    """Say how to make a run anew: in its place, where that may be replaced."""
    try:
        check_replaceable(folder.resolve())
    except UsageError:
        return "fit again, into another folder"
    return "fit again with --force"


def is_run(folder: Path) -> bool:
    """Return whether a run of ours made a folder: finished, failed, interrupted or damaged.

    It is known by how its run.json begins; where that is damaged or lost, by other files that only a run has. A process
    that was killed at once leaves nothing but drafts.
    """
    names = {each.name for each in folder.iterdir()}
    if is_own_file(folder / RUN):
        with (folder / RUN).open(encoding="utf-8", errors="replace") as stream:
            if _BEGINNING.match(stream.read(200)):
                return True
    drafts = [name for name in names if (found := _DRAFT.fullmatch(name)) and _may_be_ours(found["name"])]
    return any(trace <= names for trace in _TRACES) or (bool(drafts) and len(drafts) == len(names))


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that is no run of ours, or in which there are files of others."""
    if folder.is_symlink() or not folder.is_dir() or not is_run(folder):
        raise UsageError(
            f"{folder} is not empty and is not a run folder: nothing in it was touched; name another folder"
        )
    check_ours(folder, files_of(folder))


def files_of(folder: Path) -> Ours:
    """Return what tells the files that a run wrote to its folder from those of others."""
    copies = _copies(folder)

    def ours(path: Path) -> bool:
        draft = _DRAFT.fullmatch(path.name)
        name = path.name if draft is None else draft["name"]
        return is_own_file(path) and (name in _NAMES or (_may_be_ours(name) if copies is None else name in copies))

    return ours


def _may_be_ours(name: str) -> bool:
    """Return whether some run writes a file of this name."""
    return name in _NAMES or _COPY.fullmatch(name) is not None


def _copies(folder: Path) -> set[str] | None:
    """Return the names of the copies that run.json speaks of; None where it can no longer be read."""
    try:
        header = json.loads((folder / RUN).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    copies = header.get("copies") if isinstance(header, Mapping) else None
    if not isinstance(copies, Mapping):
        return None
    return {name for name in copies.values() if isinstance(name, str) and _COPY.fullmatch(name)}
