"""The web server: what it tells about itself, and how it is started and stopped."""

from __future__ import annotations

import contextlib
import signal

import pytest

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
    import httpx

    with process(folder) as (address, _), contextlib.closing(httpx.Client(base_url=address)) as client:
        refused = client.get("/v1/about")
    assert (refused.status_code, code_of(refused)) == (401, "no_token")
