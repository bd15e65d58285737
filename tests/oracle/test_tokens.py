"""Tokens: only digests are kept, and what a token may do is counted by the log."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import asdict
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, insert, select

from postshift.exceptions import (
    ExpiredTokenError,
    RevokedTokenError,
    SettingError,
    TokenBudgetError,
    TooFastError,
    UnknownTokenError,
)
from postshift.oracle.ledger_log import ANSWER, LogEntry, micros
from postshift.oracle.ledger_tables import log, metadata, tokens
from postshift.oracle.tokens import Token, check_limits
from tests.oracle.ledgers import ask, create, learner, problems


def stored(ledger):
    with ledger._database.reading() as connection:
        return connection.execute(select(tokens)).all()


class TestSecrets:
    @pytest.mark.parametrize(("scope", "prefix"), [("learner", "psl_"), ("owner", "pso_")])
    def test_a_token_shows_its_scope_and_its_identifier(self, ledger, scope, prefix):
        identifier, secret = ledger.create_token("ann", scope=scope)
        assert secret.startswith(f"{prefix}{identifier}_")
        assert len(secret.rpartition("_" + identifier + "_")[2]) == 43  # 256 bits
        found = ledger.verify(secret)
        assert (found.id, found.name, found.scope) == (identifier, "ann", scope)

    def test_every_token_is_another(self, ledger):
        made = [ledger.create_token("ann", scope="learner") for _ in range(20)]
        assert len({identifier for identifier, _ in made}) == len({secret for _, secret in made}) == 20

    def test_only_its_digest_is_stored(self, sqlite_url, tmp_path):
        with create(sqlite_url, tmp_path) as ledger:
            _, secret = ledger.create_token("ann", scope="learner")
            ask(ledger, "a", ledger.verify(secret).id)
            assert [row.secret for row in stored(ledger)] == [hashlib.sha256(secret.encode()).hexdigest()]
            assert secret not in repr((ledger.tokens(), ledger.lines(), ledger.verify(secret)))
        for file in tmp_path.iterdir():
            assert secret[-43:].encode() not in file.read_bytes(), file.name

    def test_digests_are_compared_in_constant_time_whether_the_token_exists_or_not(self, ledger, monkeypatch):
        """The comparison itself is watched, and still done."""
        compared, compare = [], hmac.compare_digest

        def watched(one, two):
            compared.append((len(one), len(two)))
            return compare(one, two)

        monkeypatch.setattr(hmac, "compare_digest", watched)
        _, secret = ledger.create_token("ann", scope="learner")
        ledger.verify(secret)
        wrong = secret[:-1] + ("A" if secret[-1] != "A" else "B")
        for other in (wrong, secret.replace(secret[4:12], "00000000"), "nonsense"):
            with pytest.raises(UnknownTokenError):
                ledger.verify(other)
        assert compared == [(64, 64), (64, 64), (64, 1), (0, 1)]

    @pytest.mark.parametrize(
        "change",
        [
            lambda secret: secret[:0],
            lambda secret: "-" * len(secret),
            lambda secret: secret[:-1],
            lambda secret: secret + "A",
            lambda secret: secret + "\n",
            lambda secret: f" {secret}",
            lambda secret: secret.upper(),
            lambda secret: secret.replace("psl", "pso"),
            lambda secret: secret[:13] + secret[13:][::-1],
            lambda secret: hashlib.sha256(secret.encode()).hexdigest(),
            lambda secret: secret[4:12],
        ],
    )
    def test_anything_else_is_not_known(self, ledger, change):
        _, secret = ledger.create_token("ann", scope="learner")
        with pytest.raises(UnknownTokenError, match="the token is not known: copy all of it") as refused:
            ledger.verify(change(secret))
        assert secret[-43:] not in str(refused.value)


class TestTime:
    def test_it_ends_at_the_moment_it_expires(self, ledger, clock):
        end = clock.now.replace(year=2025)
        identifier, secret = ledger.create_token("ann", scope="learner", expires=end)
        clock.now = end.replace(second=end.second - 1)
        assert ledger.verify(secret).expires == end
        clock.now = end
        with pytest.raises(ExpiredTokenError, match=f"the token {identifier} expired on 2025-05-06 07:08 UTC: ask"):
            ledger.verify(secret)

    def test_a_token_without_an_end(self, ledger, clock):
        _, secret = ledger.create_token("ann", scope="owner")
        clock.turn(days=36500)
        assert ledger.verify(secret).expires is None

    def test_an_end_that_is_past_or_has_no_time_zone(self, ledger, clock):
        without = datetime(2099, 1, 1)  # noqa: DTZ001 -- what is refused
        for expires in (clock.now, clock.now.replace(year=2000), without):
            with pytest.raises(SettingError, match="expires must be in the future and have a time zone"):
                ledger.create_token("ann", scope="learner", expires=expires)
        assert ledger.tokens() == []

    def test_a_clock_that_is_set_back_does_not_make_it_valid_again(self, ledger, clock):
        _, secret = ledger.create_token("ann", scope="learner", expires=clock.now.replace(month=6))
        _, other = ledger.create_token("bob", scope="learner")
        clock.turn(days=60)
        ask(ledger, "a", ledger.verify(other).id)  # the log has this time now
        clock.turn(days=-60)
        with pytest.raises(ExpiredTokenError):
            ledger.verify(secret)


class TestRevocation:
    def test_it_holds_at_once_and_the_use_stays(self, ledger, clock):
        identifier, secret = ledger.create_token("ann", scope="learner")
        ask(ledger, "a", identifier, cost=3)
        ledger.revoke_token(identifier)
        with pytest.raises(RevokedTokenError, match=f"the token {identifier} was revoked: ask the owner"):
            ledger.verify(secret)
        (use,) = ledger.tokens()
        assert (use.spent, use.n_answers, use.revoked) == (3, 1, clock.now)

    def test_it_happens_once(self, ledger, clock):
        identifier = learner(ledger)
        ledger.revoke_token(identifier)
        first, lines = clock.now, len(ledger.lines())
        clock.turn(hours=1)
        ledger.revoke_token(identifier)
        assert (ledger.tokens()[0].revoked, len(ledger.lines())) == (first, lines)

    def test_other_tokens_stay_valid(self, ledger):
        one, (_, secret) = learner(ledger), ledger.create_token("bob", scope="learner")
        ledger.revoke_token(one)
        assert ledger.verify(secret).name == "bob"

    def test_a_token_that_is_not_known(self, ledger):
        with pytest.raises(UnknownTokenError, match="there is no token 'deadbeef'"):
            ledger.revoke_token("deadbeef")


class TestLimits:
    def test_the_allowance_of_a_token_is_its_own(self, ledger):
        one, two = learner(ledger, most=4), learner(ledger, most=4)
        ask(ledger, "a", one, cost=3)
        with pytest.raises(TokenBudgetError, match=rf"costs 2 and the token {one} has 1 of its 4 left") as refused:
            ask(ledger, "b", one, cost=2)
        assert refused.value.left == 1
        ask(ledger, "b", two, cost=2)
        assert ask(ledger, "b", one, cost=2).cost == 0  # stored answers are free for everybody
        ask(ledger, "c", one, cost=1)
        assert [use.spent for use in sorted(ledger.tokens(), key=lambda use: use.token.id != one)] == [4, 2]
        assert problems(ledger) == ()

    def test_so_many_answers_in_any_minute(self, ledger, clock):
        token = learner(ledger, per_minute=2)
        ask(ledger, "a", token)
        clock.turn(seconds=30)
        ask(ledger, "b", token)
        ask(ledger, "a", token)  # a repeat does not count
        clock.turn(seconds=29)
        with pytest.raises(TooFastError, match="2 answers in a minute: nothing was charged; wait 1 seconds") as refused:
            ask(ledger, "c", token)
        assert refused.value.wait == 1
        clock.turn(seconds=1)
        ask(ledger, "c", token)
        assert ledger.budget().spent == 3

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            ({"most": 0}, "most must be a whole number >= 1"),
            ({"most": 0.5}, "most must be"),
            ({"per_minute": 0}, "per_minute must be a whole number >= 1"),
            ({"scope": "boss"}, "scope must be 'learner' or 'owner'. Got 'boss'"),
        ],
    )
    def test_limits_that_cannot_be_used(self, ledger, limits, message):
        with pytest.raises(SettingError, match=message):
            ledger.create_token("ann", **{"scope": "learner", **limits})
        assert ledger.tokens() == []

    @pytest.mark.parametrize("name", ["", "x" * 501, "two\nlines", "\x1b[2J"])
    def test_names_that_a_terminal_cannot_show(self, ledger, name):
        with pytest.raises(SettingError, match="name must have 1 to 500 printable characters"):
            ledger.create_token(name, scope="learner")


def test_the_use_of_a_token(ledger, clock):
    token = learner(ledger)
    assert (ledger.tokens()[0].spent, ledger.tokens()[0].last_used) == (0, None)
    clock.turn(minutes=5)
    ask(ledger, "a", token, cost=2)
    used = clock.now
    clock.turn(minutes=5)
    ask(ledger, "a", token, cost=2)
    (use,) = ledger.tokens()
    assert (use.spent, use.n_answers, use.last_used, use.revoked) == (2, 1, used, None)


def test_an_identifier_with_the_secret_of_another_token(ledger):
    (_, one), (_, two) = (ledger.create_token("x", scope="learner") for _ in range(2))
    for wrong in (one[:13] + two[13:], two.replace("psl", "pso"), one + "\n"):
        with pytest.raises(UnknownTokenError):
            ledger.verify(wrong)


def test_a_limit_in_a_minute_does_not_read_the_answers_before():
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    token = Token(
        id="0123abcd", name="ann", scope="learner", created=now, expires=None, most=None, per_minute=1_000_000
    )
    time, entry = micros(now), asdict(LogEntry(event=ANSWER, token=token.id))
    lines = [{**entry, "number": k, "time": time - 60_000_000 - k, "digest": ""} for k in range(10_000)]
    engine, steps = create_engine("sqlite://"), []
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(log), lines)
        connection.connection.dbapi_connection.set_progress_handler(lambda: steps.append(100), 100)
        check_limits(connection, token, cost=1, time=time)
    engine.dispose()
    assert sum(steps) < 1000  # instructions of SQLite; 10,000 lines take more than one each
