"""The gate: limits of requests, wrong tokens, and secrets that are shown nowhere."""

from __future__ import annotations

import logging
import re

import pytest

from postshift.oracle.gate import MINUTE, Meter
from tests.oracle.servers import code_of, make_service, serving, value_body


class Seconds:
    """A clock that stands still until it is turned."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class TestMeter:
    def test_a_minute_has_as_many_events_as_are_allowed(self):
        clock = Seconds()
        meter = Meter(clock)
        for _ in range(3):
            assert meter.wait("a", 3) == 0
            meter.count("a")
            clock.now += 10
        assert meter.wait("a", 3) == MINUTE - 30
        assert meter.wait("a", 4) == 0 == meter.wait("b", 3)
        clock.now += MINUTE - 30
        assert meter.wait("a", 3) == 0
        meter.count("a")
        assert meter.wait("a", 1) == MINUTE

    def test_memory_is_bounded(self):
        clock = Seconds()
        meter = Meter(clock)
        for place in range(25_000):
            meter.count(str(place))
        assert len(meter._counts) <= 10_000
        clock.now += MINUTE
        for place in range(25_000, 36_000):
            meter.count(str(place))
        assert len(meter._counts) <= 10_000
        assert meter.wait("35999", 1) > 0


@pytest.fixture
def limited(sqlite_url, tmp_path):
    """A service that takes 10 requests of a token, and 5 wrong tokens, in a minute."""
    with serving(make_service(sqlite_url, tmp_path), requests=10, failures=5) as running:
        yield running


class TestRequests:
    def test_repeats_and_quotes_are_limited_too(self, limited):
        secret = limited.service.ledger.create_token("quick", scope="learner", per_minute=1)[1]
        with limited.client(secret) as client:
            found = [client.post("/v1/answers", json=value_body(0)) for _ in range(5)]
            found += [client.post("/v1/quote", json=value_body(0)) for _ in range(5)]
            assert [each.status_code for each in found] == [200] * 10
            refused = client.get("/v1/about")
        assert (refused.status_code, code_of(refused)) == (429, "too_fast")
        assert "10 requests in a minute: wait" in refused.json()["error"]["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= MINUTE
        with limited.client() as client:
            assert client.get("/v1/about").status_code == 200  # other tokens have limits of their own

    def test_a_token_with_more_answers_has_more_requests(self, limited):
        secret = limited.service.ledger.create_token("quick", scope="learner", per_minute=4)[1]
        with limited.client(secret) as client:
            found = [client.get("/v1/about").status_code for _ in range(21)]
        assert found == [200] * 20 + [429]

    def test_a_token_without_a_limit_has_none(self, limited):
        with limited.client("owner") as client:
            assert {client.get("/v1/owner/summary").status_code for _ in range(30)} == {200}


class TestFailures:
    def test_guessing_is_limited(self, limited):
        known = limited.tokens["learner"]
        with limited.client() as client:
            assert client.get("/v1/about").status_code == 200
        with limited.client(known[:-1] + ("A" if known[-1] != "A" else "B")) as client:
            found = [client.get("/v1/about") for _ in range(7)]
        assert [code_of(each) for each in found] == ["unknown_token"] * 5 + ["too_fast"] * 2
        assert "5 requests from this address had no valid token" in found[-1].text
        for name in ("learner", "owner"):  # whoever shares the address with the one who guesses
            with limited.client(name) as client:
                assert client.get("/v1/about").status_code == 200

    def test_a_revoked_token_is_a_failure(self, limited):
        identifier, secret = limited.service.ledger.create_token("brief", scope="learner")
        with limited.client(secret) as client:
            assert client.get("/v1/about").status_code == 200
            limited.service.ledger.revoke_token(identifier)
            found = [code_of(client.get("/v1/about")) for _ in range(6)]
        assert found == ["revoked_token"] * 5 + ["too_fast"]

    def test_no_token_is_not_a_guess(self, limited):
        with limited.client(None) as client:
            assert {code_of(client.get("/v1/about")) for _ in range(8)} == {"no_token"}


class TestSecrets:
    def test_no_token_is_in_the_files_the_log_or_the_answers(self, served, tmp_path, caplog, capfd):
        """Neither those that are valid, nor those that somebody tries."""
        ledger = served.service.ledger
        revoked_id, revoked = ledger.create_token("revoked", scope="learner")
        ledger.revoke_token(revoked_id)
        tried = "psl_00000000_" + "Z" * 43
        secrets = [*served.tokens.values(), revoked, tried]
        shown = []
        with caplog.at_level(logging.DEBUG):
            for secret in secrets:
                with served.client(secret) as client:
                    paths = ("/v1/about", "/v1/rows", "/v1/owner/summary", "/v1/owner/log", "/nowhere")
                    shown += [client.get(path).text for path in paths]
                    bodies = (value_body(0), value_body(0), {}, [secret[:5]])
                    shown += [client.post("/v1/answers", json=body).text for body in bodies]
            ours = [each.getMessage() for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))]
        shown += [*ours, *capfd.readouterr(), repr(ledger.tokens()), repr(ledger.lines()), repr(ledger.audit())]
        stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert len(stored) >= 1
        for secret in secrets:
            random = re.fullmatch(r"ps[lo]_[0-9a-f]{8}_(.{43})", secret)[1]
            assert not [text for text in shown if random in text]
            assert not [content for content in stored if random.encode() in content]

    def test_tokens_of_no_form_are_not_echoed(self, served):
        with served.client("a secret of another service") as client:
            found = client.get("/v1/about")
        assert code_of(found) == "unknown_token"
        assert "secret of" not in found.text
        assert served.service.ledger.tokens()
