"""The web server: uvicorn, with the settings that the service needs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from postshift.exceptions import OracleError

_POLL = 0.01  # seconds between looks whether the server has started
_LONGEST = 30.0  # seconds that a start or an end may take
_PATIENCE = 10.0  # seconds that a connection may stay open without a whole head of a request


class ImpatientProtocol(H11Protocol):
    """HTTP, of which connections without a request are closed: without a token, they could use up all of them."""

    _waits = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Look at the connection from time to time."""
        super().connection_made(transport)
        self._seen = self.cycle
        self._look_later()

    def _look_later(self) -> None:
        """Look at the connection after half of the time."""
        self.loop.call_later(_PATIENCE / 2, self._look)

    def _look(self) -> None:
        """Close the connection if it had no request since the last look."""
        if self.transport.is_closing():
            return
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self._waits and self.cycle is self._seen:
            self.transport.close()
            return
        self._seen, self._waits = self.cycle, answered
        self._look_later()


def server_of(
    app: ASGIApp, *, certificate: Path | None = None, key: Path | None = None, behind_proxy: bool = False
) -> uvicorn.Server:
    """Return the web server; ``run(sockets=[...])`` serves until it is stopped.

    Parameters
    ----------
    app : ASGI application
        The web application (:func:`postshift.oracle.app.create_app`).
    certificate, key : path, optional
        The files of the TLS certificate and of its private key.
    behind_proxy : bool
        Whether a proxy on this machine says who asks (``X-Forwarded-For``).
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        http=ImpatientProtocol,
        ws="none",
        proxy_headers=behind_proxy,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)


@contextlib.contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve an application on this machine, from a thread and at a free port, until the block ends; yield its URL."""
    with socket.socket(proto=socket.IPPROTO_TCP) as place:  # with it, asyncio sends without delay
        place.bind(("127.0.0.1", 0))
        server = server_of(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        try:
            end = time.monotonic() + _LONGEST
            while not server.started:
                if not thread.is_alive() or time.monotonic() > end:
                    raise OracleError("the server did not start: is this machine out of memory or sockets?")
                time.sleep(_POLL)
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=_LONGEST)
