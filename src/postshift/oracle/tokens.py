"""Tokens: who may ask, how much, how fast and until when.

A token is ``psl_`` (learner) or ``pso_`` (owner), its identifier, and a secret of 256 random bits. It is shown once;
the ledger keeps its SHA-256. A slow hash protects passwords, which can be guessed; nobody guesses 256 bits.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, func, insert, select

from postshift._validation import check_count
from postshift.exceptions import (
    ExpiredTokenError,
    RevokedTokenError,
    SettingError,
    TokenBudgetError,
    TooFastError,
    UnknownTokenError,
)
from postshift.oracle.ledger_log import ANSWER, REVOKED, micros, moment_of, sha256
from postshift.oracle.ledger_tables import log, tokens

Scope = Literal["learner", "owner"]

_PREFIXES = {"learner": "psl", "owner": "pso"}
_FORM = re.compile(r"ps[lo]_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")
_MINUTE = 60_000_000  # microseconds
_BY_ID = select(tokens).where(tokens.c.id == bindparam("id"))  # built once: every request needs both
_REVOKED_AT = select(func.min(log.c.time)).where(log.c.token == bindparam("id"), log.c.event == REVOKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret.

    Parameters
    ----------
    id : str
        The identifier, also a part of the secret.
    name : str
        Whom it is for.
    scope : str
        ``"learner"`` or ``"owner"``.
    created, expires : datetime
        Its time; None if it does not expire.
    most : int, optional
        The largest total cost of its answers.
    per_minute : int, optional
        The largest number of answers in a minute; repeated answers do not count.
    """

    id: str
    name: str
    scope: Scope
    created: datetime
    expires: datetime | None
    most: int | None
    per_minute: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """A token and what the log says about it; repeated answers leave no line in the log."""

    token: Token
    spent: int
    n_answers: int
    last_used: datetime | None
    revoked: datetime | None


def add_token(
    connection: Connection,
    name: str,
    *,
    scope: Scope,
    expires: datetime | None,
    most: int | None,
    per_minute: int | None,
    time: int,
) -> tuple[str, str, str]:
    """Store a new token; return its identifier, the token itself, and the digest of what was stored."""
    identifier = secrets.token_hex(4)
    secret = f"{_PREFIXES[_checked_scope(scope)]}_{identifier}_{secrets.token_urlsafe(32)}"
    row = {
        "id": identifier,
        "name": name,
        "scope": scope,
        "secret": sha256(secret),
        "created": time,
        "expires": _checked_expiry(expires, time),
        "most": None if most is None else check_count(most, name="most", low=1),
        "per_minute": None if per_minute is None else check_count(per_minute, name="per_minute", low=1),
    }
    connection.execute(insert(tokens).values(row))
    return identifier, secret, token_digest(row)


def token_digest(row: Any) -> str:
    """Return a digest of a stored token; the log has it too."""
    return sha256(json.dumps([row[column.name] for column in tokens.columns]))


def verified(connection: Connection, secret: str, *, time: int) -> Token:
    """Return the token with this secret; raise unless it is valid at this time."""
    form = _FORM.fullmatch(secret)
    row = None if form is None else _row(connection, form[1])
    given = sha256(secret) if form else ""
    if not hmac.compare_digest(given.encode(), ("-" if row is None else row.secret).encode()) or row is None:
        raise UnknownTokenError("the token is not known: copy all of it, or ask the owner of the data for a new one")
    return _valid(connection, _token(row), time=time)


def find_token(connection: Connection, identifier: str) -> Token:
    """Return the token with this identifier, valid or not."""
    row = _row(connection, identifier)
    if row is None:
        raise UnknownTokenError(f"there is no token {identifier!r}: list the tokens, or create one")
    return _token(row)


def valid_token(connection: Connection, identifier: str, *, time: int) -> Token:
    """Return the token with this identifier; raise unless it is valid at this time."""
    return _valid(connection, find_token(connection, identifier), time=time)


def check_limits(connection: Connection, token: Token, *, cost: int, time: int) -> None:
    """Raise if this cost is more than the token may spend, or comes too soon. The log is what counts."""
    if token.most is not None:
        spent, _ = _spent(connection, token.id)
        if spent + cost > token.most:
            raise TokenBudgetError(
                f"this costs {cost} and the token {token.id} has {max(0, token.most - spent)} of its {token.most} "
                "left: nothing was charged; ask the owner of the data for another token",
                left=max(0, token.most - spent),
            )
    if token.per_minute is not None:
        _check_rate(connection, token, time=time)


def revoked_at(connection: Connection, identifier: str) -> datetime | None:
    """Return when a token was revoked, or None."""
    time = connection.execute(_REVOKED_AT, {"id": identifier}).scalar()
    return None if time is None else moment_of(time)


def all_tokens(connection: Connection) -> list[TokenUse]:
    """Return every token and its use, the oldest first."""
    rows = connection.execute(select(tokens).order_by(tokens.c.created, tokens.c.id)).all()
    return [_use(connection, _token(row)) for row in rows]


def _check_rate(connection: Connection, token: Token, *, time: int) -> None:
    """Raise if the token had all its answers of this minute."""
    assert token.per_minute is not None  # noqa: S101
    of_minute = (*_lines(token.id, ANSWER), log.c.time > time - _MINUTE, log.c.time <= time)
    newest = select(log.c.time).where(*of_minute).order_by(log.c.time.desc())
    last = connection.execute(newest.offset(token.per_minute - 1).limit(1)).scalar()
    if last is not None:
        wait = (last + _MINUTE - time) / 1e6
        raise TooFastError(
            f"the token {token.id} may have {token.per_minute} answers in a minute: nothing was charged; wait "
            f"{wait:.0f} seconds",
            wait=wait,
        )


def _use(connection: Connection, token: Token) -> TokenUse:
    """Return what the log says about a token."""
    spent, n_answers = _spent(connection, token.id)
    last = connection.execute(select(func.max(log.c.time)).where(*_lines(token.id, ANSWER))).scalar()
    return TokenUse(
        token=token,
        spent=spent,
        n_answers=n_answers,
        last_used=None if last is None else moment_of(last),
        revoked=revoked_at(connection, token.id),
    )


def _spent(connection: Connection, identifier: str) -> tuple[int, int]:
    """Return what the answers of a token cost, and how many there are."""
    sums = select(func.coalesce(func.sum(log.c.cost), 0), func.count()).where(*_lines(identifier, ANSWER))
    cost, count = connection.execute(sums).one()
    return int(cost), count


def _valid(connection: Connection, token: Token, *, time: int) -> Token:
    """Return a token; raise if it was revoked or is expired."""
    if revoked_at(connection, token.id) is not None:
        raise RevokedTokenError(f"the token {token.id} was revoked: ask the owner of the data for a new one")
    if token.expires is not None and time >= micros(token.expires):
        raise ExpiredTokenError(
            f"the token {token.id} expired on {token.expires:%Y-%m-%d %H:%M} UTC: ask the owner of the data for a new "
            "one"
        )
    return token


def _row(connection: Connection, identifier: str) -> Row[Any] | None:
    """Return a stored token, or None."""
    return connection.execute(_BY_ID, {"id": identifier}).one_or_none()


def _token(row: Row[Any]) -> Token:
    """Return a row of the table as a token."""
    return Token(
        id=row.id,
        name=row.name,
        scope=row.scope,
        created=moment_of(row.created),
        expires=None if row.expires is None else moment_of(row.expires),
        most=row.most,
        per_minute=row.per_minute,
    )


def _lines(identifier: str, event: str) -> tuple[Any, ...]:
    """Return the condition for lines of one event of a token."""
    return log.c.token == identifier, log.c.event == event


def _checked_scope(scope: str) -> str:
    """Return a scope; raise unless it is known."""
    if scope not in _PREFIXES:
        raise SettingError(f"scope must be 'learner' or 'owner'. Got {scope!r} instead")
    return scope


def _checked_expiry(expires: datetime | None, time: int) -> int | None:
    """Return when a token expires, in microseconds; raise unless that is in the future."""
    if expires is None:
        return None
    if expires.tzinfo is None or micros(expires) <= time:
        raise SettingError(f"expires must be in the future and have a time zone. Got {expires.isoformat()} instead")
    return micros(expires)
