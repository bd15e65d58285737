"""A body that comes again is answered from memory: with the answer of the ledger, to valid tokens only."""

from __future__ import annotations

import json

import pytest

from postshift.oracle.repeats import Repeats
from tests.oracle.servers import EVERY_KIND, code_of, make_service, serving, table_body, value_body


class TestRepeats:
    def test_the_oldest_answers_are_forgotten(self):
        repeats = Repeats(most=4000)
        for number in range(100):
            repeats.keep(b"%d" % number, bytes(700))
            repeats.find(b"0")  # so that it is never the oldest
        assert [number for number in range(100) if repeats.find(b"%d" % number)] == [0, 97, 98, 99]

    def test_an_answer_that_is_kept_again_counts_once(self):
        repeats = Repeats(most=4000)
        repeats.keep(b"first", bytes(700))
        for _ in range(100):
            repeats.keep(b"second", bytes(700))
        assert repeats.find(b"first") == repeats.find(b"second") == bytes(700)

    def test_what_is_too_large_is_not_kept(self):
        repeats = Repeats(most=4000)
        repeats.keep(b"large", bytes(4001))
        assert repeats.find(b"large") is None


@pytest.fixture(params=["trusted", "private"])
def served(request, sqlite_url, tmp_path):
    service = make_service(sqlite_url, tmp_path, mode=request.param, kinds=EVERY_KIND, budget=10**5)
    with serving(service) as running:
        yield running


def send(client, body, **how):
    found = client.post("/v1/answers", content=body, headers={"Content-Type": "application/json"}, **how)
    return found.json() if found.is_success else code_of(found)


@pytest.mark.parametrize("body_of", [table_body, value_body])
def test_the_same_body_gets_the_same_answer(served, body_of):
    body = json.dumps(body_of(0)).encode()
    with served.client() as learner, served.client("owner") as owner:
        first = send(learner, body)
        spent = served.spent()
        read = served.service.ledger.stored
        served.service.ledger.stored = None  # from here on, an answer can come from memory only
        for client in (learner, owner):
            again = send(client, body)
            assert (again["repeated"], again["cost"], again["number"]) == (True, 0, first["number"])
            assert again["answer"] == first["answer"]
        served.service.ledger.stored = read
        other_words = send(learner, body.replace(b": ", b":   "))
        assert (other_words["repeated"], other_words["answer"]) == (True, first["answer"])
        assert served.spent() == spent


def test_a_body_in_parts_is_recognised(served):
    body = json.dumps(value_body(0)).encode()
    with served.client() as learner:
        first = send(learner, body)
        parts = iter([body[:10], body[10:]])
        assert send(learner, parts)["answer"] == first["answer"]


def test_the_token_is_checked_first(served):
    body = json.dumps(value_body(0)).encode()
    ledger = served.service.ledger
    identifier, secret = ledger.create_token("ann", scope="learner")
    with served.client(secret) as ann, served.client(None) as nobody:
        assert not send(ann, body)["repeated"]
        assert send(ann, body)["repeated"]
        assert send(nobody, body) == "no_token"
        ledger.revoke_token(identifier)
        assert send(ann, body) == "revoked_token"


def test_refusals_are_not_kept(served):
    body = json.dumps(value_body(0, n_rows=61)).encode()
    with served.client() as learner:
        assert [send(learner, body) for _ in range(2)] == ["wrong_length"] * 2
