"""The log: each line's digest covers the line and all lines before, and the account is the sum."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from postshift.exceptions import DamagedLedgerError
from postshift.oracle.database import Database
from postshift.oracle.ledger_log import (
    ANSWER,
    BUDGET,
    TOKEN,
    Account,
    LogEntry,
    after,
    append,
    begin_log,
    genesis,
    last_line,
    line_of,
    micros,
    moment_of,
    read_account,
)
from postshift.oracle.ledger_tables import log, metadata
from tests.oracle.ledgers import ABOUT, ask, create, learner
from tests.oracle.trouble import behind_its_back

ENTRY = LogEntry(event=ANSWER, token="t", key="k", kind="value", cost=3, text="a query", answer="d")  # noqa: S106 -- an ID


@pytest.fixture
def database(tmp_path):
    made = Database(tmp_path / "ledger.db", create=True)
    with made.writing() as connection:
        metadata.create_all(connection)
    yield made
    made.close()


class TestDigests:
    def test_a_line_that_differs_in_anything_has_another_digest(self):
        start = genesis(ABOUT)
        lines = [after(start, ENTRY, time=5), after(start, ENTRY, time=6), after(genesis("other"), ENTRY, time=5)]
        for each in fields(LogEntry):
            value = getattr(ENTRY, each.name)
            lines.append(
                after(start, replace(ENTRY, **{each.name: value + 1 if each.type == "int" else f"{value}!"}), time=5)
            )
        assert len({line.digest for line in lines}) == len(lines) == 3 + 8

    def test_a_line_depends_on_all_lines_before(self):
        first, other = (after(genesis(ABOUT), replace(ENTRY, text=text), time=1) for text in ("one", "two"))
        for place in range(3):
            first, other = (after(each, ENTRY, time=2 + place) for each in (first, other))
        assert first.digest != other.digest
        assert replace(first, digest="") == replace(other, digest="")

    def test_fields_are_not_run_together(self):
        one, two = (replace(ENTRY, key=key, kind=kind) for key, kind in (("ab", "c"), ("a", "bc")))
        assert after(genesis(ABOUT), one, time=1).digest != after(genesis(ABOUT), two, time=1).digest


class TestAccount:
    def test_it_is_the_sum_of_the_lines(self):
        account = genesis(ABOUT)
        for entry in (LogEntry(event=BUDGET, granted=10), LogEntry(event=TOKEN), ENTRY, replace(ENTRY, cost=4)):
            account = after(account, entry, time=account.time + 1)
        assert (account.total, account.spent, account.left, account.n_answers) == (10, 7, 3, 2)
        assert (account.number, account.time) == (4, 4)

    def test_what_is_left_is_never_below_zero(self):
        assert replace(genesis(ABOUT), total=3, spent=5).left == 0

    def test_what_is_written_is_read_again(self, database):
        with database.writing() as connection:
            first = begin_log(connection, ABOUT, LogEntry(event=BUDGET, granted=10, text="begin"), time=7)
            second = append(connection, first, ENTRY, time=8)
        with database.reading() as connection:
            assert read_account(connection) == (ABOUT, second)
            assert last_line(connection) == (2, second.digest)
            line = line_of(connection.execute(log.select().where(log.c.number == 2)).one())
        assert (line.number, line.time, line.digest) == (2, moment_of(8), second.digest)
        assert LogEntry(**{each.name: getattr(line, each.name) for each in fields(LogEntry)}) == ENTRY

    def test_an_empty_log(self, database):
        with database.reading() as connection:
            assert last_line(connection) is None
            with pytest.raises(DamagedLedgerError, match="the ledger has no account: restore the newest copy"):
                read_account(connection)

    def test_a_ledger_of_a_newer_version(self, url, tmp_path):
        with create(url, tmp_path) as ledger:
            ask(ledger, "a", learner(ledger))
            behind_its_back(url, "UPDATE postshift_account SET format = 2")
            with pytest.raises(
                DamagedLedgerError, match=r"format 2; this version of postshift reads format 1: use the"
            ):
                ledger.budget()


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC), 1709208000123456),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), 253402300799999999),
    ],
)
def test_times_are_whole_microseconds(moment, number):
    assert micros(moment) == number
    assert moment_of(number) == moment


def test_an_account_has_no_field_that_the_log_does_not_give():
    assert {each.name for each in fields(Account)} == {"total", "spent", "n_answers", "number", "time", "digest"}
