"""Two servers, in processes of their own, share one ledger in PostgreSQL: 64 clients spend a budget together."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from tests.oracle.servers import code_of, command, process, value_body

N_ROWS, BUDGET, CLIENTS = 60, 1000, 64
OWN, SHARED = 16, 64  # queries of each client alone, and of all clients: 1,088 different ones, 1,000 of them paid
LABELS = np.arange(N_ROWS) // 2 % 2


@pytest.fixture
def folders(postgres_url, tmp_path):
    """Two copies of an owner's folder, as on two machines; and the token of a learner."""
    rows = "id,y\n" + "".join(f"r{place},{label}\n" for place, label in enumerate(LABELS))
    (tmp_path / "rows.csv").write_text(rows)
    place = urlsplit(postgres_url)
    database = f"postgresql://{place.username}@/postgres?{place.query}"
    assert "host=" in place.query, "the server of the tests is reached through a folder"
    words = ("--label", "y", "--id", "id", "--metric", "accuracy", "--mode", "trusted", "--queries", BUDGET)
    one, two = tmp_path / "one", tmp_path / "two"
    made = command("oracle", "init", one, tmp_path / "rows.csv", *words, "--database", database, "--json")
    assert made.returncode == 0, made.stderr
    shutil.copytree(one, two)
    token = command("oracle", "token", "create", one, "--name", "ann", "--per-minute", 10**6, "--json")
    assert token.returncode == 0, token.stderr
    return (one, two), json.loads(token.stdout)["token"]


class Client:
    """Asks one server: queries of its own, and those that all clients ask, in an order of its own."""

    def __init__(self, number, url, token):
        self.url, self.headers = url, {"Authorization": f"Bearer {token}"}
        own = [1000 + OWN * number + place for place in range(OWN)]
        self.seeds = np.random.default_rng(number).permutation([*own, *range(SHARED)]).tolist()
        self.given, self.paid, self.refused = {}, [], Counter()

    def run(self):
        with httpx.Client(base_url=self.url, headers=self.headers, timeout=300, trust_env=False) as client:
            for seed in self.seeds:
                found = client.post("/v1/answers", json=value_body(seed, n_rows=N_ROWS))
                if found.status_code != 200:
                    self.refused[code_of(found)] += 1
                    continue
                content = found.json()
                self.given[seed] = content["answer"]["data"], content["number"]
                assert content["cost"] == (not content["repeated"])
                self.paid += [seed] * content["cost"]


def asked_by_all(addresses, token):
    """Run all clients at once, half of them at each server."""
    clients = [Client(number, addresses[number % 2], token) for number in range(CLIENTS)]
    threads = [threading.Thread(target=each.run) for each in clients]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return clients


def test_exactly_the_budget_is_charged(folders):
    (one, two), token = folders
    with ExitStack() as stack:
        addresses = [stack.enter_context(process(folder))[0] for folder in (one, two)]
        clients = asked_by_all(addresses, token)
        budget = httpx.get(f"{addresses[1]}/v1/about", headers=clients[0].headers, trust_env=False).json()["budget"]
    asked = {seed for each in clients for seed in each.seeds}
    assert len(asked) == CLIENTS * OWN + SHARED > BUDGET
    assert sum(len(each.given) + each.refused.total() for each in clients) == CLIENTS * (OWN + SHARED)
    assert set(sum((each.refused for each in clients), Counter())) == {"over_budget"}

    paid = [seed for each in clients for seed in each.paid]
    assert len(paid) == len(set(paid)) == BUDGET == budget["spent"] == budget["answers"]
    assert budget["left"] == 0

    given = {}
    for each in clients:
        for seed, answer in each.given.items():
            assert given.setdefault(seed, answer) == answer  # of both servers, to every client
    assert set(given) == set(paid)
    assert len({number for _, number in given.values()}) == BUDGET
    for folder in (one, two):
        found = command("oracle", "audit", folder, "--json")
        assert found.returncode == 0, found.stderr
        counts = json.loads(found.stdout)
        assert (counts["answers"], counts["spent"], counts["problems"]) == (BUDGET, BUDGET, [])
