"""The tables: rows are only added, and have the types that are said."""

from __future__ import annotations

import pytest

from postshift.exceptions import LedgerError
from tests.oracle.ledgers import ask, learner, problems

CHANGES = [
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


@pytest.mark.parametrize("statement", CHANGES)
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
