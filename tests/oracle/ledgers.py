"""Ledgers to test: their settings, a clock that can be turned, and charges."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from postshift.oracle.charges import Charge
from postshift.oracle.ledger import Ledger

ABOUT = "0123456789abcdef" * 4


class Clock:
    """A clock that stands still until it is turned."""

    def __init__(self):
        self.now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)

    def __call__(self):
        return self.now

    def turn(self, **by):
        self.now += timedelta(**by)


def key_of(query):
    return hashlib.sha256(str(query).encode()).hexdigest()


def charge_of(query, token, *, cost=1):
    return Charge(key=key_of(query), kind="value", cost=cost, token=token, text=f"query {query}")


def payload_of(query):
    return f"the answer to {query}".encode() * 3


def ask(ledger, query, token, *, cost=1):
    return ledger.charge(charge_of(query, token, cost=cost), payload_of(query))


def learner(ledger, **limits):
    return ledger.create_token("a learner", scope="learner", **limits)[0]


def problems(ledger):
    return ledger.audit().problems


def settings(folder, **more):
    return {"about": ABOUT, "watermark": folder / "watermark", **more}


def create(url, folder, *, budget=10, **more):
    return Ledger.create(url, budget=budget, **settings(folder, **more))


def reopen(url, folder, **more):
    return Ledger.open(url, **settings(folder, **more))
