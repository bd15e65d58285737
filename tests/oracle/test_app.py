"""Every bad request over a real socket is refused with a code of its own, is not charged, and tells nothing."""

from __future__ import annotations

import json
import re
import socket
import time
from datetime import timedelta

import httpx
import numpy as np
import pytest

from postshift.metrics import from_labels
from postshift.oracle import app as described
from postshift.oracle.answers import MOST_COLUMNS
from postshift.oracle.app import largest_body_of
from postshift.oracle.refusals import STATUS
from postshift.oracle.wire import encoded
from tests.oracle.ledgers import create
from tests.oracle.owned import holdings
from tests.oracle.servers import code_of, make_service, serving, table_body, value_body

LABELS = encoded(np.zeros(60, int), "u1")
DISTRIBUTIONS = np.full((60, 2), 0.5)
COLUMNS = np.ones((60, 1))


def wrong(array, value):
    """Return a copy of an array with one other number."""
    changed = np.array(array, dtype=float)
    changed.flat[3] = value
    return encoded(changed, "f8")


def value(**fields):
    return {"kind": "value", "cost": 1, "predictions": {**LABELS, **fields}}


def confusion(columns):
    return {"kind": "confusion", "cost": 1, "predictions": LABELS, "columns": encoded(columns, "f8")}


def ids(*, n_rows=60, **changes):
    names = [f"row{place}" for place in range(n_rows)]
    for place, name in changes.items():
        names[int(place.removeprefix("at"))] = name
    return {**value(), "ids": names}


BAD_QUERIES = {
    "a field is missing": ({"kind": "value", "predictions": LABELS}, "invalid_body"),
    "an unknown field": ({**value(), "more": 1}, "invalid_body"),
    "not an object": ([1, 2], "invalid_body"),
    "a part of an array is missing": ({"kind": "value", "cost": 1, "predictions": {"dtype": "u1"}}, "invalid_body"),
    "data are a number": (value(data=3), "invalid_body"),
    "ids are numbers": ({**value(), "ids": list(range(60))}, "invalid_body"),
    "an unknown kind": ({**value(), "kind": "labels"}, "unknown_kind"),
    "a negative cost": ({**value(), "cost": -1}, "bad_cost"),
    "a cost of 0": ({**value(), "cost": 0}, "bad_cost"),
    "a cost of 2 in trusted mode": ({**value(), "cost": 2}, "bad_cost"),
    "a cost with a fraction": ({**value(), "cost": 1.5}, "bad_cost"),
    "a cost as text": ({**value(), "cost": "1"}, "bad_cost"),
    "a cost that is true": ({**value(), "cost": True}, "bad_cost"),
    "a huge cost": ({**value(), "cost": 10**400}, "bad_cost"),
    "an unknown dtype": (value(dtype="O"), "bad_dtype"),
    "bytes for more rows": (value(shape=[61]), "bad_shape"),
    "a negative length": (value(shape=[-60]), "bad_shape"),
    "two negative lengths": (value(shape=[-6, -10]), "bad_shape"),
    "a shape whose product overflows": (value(shape=[2**31, 2**31, 4]), "bad_shape"),
    "a length above the largest": (value(shape=[2**64]), "bad_shape"),
    "nothing of a huge shape": (value(shape=[0, 2**31, 2**31], data="", dtype="f8"), "bad_shape"),
    "too many axes": (value(shape=[1] * 100), "bad_shape"),
    "data are not base64": (value(data="?" * 80), "bad_base64"),
    "base64 of the wrong length": (value(data="A"), "bad_base64"),
    "no arrays": ({"kind": "value", "cost": 1}, "wrong_arrays"),
    "an array too many": ({**value(), "cells": LABELS}, "wrong_arrays"),
    "a row too few": (value_body(0, n_rows=59), "wrong_length"),
    "no rows": (value(shape=[0], data=""), "wrong_length"),
    "no axes": (value(shape=[], data="AA=="), "wrong_length"),
    "an id too few": (ids(n_rows=59), "wrong_length"),
    "no ids": ({**value(), "ids": []}, "wrong_length"),
    "an unknown row": (ids(at5="row60"), "unknown_row"),
    "a row twice": (ids(at5="row6"), "repeated_row"),
    "NaN in predictions": ({"kind": "value", "cost": 1, "predictions": wrong(DISTRIBUTIONS, np.nan)}, "not_finite"),
    "infinite predictions": ({"kind": "value", "cost": 1, "predictions": wrong(DISTRIBUTIONS, np.inf)}, "not_finite"),
    "NaN in columns": ({**confusion(COLUMNS), "columns": wrong(COLUMNS, np.nan)}, "not_finite"),
    "cells below 0": ({"kind": "table", "cost": 1, "cells": encoded(np.full(60, -1), "i8")}, "bad_cells"),
    "cells that are floats": ({"kind": "table", "cost": 1, "cells": encoded(np.zeros(60), "f8")}, "bad_cells"),
    "the largest cell": (
        {"kind": "table", "cost": 1, "cells": encoded(np.full(60, 2**63 - 1), "i8")},
        "too_many_cells",
    ),
    "many cells": (table_body(0, n_cells=250, cells=encoded(np.full(60, 6000), "u2")), "too_many_cells"),
    "a label that is no class": (value_body(0, n_classes=3), "bad_labels"),
    "labels that are floats": ({"kind": "value", "cost": 1, "predictions": encoded(np.zeros(60), "f8")}, "bad_labels"),
    "negative probabilities": (
        {"kind": "value", "cost": 1, "predictions": encoded(np.tile([1.5, -0.5], (60, 1)), "f8")},
        "bad_distributions",
    ),
    "huge probabilities": (
        {"kind": "value", "cost": 1, "predictions": wrong(DISTRIBUTIONS, 1.7e308)},
        "bad_distributions",
    ),
    "a class too many": (
        {"kind": "value", "cost": 1, "predictions": encoded(np.full((60, 3), 1 / 3), "f8")},
        "bad_distributions",
    ),
    "columns without ones": (confusion(np.zeros((60, 2))), "bad_columns"),
    "no columns": (confusion(np.zeros((60, 0))), "bad_columns"),
}
BAD_BODIES = {
    "no body": (b"", "invalid_body"),
    "not JSON": (b"{kind: value}", "not_json"),
    "half of it": (json.dumps(value()).encode()[:-9], "not_json"),
    "not UTF-8": (b'{"kind": "\xff\xfe"}', "not_json"),
    "deeply nested": (b"[" * 500_000, "not_json"),
    "deeply nested and closed": (b'{"kind": ' + b"[" * 900 + b"]" * 900 + b"}", "unknown_kind"),
    "NaN": (json.dumps({**value(), "cost": float("nan")}).encode(), "bad_cost"),
    "infinity": (json.dumps({**value(), "cost": float("inf")}).encode(), "bad_cost"),
    "a number of a million digits": (b'{"kind": "value", "cost": ' + b"9" * 1_000_000 + b"}", "not_json"),
    "half a character": (b'{"kind": "value", "cost": 1, "\\ud800": 1}', "invalid_body"),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for all requests that change nothing; on SQLite, because they do not reach the ledger."""
    folder = tmp_path_factory.mktemp("service")
    with serving(make_service(f"sqlite:///{folder / 'ledger.db'}", folder)) as running:
        yield running


@pytest.fixture
def lines(service):
    """The log does not change during a test."""
    before = service.service.ledger.lines()
    yield
    assert service.service.ledger.lines() == before


def check(response, code):
    """Check a refusal: its code, its status, and its headers."""
    assert (code_of(response), response.status_code) == (code, STATUS[code]), response.text
    assert 400 <= response.status_code < 500
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert not [name for name in response.headers if name.startswith("access-control")]
    assert ("retry-after" in response.headers) == (response.status_code == 429)
    assert ("www-authenticate" in response.headers) == (response.status_code == 401)


@pytest.mark.usefixtures("lines")
class TestBadQueries:
    @pytest.mark.parametrize("path", ["/v1/answers", "/v1/quote"])
    @pytest.mark.parametrize("name", BAD_QUERIES)
    def test_it_is_refused_with_its_code(self, service, name, path):
        body, code = BAD_QUERIES[name]
        with service.client() as client:
            check(client.post(path, json=body), code)

    @pytest.mark.parametrize("name", BAD_BODIES)
    def test_a_body_that_is_no_query(self, service, name):
        content, code = BAD_BODIES[name]
        with service.client() as client:
            check(client.post("/v1/answers", content=content, headers={"Content-Type": "application/json"}), code)

    @pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
    def test_another_content_type(self, service, kind):
        given = {} if kind is None else {"Content-Type": kind}
        with service.client() as client:
            check(client.post("/v1/answers", content=json.dumps(value()), headers=given), "wrong_content_type")

    def test_other_paths_and_methods(self, service):
        with service.client("owner") as client:
            for path in ("/v1/labels", "/v1", "/v2/about", "/v1/about/", "/docs", "/v1/owner", "/%2e%2e/owner.json"):
                check(client.get(path), "not_found")
            for method, path in (("PUT", "/v1/answers"), ("GET", "/v1/answers"), ("DELETE", "/v1/owner/log")):
                found = client.request(method, path)
                check(found, "method_not_allowed")
                assert found.headers["allow"]
            for query in ("limit=0", "limit=1001", "limit=x", "before=-1", f"before={2**70}", "limit=NaN"):
                check(client.get(f"/v1/owner/log?{query}"), "invalid_parameter")

    def test_a_learner_is_no_owner(self, service):
        with service.client() as client:
            for path in ("/v1/owner/summary", "/v1/owner/log"):
                check(client.get(path), "wrong_scope")


def test_refusals_depend_on_the_query_and_not_on_labels_or_groups(tmp_path):
    """Two services whose labels and groups differ in every row refuse in the same words."""
    texts = []
    for name, seed in (("one", 0), ("two", 1)):
        held, folder = holdings(seed=seed), tmp_path / name
        folder.mkdir()
        with serving(make_service(f"sqlite:///{folder / 'ledger.db'}", folder, held=held)) as running:
            with running.client() as client:
                found = [client.post("/v1/answers", json=body) for body, _ in BAD_QUERIES.values()]
            texts.append([(each.status_code, each.text, dict(each.headers) | {"date": ""}) for each in found])
    assert texts[0] == texts[1]


class TestTokens:
    def asked(self, served, token, code):
        """Check that a token is refused, wherever it is sent."""
        before = served.service.ledger.lines()
        with served.client(token) as client:
            check(client.get("/v1/about"), code)
            check(client.get("/v1/rows"), code)
            check(client.post("/v1/answers", json=value_body(0)), code)
            check(client.get("/v1/owner/summary"), code)
        assert served.service.ledger.lines() == before

    def test_no_token(self, served):
        self.asked(served, None, "no_token")
        with served.client(None) as client:
            for header in ("Basic YTpi", "Bearer", served.tokens["learner"], ""):
                check(client.get("/v1/about", headers={"Authorization": header}), "no_token")
            check(client.get("/v1/about", params={"token": served.tokens["learner"]}), "no_token")
            check(client.get("/v1/about", headers={"Cookie": f"token={served.tokens['learner']}"}), "no_token")

    def test_an_unknown_token(self, served):
        known = served.tokens["learner"]
        for token in (
            known[:-1],
            known[:-1] + "!",
            known + "A",
            known.replace("psl", "pso"),
            "x" * 5000,
            "' OR 1=1 --",
        ):
            self.asked(served, token, "unknown_token")

    def test_a_token_of_another_ledger(self, served, tmp_path):
        folder = tmp_path / "another"
        folder.mkdir()
        with create(f"sqlite:///{folder / 'ledger.db'}", folder) as ledger:
            foreign = ledger.create_token("learner", scope="learner")[1]
        self.asked(served, foreign, "unknown_token")

    def test_an_expired_token(self, served, clock):
        brief = served.service.ledger.create_token("brief", scope="learner", expires=clock.now + timedelta(hours=1))[1]
        with served.client(brief) as client:
            assert client.get("/v1/about").status_code == 200
            clock.turn(hours=1)
            self.asked(served, brief, "expired_token")

    def test_a_revoked_token(self, served):
        identifier, secret = served.service.ledger.create_token("brief", scope="owner")
        with served.client(secret) as client:
            assert client.get("/v1/owner/summary").status_code == 200
            served.service.ledger.revoke_token(identifier)
            self.asked(served, secret, "revoked_token")


class TestBudgets:
    def test_over_the_budget(self, served):
        with served.client() as client:
            for seed in range(100):
                assert client.post("/v1/answers", json=value_body(seed)).status_code == 200
            check(client.post("/v1/answers", json=value_body(100)), "over_budget")
            assert client.post("/v1/answers", json=value_body(5)).json()["repeated"]
            assert client.post("/v1/quote", json=value_body(100)).json()["affordable"] is False
        assert served.spent() == 100
        assert served.service.ledger.audit().problems == ()

    def test_over_the_budget_of_the_token(self, served):
        small = served.service.ledger.create_token("small", scope="learner", most=2)[1]
        with served.client(small) as client:
            assert client.get("/v1/about").json()["allowance"] == 2
            for seed in range(2):
                assert client.post("/v1/answers", json=value_body(seed)).status_code == 200
            check(client.post("/v1/answers", json=value_body(2)), "token_budget")
            assert client.post("/v1/answers", json=value_body(1)).json()["repeated"]
        assert served.spent() == 2

    def test_too_fast(self, served, clock):
        slow = served.service.ledger.create_token("slow", scope="learner", per_minute=2)[1]
        with served.client(slow) as client:
            for seed in range(2):
                clock.turn(seconds=5)
                assert client.post("/v1/answers", json=value_body(seed)).status_code == 200
            refused = client.post("/v1/answers", json=value_body(2))
            check(refused, "too_fast")
            assert refused.headers["retry-after"] == "55"
            assert client.post("/v1/answers", json=value_body(1)).json()["repeated"]
            clock.turn(seconds=55)
            assert client.post("/v1/answers", json=value_body(2)).status_code == 200
        assert served.spent() == 3

    def test_a_kind_that_the_owner_does_not_allow(self, url, tmp_path):
        with serving(make_service(url, tmp_path, kinds=("value",))) as running, running.client() as client:
            for path in ("/v1/answers", "/v1/quote"):
                check(client.post(path, json=table_body(0)), "kind_not_allowed")
            assert running.spent() == 0

    def test_more_rho_than_there_is(self, served_in_private):
        with served_in_private.client() as client:
            check(client.post("/v1/answers", json=value_body(0, cost=100_001)), "over_budget")
            check(client.post("/v1/answers", json=value_body(0, cost=10**13)), "bad_cost")
        assert served_in_private.spent() == 0


class TestRepeats:
    def test_the_same_query_in_other_words_is_free(self, served):
        """Other widths, another order of the rows, and the order that is given."""
        labels = np.random.default_rng(0).integers(0, 2, 60)
        order = np.random.default_rng(1).permutation(60)
        bodies = [
            value_body(0),
            {"kind": "value", "cost": 1, "predictions": encoded(labels, "i8")},
            {**value_body(0), "ids": [f"row{place}" for place in range(60)]},
            {**value_body(0), "predictions": encoded(labels[order], "u2"), "ids": [f"row{place}" for place in order]},
        ]
        with served.client() as client:
            found = [client.post("/v1/answers", json=body).json() for body in bodies]
        assert [each["cost"] for each in found] == [1, 0, 0, 0]
        assert [each["repeated"] for each in found] == [False, True, True, True]
        assert len({json.dumps(each["answer"]) for each in found}) == len({each["number"] for each in found}) == 1

    def test_noise_is_drawn_once(self, served_in_private):
        with served_in_private.client() as client, served_in_private.client("owner") as other:
            answers = [each.post("/v1/answers", json=table_body(0)).json() for each in (client, other, client)]
            quoted = client.post("/v1/quote", json=table_body(0)).json()
        assert [each["cost"] for each in answers] == [1, 0, 0]
        assert answers[0]["answer"] == answers[1]["answer"] == answers[2]["answer"]
        assert (quoted["cost"], quoted["repeated"]) == (0, True)

    def test_a_quote_says_what_the_answer_costs_and_charges_nothing(self, served_in_private):
        with served_in_private.client() as client:
            quoted = client.post("/v1/quote", json=table_body(0, cost=500)).json()
            assert (quoted["cost"], quoted["left"], quoted["affordable"]) == (500, 100_000, True)
            assert served_in_private.spent() == 0
            assert client.post("/v1/answers", json=table_body(0, cost=500)).json()["cost"] == 500


class TestMetricsThatFail:
    @pytest.mark.parametrize("how", ["raises", "returns text", "overflows", "exits"])
    def test_it_is_an_answer_of_nan_that_is_charged(self, tmp_path, how):
        """An error would be free, and would tell about labels."""

        def failing(y_true, y_pred):
            if how == "exits":
                raise SystemExit(f"the first label is {y_true[0]}")
            if how == "raises":
                raise ValueError(f"the first label is {y_true[0]}, predicted {y_pred[0]}")
            return f"{y_true[0]}?" if how == "returns text" else np.float64(1e308) * 10 - np.float64(1e308) * 10

        held = holdings(metric=from_labels(failing), groups=None, group_names=())
        service = make_service(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path, kinds=("value",), held=held)
        with serving(service) as running, running.client() as client:
            found = client.post("/v1/answers", json=value_body(0))
            assert found.status_code == 200
            assert found.json()["answer"] == encoded(np.nan, "f8")
            assert client.post("/v1/answers", json=value_body(0)).json()["repeated"]
            assert running.spent() == 1


# -- large bodies, in pieces --------------------------------------------------------------------------------


def sent(served, head, pieces, *, limit=None):
    """Send a request in pieces until the server answers or closes; return the bytes sent, and the response."""
    port = int(served.url.rpartition(":")[2])
    n_sent, received = 0, b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as place:
        place.sendall(head)
        try:
            for piece in pieces:
                place.sendall(piece)
                n_sent += len(piece)
                assert limit is None or n_sent <= limit, "the server reads on"
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            while part := place.recv(65536):
                received += part
        except ConnectionResetError:
            pass
    return n_sent, received.decode()


def head(token, *lines):
    words = ["POST /v1/answers HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines]
    if token is not None:
        words.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*words, "", ""]).encode()


GIGABYTE = 1 << 30
PIECE = b" " * 65536
CHUNK = b"10000\r\n" + PIECE + b"\r\n"
IN_FLIGHT = 32 << 20  # what the buffers of the two sockets and of the server hold at most


class TestLargeBodies:
    @pytest.mark.usefixtures("lines")
    def test_a_gigabyte_that_is_declared_is_not_read(self, service):
        pieces = (PIECE for _ in range(GIGABYTE // len(PIECE)))
        n_sent, found = sent(
            service, head(service.tokens["learner"], f"Content-Length: {GIGABYTE}"), pieces, limit=IN_FLIGHT
        )
        assert n_sent < IN_FLIGHT
        assert found.startswith("HTTP/1.1 413")
        assert '"body_too_large"' in found

    def test_a_gigabyte_in_chunks_is_cut_off(self, tmp_path):
        """The limit is lower here, and what is read before it is refused is close to it."""
        most = 4 << 20
        service = make_service(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
        with serving(service, largest_body=most) as running:
            pieces = (CHUNK for _ in range(GIGABYTE // len(PIECE)))
            start = head(running.tokens["learner"], "Transfer-Encoding: chunked")
            n_sent, found = sent(running, start, pieces, limit=most + IN_FLIGHT)
            assert most <= n_sent < most + IN_FLIGHT
            assert running.spent() == 0
        assert found.startswith("HTTP/1.1 413")
        assert '"body_too_large"' in found
        assert "at most 4 MB" in found

    @pytest.mark.usefixtures("lines")
    @pytest.mark.parametrize("how", [f"Content-Length: {200 << 20}", "Transfer-Encoding: chunked"])
    @pytest.mark.parametrize(("token", "code"), [(None, "no_token"), ("psl_stranger", "unknown_token")])
    def test_a_stranger_is_refused_before_the_body_is_read(self, service, token, code, how):
        piece = CHUNK if "chunked" in how else PIECE
        n_sent, found = sent(
            service, head(token, how), (piece for _ in range((200 << 20) // len(PIECE))), limit=IN_FLIGHT
        )
        assert n_sent < IN_FLIGHT
        assert found.startswith("HTTP/1.1 401")
        assert f'"{code}"' in found

    @pytest.mark.parametrize("how", [f"Content-Length: {200 << 20}", "Transfer-Encoding: chunked"])
    def test_a_stranger_hears_the_refusal_before_sending_the_body(self, service, how):
        """No byte of the body is sent at all."""
        n_sent, found = sent(service, head(None, how), ())
        assert n_sent == 0
        assert found.startswith("HTTP/1.1 401")
        assert "\r\nconnection: close\r\n" in found.lower()

    def test_the_largest_body_is_that_of_a_query_about_the_rows(self, service):
        """A dense confusion query fits; what no query about these rows can have is refused before it is read."""
        holdings = service.service.holdings
        largest = largest_body_of(holdings)
        numbers = {"predictions": holdings.n_classes, "cells": 1, "columns": MOST_COLUMNS}
        arrays = {name: encoded(np.ones((holdings.n_rows, width)), "f8") for name, width in numbers.items()}
        longest = json.dumps({"kind": "confusion", "cost": 1, "ids": list(holdings.ids), **arrays})
        assert len(longest) < largest < 2 * len(longest) + (1 << 20)
        _, found = sent(service, head(service.tokens["learner"], f"Content-Length: {largest + 1}"), ())
        assert '"body_too_large"' in found

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            ({"ids": [[]] * 300_000}, "identifiers must be texts"),
            ({f"field {place}": 0 for place in range(50_000)}, "there is no field 'field 0'"),
            ({"predictions": {"dtype": "u1", "shape": ["a"] * 200_000, "data": ""}}, "shape"),
        ],
    )
    def test_many_errors_are_one(self, service, body, text):
        """Collecting an error for every part would take a gigabyte."""
        with service.client() as client:
            found = client.post("/v1/answers", json={"kind": "value", "cost": 1, **body})
        assert found.status_code == 422
        assert text in found.text
        assert len(found.text) < 1000

    def test_a_client_of_http_reads_the_refusal(self, service):
        with service.client(None) as client:
            found = client.post("/v1/answers", content=PIECE * 1000, headers={"Content-Type": "application/json"})
        check(found, "no_token")

    @pytest.mark.usefixtures("lines")
    def test_lengths_that_lie(self, service):
        token = service.tokens["learner"]
        for line in (
            "Content-Length: -1",
            "Content-Length: 1e3",
            "Content-Length: " + "9" * 5000,
            "Content-Length: 1, 2",
        ):
            _, found = sent(service, head(token, line), ())
            assert re.match(r"HTTP/1\.1 4\d\d ", found), line

    @pytest.mark.usefixtures("lines")
    def test_a_client_that_goes_away_leaves_the_server_as_it_was(self, service):
        port = int(service.url.rpartition(":")[2])
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as place:
                place.sendall(head(service.tokens["learner"], "Content-Length: 100000") + b'{"kind": ')
        time.sleep(0.2)
        with service.client() as client:
            assert client.get("/v1/about").status_code == 200


class TestDescription:
    def test_the_table_of_codes_is_the_one_in_use(self):
        found = dict(re.findall(r"^``(\w+)`` +(\d+) ", described.__doc__, flags=re.MULTILINE))
        assert {code: int(status) for code, status in found.items()} == STATUS

    def test_every_code_of_a_query_is_tested(self):
        tested = {code for _, code in [*BAD_QUERIES.values(), *BAD_BODIES.values()]}
        assert {code for code, status in STATUS.items() if status in (400, 422)} - tested == {
            "bad_query",  # for errors of the library, if there are any that no check finds first
            "invalid_parameter",
        }

    def test_it_is_open_and_tells_nothing_about_the_data(self, service):
        found = httpx.get(f"{service.url}/v1/openapi.json", trust_env=False)
        assert found.status_code == 200
        assert "row1" not in found.text
        assert found.json()["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
