"""The log of a ledger: its lines, the chain of their digests, and the account, which is their sum."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select, update

from postshift.exceptions import DamagedLedgerError
from postshift.oracle.ledger_tables import FORMAT, accounts, log

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ACCOUNT: Final = select(accounts)

# The events: the ledger was created, an answer was charged, the budget was raised, a token was created or revoked, the
# owner accepted a restored copy or a clock that was set back.
CREATED, ANSWER, BUDGET, TOKEN, REVOKED, RESTORED, CLOCK = (
    "created",
    "answer",
    "budget",
    "token",
    "revoked",
    "restored",
    "clock",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """What happened, before it has a place in the log."""

    event: str
    token: str = ""
    key: str = ""
    kind: str = ""
    cost: int = 0
    granted: int = 0  # added to the budget
    text: str = ""
    answer: str = ""  # SHA-256 of the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine(LogEntry):
    """A line of the log."""

    number: int
    time: datetime
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The sums over the log, and its last line. ``time`` is in microseconds since 1970."""

    total: int
    spent: int
    n_answers: int
    number: int
    time: int
    digest: str

    @property
    def left(self) -> int:
        """What the budget still covers."""
        return max(0, self.total - self.spent)


def micros(moment: datetime) -> int:
    """Return a moment in microseconds since 1970.

    Examples
    --------
    >>> micros(datetime(1970, 1, 2, tzinfo=UTC))
    86400000000
    """
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment_of(time: int) -> datetime:
    """Return the moment of a number of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=time)


def genesis(about: str) -> Account:
    """Return the account of an empty log."""
    return Account(total=0, spent=0, n_answers=0, number=0, time=0, digest=sha256(f"postshift ledger {FORMAT} {about}"))


def sha256(content: str | bytes) -> str:
    """Return a digest in hexadecimal digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def after(account: Account, entry: LogEntry, *, time: int) -> Account:
    """Return the account after one more line, whose digest covers the line and the digest before."""
    content = [account.digest, account.number + 1, time, *(getattr(entry, each.name) for each in fields(LogEntry))]
    return replace(
        account,
        total=account.total + entry.granted,
        spent=account.spent + entry.cost,
        n_answers=account.n_answers + (entry.event == ANSWER),
        number=account.number + 1,
        time=time,
        digest=sha256(json.dumps(content)),
    )


def append(connection: Connection, account: Account, entry: LogEntry, *, time: int) -> Account:
    """Add a line to the log; return the new account."""
    new = after(account, entry, time=time)
    line = {"number": new.number, "time": new.time, "digest": new.digest, **asdict(entry)}
    connection.execute(insert(log).values(line))
    connection.execute(update(accounts).values(asdict(new)))
    return new


def begin_log(connection: Connection, about: str, entry: LogEntry, *, time: int) -> Account:
    """Write the account and the first line of a new log."""
    empty = genesis(about)
    connection.execute(insert(accounts).values(id=1, format=FORMAT, about=about, **asdict(empty)))
    return append(connection, empty, entry, time=time)


def read_account(connection: Connection, *, lock: bool = False) -> tuple[str, Account]:
    """Return what the ledger is about, and its account; a lock keeps other writers out until the transaction ends."""
    row = connection.execute(_ACCOUNT.with_for_update() if lock else _ACCOUNT).one_or_none()
    if row is None:
        raise DamagedLedgerError("the ledger has no account: restore the newest copy of it")
    if row.format != FORMAT:
        raise DamagedLedgerError(
            f"the ledger has format {row.format}; this version of postshift reads format {FORMAT}: use the version "
            "that wrote it"
        )
    return row.about, Account(**{each.name: getattr(row, each.name) for each in fields(Account)})


def line_of(row: Row[Any]) -> LogLine:
    """Return a row of the log as a line."""
    values = {each.name: getattr(row, each.name) for each in fields(LogLine)}
    return LogLine(**{**values, "time": moment_of(row.time)})


def last_line(connection: Connection) -> tuple[int, str] | None:
    """Return number and digest of the last line of the log."""
    newest = select(log.c.number, log.c.digest).order_by(log.c.number.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return None if row is None else (row.number, row.digest)
