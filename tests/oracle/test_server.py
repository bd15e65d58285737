"""The web server: what it tells about itself, and how it is started and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import subprocess
import time

import httpx
import pytest

from postshift.exceptions import RemoteError
from postshift.oracle import RemoteMetric, server
from postshift.oracle.gate import FAILURES
from tests.oracle.servers import code_of, command, process, value_body


def test_an_answer_over_a_real_socket(served):
    with served.client() as client:
        found = client.post("/v1/answers", json=value_body(0))
        again = client.post("/v1/answers", json=value_body(0))
    assert (found.status_code, found.json()["cost"], found.json()["repeated"]) == (200, 1, False)
    assert (again.status_code, again.json()["cost"], again.json()["repeated"]) == (200, 0, True)
    assert again.json()["answer"] == found.json()["answer"]
    assert served.spent() == 1


def test_an_answer_with_noise_over_a_real_socket(served_in_private):
    with served_in_private.client() as client:
        found = client.post("/v1/answers", json=value_body(0, cost=1000)).json()
    assert (found["cost"], found["repeated"]) == (1000, False)
    assert served_in_private.spent() == 1000


def test_the_server_does_not_say_what_it_is(served):
    with served.client(None) as client:
        assert "server" not in client.get("/v1/about").headers
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": "x",
            "Sec-WebSocket-Version": "13",
        }
        assert client.get("/v1/about", headers=upgrade).status_code == 401


@pytest.fixture
def folder(tmp_path):
    """An owner's folder, and the owner's token."""
    rows = tmp_path / "rows.csv"
    rows.write_text("id,y\n" + "".join(f"r{place},{place % 2}\n" for place in range(20)))
    made = command(
        *("oracle", "init", tmp_path / "labels", rows, "--label", "y", "--id", "id", "--metric", "accuracy"),
        *("--mode", "trusted", "--json"),
    )
    assert made.returncode == 0, made.stderr
    return tmp_path / "labels"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_stops_when_it_is_asked_to(folder, how):
    with process(folder) as (_, running):
        running.send_signal(how)
        assert running.wait(timeout=30) in {0, 130, 143, -how}


def test_a_server_in_a_process(folder):
    with process(folder) as (address, _), contextlib.closing(httpx.Client(base_url=address)) as client:
        refused = client.get("/v1/about")
    assert (refused.status_code, code_of(refused)) == (401, "no_token")


class TestOtherMachines:
    """Encryption by files, or by a proxy; no page of another origin may read answers."""

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
    def test_a_certificate_in_files(self, folder, tmp_path):
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
        words += ["-out", str(tmp_path / "c.pem"), "-keyout", str(tmp_path / "k.pem")]
        subprocess.run(words, check=True, capture_output=True)
        made = command("oracle", "token", "create", folder, "--name", "ann", "--json")
        how = {"token": json.loads(made.stdout)["token"], "patience": 2}
        with process(folder, "--certificate", tmp_path / "c.pem", "--key", tmp_path / "k.pem") as (address, _):
            assert address.startswith("https://")
            with contextlib.closing(RemoteMetric(address, verify=str(tmp_path / "c.pem"), **how)) as metric:
                assert metric.about.n_rows == 20
            plain = RemoteMetric(address.replace("https", "http"), **how | {"patience": 0})
            with contextlib.closing(plain), pytest.raises(RemoteError):
                plain.budget()

    @pytest.mark.parametrize("behind", [True, False])
    def test_who_asks_is_what_a_proxy_says_only_if_there_is_one(self, folder, behind):
        """Wrong tokens are counted by address: nobody may choose another one for each guess."""
        headers = [
            {"Authorization": "Bearer psl_00000000_" + "Z" * 43, "X-Forwarded-For": f"192.0.2.{place}"}
            for place in range(FAILURES + 5)
        ]
        options = ["--behind-proxy"] if behind else []
        with process(folder, *options) as (address, _), httpx.Client(base_url=address, trust_env=False) as client:
            found = [client.get("/v1/about", headers=each).status_code for each in headers]
        assert found.count(401) == (FAILURES + 5 if behind else FAILURES)

    def test_no_page_of_another_origin_may_read_answers(self, served):
        origin = {"Origin": "https://elsewhere.example"}
        asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        with served.client() as client:
            found = [
                client.get("/v1/about", headers=origin),
                client.post("/v1/answers", json=value_body(0), headers=origin),
                client.options("/v1/answers", headers=asked),
                client.get("/", headers=origin),
            ]
        assert [each.status_code for each in found[:2]] == [200, 200]
        assert found[2].status_code >= 400
        for each in found:
            assert not [name for name in each.headers if name.startswith("access-control")]

    def test_the_owners_page_runs_its_own_scripts_only(self, served):
        with served.client(None) as client:
            page = client.get("/")
            assert "default-src 'self'" in page.headers["content-security-policy"]
            assert "unsafe" not in page.headers["content-security-policy"]
            for path in ("/owner.js/../../folder.py", "/..%2ffolder.py", "/page/owner.html", "/owner.json"):
                assert client.get(path).status_code == 404


def drip(place):
    """Send one line after the other, for half a minute."""
    for _ in range(600):
        place.sendall(b"X-Drop: 1\r\n")
        time.sleep(0.05)


class TestImpatience:
    """Connections without a request are closed: anybody could open so many that nobody else gets one."""

    @pytest.fixture
    def address(self, monkeypatch):
        async def slow(scope, receive, send):  # noqa: ARG001
            await asyncio.sleep(1.0 if scope["path"] == "/slow" else 0.0)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

        monkeypatch.setattr(server, "_PATIENCE", 0.2)
        with server.served(slow) as url:
            yield "127.0.0.1", int(url.rpartition(":")[2])

    @pytest.mark.parametrize(
        "sent", [b"", b"GET / HTTP/1.1\r\nHost: a", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost"]
    )
    def test_without_a_whole_head(self, address, sent):
        with socket.create_connection(address, timeout=60) as place:
            place.sendall(sent)
            found = b""
            while part := place.recv(1000):  # ends when the server closes the connection
                found += part
        assert found.count(b"200 OK") == sent.count(b"\r\n\r\n")

    def test_a_head_that_drips(self, address):
        with socket.create_connection(address, timeout=60) as place:
            place.sendall(b"GET / HTTP/1.1\r\n")
            with pytest.raises(OSError, match=r"reset|[Bb]roken"):
                drip(place)

    def test_an_answer_that_takes_longer_is_waited_for(self, address):
        with httpx.Client(base_url="http://{}:{}".format(*address), trust_env=False) as client:
            assert [client.get(path).text for path in ("/slow", "/", "/slow")] == ["ok"] * 3
