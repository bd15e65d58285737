"""A service on a socket of this machine, in a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from postshift.oracle.client import RemoteMetric
from postshift.oracle.ledger import Ledger
from postshift.oracle.service import Service, Terms


@contextlib.contextmanager
def learner_of(held, folder, *, mode, kinds=("value",), budget):
    """Yield a learner's connection to a new service that holds these rows."""
    ledger = Ledger.create(folder / "ledger.db", about=held.digest, budget=budget, watermark=folder / "watermark")
    _, secret = ledger.create_token("a learner", scope="learner")
    service = Service(held, Terms(mode=mode, kinds=kinds, budget=budget), ledger)
    with contextlib.closing(ledger), listening(service) as url:
        metric = RemoteMetric(url, token=secret, patience=10)
        with contextlib.closing(metric):
            yield metric


@contextlib.contextmanager
def listening(service):
    """Yield the URL of a service while it runs."""
    uvicorn = pytest.importorskip("uvicorn", reason="the web application needs the extra oracle")
    from postshift.oracle.app import create_app

    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
