"""The folder of a session: a fit that asks one query at a time, over days and on any machine.

====================  ==================================================================================
file                  what it holds
====================  ==================================================================================
session.npz           the rows, the settings and the layout of the files, with a digest; written once
bases.skops           the fitted bases
journal.jsonl         the answers (:mod:`postshift.core.session`)
query-001.csv, ...    the predictions of the queries that were opened (:mod:`postshift.cli.query_files`)
====================  ==================================================================================

Nothing outside the folder is read, so it can be moved. It may come from anywhere: nothing is unpickled, and the content
of session.npz and of the journal is checked before it is used.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import postshift
from postshift.cli.basis_option import Bases
from postshift.cli.errors import FileError, UsageError, printable
from postshift.cli.files.file_rows import FileRows, Layout
from postshift.cli.files.file_table import digest_of
from postshift.cli.files.folders import check_ours, put_in_place, remove_ours
from postshift.cli.files.table_writer import write_table
from postshift.cli.query_files import FORMATS, QueryFiles, is_query_file
from postshift.cli.run.folder import held
from postshift.cli.run.rule_file import read_bases
from postshift.core.archive import contradicting, read_archive, write_archive, write_atomically
from postshift.core.queries import Query
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.estimators.model import positions
from postshift.estimators.rows_of import RowsOfArrays
from postshift.exceptions import ArchiveError
from postshift.rules import Choice, Chosen, Problem
from postshift.rules.loops import Paper
from postshift.rules.menu import QUERY_ITERATIONS, noisy_menu

KIND = "session"
SESSION, BASES, JOURNAL = "session.npz", "bases.skops", "journal.jsonl"
_ROW = "row"  # the column of the row numbers, if no column identifies the rows
_DRAFT = re.compile(r"^\.(?P<name>.+)\.[0-9a-f]{12}\.part\Z")  # a killed process leaves such a file


# -- what is stored ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """The options that the queries depend on, and how predictions and scores are written.

    Attributes
    ----------
    budget : int
        The maximum number of queries.
    soft : bool
        Whether class distributions are scored instead of labels.
    radius : float
        How far the probes are from the current rule.
    scale : float
        The width of the metric's range.
    less_is_better : bool
        Whether the score is a loss.
    name : str
        The name of the metric.
    basis : str
        Where the weights may differ.
    file_format : {"csv", "parquet"}
        The format of the files of predictions.
    ids : str
        The name of their first column.
    """

    budget: int
    soft: bool
    radius: float
    scale: float
    less_is_better: bool
    name: str
    basis: str
    file_format: str
    ids: str = _ROW

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for content that ``postshift run start`` does not write."""
        kinds = {"int": int, "bool": bool, "float": int | float, "str": str}
        for each in fields(self):
            if not isinstance(getattr(self, each.name), kinds[str(each.type)]):
                raise TypeError(f"{each.name!r} must be of type {each.type}")
        if self.file_format not in FORMATS:
            raise ValueError(f"the format {self.file_format!r} is unknown")

    @property
    def sign(self) -> float:
        """The sign by which a score is multiplied: in a session, greater is always better."""
        return -1.0 if self.less_is_better else 1.0


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file that the rows were read from: its name, its digest and its number of rows."""

    name: str
    digest: str
    n_rows: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SessionRows:
    """The rows of one file, as they are stored: probabilities, labels as positions, and functions of the bases."""

    file: InputFile
    eta: Any
    labels: Any = None
    phi: Mapping[str, Any]

    @classmethod
    def of(cls, rows: FileRows, phi: Mapping[str, Any], classes: Any) -> Self:
        """Return the rows of a file."""
        table = rows.table
        file = InputFile(name=table.path.name, digest=table.digest, n_rows=len(rows))
        labels = None if rows.labels is None else positions(rows.labels, classes, name="the labels")
        return cls(file=file, eta=rows.eta, labels=labels, phi=dict(phi))

    def rows(self, classes: Any, *, name: str) -> Rows:
        """Return them as the core takes them."""
        labels = None if self.labels is None else classes[self.labels]
        return RowsOfArrays(classes=classes, name=name)(self.eta, self.phi, y=labels)

    def arrays(self, side: str) -> dict[str, Any]:
        """Return the arrays to store."""
        found = {f"{side}_eta": self.eta} | ({} if self.labels is None else {f"{side}_labels": self.labels})
        return found | {f"{side}_phi_{place}": each for place, each in enumerate(self.phi.values())}


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredSession:
    """The content of session.npz."""

    settings: SessionSettings
    layout: Layout
    val: SessionRows
    train: SessionRows | None
    ids: Any
    bases: str  # the digest of the file of the bases
    made_by: str = postshift.__version__

    @property
    def sides(self) -> dict[str, SessionRows]:
        """The rows by the names of their options."""
        return {"val": self.val} | ({} if self.train is None else {"train": self.train})

    def write(self, folder: Path) -> None:
        """Write session.npz."""
        header = {
            "made_by": self.made_by,
            "settings": asdict(self.settings),
            "layout": asdict(self.layout),
            "files": {side: asdict(rows.file) for side, rows in self.sides.items()},
            "functions": list(self.val.phi),
            "bases": self.bases,
        }
        arrays = {name: each for side, rows in self.sides.items() for name, each in rows.arrays(side).items()}
        write_archive(folder / SESSION, kind=KIND, header=header, arrays={**arrays, "ids": self.ids})

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read session.npz; raise if it was not written by ``postshift run start``, or was changed since."""
        header, arrays = read_archive(folder / SESSION, kind=KIND)
        with contradicting(folder / SESSION):
            if len(arrays["ids"]) != len(arrays["val_eta"]):
                raise ValueError(f"it has {len(arrays['ids'])} identifiers for {len(arrays['val_eta'])} rows")
            sides = {
                side: SessionRows(
                    file=InputFile(**file),
                    eta=arrays[f"{side}_eta"],
                    labels=arrays.get(f"{side}_labels"),
                    phi={name: arrays[f"{side}_phi_{place}"] for place, name in enumerate(header["functions"])},
                )
                for side, file in header["files"].items()
            }
            return cls(
                settings=SessionSettings(**header["settings"]),
                layout=Layout.from_json(header["layout"]),
                val=sides["val"],
                train=sides.get("train"),
                ids=arrays["ids"],
                bases=str(header["bases"]),
                made_by=str(header["made_by"]),
            )

    def check(self) -> None:
        """Raise if the rows and the settings do not fit together."""
        self.choice.bound(self.problem)

    # -- the fit that asks -------------------------------------------------------------------------------------

    @cached_property
    def problem(self) -> Problem:
        """The rows, and the kind of the queries; without training rows, the validation rows need labels."""
        classes, kind = self.layout.classes, "soft" if self.settings.soft else "hard"
        val = self.val.rows(classes, name="val")
        train = None if self.train is None else self.train.rows(classes, name="train")
        return Problem.queried(
            train,
            val,
            kind=kind,  # type: ignore[arg-type]
            scale=self.settings.scale,
            reads_labels=train is None,
        )

    @property
    def choice(self) -> Choice:
        """The rules that are scored: the base, the inverse prior, and FW-EG with as many iterations as can be paid."""
        return self._choice(QUERY_ITERATIONS, budget=self.settings.budget)

    @property
    def least(self) -> int:
        """The number of queries that one iteration of FW-EG needs, with those of the other rules."""
        return self._choice(1, budget=None).bound(self.problem)

    @property
    def has_labels(self) -> bool:
        """Whether FW-EG has the labels that it needs."""
        return any(isinstance(rule, Paper) for rule in noisy_menu(self.problem))

    def _choice(self, max_iter: int, *, budget: int | None) -> Choice:
        """Return the choice with this number of iterations."""
        entries = noisy_menu(self.problem, max_iter=max_iter, radius=self.settings.radius)
        return Choice(how="best", entries=entries, budget=budget)

    @property
    def about(self) -> str:
        """What the answers depend on."""
        return f"{self.problem.digest()}/{self.choice!r}"

    def session(self, folder: Path) -> Session[Chosen]:
        """Return the session with the journal of the folder."""
        problem, choice = self.problem, self.choice
        return Session(
            lambda: choice.fit(problem),
            budget=self.settings.budget,
            journal=folder / JOURNAL,
            about=self.about,
            max_queries=choice.bound(problem),
        )

    def frame(self, query: Query) -> Any:
        """Return the predictions of a query, as they are written."""
        import pandas as pd

        shown, names = query.predictions, self.layout.class_names
        if self.settings.soft:
            columns = {f"p_{name}": shown[:, place] for place, name in enumerate(names)}
        else:
            columns = {"label": self.layout.classes.astype(object)[shown]}
        return pd.DataFrame({self.settings.ids: self.ids, **columns})


# -- the folder --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenSession:
    """A session folder that this process has locked.

    ``number`` is the number, from 1, of the query that can be answered now; None if no query is left.
    """

    path: Path
    stored: StoredSession
    session: Session[Chosen]

    @property
    def settings(self) -> SessionSettings:
        """The settings of the session."""
        return self.stored.settings

    @property
    def scores(self) -> list[float]:
        """The answers as they were given, in their order."""
        return [self.settings.sign * answer + 0.0 for _, answer in self.session.answers]

    @property
    def query(self) -> Query | None:
        """The next query; None if all are answered."""
        return next(iter(self.session.ask()), None)

    @property
    def number(self) -> int | None:
        """Its number."""
        return None if self.query is None else self.session.n_queries + 1

    @property
    def files(self) -> QueryFiles:
        """The files of the predictions."""
        return QueryFiles(self.path, self.settings.file_format)

    @property
    def is_open(self) -> bool:
        """Whether the predictions of the next query are written, so that an answer can arrive."""
        return self.number is not None and self.files.file(self.number).is_file()

    def write_query(self) -> tuple[int, Path]:
        """Write the predictions of the next query, the same bytes each time; return its number and the file."""
        query, number = self.query, self.number
        assert query is not None and number is not None  # noqa: PT018, S101
        file = self.files.file(number)
        write_table(self.stored.frame(query), file)
        return number, file

    def bases(self) -> Bases:
        """Return the fitted bases and their functions of the rows; no code of their file runs."""
        from postshift.persistence import load

        train = {} if self.stored.train is None else self.stored.train.phi
        return Bases(fitted=read_bases(load(self.path / BASES)), val=self.stored.val.phi, train=train)

    def command(self, name: str, *more: str) -> str:
        """Return a command of this session for the user to type."""
        return command_of(self.path, name, *more)


def command_of(path: Path, name: str, *more: str) -> str:
    """Return a command about a session folder for the user to type.

    Examples
    --------
    >>> command_of(Path("week"), "tell", "0.7")
    'postshift run tell week 0.7'
    """
    return " ".join([f"postshift run {name}", printable(shlex.quote(str(path))), *more])


@contextmanager
def opened(path: Path) -> Iterator[OpenSession]:
    """Yield the session of a folder, locked; raise if there is none, or if another process uses it."""
    if not path.is_dir():
        raise FileError(f"there is no session folder {str(path)!r}: make one with postshift run start ... --out {path}")
    if not (path / SESSION).is_file():
        raise UsageError(
            f"{path} is not a session folder: it has no {SESSION}; make one with postshift run start ... --out DIR"
        )
    with held(path, doing="using"):
        stored, session = _read(path)
        with session:
            yield OpenSession(path=path, stored=stored, session=session)


def _read(path: Path) -> tuple[StoredSession, Session[Chosen]]:
    """Read the files of a session; an error says what to do."""
    try:
        stored = StoredSession.read(path)
        with contradicting(path / SESSION):
            stored.check()
        _check_files(path, stored)
        return stored, stored.session(path)
    except ArchiveError as error:
        raise FileError(
            f"{error}; or restore the folder from a copy, or start again with postshift run start"
        ) from error


def _check_files(path: Path, stored: StoredSession) -> None:
    """Raise if a file that ``start`` wrote is missing, also one that only ``finish`` reads."""
    checks: dict[str, Callable[[bytes], bool]] = {
        JOURNAL: lambda content: b"\n" in content,
        BASES: lambda content: digest_of(content) == stored.bases,
    }
    for name, is_whole in checks.items():
        if not (path / name).is_file() or not is_whole((path / name).read_bytes()):
            again = "restore it from a copy of the folder, or start again with postshift run start"
            raise FileError(f"{name} is missing from {path}, or damaged: {again}")


def check_answers(found: OpenSession) -> None:
    """Raise if the journal has answers to queries that this fit does not ask."""
    found.session.ask()
    strange = found.session.n_queries - len(found.session.answers)
    if strange:
        raise FileError(
            f"{strange} of the {found.session.n_queries} answers in {found.path / JOURNAL} belong to predictions that "
            f"this machine does not make (the session was started by postshift {found.stored.made_by}, this is "
            f"{postshift.__version__}): continue where it was started, or with that version"
        )


def check_new(out: Path, *, force: bool) -> None:
    """Raise if a session cannot be started in this folder."""
    if out.exists() and not out.is_dir():
        raise FileError(f"{out} is a file: name a folder for the session")
    if not out.is_dir() or not any(out.iterdir()):
        return
    check_ours(out, _is_ours)
    if not force:
        raise UsageError(
            f"{out} already has a session: continue it with postshift run status {shlex.quote(str(out))}, or add "
            "--force to replace it and its answers, or name another folder"
        )


def create(stored: StoredSession, bases: bytes, out: Path) -> int:
    """Make the folder of a new session, complete or not at all; return the maximum number of queries."""
    place = out.resolve()  # a link stays a link, and "." gets a name
    draft = place.with_name(f".{place.name}.next")
    remove_ours(draft, _is_ours)  # an earlier attempt left it
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise FileError(f"cannot create the folder {draft}: {error.strerror}: name another one") from error
    try:
        write_atomically(draft / BASES, lambda stream: stream.write(bases))
        stored.write(draft)
        with stored.session(draft) as session:
            session.ask()
        _replace(draft, place)
    finally:
        remove_ours(draft, _is_ours)
    return int(session.max_queries or 0)


def _replace(draft: Path, out: Path) -> None:
    """Put a new session in its place; no other process may use the old one."""
    if not out.exists():
        put_in_place(draft, out, _is_ours)
        return
    with held(out, doing="using"):
        put_in_place(draft, out, _is_ours)


def _is_ours(path: Path) -> bool:
    """Return whether a session wrote a file of its folder."""
    name = _DRAFT.sub(r"\g<name>", path.name)
    return (name in (SESSION, BASES, JOURNAL) or is_query_file(name)) and path.is_file() and not path.is_symlink()
