"""The audit finds what was changed behind the back of the ledger."""

from __future__ import annotations

import re

import pytest

from postshift.exceptions import DamagedLedgerError, LedgerError
from tests.oracle.ledgers import ask, create, key_of, learner, problems, reopen
from tests.oracle.trouble import behind_its_back


@pytest.fixture
def filled(url, tmp_path):
    """The address of a ledger, and a learner's token: the log has two tokens, then the answers 4, 5 and 6."""
    with create(url, tmp_path) as ledger:
        token = learner(ledger)
        learner(ledger, most=5)
        for query in "abc":
            ask(ledger, query, token, cost=2)
        assert problems(ledger) == ()
    return url, token


TAMPERING = {
    "a changed payload": ("UPDATE postshift_answers SET payload = '\\x41' WHERE number = 5", "not what was given out"),
    "a removed answer": ("DELETE FROM postshift_answers WHERE number = 5", "charged and not stored"),
    "an added answer": (
        "INSERT INTO postshift_answers (key, number, payload) VALUES ('ffff', 99, '\\x41')",
        "1 answers are stored that the log does not charge",
    ),
    "an answer of another query": (
        "UPDATE postshift_answers SET key = 'eeee' WHERE number = 5",
        "stored for another query",
    ),
    "a removed line": ("DELETE FROM postshift_log WHERE number = 5", "the lines between are missing"),
    "a removed charge with its answer": (
        "DELETE FROM postshift_answers WHERE number = 5; DELETE FROM postshift_log WHERE number = 5",
        "the lines between are missing",
    ),
    "a removed last line": ("DELETE FROM postshift_log WHERE number = 6", "the account has number = 6, the log 5"),
    "a changed charge": ("UPDATE postshift_log SET cost = 1 WHERE number = 5", "line 5 of the log: it was changed"),
    "a changed charge and account": (
        "UPDATE postshift_log SET cost = 1 WHERE number = 5; UPDATE postshift_account SET spent = 5",
        "line 5 of the log: it was changed",
    ),
    "a changed time": ("UPDATE postshift_log SET time = time + 1 WHERE number = 5", "it was changed"),
    "a changed text": ("UPDATE postshift_log SET text = 'x' WHERE number = 5", "it was changed"),
    "a charge to another token": ("UPDATE postshift_log SET token = 'nobody' WHERE number = 5", "no token 'nobody'"),
    "a larger budget": ("UPDATE postshift_account SET total = 1000", "the account has total = 1000, the log 10"),
    "less that is spent": ("UPDATE postshift_account SET spent = 0", "the account has spent = 0, the log 6"),
    "fewer answers": ("UPDATE postshift_account SET n_answers = 1", "the account has n_answers = 1, the log 3"),
    "a changed digest": ("UPDATE postshift_account SET digest = 'x'", "the account has digest = x"),
    "an added token": (
        "INSERT INTO postshift_tokens (id, name, scope, secret, created) VALUES ('deadbeef', 'x', 'owner', 'y', 1)",
        "the token deadbeef was changed, or not created by postshift",
    ),
    "a token with another secret": (
        "UPDATE postshift_tokens SET secret = 'x' WHERE most = 5",
        "was changed, or not created",
    ),
    "a token with a larger limit": (
        "UPDATE postshift_tokens SET most = 9 WHERE most = 5",
        "was changed, or not created",
    ),
    "a token with another scope": ("UPDATE postshift_tokens SET scope = 'owner'", "was changed, or not created"),
    "a removed token": ("DELETE FROM postshift_tokens WHERE most = 5", "of the log is not stored"),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_found(filled, tmp_path, name):
    (url, _), (statements, words) = filled, TAMPERING[name]
    with reopen(url, tmp_path) as ledger:
        behind_its_back(url, statements)
        assert any(words in each for each in problems(ledger)), problems(ledger)


@pytest.mark.parametrize("name", TAMPERING)
def test_the_triggers_refuse_it(filled, name):
    """Nobody changes a row by mistake. Only a row that is added is not refused."""
    (url, _), (statements, _) = filled, TAMPERING[name]
    if "INSERT" in statements or name == "a larger budget":
        return
    with pytest.raises(Exception, match="never changed"):
        behind_its_back(url, statements, triggers=True)


def test_a_changed_answer_is_not_given_out(filled, tmp_path):
    url, token = filled
    with reopen(url, tmp_path) as ledger:
        behind_its_back(url, TAMPERING["a changed payload"][0])
        with pytest.raises(DamagedLedgerError, match="answer 5 was changed after it was given out"):
            ask(ledger, "b", token, cost=2)
        assert ask(ledger, "a", token, cost=2).repeated
        assert ledger.budget().spent == 6


@pytest.mark.parametrize("name", ["a removed last line", "a changed digest"])
def test_a_log_without_its_end_is_not_opened(filled, tmp_path, name):
    behind_its_back(filled[0], TAMPERING[name][0])
    with pytest.raises(LedgerError, match=r"does not end where its account says|older copy"):
        reopen(filled[0], tmp_path)


def test_a_rewritten_history_does_not_have_the_line_of_the_watermark(url, tmp_path):
    """Somebody who can calculate digests writes a whole new log: the watermark has another one."""
    with create(url, tmp_path) as ledger:
        ask(ledger, "a", learner(ledger))
        mark = (tmp_path / "watermark").read_text()
        digest = re.search(r'"digest": "(\w+)"', mark)[1]
        (tmp_path / "watermark").write_text(mark.replace(digest, key_of("another history")))
        with pytest.raises(LedgerError, match="restored copy that has lines of its own"):
            reopen(url, tmp_path)


def test_many_problems_are_not_all_shown(url, tmp_path):
    with create(url, tmp_path, budget=1000) as ledger:
        token = learner(ledger)
        for query in range(150):
            ask(ledger, query, token)
        behind_its_back(url, "UPDATE postshift_answers SET payload = '\\x41'")
        found = problems(ledger)
    assert len(found) == 101
    assert found[-1] == "and 50 more problems"


def test_an_audit_counts(filled, tmp_path):
    with reopen(filled[0], tmp_path) as ledger:
        found = ledger.audit()
    assert (found.n_lines, found.n_answers, found.total, found.spent, found.problems) == (6, 3, 10, 6, ())


def test_an_audit_of_a_database_that_cannot_be_read_is_a_problem(filled, tmp_path):
    with reopen(filled[0], tmp_path) as ledger:
        behind_its_back(filled[0], "DELETE FROM postshift_account")
        assert ledger.audit().problems == ("the ledger has no account: restore the newest copy of it",)
