"""The database of a ledger: SQLite or PostgreSQL, opened so that what is committed is on disk.

Every connection gets the settings below, and is refused unless the database confirms them. A transaction that writes
locks the ledger from its first statement on: SQLite with ``BEGIN IMMEDIATE``, PostgreSQL with the row of the account
(``SELECT ... FOR UPDATE``, in :mod:`postshift.oracle.ledger_log`). A transaction that reads sees one moment.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from postshift._installing import install
from postshift.exceptions import DamagedLedgerError, LedgerError, SettingError

WAIT = 30  # seconds to wait for another writer

# What is set (None: only read), and what the database must answer then.
_SETTINGS: dict[str, dict[str, tuple[Any, Any]]] = {
    "sqlite": {
        "busy_timeout": (WAIT * 1000, WAIT * 1000),
        "journal_mode": ("WAL", "wal"),
        "synchronous": ("FULL", 2),
        "fullfsync": (1, 1),  # on macOS, fsync alone does not reach the disk
        "trusted_schema": (0, 0),
        "cell_size_check": (1, 1),
    },
    "postgresql": {
        "fsync": (None, "on"),
        "full_page_writes": (None, "on"),
        "synchronous_commit": ("on", "on"),
        "lock_timeout": (f"{WAIT}s", f"{WAIT}s"),
        "idle_in_transaction_session_timeout": (f"{WAIT}s", f"{WAIT}s"),  # a server that hangs lets the others go on
    },
}
_STATEMENTS = {"sqlite": ("PRAGMA {}={}", "PRAGMA {}"), "postgresql": ("SET {} = '{}'", "SHOW {}")}
_BEGIN = {
    ("sqlite", "read"): "BEGIN",
    ("sqlite", "write"): "BEGIN IMMEDIATE",
    ("postgresql", "read"): "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    ("postgresql", "write"): "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Database:
    """Transactions that read and that write; threads may share it.

    Parameters
    ----------
    url : str or path
        ``sqlite:///file``, a file, or ``postgresql://user@host/name``.
    create : bool
        Whether SQLite may create the file.
    """

    def __init__(self, url: str | os.PathLike[str], *, create: bool = False) -> None:
        self._url = _parsed(url)
        self._lock = threading.Lock()
        self.kind = self._url.get_backend_name()
        if self.kind == "sqlite":
            self._find_file(create=create)
        self._file = self._identity()
        engine = _engine(self._url)
        self._errors = (SQLAlchemyError, engine.dialect.loaded_dbapi.Error)
        event.listen(engine, "connect", self._set_up)
        event.listen(engine, "begin", self._begin)
        self._engine = engine
        self._readers = engine.execution_options(access="read")
        self._writers = engine.execution_options(access="write")

    def __str__(self) -> str:
        return self._url.render_as_string(hide_password=True)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees the database as it is at one moment."""
        self._check_file()
        with self._explained(), self._readers.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that is committed, and on disk, when the block ends without an error."""
        self._check_file()
        with self._lock, self._explained(), self._writers.begin() as connection:
            yield connection
        self._check_file()  # what was committed to a file without a name is not on disk

    def damage(self) -> list[str]:
        """Return the damage that SQLite finds in its file; PostgreSQL checks its pages whenever it reads them."""
        if self.kind != "sqlite":
            return []
        with self.reading() as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(10)")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _find_file(self, *, create: bool) -> None:
        """Raise unless the file is there; create it so that only its owner can read it."""
        path = Path(self._url.database or "")
        if create:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise LedgerError(
                    f"{path} cannot be created ({error}): name a file in a folder you can write"
                ) from error
        elif not path.is_file():
            raise LedgerError(f"there is no ledger {path}: create it, or correct the path")

    def _identity(self) -> tuple[int, int] | None:
        """Return what identifies the file that the path names now; None if there is none."""
        if self.kind != "sqlite":
            return None
        try:
            found = os.stat(self._url.database or "")  # noqa: PTH116 -- for every transaction
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_file(self) -> None:
        """Raise if the file was removed or replaced: SQLite would go on with one that is lost when the server ends."""
        if self._identity() != self._file:
            raise DamagedLedgerError(
                f"{self} was removed or replaced while it was in use; nothing was given out: stop the server, put the "
                "newest copy back, and start it again"
            )

    def _set_up(self, connection: Any, _: Any) -> None:
        """Set a new connection up, and check that the database took every setting."""
        try:
            with self._explained():
                if self.kind == "sqlite":
                    connection.isolation_level = None  # transactions begin where this module begins them
                with contextlib.closing(connection.cursor()) as cursor:
                    self._settle(cursor)
                connection.commit()
        except BaseException:
            connection.close()
            raise

    def _settle(self, cursor: Any) -> None:
        """Set and read back every setting."""
        put, show = _STATEMENTS[self.kind]
        for name, (value, wanted) in _SETTINGS[self.kind].items():
            if value is not None:
                cursor.execute(put.format(name, value))
            answer = cursor.execute(show.format(name)).fetchone()[0]
            if answer != wanted:
                raise LedgerError(
                    f"{self} must have {name} = {wanted}. Got {answer} instead; committed answers could be lost: "
                    "use a file on a local disk, or change the settings of the server"
                )

    def _begin(self, connection: Connection) -> None:
        """Begin a transaction of the kind that was asked for."""
        access = connection.get_execution_options()["access"]
        connection.exec_driver_sql(_BEGIN[self.kind, access])

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of the database as errors of the ledger."""
        try:
            yield
        except self._errors as error:
            raise self._explain(error) from error

    def _explain(self, error: BaseException) -> LedgerError:
        """Return the error of the ledger for an error of the database."""
        cause = getattr(error, "orig", None) or error
        number = (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF
        state = getattr(cause, "sqlstate", None) or ""
        text = " ".join(str(cause).split())
        if number in _DAMAGED or state.startswith("XX"):
            return DamagedLedgerError(f"the ledger {self} is damaged ({text}): restore the newest copy of it")
        if number == sqlite3.SQLITE_FULL or state == "53100":
            return LedgerError(f"the disk of the ledger {self} is full ({text}); nothing was charged: free some space")
        return LedgerError(
            f"the ledger {self} cannot be used now ({text}); nothing was given out: check the disk or the server, "
            "then try again"
        )


def _parsed(url: str | os.PathLike[str]) -> URL:
    """Return a URL for SQLAlchemy; text without ``://`` is a file."""
    if not isinstance(url, str) or "://" not in url:
        return URL.create("sqlite", database=os.fspath(url))
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise SettingError(f"the address of the ledger cannot be read: {error}") from error
    if parsed.drivername in {"postgresql", "postgres"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in {"sqlite", "postgresql+psycopg"}:
        raise SettingError(f"a ledger needs sqlite:///file or postgresql://. Got {parsed.drivername!r} instead")
    if parsed.drivername == "sqlite" and (parsed.database or ":memory:").startswith((":memory:", "file:")):
        raise SettingError(f"a ledger in SQLite needs a file, sqlite:///file. Got {url!r} instead")
    return parsed


def _engine(url: URL) -> Any:
    """Return an engine with a pool of connections."""
    try:
        return create_engine(
            url, pool_size=8, max_overflow=8, pool_timeout=WAIT, pool_pre_ping=not url.drivername.startswith("sqlite")
        )
    except ImportError as error:
        raise SettingError(f"a ledger in PostgreSQL needs psycopg: {install('postgres')}") from error
