"""The tables of a ledger. Rows are only added; the account alone is updated, and only forwards.

========  ==========================================================================================
table     holds
========  ==========================================================================================
account   one row: what the ledger is about, the sums of the log, and its last line
log       one line per event, with a digest of the line and of the line before
answers   the answer that each ``answer`` line of the log charged
tokens    tokens, with a digest of the secret; a revoked token has a ``revoked`` line in the log
========  ==========================================================================================

Triggers refuse anything else. Whoever can write the file can remove them: then the audit finds what was changed.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    event,
)

FORMAT = 1

metadata = MetaData()
_number = Integer().with_variant(BigInteger(), "postgresql")  # SQLite's INTEGER has 64 bits


def _table(name: str, *columns: Column[object] | CheckConstraint | Index) -> Table:
    """Return a table; SQLite checks the types of its columns."""
    return Table(f"postshift_{name}", metadata, *columns, sqlite_strict=True)


def _text(name: str, *, primary_key: bool = False) -> Column[object]:
    """Return a column of text."""
    return Column(name, Text, primary_key=primary_key, nullable=False)


def _whole(name: str, *, primary_key: bool = False, nullable: bool = False, unique: bool = False) -> Column[object]:
    """Return a column of whole numbers."""
    return Column(name, _number, primary_key=primary_key, autoincrement=False, nullable=nullable, unique=unique)


accounts = _table(
    "account",
    _whole("id", primary_key=True),
    _whole("format"),
    _text("about"),
    _whole("total"),
    _whole("spent"),
    _whole("n_answers"),
    _whole("number"),
    _whole("time"),  # microseconds since 1970, UTC
    _text("digest"),
    CheckConstraint("id = 1"),
)

log = _table(
    "log",
    _whole("number", primary_key=True),
    _whole("time"),
    _text("event"),
    _text("token"),
    _text("key"),
    _text("kind"),
    _whole("cost"),
    _whole("granted"),
    _text("text"),
    _text("answer"),
    _text("digest"),
    Index("postshift_log_of_token", "token", "event", "time", "cost"),
)

answers = _table(
    "answers",
    _text("key", primary_key=True),
    _whole("number", unique=True),
    Column("payload", LargeBinary, nullable=False),
)

tokens = _table(
    "tokens",
    _text("id", primary_key=True),
    _text("name"),
    _text("scope"),
    _text("secret"),  # SHA-256 of the token
    _whole("created"),
    _whole("expires", nullable=True),
    _whole("most", nullable=True),
    _whole("per_minute", nullable=True),
)

_BACKWARDS = (
    "NEW.total < OLD.total OR NEW.spent < OLD.spent OR NEW.n_answers < OLD.n_answers OR NEW.number <= OLD.number "
    "OR NEW.about <> OLD.about OR NEW.format <> OLD.format"
)
_REFUSE = """
CREATE OR REPLACE FUNCTION postshift_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'rows of %% are never changed', TG_TABLE_NAME; END $$
"""


def _never(table: Table, action: str, *, when: str = "TRUE") -> None:
    """Refuse an action on the rows of a table."""
    trigger = f"CREATE TRIGGER {table.name}_no_{action.lower()} BEFORE {action} ON {table.name} FOR EACH ROW"
    refusal = f"SELECT RAISE(ABORT, 'rows of {table.name} are never changed')"
    event.listen(table, "after_create", DDL(f"{trigger} WHEN {when} BEGIN {refusal}; END").execute_if(dialect="sqlite"))
    ours = DDL(f"{trigger} WHEN ({when}) EXECUTE FUNCTION postshift_refuse()")
    event.listen(table, "after_create", ours.execute_if(dialect="postgresql"))


def _protect(table: Table, *, when: str = "TRUE") -> None:
    """Refuse to delete rows of a table, and to change them; or only changes of one kind."""
    _never(table, "DELETE")
    _never(table, "UPDATE", when=when)
    trigger = f"CREATE TRIGGER {table.name}_no_truncate BEFORE TRUNCATE ON {table.name} FOR EACH STATEMENT"
    ours = DDL(f"{trigger} EXECUTE FUNCTION postshift_refuse()")
    event.listen(table, "after_create", ours.execute_if(dialect="postgresql"))


event.listen(metadata, "before_create", DDL(_REFUSE).execute_if(dialect="postgresql"))
_protect(accounts, when=_BACKWARDS)
for _each in (log, answers, tokens):
    _protect(_each)
