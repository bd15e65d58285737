"""Servers on loopback: the web application of a service, in a thread of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import uvicorn

from postshift.oracle.app import create_app
from postshift.oracle.ledger import Ledger
from postshift.oracle.service import Service, Terms


@dataclass(frozen=True)
class Served:
    """A running service: its URL, and the token of a learner."""

    url: str
    token: str
    service: Any

    @property
    def spent(self):
        return self.service.ledger.budget().spent


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


@contextlib.contextmanager
def running(app, *, port=0, **how):
    """Serve an ASGI application; yield its URL."""
    config = uvicorn.Config(app, port=port, log_level="warning", ws="none", lifespan="off", **how)
    server = uvicorn.Server(config)
    with socket.socket(proto=socket.IPPROTO_TCP) as place:  # with it, asyncio sends without delay
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", port))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=30)


def service_of(holdings, url, folder, *, mode="trusted", kinds=("confusion", "value"), budget=1000):
    """Return a service with a new ledger at this URL."""
    ledger = Ledger.create(url, about=holdings.digest, budget=budget, watermark=folder / "watermark")
    return Service(holdings, Terms(mode=mode, kinds=kinds, budget=budget), ledger)


@contextlib.contextmanager
def serving(holdings, url, folder, *, most=None, per_minute=None, port=0, **terms):
    """Serve holdings; yield the URL and the token of a learner."""
    service = service_of(holdings, url, folder, **terms)
    with contextlib.closing(service.ledger) as ledger, running(create_app(service), port=port) as address:
        _, token = ledger.create_token("a learner", scope="learner", most=most, per_minute=per_minute)
        yield Served(address, token, service)
