"""The ledger: charges, repeats, budgets, and what it refuses; the same tests over SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from postshift.exceptions import (
    DamagedLedgerError,
    ExpiredTokenError,
    LedgerError,
    OtherDataError,
    OverBudgetError,
    RevokedTokenError,
    SettingError,
    UnknownTokenError,
)
from postshift.oracle.charges import Answered, Budget
from postshift.oracle.ledger import Ledger
from tests.oracle.ledgers import (
    ABOUT,
    ask,
    charge_of,
    create,
    key_of,
    learner,
    payload_of,
    problems,
    reopen,
    settings,
)


def test_an_answer_is_charged_once_and_free_afterwards(ledger):
    token = learner(ledger)
    assert ledger.stored(key_of("a")) is None
    first = ask(ledger, "a", token, cost=3)
    assert first == Answered(payload=payload_of("a"), cost=3, number=first.number, repeated=False)
    again = ledger.charge(charge_of("a", token, cost=3), b"another answer")
    assert again == replace(first, cost=0, repeated=True) == ledger.stored(key_of("a"))
    assert ledger.budget() == Budget(total=10, spent=3, left=7, n_answers=1)
    assert problems(ledger) == ()


def test_the_whole_budget_can_be_spent_and_no_more(ledger):
    token = learner(ledger)
    ask(ledger, "a", token, cost=6)
    with pytest.raises(OverBudgetError, match=r"this costs 5 and 4 of 10 are left .* nothing was charged") as refused:
        ask(ledger, "b", token, cost=5)
    assert (refused.value.left, refused.value.code) == (4, "over_budget")
    assert ledger.stored(key_of("b")) is None
    assert ask(ledger, "b", token, cost=4).cost == 4
    assert ledger.budget() == Budget(total=10, spent=10, left=0, n_answers=2)
    assert ask(ledger, "a", token, cost=6).repeated


def test_the_owner_can_raise_the_budget(ledger):
    token = learner(ledger)
    ask(ledger, "a", token, cost=10)
    assert ledger.add_budget(5) == Budget(total=15, spent=10, left=5, n_answers=1)
    ask(ledger, "b", token, cost=5)
    assert ledger.lines()[1].text == "the budget was raised by 5 to 15"
    assert problems(ledger) == ()
    for wrong in (0, -1, 1.5, True, 2**62):
        with pytest.raises(SettingError, match=r"amount|the budget"):
            ledger.add_budget(wrong)


def test_the_log_has_every_event_the_newest_first(ledger, clock):
    token, _ = ledger.create_token("Ada", scope="learner")
    clock.turn(seconds=5)
    answered = ask(ledger, "a", token, cost=2)
    ask(ledger, "a", token, cost=2)  # a repeat leaves no line
    ledger.revoke_token(token)
    lines = ledger.lines()
    assert [line.event for line in lines] == ["revoked", "answer", "token", "created"]
    assert [line.number for line in lines] == [4, 3, 2, 1]
    line = lines[1]
    assert (line.number, line.token, line.key, line.kind) == (answered.number, token, key_of("a"), "value")
    assert (line.cost, line.text, line.time) == (2, "query a", clock.now)
    assert [line.number for line in ledger.lines(limit=2)] == [4, 3]
    assert [line.number for line in ledger.lines(limit=2, before=3)] == [2, 1]
    with pytest.raises(SettingError, match="limit"):
        ledger.lines(limit=0)


def test_a_ledger_is_the_same_when_it_is_opened_again(url, tmp_path):
    with create(url, tmp_path) as ledger:
        token = learner(ledger)
        ask(ledger, "a", token, cost=3)
        before = ledger.lines()
    with reopen(url, tmp_path) as ledger:
        assert ledger.lines() == before
        assert ledger.stored(key_of("a")).payload == payload_of("a")
        ask(ledger, "b", token, cost=7)
        assert ledger.budget().left == 0
        assert problems(ledger) == ()


def test_two_servers_share_one_ledger(url, tmp_path):
    with create(url, tmp_path) as one, Ledger.open(url, about=ABOUT, watermark=tmp_path / "other") as two:
        token = learner(one)
        ask(one, "a", token, cost=3)
        assert ask(two, "a", token, cost=3).repeated
        ask(two, "b", token, cost=3)
        assert one.budget() == two.budget() == Budget(total=10, spent=6, left=4, n_answers=2)
        assert problems(one) == problems(two) == ()


@pytest.mark.parametrize("size", [0, 1, 300_000])
def test_answers_of_any_size(ledger, size):
    content = bytes(range(256)) * (size // 256 + 1)
    stored = ledger.charge(charge_of(size, learner(ledger)), content[:size])
    assert ledger.stored(key_of(size)).payload == stored.payload == content[:size]


def test_tokens_are_checked_when_an_answer_is_charged(ledger, clock):
    with pytest.raises(UnknownTokenError, match="there is no token 'deadbeef'"):
        ask(ledger, "a", "deadbeef")
    token = learner(ledger)
    brief = learner(ledger, expires=clock.now.replace(year=2025))
    ledger.revoke_token(token)
    with pytest.raises(RevokedTokenError, match=f"the token {token} was revoked"):
        ask(ledger, "a", token)
    clock.turn(days=366)
    with pytest.raises(ExpiredTokenError, match=f"the token {brief} expired on 2025-05-06 07:08 UTC"):
        ask(ledger, "a", brief)
    assert ledger.budget().spent == 0


def test_other_data(url, tmp_path):
    create(url, tmp_path).close()
    with pytest.raises(OtherDataError, match=r"the ledger of other data or labels \(0123456789abcdef") as refused:
        reopen(url, tmp_path, about="feed" * 16)
    assert refused.value.code == "other_data"


def test_one_ledger_in_one_place(url, tmp_path):
    create(url, tmp_path).close()
    with pytest.raises(LedgerError, match="gave out 0 answers: open that ledger"):
        create(url, tmp_path)
    with pytest.raises(LedgerError, match="holds a ledger: open it"):
        Ledger.create(url, about=ABOUT, budget=10)
    with reopen(url, tmp_path) as ledger:
        assert ledger.budget().total == 10


def test_a_new_ledger_beside_the_watermark_of_another(url, tmp_path):
    with create(f"sqlite:///{tmp_path / 'first.db'}", tmp_path) as ledger:
        ask(ledger, "a", learner(ledger))
    with pytest.raises(LedgerError, match="gave out 1 answers: open that ledger"):
        create(url, tmp_path)


def test_a_database_without_a_ledger(url, tmp_path):
    if url.startswith("sqlite"):
        with pytest.raises(LedgerError, match="there is no ledger"):
            reopen(url, tmp_path)
        (tmp_path / "ledger.db").touch()
    with pytest.raises(DamagedLedgerError, match="is not a ledger"):
        reopen(url, tmp_path)


def test_a_ledger_without_a_watermark(url):
    with Ledger.create(url, about=ABOUT, budget=2) as ledger:
        ask(ledger, "a", learner(ledger))
    with Ledger.open(url, about=ABOUT) as ledger:
        assert ledger.budget().left == 1


def test_an_ordinary_ledger_has_nothing_to_accept(url, tmp_path):
    with create(url, tmp_path) as ledger:
        ask(ledger, "a", learner(ledger))
        before = ledger.lines()
    with Ledger.accept_restored(url, **settings(tmp_path)) as ledger:
        assert ledger.lines() == before


@pytest.mark.parametrize("budget", [-1, 0.5, True, 2**62 + 1])
def test_a_budget_that_cannot_be_used(sqlite_url, tmp_path, budget):
    with pytest.raises(SettingError, match="budget"):
        create(sqlite_url, tmp_path, budget=budget)


@pytest.mark.parametrize("about", ["", "a\0b", "x" * 501])
def test_data_without_a_usable_digest(sqlite_url, tmp_path, about):
    with pytest.raises(SettingError, match="about must have 1 to 500 printable characters"):
        create(sqlite_url, tmp_path, about=about)
