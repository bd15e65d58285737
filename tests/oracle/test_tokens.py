"""Limits of tokens; what the service answers to tokens is tested in test_gate and test_ledger."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from sqlalchemy import create_engine, insert

from postshift.oracle.ledger_log import ANSWER, Entry, micros
from postshift.oracle.ledger_tables import log, metadata
from postshift.oracle.tokens import Token, check_limits

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_a_limit_in_a_minute_does_not_read_the_answers_before():
    token = Token(
        id="0123abcd", name="ann", scope="learner", created=NOW, expires=None, most=None, per_minute=1_000_000
    )
    time, entry = micros(NOW), asdict(Entry(event=ANSWER, token=token.id))
    lines = [{**entry, "number": k, "time": time - 60_000_000 - k, "digest": ""} for k in range(10_000)]
    engine, steps = create_engine("sqlite://"), []
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(log), lines)
        connection.connection.dbapi_connection.set_progress_handler(lambda: steps.append(100), 100)
        check_limits(connection, token, cost=1, time=time)
    engine.dispose()
    assert sum(steps) < 1000  # instructions of SQLite; 10,000 lines take more than one each
