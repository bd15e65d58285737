"""A folder from which no data is found, and a public source on this machine: real sockets, no network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Source:
    """A server: what it answers by path, and what it was asked."""

    address: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def give(self, name: str, content: bytes, *, length: int | None = None, status: int = 200) -> str:
        """Serve bytes, with another length than theirs where one is given; return the address."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("Content-Length", str(len(content) if length is None else length))
            handler.end_headers()
            handler.wfile.write(content)
            handler.close_connection = True

        return self.answer(name, answer)

    def answer(self, name: str, answer: Answer) -> str:
        """Answer by a function; return the address."""
        self.answers[f"/{name}"] = answer
        return f"{self.address}/{name}"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder from which no data can be found, with an empty cache."""
    monkeypatch.delenv("POSTSHIFT_DATA", raising=False)
    monkeypatch.setenv("POSTSHIFT_CACHE", str(tmp_path / "cache"))
    here = tmp_path / "inside" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """Serve files on this machine."""
    monkeypatch.setenv("no_proxy", "*")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            made.answers[self.path](self)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Source(address=f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()
