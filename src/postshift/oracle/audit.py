"""The audit of a ledger: replays the log, and says in words what does not agree with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from sqlalchemy import Connection, func, select

from postshift.oracle.ledger_log import (
    ANSWER,
    CLOCK,
    TOKEN,
    Account,
    LogLine,
    after,
    genesis,
    line_of,
    micros,
    read_account,
    sha256,
)
from postshift.oracle.ledger_tables import answers, log, tokens
from postshift.oracle.tokens import token_digest
from postshift.oracle.watermark import Mark, forgotten

_AT_ONCE = 100  # lines, with their answers
_SHOWN = 100  # problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the audit counted, and the problems it found, in words.

    Parameters
    ----------
    n_lines, n_answers : int
        Lines of the log, and answers among them.
    total, spent : int
        The budget and the charges, added up from the log.
    problems : tuple of str
        Empty if everything agrees.
    """

    n_lines: int
    n_answers: int
    total: int
    spent: int
    problems: tuple[str, ...]


def replayed(connection: Connection, *, mark: Mark, damage: list[str]) -> Audit:
    """Replay the log of a ledger. ``mark`` is its watermark, ``damage`` what the database found in its file."""
    about, account = read_account(connection)
    replay = _Replay(about)
    places = select(log, answers.c.key.label("stored"), answers.c.payload).outerjoin(
        answers, answers.c.number == log.c.number
    )
    rows = connection.execute(places.order_by(log.c.number), execution_options={"yield_per": _AT_ONCE})
    for row in rows:
        replay.take(line_of(row), row.stored, row.payload)
    problems = [
        *(f"the database is damaged: {each}" for each in damage),
        *replay.problems,
        *_wrong_account(replay.account, account),
        *_wrong_answers(connection, replay),
        *_wrong_tokens(connection, replay),
        *_wrong_mark(connection, account, mark),
    ]
    more = [f"and {len(problems) - _SHOWN} more problems"] if len(problems) > _SHOWN else []
    return Audit(
        n_lines=replay.n_lines,
        n_answers=replay.account.n_answers,
        total=replay.account.total,
        spent=replay.account.spent,
        problems=(*problems[:_SHOWN], *more),
    )


def damaged_audit(error: Exception) -> Audit:
    """Return the audit of a ledger that cannot be read."""
    return Audit(n_lines=0, n_answers=0, total=0, spent=0, problems=(str(error),))


class _Replay:
    """Adds up the log line by line."""

    def __init__(self, about: str) -> None:
        self.account = genesis(about)
        self.problems: list[str] = []
        self.tokens: dict[str, str] = {}  # created tokens, with the digest of what was stored
        self.n_lines = self.n_stored = 0

    def take(self, line: LogLine, key: str | None, payload: bytes | None) -> None:
        """Check one line, and the answer that is stored for it."""
        new = after(self.account, line, time=micros(line.time))
        self.problems += [f"line {line.number} of the log: {each}" for each in self._wrong(line, new)]
        self.n_lines += 1
        if line.event == TOKEN:
            self.tokens[line.token] = line.key
        if line.event == ANSWER:
            self.n_stored += key is not None
            self.problems += [f"answer {line.number}: {each}" for each in self._wrong_answer(line, new, key, payload)]
        self.account = replace(new, number=line.number, digest=line.digest)

    def _wrong(self, line: LogLine, new: Account) -> Iterator[str]:
        """Say what is wrong with a line."""
        if line.number != new.number:
            yield f"it follows on line {self.account.number}; the lines between are missing"
        elif line.digest != new.digest:
            yield "it was changed, or the line before it, or what the ledger is about"
        if new.time < self.account.time and line.event != CLOCK:
            yield f"its time {line.time.isoformat()} is before the line before"

    def _wrong_answer(self, line: LogLine, new: Account, key: str | None, payload: bytes | None) -> Iterator[str]:
        """Say what is wrong with a charged answer."""
        if new.spent > new.total:
            yield f"{new.spent} are spent after it, and the budget was {new.total}"
        if line.token not in self.tokens:
            yield f"the log has no token {line.token!r}"
        if key is None or payload is None:
            yield "it is charged and not stored"
        elif key != line.key:
            yield "it is stored for another query"
        elif sha256(payload) != line.answer:
            yield "what is stored is not what was given out"


def _wrong_account(replayed_: Account, account: Account) -> Iterator[str]:
    """Say where the account is not the sum of the log."""
    for each in fields(Account):
        summed, stored = getattr(replayed_, each.name), getattr(account, each.name)
        if summed != stored:
            yield f"the account has {each.name} = {stored}, the log {summed}"


def _wrong_answers(connection: Connection, replay: _Replay) -> Iterator[str]:
    """Say if answers are stored that were never charged."""
    stored = connection.execute(select(func.count()).select_from(answers)).scalar_one()
    if stored > replay.n_stored:
        yield f"{stored - replay.n_stored} answers are stored that the log does not charge"


def _wrong_tokens(connection: Connection, replay: _Replay) -> Iterator[str]:
    """Say which tokens are not those of the log."""
    stored = {row["id"]: token_digest(row) for row in connection.execute(select(tokens)).mappings()}
    for each in sorted(stored.keys() | replay.tokens.keys()):
        if each not in stored:
            yield f"the token {each} of the log is not stored"
        elif stored[each] != replay.tokens.get(each):
            yield f"the token {each} was changed, or not created by postshift"


def _wrong_mark(connection: Connection, account: Account, mark: Mark) -> Iterator[str]:
    """Say if the log lacks the line of the watermark."""
    error = forgotten(connection, account, mark)
    if error is not None:
        yield str(error)
