"""The tables of a ledger: rows are added and never changed, and the account only goes forwards."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select

from postshift.exceptions import LedgerError
from postshift.oracle.database import Database
from postshift.oracle.ledger_tables import accounts, answers, log, tokens
from tests.oracle.ledgers import ask, create, learner, problems


@pytest.fixture
def filled(url, tmp_path):
    """The address of a ledger with a token and two answers."""
    with create(url, tmp_path) as ledger:
        token = learner(ledger)
        ask(ledger, "a", token, cost=2)
        ask(ledger, "b", token, cost=2)
        yield ledger


def rows(ledger):
    """Return all rows of all tables."""
    with ledger._database.reading() as connection:
        return [connection.execute(select(table)).all() for table in (accounts, log, answers, tokens)]


CHANGES = [
    "DELETE FROM postshift_account",
    "DELETE FROM postshift_log",
    "DELETE FROM postshift_answers",
    "DELETE FROM postshift_tokens",
    "UPDATE postshift_log SET cost = 1",
    "UPDATE postshift_answers SET key = 'x'",
    "UPDATE postshift_tokens SET expires = NULL",
    "UPDATE postshift_account SET spent = spent - 1, number = number + 1",
    "UPDATE postshift_account SET total = total - 1, number = number + 1",
    "UPDATE postshift_account SET n_answers = 0, number = number + 1",
    "UPDATE postshift_account SET about = 'other', number = number + 1",
    "UPDATE postshift_account SET format = 2, number = number + 1",
    "UPDATE postshift_account SET spent = spent + 1",
]


@pytest.mark.parametrize("change", CHANGES)
def test_rows_are_never_changed(filled, change):
    before = rows(filled)
    with pytest.raises(LedgerError, match="never changed"), filled._database.writing() as connection:
        connection.exec_driver_sql(change)
    assert rows(filled) == before
    assert problems(filled) == ()


def test_there_is_one_account(filled):
    with filled._database.reading() as connection:
        values = dict(connection.execute(select(accounts)).one()._mapping)
    with pytest.raises(LedgerError), filled._database.writing() as connection:
        connection.execute(insert(accounts).values({**values, "id": 2}))
    assert len(rows(filled)[0]) == 1


@pytest.mark.parametrize(
    "values",
    [{"key": "0" * 16, "number": 3}, {"key": None, "number": 99}, {"key": "0" * 16, "number": None}],
    ids=["the number of another answer", "no key", "no number"],
)
def test_an_answer_has_a_key_and_a_number_of_its_own(filled, values):
    before = rows(filled)
    with pytest.raises(LedgerError), filled._database.writing() as connection:
        connection.execute(insert(answers).values(payload=b"x", **values))
    assert rows(filled) == before


def test_columns_keep_their_types(filled):
    """SQLite would otherwise take a text for a number."""
    database: Database = filled._database
    with pytest.raises(LedgerError), database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO postshift_answers (key, number, payload) VALUES ('k', 'many', '')")


STATEMENTS = [
    "UPDATE postshift_log SET cost = 0",
    "UPDATE postshift_answers SET payload = payload",
    "UPDATE postshift_tokens SET most = 9",
    "UPDATE postshift_account SET spent = 0, number = number + 1",
    "UPDATE postshift_account SET about = 'x', number = number + 1",
    "UPDATE postshift_account SET number = number",
    "DELETE FROM postshift_log",
    "DELETE FROM postshift_answers",
    "DELETE FROM postshift_tokens",
    "DELETE FROM postshift_account",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_rows_are_never_changed_or_removed(ledger, statement):
    ask(ledger, "a", learner(ledger), cost=2)
    with pytest.raises(LedgerError, match="never changed"), ledger._database.writing() as connection:
        connection.exec_driver_sql(statement)
    assert (ledger.budget().spent, problems(ledger)) == (2, ())


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO postshift_account SELECT 2, format, about, 9, 0, 0, number, time, digest FROM postshift_account",
        "INSERT INTO postshift_log (number) VALUES (2)",
        "INSERT INTO postshift_answers (key, number, payload) VALUES ('a', 'much', 'x')",
    ],
)
def test_rows_that_are_no_lines(ledger, statement):
    with pytest.raises(LedgerError), ledger._database.writing() as connection:
        connection.exec_driver_sql(statement)
