"""The benchmarks run at small sizes, compare what they say, and their page is made of the stored figures."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import __main__ as bench
from benchmarks import fit
from benchmarks.data import draw
from benchmarks.engine import RADIUS, STEP, EngineLoop, random_rule
from benchmarks.opponents import ProbeLoop, plain_read, xcolumns_value
from benchmarks.page import line, ratio_of, render, slope, verdict
from benchmarks.record import Row, made_with, read_rows, write_rows
from benchmarks.registry import BY_NAME, COMPARISONS, Comparison, Goal
from benchmarks.timing import FailedError, Outcome, SkippedError, Times, check_close, interleaved

GOALS = {
    "numpy-hard": ">= 200x",
    "numpy-soft": ">= 150x",
    "numba-hard": ">= 1500x",
    "numba-soft": ">= 200x",
    "numba-constant": ">= 300x",
    "sorted": "<= 1.5x",
    "bandwidth": ">= 60%",
    "paper-balanced-accuracy": ">= 50x",
    "auto-balanced-accuracy": ">= 20x",
    "xcolumns-defaults": ">= 10x",
    "rates-5": ">= 10x",
    "evolution": ">= 20x",
    "default-50": "<= 30x",
    "default-100": "<= 20x",
    "opaque": "<= 2x",
    "xcolumns-100": ">= 1x",
    "sparse": ">= 3x",
    "prediction": ">= 50x",
    "memory": "<= 0.5 GB",
    "many-classes": "<= 3x",
    "import": "<= 1.2x",
    "evaluate-file": "<= 4x",
    "fit-file": "<= 6x",
}


def named(run, name="fake", **options):
    return Comparison(name=name, title="a title", run=run, **options)


def raising(error):
    def run(_):
        raise error

    return run


@pytest.fixture
def without_xcolumns(monkeypatch):
    monkeypatch.setitem(sys.modules, "xcolumns", None)
    monkeypatch.setitem(sys.modules, "xcolumns.frank_wolfe", None)


class TestQuickRun:
    @pytest.mark.slow
    @pytest.mark.usefixtures("without_xcolumns")
    def test_all_of_it(self, tmp_path, capsys):
        assert bench.main(["--quick", "--out", str(tmp_path)]) == 0
        rows, made = read_rows(tmp_path / "bench.csv")
        page = (tmp_path / "bench.md").read_text()
        told = capsys.readouterr().out
        assert list(dict.fromkeys(row.name for row in rows)) == list(BY_NAME)
        assert page == render(rows, made)
        assert "SMALL SIZES" in made
        assert made in page
        skipped = {row.name for row in rows if row.failed.startswith("skipped")}
        assert {f"xcolumns-{variant}" for variant in fit.XCOLUMNS} <= skipped
        assert "the package xcolumns is missing" in page
        assert all(f"{name} " in told for name, each in BY_NAME.items() if each.table != "growth")
        for suffix, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            assert (tmp_path / f"bench_growth.{suffix}").read_bytes().startswith(magic)

    def test_small_sizes_are_not_stored_by_themselves(self, tmp_path, monkeypatch):
        monkeypatch.setattr(bench, "OUT", tmp_path)
        assert bench.main(["--quick", "--only", "numpy-hard"]) == 0
        assert list(tmp_path.iterdir()) == []


class TestStored:
    """What is in docs/results, once there was a full run."""

    @pytest.fixture
    def stored(self):
        path = bench.OUT / "bench.csv"
        if not path.exists():
            pytest.skip("THE BENCHMARKS HAVE NOT BEEN RUN: make bench")
        return read_rows(path)

    def test_the_page_is_made_from_them(self, stored):
        assert (bench.OUT / "bench.md").read_text() == render(*stored)

    def test_they_are_whole_and_of_full_size(self, stored):
        rows, made = stored
        assert {row.name for row in rows} == set(BY_NAME)
        assert "SMALL" not in made


class TestCommandLine:
    def test_list(self, capsys):
        assert bench.main(["--list"]) == 0
        assert [text.split()[0] for text in capsys.readouterr().out.splitlines()] == list(BY_NAME)

    def test_an_unknown_name(self, capsys):
        with pytest.raises(SystemExit):
            bench.main(["--only", "nothing"])
        assert "invalid choice: 'nothing'" in capsys.readouterr().err

    def test_one_comparison_takes_the_place_of_its_stored_row(self, tmp_path, monkeypatch):
        made = made_with(quick=True)
        old = [Row(name="numpy-hard", ours_cpu=1.0, theirs_cpu=7.0), Row(name="import", ours_cpu=1.0, theirs_cpu=2.0)]
        write_rows(tmp_path / "bench.csv", old, made)
        monkeypatch.setattr(bench, "run_all", lambda *_, **__: [Row(name="numpy-hard", ours_cpu=1.0, theirs_cpu=9.0)])
        assert bench.main(["--quick", "--only", "numpy-hard", "--out", str(tmp_path)]) == 0
        rows, _ = read_rows(tmp_path / "bench.csv")
        assert [(row.name, row.theirs_cpu) for row in rows] == [("numpy-hard", 9.0), ("import", 2.0)]
        assert "| 9x |" in (tmp_path / "bench.md").read_text()

    def test_rows_of_two_machines_are_not_mixed(self, tmp_path, capsys):
        old = [Row(name="import", ours_cpu=1.0, theirs_cpu=2.0)]
        write_rows(tmp_path / "bench.csv", old, "another machine")
        bench.store(tmp_path, [Row(name="numpy-hard", ours_cpu=1.0, theirs_cpu=9.0)], made_with(quick=False))
        assert read_rows(tmp_path / "bench.csv") == (old, "another machine")
        assert "not stored" in capsys.readouterr().err

    def test_rendering_alone(self, tmp_path):
        write_rows(tmp_path / "bench.csv", [Row(name="import", ours_cpu=1.0, theirs_cpu=2.0)], "a machine")
        assert bench.main(["--render", "--out", str(tmp_path)]) == 0
        assert "Made with a machine" in (tmp_path / "bench.md").read_text()


class TestFailures:
    def test_a_skipped_comparison_says_why(self):
        (row,) = bench.run_one(named(raising(SkippedError("it is missing"))), quick=True)
        assert (row.failed, row.ours_cpu) == ("skipped: it is missing", None)

    @pytest.mark.parametrize(
        "run", [raising(FailedError("they differ")), lambda _: [Outcome(failed="they differ")]], ids=["raised", "told"]
    )
    def test_one_that_must_not_count_fails_the_run(self, run, monkeypatch):
        monkeypatch.setitem(BY_NAME, "import", named(run, name="import"))
        assert bench.main(["--quick", "--only", "import"]) == 1

    def test_a_lower_metric_is_told_with_the_times(self):
        least = {name: Times(cpu=1.0, wall=1.0) for name in ("ours", "theirs")}
        low = fit._with_values(least, {"ours": 0.7, "theirs": 0.8}, tolerance=1e-4)
        even = fit._with_values(least, {"ours": 0.79995, "theirs": 0.8}, tolerance=1e-4)
        assert (low.failed, low.ours) == ("our metric is lower by 0.1", least["ours"])
        assert even.failed == ""
        row = Row.of("paper-f1", low)
        assert verdict(BY_NAME["paper-f1"], row) == "FAILED"
        assert "our metric is lower" in line(row)[-1]

    def test_sums_that_differ(self):
        check_close("sums", [1.0, 2.0], [1.0, 2.0 + 1e-10])
        for other in ([1.0, 2.1], [1.0, np.nan], [[1.0, 2.0]]):
            with pytest.raises(FailedError, match="sums"):
                check_close("sums", [1.0, 2.0], other)

    @pytest.mark.usefixtures("without_xcolumns")
    def test_xcolumns_missing(self):
        (row,) = bench.run_one(BY_NAME["xcolumns-defaults"], quick=True)
        assert row.failed.startswith("skipped: the package xcolumns is missing")


class TestGoals:
    def test_those_of_the_issue(self):
        assert {name: str(BY_NAME[name].goal) for name in GOALS} == GOALS

    @pytest.mark.parametrize(
        ("reading", "goal", "ratio", "met"),
        [
            ("theirs / ours", Goal(bound=4), 4.0, "yes"),
            ("theirs / ours", Goal(bound=5), 4.0, "NO"),
            ("ours / theirs", Goal(bound=0.25, at_most=True), 0.25, "yes"),
            ("ours / theirs", Goal(bound=0.2, at_most=True), 0.25, "NO"),
            ("theirs / ours", Goal(bound=400, unit="%"), 4.0, "yes"),
            ("theirs / ours", Goal(bound=401, unit="%"), 4.0, "NO"),
            ("value", Goal(bound=0.5, unit=" GB", at_most=True), 0.6, "NO"),
            ("theirs / ours", None, 4.0, ""),
        ],
    )
    def test_verdicts(self, reading, goal, ratio, met):
        comparison = named(None, reading=reading, goal=goal)
        row = Row(name="fake", ours_cpu=2.0, theirs_cpu=8.0, ours_wall=1.0, theirs_wall=1.0, ours_value=0.6)
        assert ratio_of(comparison, row) == pytest.approx(ratio)
        assert verdict(comparison, row) == met

    def test_goals_are_about_cpu_time(self):
        row = Row(name="prediction", ours_cpu=1.0, theirs_cpu=10.0, ours_wall=1.0, theirs_wall=90.0)
        assert line(row)[1:5] == [">= 50x", "10x", "90x", "NO"]


class TestSides:
    @pytest.mark.parametrize("basis", ["hard", "soft"])
    @pytest.mark.parametrize("tight", [False, True])
    def test_the_probe_loop_and_the_engine_agree(self, basis, tight):
        rows = draw(400, 3, n_bases=2, basis=basis)
        start, rule = (random_rule(rows, seed) for seed in (0, 1))
        loop = ProbeLoop(rows, radius=RADIUS, tight=tight)
        theirs = loop.equations(loop.moved(loop.vertex(start.alpha), rule.alpha, STEP))
        check_close("equations", EngineLoop(rows, start, kernels="numpy").iteration(rule), theirs)

    def test_one_equation_by_hand(self):
        rows = draw(50, 3, n_bases=2, basis="soft")
        h = np.full((50, 3), 1 / 3)
        found = ProbeLoop(rows, radius=0.1).equations(h)[1 * 3 + 2, 0 * 3 + 2]  # probe (1, 2), entry (0, 2)
        of_class = rows.labels == 2
        expected = sum(rows.phi[n, 0] * rows.phi[n, 1] * (1 - h[n, 2]) for n in np.flatnonzero(of_class)) / 50
        assert found == pytest.approx(expected)

    def test_a_plain_read_reads_all(self):
        tables = np.arange(12.0).reshape(4, 3), np.arange(5, dtype=np.uint32)
        assert plain_read(*tables)() == 66 + 10

    def test_the_value_of_a_randomised_classifier(self):
        eta, true = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]), np.eye(2)[[0, 1, 1]]

        class Found:
            a, b, p = np.ones((2, 2)), np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([0.5, 0.5])

        # Half of the time 0, 1, 0, half of the time 1, 1, 1: hits 0.5 and 1.5, predicted 1 and 2.
        assert xcolumns_value(Found, eta, true) == pytest.approx(np.mean([2 * 0.5 / (1 + 1), 2 * 1.5 / (2 + 2)]))

    def test_rows_are_drawn_as_they_say(self):
        rows = draw(20_000, 4, n_bases=3)
        np.testing.assert_allclose(rows.eta.sum(axis=1), 1)
        np.testing.assert_allclose(rows.eta.mean(axis=0), np.bincount(rows.labels) / 20_000, atol=0.01)
        assert set(np.unique(rows.phi)) == {0.0, 1.0}

    def test_sides_take_turns(self):
        calls = []
        sides = {name: lambda name=name: calls.append(name) or len(calls) for name in ("theirs", "ours")}
        least, results = interleaved(sides, repeats=2)
        assert calls == ["theirs", "ours"] * 2
        assert results == {"theirs": 3, "ours": 4}
        assert all(times.wall > 0 for times in least.values())


class TestFiles:
    def test_round_trip(self, tmp_path):
        rows = [
            Row(name="import", ours_cpu=0.125, theirs_cpu=0.25, ours_wall=1.0, theirs_wall=2.0, note="a, b"),
            Row(name="growth-rows", case="hard", x=10.0, ours_cpu=0.5),
            Row(name="memory", failed="skipped: why"),
        ]
        write_rows(tmp_path / "bench.csv", rows, "versions")
        assert read_rows(tmp_path / "bench.csv") == (rows, "versions")

    def test_names_are_distinct(self):
        assert len(BY_NAME) == len(COMPARISONS)

    def test_slope(self):
        points = [Row(name="growth-rows", case="hard", x=x, ours_cpu=3 * x**2) for x in (1.0, 10.0, 100.0)]
        assert slope(points) == pytest.approx(2)
        assert "| 2.00 |" in render(points, "versions")
