"""Times and texts of responses do not depend on what a row's label is: the row of interest is of one class, or another.

Two services hold rows that differ in one label only. The learner asks both the same, in random order, and compares the
times with the test of Kolmogorov and Smirnov at level 1e-4; a test may be repeated once.
"""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest
from scipy.stats import ks_2samp

from postshift.oracle import app
from postshift.oracle.wire import encoded
from tests.oracle.owned import holdings
from tests.oracle.servers import code_of, make_service, serving, value_body

pytestmark = pytest.mark.slow

LEVEL = 1e-4
ROW, N_ROWS = 7, 60
UNPADDED, PADDED, REFUSED = 600, 120, 600  # sample sizes: times of each service
LEAK, SMALL_LEAK = 0.02, 0.005  # seconds that a service which tells the label takes longer


def held_with(label):
    """Return rows of which one has this label."""
    labels = holdings(N_ROWS).labels.copy()
    labels[ROW] = label
    return holdings(N_ROWS, labels=labels)


@pytest.fixture
def pair(tmp_path):
    """Two services in private mode whose rows differ in one label, and a client of each."""
    with contextlib.ExitStack() as stack:
        services, clients = [], []
        for label in (0, 1):
            folder = tmp_path / str(label)
            folder.mkdir()
            how = {"mode": "private", "budget": 10**6, "held": held_with(label)}
            services.append(make_service(f"sqlite:///{folder / 'ledger.db'}", folder, **how))
            clients.append(stack.enter_context(stack.enter_context(serving(services[-1])).client()))
        yield services, clients


def times(clients, bodies, *, status=200):
    """Ask both services each query, in random order; return the times (2, n)."""
    found, rng = np.empty((2, len(bodies))), np.random.default_rng(0)
    for place, body in enumerate(bodies):
        for which in rng.permutation(2):
            start = time.perf_counter()
            response = clients[which].post("/v1/answers", json=body)
            found[which, place] = time.perf_counter() - start
            assert response.status_code == status
    return found


def tables(n, start):
    """Bodies of queries in which the row of interest has a cell of its own."""
    rng = np.random.default_rng(start)
    for _ in range(n):
        cells = rng.integers(0, 5, N_ROWS)
        cells[ROW] = 5
        yield {"kind": "table", "cost": 1, "cells": encoded(cells, "u1")}


def differ(clients, bodies_of, **how):
    """Whether the times of the two services are found to be different, twice."""
    return all(ks_2samp(*times(clients, list(bodies_of(seed)), **how)).pvalue < LEVEL for seed in (1, 2))


def leaking(services, monkeypatch, seconds):
    """Let the services take longer for one of the two labels."""
    for service in services:
        answers, answer = service._answers, service._answers.answer

        def slow(query, answer=answer, label=service.holdings.labels[ROW]):
            time.sleep(seconds * label)
            return answer(query)

        monkeypatch.setattr(answers, "answer", slow)


def test_times_of_answers(pair):
    assert not differ(pair[1], lambda seed: tables(PADDED, seed))


def test_times_of_answers_before_they_are_padded(pair, monkeypatch):
    monkeypatch.setattr(app, "PADDED_TO", 1e-9)
    assert not differ(pair[1], lambda seed: tables(UNPADDED, seed))


def test_times_of_stored_answers(pair):
    bodies = list(tables(50, 3))
    times(pair[1], bodies)
    spaced = [{**body, "ids": None} for body in bodies]  # other bodies: these are found in the ledger
    assert not differ(pair[1], lambda _: (spaced + bodies) * 3)


def test_times_of_refusals(pair):
    with_an_error = value_body(0, n_rows=N_ROWS + 1)
    assert not differ(pair[1], lambda _: [with_an_error] * REFUSED, status=422)
    over = {**next(tables(1, 0)), "cost": 10**9}
    assert not differ(pair[1], lambda _: [over] * REFUSED, status=409)


def test_a_service_that_takes_longer_for_a_label_is_found(pair, monkeypatch):
    monkeypatch.setattr(app, "PADDED_TO", 1e-9)
    leaking(pair[0], monkeypatch, LEAK)
    assert differ(pair[1], lambda seed: tables(UNPADDED // 3, seed))


def test_padding_hides_what_takes_longer(pair, monkeypatch):
    leaking(pair[0], monkeypatch, SMALL_LEAK)
    assert not differ(pair[1], lambda seed: tables(PADDED, seed))


def test_texts_of_refusals(pair):
    bodies = [{**next(tables(1, 0)), "cost": 10**9}, value_body(0, n_rows=3), value_body(0, cost=-1), {}]
    found = [[client.post("/v1/answers", json=body) for body in bodies] for client in pair[1]]
    assert [each.text for each in found[0]] == [each.text for each in found[1]]
    assert [code_of(each) for each in found[0]] == ["over_budget", "wrong_length", "bad_cost", "invalid_body"]
