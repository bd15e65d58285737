"""The ledger: charges, answers and tokens of one data set. No answer is lost, and none is charged twice.

One transaction holds the charge and the answer. Nothing is returned before it is committed and the watermark is
written. So after a kill at any moment, an answer is either charged and stored, and free when it is asked for again, or
neither. Units are whole: micro-rho in private mode, queries in trusted mode.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Self

from sqlalchemy import Connection, bindparam, insert, inspect, select

from postshift._validation import check_count
from postshift.exceptions import ClockError, DamagedLedgerError, LedgerError, OtherDataError, OverBudgetError
from postshift.oracle.audit import Audit, damaged_audit, replayed
from postshift.oracle.charges import Answered, Budget, Charge, check_units, check_words
from postshift.oracle.database import Database
from postshift.oracle.ledger_log import (
    ANSWER,
    BUDGET,
    CLOCK,
    CREATED,
    RESTORED,
    REVOKED,
    TOKEN,
    Account,
    LogEntry,
    LogLine,
    append,
    begin_log,
    last_line,
    line_of,
    micros,
    moment_of,
    read_account,
    sha256,
)
from postshift.oracle.ledger_tables import accounts, answers, log, metadata
from postshift.oracle.tokens import (
    Scope,
    Token,
    TokenUse,
    add_token,
    all_tokens,
    check_limits,
    find_token,
    revoked_at,
    valid_token,
    verified,
)
from postshift.oracle.watermark import Mark, Watermark, forgotten

CLOCK_SLACK = 300  # seconds that the clocks of two servers may differ
_STORED = (
    select(answers.c.payload, answers.c.number, log.c.answer)
    .outerjoin(log, log.c.number == answers.c.number)
    .where(answers.c.key == bindparam("key"))
)


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


class Ledger:
    """The ledger of one data set: ``create`` or ``open`` one. Threads, processes and servers may share it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> ledger = Ledger.create(folder / "ledger.db", about="rows-and-labels", budget=10, watermark=folder / "watermark")
    >>> token, secret = ledger.create_token("a learner", scope="learner")
    >>> charge = Charge(key="0123456789abcdef", kind="value", cost=1, token=token, text="the first labels")
    >>> ledger.charge(charge, b"0.8").cost, ledger.charge(charge, b"0.9").payload
    (1, b'0.8')
    >>> ledger.budget()
    Budget(total=10, spent=1, left=9, n_answers=1)
    >>> ledger.close()
    """

    def __init__(
        self, database: Database, watermark: Watermark, *, about: str, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._database, self._watermark, self._clock = database, watermark, clock
        self._about = check_words(about, name="about")

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        *,
        about: str,
        budget: int,
        watermark: str | os.PathLike[str] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> Self:
        """Create a ledger where there is none.

        Parameters
        ----------
        url : str or path
            ``sqlite:///file``, a file, or ``postgresql://user@host/name``.
        about : str
            Digest of the rows, the labels and the groups.
        budget : int
            Whole units.
        watermark : path, optional
            The file beside the data that reveals a restored copy. It must not exist yet.
        clock : callable, optional
            Returns the time, with a time zone.
        """
        total, mark = check_units(budget, name="budget", low=0), Watermark(watermark)
        if mark.mark.number:
            raise LedgerError(
                f"{watermark} belongs to a ledger that gave out {mark.mark.n_answers} answers: open that ledger. A new "
                "one for the same rows would give out the same budget again"
            )
        ledger = cls(Database(url, create=True), mark, about=about, clock=clock)
        with ledger._closed_on_error():
            ledger._fill(total)
        return ledger

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        about: str,
        watermark: str | os.PathLike[str] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> Self:
        """Open a ledger; raise if it is damaged, belongs to other data, or is an older copy (RestoredError)."""
        ledger = cls(Database(url), Watermark(watermark), about=about, clock=clock)
        with ledger._closed_on_error():
            ledger._check(accept=False)
        return ledger

    @classmethod
    def accept_restored(
        cls,
        url: str | os.PathLike[str],
        *,
        about: str,
        watermark: str | os.PathLike[str],
        clock: Callable[[], datetime] = utc_now,
    ) -> Self:
        """Open a restored copy, by the owner's decision, and log that.

        It charges what the missing answers cost; everything that is left, if their cost is not known.
        """
        ledger = cls(Database(url), Watermark(watermark), about=about, clock=clock)
        with ledger._closed_on_error():
            ledger._check(accept=True)
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self._database.close()

    def stored(self, key: str) -> Answered | None:
        """Return the answer of this key, free of charge, or None."""
        mark = self._watermark.newest()
        with self._database.reading() as connection:
            found = _stored(connection, key)
            if found is None or found.number <= self._watermark.written.number:
                return found
            account = self._account(connection)
            _check_newest(connection, account, mark)
        self._watermark.raise_to(Mark.of(account))  # another server charged it, or the disk was full
        return found

    def charge(self, charge: Charge, payload: bytes) -> Answered:
        """Charge and store an answer, and return it; or return the one that was stored before, which is free.

        Raises an error, and charges nothing, if the token is not valid, or if the budget or a limit of the token does
        not cover the cost.
        """
        found = self.stored(charge.key)
        if found is not None:
            return found
        with self._writing() as writing:
            found = _stored(writing.connection, charge.key)  # another thread or server may have been first
            if found is None:
                found = self._charged(writing, charge, payload)
        return found

    def check(self, token: str, *, cost: int) -> None:
        """Raise the error that :meth:`charge` would raise for this cost, before work is done."""
        with self._database.reading() as connection:
            account = self._account(connection)
            self._check_covered(connection, account, token, cost=cost, time=self._time(account))

    def budget(self) -> Budget:
        """Return the budget, and what is spent of it."""
        with self._database.reading() as connection:
            account = self._account(connection)
        return Budget(total=account.total, spent=account.spent, left=account.left, n_answers=account.n_answers)

    def add_budget(self, amount: int) -> Budget:
        """Raise the budget, and log that."""
        granted = check_units(amount, name="amount", low=1)
        with self._writing() as writing:
            total = check_units(writing.account.total + granted, name="the budget", low=1)
            entry = LogEntry(event=BUDGET, granted=granted, text=f"the budget was raised by {granted} to {total}")
            writing.append(entry, time=self._time(writing.account))
        return self.budget()

    def lines(self, *, limit: int = 100, before: int | None = None) -> list[LogLine]:
        """Return lines of the log, the newest first; ``before`` is the number of a line."""
        newest = select(log).order_by(log.c.number.desc()).limit(check_count(limit, name="limit", low=1))
        chosen = newest if before is None else newest.where(log.c.number < check_count(before, name="before", low=0))
        with self._database.reading() as connection:
            return [line_of(row) for row in connection.execute(chosen)]

    def audit(self) -> Audit:
        """Replay the log, and say what does not agree with it."""
        try:
            damage = self._database.damage()
            with self._database.reading() as connection:
                return replayed(connection, mark=self._watermark.mark, damage=damage)
        except DamagedLedgerError as error:
            return damaged_audit(error)

    def create_token(
        self,
        name: str,
        *,
        scope: Scope,
        expires: datetime | None = None,
        most: int | None = None,
        per_minute: int | None = None,
    ) -> tuple[str, str]:
        """Create a token; return its identifier, and the token itself, which cannot be shown again.

        Parameters
        ----------
        name : str
            Whom it is for.
        scope : {"learner", "owner"}
            What it gives access to.
        expires : datetime, optional
            When it ends, with a time zone.
        most : int, optional
            The largest total cost of its answers.
        per_minute : int, optional
            The largest number of answers in a minute.
        """
        check_words(name, name="name")
        with self._writing() as writing:
            time = self._time(writing.account)
            identifier, secret, digest = add_token(
                writing.connection, name, scope=scope, expires=expires, most=most, per_minute=per_minute, time=time
            )
            writing.append(LogEntry(event=TOKEN, token=identifier, key=digest, text=name), time=time)
        return identifier, secret

    def revoke_token(self, identifier: str) -> None:
        """Revoke a token, even if the clock was set back."""
        with self._writing() as writing:
            token = find_token(writing.connection, identifier)
            if revoked_at(writing.connection, identifier) is None:
                entry = LogEntry(event=REVOKED, token=identifier, text=token.name)
                writing.append(entry, time=max(writing.account.time, micros(self._clock())))

    def tokens(self) -> list[TokenUse]:
        """Return every token and its use."""
        with self._database.reading() as connection:
            return all_tokens(connection)

    def verify(self, secret: str) -> Token:
        """Return the token with this secret; raise if it is unknown, expired or revoked."""
        mark = self._watermark.newest()
        with self._database.reading() as connection:
            account = self._account(connection)
            _check_newest(connection, account, mark)  # an older copy forgot what was revoked
            return verified(connection, secret, time=max(account.time, micros(self._clock())))

    def check_clock(self) -> None:
        """Raise if the clock was set back."""
        with self._database.reading() as connection:
            self._time(self._account(connection))

    def accept_clock(self) -> None:
        """Continue from the present time although the log has later times, by the owner's decision; log that."""
        with self._writing() as writing:
            text = f"the owner accepted the clock, after {moment_of(writing.account.time).isoformat()}"
            writing.append(LogEntry(event=CLOCK, text=text), time=micros(self._clock()))

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """Close the connections if the ledger cannot be used."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def _writing(self) -> Iterator[_Writing]:
        """Lock the ledger; at the end, commit, then write the watermark."""
        mark = self._watermark.newest()
        with self._database.writing() as connection:
            writing = _Writing(connection, self._account(connection, lock=True))
            _check_newest(connection, writing.account, mark)
            if writing.account.number < mark.number:  # the owner accepted an older copy
                self._watermark.replace(Mark.of(writing.account))
            yield writing
        self._watermark.raise_to(Mark.of(writing.account))

    def _account(self, connection: Connection, *, lock: bool = False) -> Account:
        """Return the account; raise if the ledger belongs to other data."""
        about, account = read_account(connection, lock=lock)
        if about != self._about:
            raise OtherDataError(
                f"{self._database} is the ledger of other data or labels ({about[:16]} ..., and these are "
                f"{self._about[:16]} ...): use the data that it belongs to, or create another ledger"
            )
        return account

    def _charged(self, writing: _Writing, charge: Charge, payload: bytes) -> Answered:
        """Charge and store an answer."""
        account = writing.account
        time = self._time(account)
        self._check_covered(writing.connection, account, charge.token, cost=charge.cost, time=time)
        entry = LogEntry(
            event=ANSWER,
            token=charge.token,
            key=charge.key,
            kind=charge.kind,
            cost=charge.cost,
            text=charge.text,
            answer=sha256(payload),
        )
        number = writing.append(entry, time=time)
        writing.connection.execute(insert(answers).values(key=charge.key, number=number, payload=payload))
        return Answered(payload=payload, cost=charge.cost, number=number, repeated=False)

    def _check_covered(
        self, connection: Connection, account: Account, identifier: str, *, cost: int, time: int
    ) -> None:
        """Raise if the token is not valid, or if the budget or a limit of the token does not cover the cost."""
        token = valid_token(connection, identifier, time=time)
        if cost > account.left:
            raise OverBudgetError(
                f"this costs {cost} and {account.left} of {account.total} are left (micro-rho in private mode): "
                "nothing was charged; ask the owner of the data for a larger budget",
                left=account.left,
            )
        check_limits(connection, token, cost=cost, time=time)

    def _time(self, account: Account) -> int:
        """Return the time of the next line, which is never before the last; raise if the clock was set back."""
        now = micros(self._clock())
        behind = (account.time - now) / 1e6
        if behind > CLOCK_SLACK:
            raise ClockError(
                f"the clock is {behind:.0f} seconds before the last line of the ledger "
                f"({moment_of(account.time):%Y-%m-%d %H:%M:%S} UTC); nothing was charged: set the clock right; or, if "
                "that line has a wrong time, continue as the owner (postshift oracle accept --clock)"
            )
        return max(now, account.time)

    def _fill(self, budget: int) -> None:
        """Create the tables, and write the first line."""
        entry = LogEntry(event=CREATED, granted=budget, text=f"the ledger was created with a budget of {budget}")
        with self._database.writing() as connection:
            if inspect(connection).has_table(accounts.name):
                raise LedgerError(f"{self._database} holds a ledger: open it, or create another one elsewhere")
            metadata.create_all(connection)
            account = begin_log(connection, self._about, entry, time=micros(self._clock()))
        self._watermark.raise_to(Mark.of(account))

    def _check(self, *, accept: bool) -> None:
        """Raise if the ledger cannot be used as it is."""
        damage = self._database.damage()
        if damage:
            raise DamagedLedgerError(f"{self._database} is damaged ({damage[0]}): restore the newest copy of it")
        with self._database.reading() as connection:
            if not all(inspect(connection).has_table(table) for table in metadata.tables):
                raise DamagedLedgerError(f"{self._database} is not a ledger: restore the newest copy of it")
            account = self._account(connection)
            if last_line(connection) != (account.number, account.digest):
                raise DamagedLedgerError(f"{self._database} does not end where its account says: see audit()")
            error = forgotten(connection, account, self._watermark.mark)
        if error is not None and not accept:
            raise error
        if error is not None:
            self._accept()
        self._watermark.raise_to(Mark.of(account))

    def _accept(self) -> None:
        """Charge what a restored copy forgot."""
        with self._database.writing() as connection:
            account, mark = self._account(connection, lock=True), self._watermark.mark
            error = forgotten(connection, account, mark)
            if error is not None:
                cost = account.left if error.spent is None else error.spent
                missing = "an unknown number of" if error.n_missing is None else error.n_missing
                text = f"the owner accepted a restored copy without {missing} answers; {cost} were charged for them"
                entry = LogEntry(event=RESTORED, key=mark.digest, cost=cost, text=text)
                account = append(connection, account, entry, time=max(account.time, micros(self._clock())))
        self._watermark.replace(Mark.of(account))


class _Writing:
    """A transaction that writes, and the account as it is in it."""

    def __init__(self, connection: Connection, account: Account) -> None:
        self.connection, self.account = connection, account

    def append(self, entry: LogEntry, *, time: int) -> int:
        """Add a line to the log; return its number."""
        self.account = append(self.connection, self.account, entry, time=time)
        return self.account.number


def _check_newest(connection: Connection, account: Account, mark: Mark) -> None:
    """Raise if this is an older copy of the ledger, or one of another history, unless the owner accepted it."""
    if account.digest == mark.digest:
        return
    error = forgotten(connection, account, mark)
    if error is not None:
        raise error


def _stored(connection: Connection, key: str) -> Answered | None:
    """Return the answer of a key; raise if it is not the one that was given out."""
    row = connection.execute(_STORED, {"key": key}).one_or_none()
    if row is None:
        return None
    if sha256(row.payload) != row.answer:
        raise DamagedLedgerError(f"answer {row.number} was changed after it was given out: restore the newest copy")
    return Answered(payload=row.payload, cost=0, number=row.number, repeated=True)
