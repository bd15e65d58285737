"""Real servers on loopback: in a thread for a service, in a process of its own for an owner's folder."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from postshift.oracle.app import create_app
from postshift.oracle.ledger import Ledger
from postshift.oracle.server import server_of
from postshift.oracle.service import Service, Terms
from postshift.oracle.wire import encoded
from tests.oracle.ledgers import Clock
from tests.oracle.owned import holdings

ROOT = Path(__file__).parents[2]
EVERY_KIND = ("table", "confusion", "value")


def make_service(url, folder, *, mode="trusted", kinds=EVERY_KIND, budget=100, held=None, clock=None):
    """Return a service with a new ledger at ``url``, and the watermark in ``folder``."""
    held = holdings() if held is None else held
    ledger = Ledger.create(
        url, about=held.digest, budget=budget, watermark=folder / "watermark", clock=clock or Clock()
    )
    return Service(held, Terms(mode=mode, kinds=kinds, budget=budget), ledger)


@dataclass
class Served:
    """A service that is served: its address, and the tokens of a learner and of an owner."""

    url: str
    service: Service | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    def client(self, who="learner", **how):
        """Return a client with a token of that name; any other text is sent as it is, None is no token."""
        headers = {} if who is None else {"Authorization": f"Bearer {self.tokens.get(who, who)}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, **how)

    def spent(self):
        return self.service.ledger.budget().spent


@contextlib.contextmanager
def serving(service, **limits):
    """Serve a service from a thread, until the block ends; there are tokens "learner" and "owner".

    Tokens without ``per_minute`` are not limited; ``limits`` go to ``create_app``.
    """
    tokens = {scope: service.ledger.create_token(scope, scope=scope)[1] for scope in ("learner", "owner")}
    with socket.socket(proto=socket.IPPROTO_TCP) as place:  # with it, asyncio sends without delay
        place.bind(("127.0.0.1", 0))
        server = server_of(create_app(service, **limits))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the server did not start"
                time.sleep(0.01)
            yield Served(f"http://127.0.0.1:{place.getsockname()[1]}", service, tokens)
        finally:
            server.should_exit = True
            thread.join(timeout=30)
            service.ledger.close()


# -- processes ----------------------------------------------------------------------------------------


def environment(**more):
    """Return the environment of a process that runs this copy of postshift."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


def command(*words, **how):
    """Run ``postshift WORDS`` in a process; return it when it has ended."""
    given = {"capture_output": True, "text": True, "timeout": 120, "env": environment(), **how}
    return subprocess.run([sys.executable, "-m", "postshift.cli", *map(str, words)], check=False, **given)


@contextlib.contextmanager
def process(folder, *options, env=None):
    """Serve an owner's folder with ``postshift oracle serve``; yield the address and the process."""
    words = [sys.executable, "-m", "postshift.cli", "oracle", "serve", str(folder), "--port", "0", *map(str, options)]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(words, env=env or environment(PYTHONUNBUFFERED="1"), **how) as running:
        try:
            yield address_of(running), running
        finally:
            running.terminate()
            try:
                running.wait(timeout=30)
            finally:
                running.kill()


def address_of(running):
    """Return the address that a server prints when it starts, once it answers."""
    seen = []
    while True:
        line = running.stdout.readline()
        seen.append(line)
        assert line, f"the server ended: {''.join(seen)}"
        found = re.search(r"at (https?)://\S*?:(\d+) ", " ".join(seen).replace("\n", " "))
        if found:
            wait_for(int(found[2]))
            return f"{found[1]}://127.0.0.1:{found[2]}"


def wait_for(port, *, patience=60):
    """Wait until a server takes connections."""
    end = time.monotonic() + patience
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.02)
        else:
            return


# -- queries ----------------------------------------------------------------------------------------


def value_body(seed, *, n_rows=60, n_classes=2, **more):
    """Return the body of a query for the value of random labels; other seeds, other queries."""
    labels = np.random.default_rng(seed).integers(0, n_classes, n_rows)
    return {"kind": "value", "cost": 1, "predictions": encoded(labels, "u1"), **more}


def table_body(seed, *, n_rows=60, n_cells=5, **more):
    """Return the body of a query for the table of a random partition."""
    cells = np.random.default_rng(seed).integers(0, n_cells, n_rows)
    return {"kind": "table", "cost": 1, "cells": encoded(cells, "u1"), **more}


def code_of(response):
    """Return the code of a refusal, after a look at its form."""
    content = response.json()
    assert list(content) == ["error"], content
    code = content["error"]["code"]
    assert set(content["error"]) == {"code", "message"} | (
        {"left"} if code in ("over_budget", "token_budget") else set()
    )
    return code
