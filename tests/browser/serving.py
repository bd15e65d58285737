"""A real service on loopback: 60 rows, a ledger in SQLite, an owner, and learners who ask."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import uvicorn

from postshift.oracle.app import create_app
from postshift.oracle.client import RemoteMetric
from postshift.oracle.ledger import Ledger
from postshift.oracle.service import Service, Terms
from postshift.oracle.wire import encoded
from tests.oracle.owned import distributions, holdings

N_ROWS = 60
TERMS = {
    "private": Terms(mode="private", kinds=("table", "confusion"), budget=100_000, title="Loans of 2024"),
    "trusted": Terms(mode="trusted", kinds=("confusion", "value"), budget=100, title="Loans of 2024"),
}


@dataclass
class Running:
    """A service with its owner's token; ``stop`` and ``start`` keep the address."""

    service: Service
    owner: str
    port: int = 0
    server: Any = None
    thread: Any = None

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        place = socket.socket()
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", self.port))
        self.port = place.getsockname()[1]
        config = uvicorn.Config(create_app(self.service), log_level="error", ws="none", timeout_graceful_shutdown=2)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [place]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)

    def stop(self):
        self.server.should_exit = True
        self.thread.join()

    def token(self, name="ann", *, scope="learner", **limits):
        """Return the identifier and the secret of a new token."""
        return self.service.ledger.create_token(name, scope=scope, **limits)

    def ask(self, secret, *, cost=1, seed=0):
        """Ask over HTTP, as a learner does."""
        learner = RemoteMetric(self.url, token=secret)
        with contextlib.closing(learner):
            if self.service.terms.mode == "private":
                cells = encoded(np.random.default_rng(seed).integers(0, 8, size=N_ROWS), "u4")
                learner.asked({"kind": "table", "cost": cost, "cells": cells})
            else:
                shown = encoded(distributions(N_ROWS, seed=seed), "f8")
                learner.asked({"kind": "value", "cost": cost, "predictions": shown})


@contextlib.contextmanager
def serving(folder, *, mode="private", **kept):
    """Start a service in a folder, and stop it."""
    held = holdings(N_ROWS)
    terms = TERMS[mode]
    ledger = Ledger.create(
        folder / "ledger.db", about=held.digest, budget=terms.budget, watermark=folder / "watermark", **kept
    )
    with ledger:
        running = Running(Service(held, terms, ledger), ledger.create_token("owner", scope="owner")[1])
        running.start()
        try:
            yield running
        finally:
            running.stop()
