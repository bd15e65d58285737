"""The watermark: a small file beside the data that says how far answers were given out.

A database that is restored from a backup forgets the answers since then, and would sell them again. The watermark is
written after an answer is committed and before it is returned: a ledger that lacks its line is an older copy. Keep it
out of the backups of the database. Servers on different machines have one watermark each.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from sqlalchemy import Connection, select

from postshift.core.archive import CONTENT_ERRORS, write_atomically
from postshift.exceptions import DamagedLedgerError, LedgerError, RestoredError
from postshift.oracle.ledger_log import RESTORED, Account
from postshift.oracle.ledger_tables import log


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The last line that was given out, and the sums of the log up to it."""

    number: int
    digest: str
    n_answers: int
    spent: int
    time: int

    @classmethod
    def of(cls, account: Account) -> Mark:
        """Return the mark of an account."""
        return cls(**{each.name: getattr(account, each.name) for each in fields(cls)})


NOTHING = Mark(number=0, digest="", n_answers=0, spent=0, time=0)


def forgotten(connection: Connection, account: Account, mark: Mark) -> RestoredError | None:
    """Return the error for a ledger that lacks a line which was given out, unless the owner accepted that."""
    if mark == NOTHING or _has_line(connection, mark):
        return None
    remedy = (
        "use the newest copy; or, as the owner, accept this one (postshift oracle accept), which charges what is "
        "missing (tokens that were revoked since then are valid again: revoke them again)"
    )
    if account.number >= mark.number or account.time > mark.time:  # it has lines that are newer than the mark
        return RestoredError(
            f"the ledger is a restored copy that has lines of its own: line {mark.number} is not the line that was "
            f"given out, and how many answers are missing is not known: {remedy}"
        )
    n_missing, spent = max(0, mark.n_answers - account.n_answers), max(0, mark.spent - account.spent)
    return RestoredError(
        f"the ledger is an older copy: {n_missing} answers that were given out are missing, which cost {spent} "
        f"(it ends at line {account.number}, and line {mark.number} was given out): {remedy}",
        n_missing=n_missing,
        spent=spent,
    )


def _has_line(connection: Connection, mark: Mark) -> bool:
    """Return whether the log has the line of a mark, or a line that accepts its loss; both are found by an index."""
    line = select(log.c.digest).where(log.c.number == mark.number)
    accepted = select(log.c.number).where(log.c.token == "", log.c.event == RESTORED, log.c.key == mark.digest)
    return (
        connection.execute(line).scalar() == mark.digest or connection.execute(accepted.limit(1)).scalar() is not None
    )


class Watermark:
    """The highest mark; threads and processes may share the file.

    ``mark`` is the highest that this process has seen, ``written`` the highest that it knows to be on disk.

    Parameters
    ----------
    path : path, optional
        The file. Without one, the mark is forgotten when the process ends.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._writing, self._comparing = threading.Lock(), threading.Lock()
        self._state = self._file_state()
        self.mark = self.written = self._read()

    def newest(self) -> Mark:
        """Return the highest mark of this process and, if another process wrote it, of the file.

        Ask before a transaction begins: it then sees at least the line of this mark.
        """
        state = self._file_state()
        if state != self._state:
            self._see(self._read())
            self._state = state
        return self.mark

    def raise_to(self, mark: Mark) -> None:
        """Write a mark, unless a higher one is written; when this returns, it is on disk."""
        self._see(mark)
        with self._writing:
            if self.written.number < mark.number:
                self._write(self.mark)  # that of another thread may be higher by now: then it has nothing left to write

    def replace(self, mark: Mark) -> None:
        """Write a mark, even if it is lower: the owner accepted a restored copy."""
        with self._writing, self._file_locked():
            self._put(mark)
            self.mark = mark

    def _see(self, mark: Mark) -> None:
        """Remember a mark, unless a higher one was seen."""
        with self._comparing:
            if mark.number > self.mark.number:
                self.mark = mark

    def _file_state(self) -> tuple[int, int] | None:
        """Return what differs if another process wrote the file; None if there is none."""
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)  # noqa: PTH116 -- for every request
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _write(self, mark: Mark) -> None:
        """Write a mark unless the file has a higher one."""
        with self._file_locked():
            found = self._read()
            if found.number < mark.number:
                self._put(mark)
            self.written = max(found, mark, key=lambda each: each.number)

    def _put(self, mark: Mark) -> None:
        """Write the file."""
        if self._path is not None:
            with self._explained():
                write_atomically(self._path, lambda stream: stream.write(json.dumps(asdict(mark)).encode()))
                _sync(self._path.parent)
            self._state = self._file_state()
        self.written = mark

    def _read(self) -> Mark:
        """Return the mark in the file."""
        if self._path is None:
            return NOTHING
        with self._explained():
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                return NOTHING
        try:
            found = Mark(**json.loads(content))
            if [type(value) for value in asdict(found).values()] != [int, str, int, int, int]:
                raise TypeError(f"it holds {found}")
        except CONTENT_ERRORS as error:
            raise DamagedLedgerError(
                f"the watermark {self._path} is damaged ({error}): restore it; or remove it if you are sure that the "
                "database is the newest copy"
            ) from error
        return found

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of the disk as errors of the ledger."""
        try:
            yield
        except OSError as error:
            raise LedgerError(
                f"the watermark {self._path} cannot be used ({error}); nothing was given out: free some space, or "
                "correct the rights of the folder, then ask again (an answer that was charged is free then)"
            ) from error

    @contextlib.contextmanager
    def _file_locked(self) -> Iterator[None]:
        """Keep other processes from writing, where the system has such locks."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        if self._path is None:
            yield
            return
        with self._explained():
            place = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(place, fcntl.LOCK_EX)
            yield
        finally:
            os.close(place)


def _sync(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    if os.name != "posix":  # other systems cannot open folders
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
