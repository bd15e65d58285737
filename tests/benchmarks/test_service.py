"""The measurement of the service runs at a small size, and its page is made of the stored figures."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

from benchmarks import service, service_load, service_page, service_servers
from benchmarks.timing import FailedError
from postshift.oracle.wire import decoded

EVERY = list(product(service_servers.KINDS, service.MODES))


@pytest.mark.slow
def test_a_small_run(tmp_path, capsys):
    arguments = ["--rows", "500", "--clients", "3", "--queries", "60", "--rounds", "1", "--modes", "private"]
    service.main([*arguments, "--store", "--out", str(tmp_path)])
    lines, points = (service_page.read(tmp_path, name) for name in (service_page.NAME, service_page.MEMORY))
    expected = list(product(service_servers.KINDS, service_page.ANSWERS))
    assert [(line["kind"], line["answers"]) for line in lines] == expected
    assert all(float(line["per_second"]) > 0 for line in lines)
    assert all(float(line["p50_ms"]) <= float(line["p95_ms"]) <= float(line["p99_ms"]) for line in lines)
    assert [int(point["queries"]) for point in points][:3] == [0, 12, 15]
    assert int(points[-1]["queries"]) == 72
    assert (tmp_path / "service_bench.md").read_text() == service_page.page(lines, points)
    assert (tmp_path / "service_bench.png").stat().st_size > 10_000
    told = capsys.readouterr().out
    assert all(f"private  {kind:10} {answers:18}" in told for kind, answers in expected)
    assert "private mode: " in told


@pytest.mark.skipif(not (service_page.OUT / "service_bench.csv").exists(), reason="there was no full run yet")
def test_the_page_is_made_from_the_stored_figures():
    lines, points = (service_page.read(service_page.OUT, name) for name in (service_page.NAME, service_page.MEMORY))
    assert (service_page.OUT / "service_bench.md").read_text() == service_page.page(lines, points)
    found = {(line["mode"], line["kind"], line["rows"], line["clients"]) for line in lines}
    assert found >= {(service.PRIVATE, kind, "100000", "64") for kind in service_servers.KINDS}
    for mode in {line["mode"] for line in lines}:
        queries = [int(point["queries"]) for point in points if point["mode"] == mode]
        assert queries[-1] - queries[1] == 10_000


@pytest.mark.parametrize(("kind", "mode"), EVERY)
def test_other_numbers_are_other_queries(kind, mode):
    bodies = service_load.Bodies.of(kind, mode=mode, n_rows=100, cost=1)
    shown = [json.loads(bodies.version(number)) for number in (0, 5)]
    name = "cells" if kind == "table" else "predictions"
    first, second = (decoded(body[name], name=name) for body in shown)
    assert first.shape == second.shape == (100,)
    np.testing.assert_array_equal(np.flatnonzero(first != second), [0, 2])
    assert json.loads(service_load.rewritten(bodies.version(5), 6)) == shown[1]


def test_every_text_is_another_one():
    assert len({service_load.rewritten(b"{}", number) for number in range(1, 100)}) == 99


def line(answers, *, per_second, cpu):
    numbers = dict.fromkeys(("p50_ms", "p95_ms", "p99_ms", "body_kb", "client_cores", "others", "fsync_ms"), "1")
    names = {"mode": "trusted", "kind": "value", "answers": answers, "rows": "10", "clients": "2", "versions": "x 1"}
    return {**numbers, **names, "per_second": str(per_second), "cpu_ms": str(cpu)}


@pytest.mark.parametrize(
    ("per_second", "cpu", "told"),
    [
        (50, 2.0, "time 2.00x, CPU 2.00x, reached"),
        (40, 1.0, "time 2.50x, CPU 1.00x, NOT reached"),
        (100, 3.0, "time 1.00x, CPU 3.00x, NOT reached"),
    ],
)
def test_the_goal_is_judged(per_second, cpu, told):
    lines = [line("bare", per_second=100, cpu=1.0), line("stored", per_second=per_second, cpu=cpu)]
    assert f"* trusted, value: {told}" in service_page._goal(lines)


def test_memory_in_words():
    points = [service_page.Memory(mode="trusted", queries=10 * n, mb=mb) for n, mb in enumerate((50.0, 70, 75, 73))]
    assert service_page.memory_in_words(points) == (
        "trusted mode: 50 MB when the server has started, 70 MB after a warm-up of 10 queries, and 73 MB after 20 more;"
        " flat within 5 MB, at most 75 MB"
    )


@pytest.mark.slow
def test_a_wrong_answer_is_not_measured():
    with service_servers.bare() as server:
        clients = service_load.Clients(server, n_clients=2)
        body = service_load.Bodies.of("value", mode="trusted", n_rows=50, cost=1).version(0)
        assert len(clients.send([body] * 5, wanted=b'"kind"').latencies) == 5
        with pytest.raises(FailedError, match='HTTP 200, without "number"'):
            clients.send([body], wanted=b'"number"')
        with pytest.raises(FailedError, match="HTTP 422"):
            clients.send([b"{}"], wanted=b'"kind"')
