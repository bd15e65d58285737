"""Tokens: their form, what is kept of them, and how they are compared."""

from __future__ import annotations

import hmac
import re
from dataclasses import asdict
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, insert

from postshift.exceptions import SettingError, TokenBudgetError, TooFastError, UnknownTokenError
from postshift.oracle import tokens
from postshift.oracle.ledger_log import ANSWER, Entry, micros, sha256
from postshift.oracle.ledger_tables import log, metadata
from tests.oracle.ledgers import ask, learner


def test_a_token_has_256_random_bits_and_only_its_digest_is_kept(ledger):
    identifier, secret = ledger.create_token("ann", scope="learner")
    assert re.fullmatch(rf"psl_{identifier}_[A-Za-z0-9_-]{{43}}", secret)
    with ledger._database.reading() as connection:
        (row,) = connection.execute(tokens.tokens.select()).mappings()
    assert row["secret"] == sha256(secret)
    assert not [value for value in row.values() if secret[13:] in str(value)]


def test_a_thousand_tokens_are_different(ledger):
    found = {secret for _, secret in (ledger.create_token("x", scope="owner") for _ in range(100))}
    assert len({secret[13:] for secret in found}) == 100
    assert all(secret.startswith("pso_") for secret in found)


def test_digests_are_compared_in_constant_time_also_for_unknown_tokens(ledger, monkeypatch):
    _, secret = ledger.create_token("ann", scope="learner")
    compared = []
    monkeypatch.setattr(
        tokens.hmac, "compare_digest", lambda a, b, same=hmac.compare_digest: compared.append(1) or same(a, b)
    )
    ledger.verify(secret)
    for wrong in (secret[:-2] + "xx", "psl_00000000_" + "A" * 43, "nothing", ""):
        with pytest.raises(UnknownTokenError):
            ledger.verify(wrong)
    assert len(compared) == 5


def test_an_identifier_with_the_secret_of_another_token(ledger):
    (_, one), (_, two) = (ledger.create_token("x", scope="learner") for _ in range(2))
    for wrong in (one[:13] + two[13:], two.replace("psl", "pso"), one + "\n"):
        with pytest.raises(UnknownTokenError):
            ledger.verify(wrong)


def test_limits_of_a_token_are_those_of_its_answers_in_the_log(ledger, clock):
    small, slow = learner(ledger, most=3), learner(ledger, per_minute=1)
    ask(ledger, "a", small, cost=2)
    with pytest.raises(TokenBudgetError, match="has 1 of its 3 left") as refused:
        ask(ledger, "b", small, cost=2)
    assert refused.value.left == 1
    ask(ledger, "c", slow)
    with pytest.raises(TooFastError, match="1 answers in a minute"):
        ask(ledger, "d", slow)
    clock.turn(seconds=60)
    ask(ledger, "d", slow)
    assert [(use.spent, use.n_answers) for use in ledger.tokens()] == [(2, 1), (2, 2)] or [
        (use.spent, use.n_answers) for use in ledger.tokens()
    ] == [(2, 2), (2, 1)]


@pytest.mark.parametrize("limits", [{"most": 0}, {"per_minute": 0}, {"most": 1.5}, {"scope": "admin"}])
def test_limits_that_cannot_be_kept(ledger, limits):
    with pytest.raises(SettingError):
        ledger.create_token("x", **{"scope": "learner", **limits})
    assert ledger.tokens() == []


def test_a_limit_in_a_minute_does_not_read_the_answers_before():
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    token = tokens.Token(
        id="0123abcd", name="ann", scope="learner", created=now, expires=None, most=None, per_minute=1_000_000
    )
    time, entry = micros(now), asdict(Entry(event=ANSWER, token=token.id))
    lines = [{**entry, "number": k, "time": time - 60_000_000 - k, "digest": ""} for k in range(10_000)]
    engine, steps = create_engine("sqlite://"), []
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(log), lines)
        connection.connection.dbapi_connection.set_progress_handler(lambda: steps.append(100), 100)
        tokens.check_limits(connection, token, cost=1, time=time)
    engine.dispose()
    assert sum(steps) < 1000  # instructions of SQLite; 10,000 lines take more than one each
