"""What the experiments share: results survive a kill, pages come from the CSV, failures are told, tables are right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from scipy import stats

from experiments import __main__ as command
from experiments import registry, runner
from experiments.output import alone
from experiments.store import FIELDS, Row, Store, StoredLineError
from experiments.study import (
    Experiment,
    Measured,
    Results,
    against_closest,
    stars,
    summary,
    table,
    welch,
    whole_page,
)

ROOT = Path(__file__).parents[2]

# Every run is written to a log; where a file "block" names a run, it waits there. A file "drawn" asks for figures.
TOY = """
    \"\"\"A toy experiment: first line.\"\"\"

    import os
    import time
    from functools import partial
    from pathlib import Path

    from experiments.study import Experiment, Measured, draw_line, table, whole_page
    from postshift.exceptions import InputError

    HERE = Path(os.environ["TOY"])


    def method(name, seed, quick):
        with (HERE / "log").open("a") as stream:
            stream.write(f"{name} {seed}{' quick' * quick}\\n")
        block = HERE / "block"
        while block.exists() and block.read_text() == f"{name} {seed}":
            time.sleep(0.01)
        broken = HERE / "broken"
        if broken.exists() and name in broken.read_text().split():
            raise {"a": ValueError("out of paint"), "b": InputError("no such colour: give another")}[name]
        return Measured(values={"test": 0.25 + seed / 8, "loss": 2.0 if name == "a" else 3.0}, queries=7)


    def draw(results, axes):
        for rank, name in enumerate(results.methods):
            draw_line(axes, [1], [results.values(name)], label=name, rank=rank)


    EXPERIMENT = Experiment(
        name="toy",
        title="A toy",
        methods={name: partial(method, name) for name in "abc"},
        paper={"a": (0.5, 0.1)},
        page=lambda results: whole_page(results, table(results, ours=["c"])),
        figure=draw if (HERE / "drawn").exists() else None,
        seeds=2,
        config={"paint": os.environ.get("PAINT", "red")},
    )
"""
CALL = """
    import sys
    from experiments import registry
    from experiments.__main__ import main
    registry.EXPERIMENTS.clear()
    registry.EXPERIMENTS["toy"] = "toy_experiment"
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Return the folder of a toy experiment, which is the only one that there is."""
    (tmp_path / "toy_experiment.py").write_text(dedent(TOY))
    monkeypatch.setenv("TOY", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_experiment", raising=False)
    monkeypatch.setattr(command, "EXPERIMENTS", {"toy": "toy_experiment"})
    yield tmp_path
    sys.modules.pop("toy_experiment", None)


def log(folder):
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


def run(folder, *options):
    return command.main(["toy", "--out", str(folder / "out"), *options])


def stored(folder):
    return {(row.method, row.seed, row.name): row for row in Store(folder / "out" / "toy.csv").read()}


class TestProcesses:
    """The command in a process of its own."""

    @staticmethod
    def start(folder, *options):
        environment = {**os.environ, "TOY": str(folder), "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
        return subprocess.Popen(
            [sys.executable, "-c", dedent(CALL), "toy", "--out", str(folder / "out"), *options],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
    def test_a_killed_run_loses_one_method_and_seed(self, toy, how, code):
        (toy / "block").write_text("b 1")
        process = self.start(toy)
        deadline = time.monotonic() + 60
        while "b 1" not in log(toy) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert log(toy) == ["a 0", "b 0", "c 0", "a 1", "b 1"]
        process.send_signal(how)
        _, told = process.communicate(timeout=60)
        assert process.returncode == code
        assert ("goes on from there" in told) == (how == signal.SIGINT)
        before = stored(toy)
        assert len(before) == 4 * 2
        (toy / "block").unlink()

        assert run(toy) == 0
        assert log(toy)[5:] == ["b 1", "c 1"]
        after = stored(toy)
        assert len(after) == 6 * 2
        assert before.items() <= after.items()
        assert "Incomplete" not in (toy / "out" / "toy.md").read_text()

    def test_the_command_as_a_newcomer_calls_it(self):
        found = subprocess.run(
            [sys.executable, "-m", "experiments", "adult-prox"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert found.returncode == 2
        assert "there is no experiment 'adult-prox'; did you mean 'adult-proxy'?" in found.stderr


class TestStorage:
    def test_a_torn_last_line_is_dropped_and_cut_off(self, toy):
        assert run(toy, "--seeds", "1") == 0
        path = toy / "out" / "toy.csv"
        whole = path.read_bytes()
        path.write_bytes(whole + b'a,1,test,0.375,0.0,7,2,"{""paint"": ""r')
        assert Store(path).read() == list(stored(toy).values())
        assert len(stored(toy)) == 3 * 2
        assert run(toy) == 0
        assert path.read_bytes().startswith(whole)
        assert len(stored(toy)) == 6 * 2
        assert log(toy)[3:] == ["a 1", "b 1", "c 1"]

    def test_a_run_with_lines_missing_is_run_again(self, toy):
        assert run(toy, "--seeds", "1") == 0
        path = toy / "out" / "toy.csv"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-1]))  # the second value of c
        assert run(toy, "--seeds", "1") == 0
        assert log(toy) == ["a 0", "b 0", "c 0", "c 0"]
        assert len(stored(toy)) == 3 * 2

    def test_a_torn_first_line(self, tmp_path):
        (tmp_path / "some.csv").write_text("method,se")
        store = Store(tmp_path / "some.csv")
        assert store.read() == []
        store.append([ROW])
        assert store.read() == [ROW]
        assert (tmp_path / "some.csv").read_text().splitlines()[0] == ",".join(FIELDS)

    @pytest.mark.parametrize(
        "bad",
        ["a,b", "a,0,test,much,0,0,1,{},v", "a,0,test,1,0,0,1,{,v", "a,0,test,nan,0,0,1,{},v", "a,0,test,1,0,0,1,3,v"],
    )
    def test_a_line_that_is_no_result_is_named(self, tmp_path, bad):
        path = tmp_path / "some.csv"
        store = Store(path)
        store.append([ROW])
        path.write_text(f"{path.read_text()}{bad}\n")
        with pytest.raises(StoredLineError, match=r"line 3 of .*some\.csv is no result .*delete the file"):
            store.read()

    @pytest.mark.parametrize("damage", [b"\xff\n", b'a,0,test,1,0,0,1,"{}"?,v\n'])
    def test_a_damaged_file_is_told(self, toy, capsys, damage):
        assert run(toy, "--seeds", "1") == 0
        path = toy / "out" / "toy.csv"
        path.write_bytes(path.read_bytes() + damage)
        assert run(toy) == 1
        assert re.search(r"FAILED toy: .*toy\.csv is damaged .*: mend it, or delete it", capsys.readouterr().err)

    def test_one_process_waits_for_another(self, tmp_path):
        path = tmp_path / "some.csv"
        row = [*vars(ROW).values()]
        code = f"""
            from pathlib import Path
            from experiments.store import FIELDS, Row, Store
            print("begun", flush=True)
            Store(Path({str(path)!r})).append([Row(**dict(zip(FIELDS, {row!r}, strict=True)))])
        """
        with path.open("ab") as stream, alone(stream):
            other = subprocess.Popen([sys.executable, "-c", dedent(code)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            assert other.stdout.readline() == "begun\n"
            with pytest.raises(subprocess.TimeoutExpired):
                other.wait(timeout=1)
            assert path.read_bytes() == b""
        other.communicate(timeout=60)
        assert Store(path).read() == [ROW]

    def test_a_bad_line_fails_that_experiment_only(self, toy, capsys):
        (toy / "out").mkdir()
        (toy / "out" / "toy.csv").write_text("nonsense\nmore\n")
        assert run(toy) == 1
        assert "FAILED toy: line 2 of" in capsys.readouterr().err

    def test_names_come_back_as_they_were(self, tmp_path):
        row = Row(**{**vars(ROW), "method": 'a, "b" ± ψ', "name": "test@5"})
        store = Store(tmp_path / "some.csv")
        store.append([row])
        assert store.read() == [row]

    def test_configuration_and_versions_are_stored(self, toy):
        assert run(toy, "--seeds", "1") == 0
        row = stored(toy)["a", 0, "test"]
        assert row.config == '{"paint": "red", "quick": false}'
        assert all(name in row.versions for name in ("postshift ", "numpy ", "scikit-learn ", "Python "))
        assert (row.value, row.queries, row.n_values) == (0.25, 7, 2)
        assert row.seconds >= 0

    def test_results_of_another_configuration_do_not_count(self, toy, monkeypatch):
        assert run(toy, "--seeds", "1") == 0
        monkeypatch.setenv("PAINT", "blue")
        sys.modules.pop("toy_experiment")
        assert run(toy, "--seeds", "1") == 0
        assert log(toy) == ["a 0", "b 0", "c 0"] * 2


class TestCommand:
    def test_the_page_is_made_again_from_the_csv(self, toy):
        (toy / "drawn").touch()
        assert run(toy) == 0
        files = {path.name: path.read_bytes() for path in (toy / "out").iterdir()}
        assert set(files) == {"toy.csv", "toy.md", "toy.png", "toy.svg"}
        for name in ("toy.md", "toy.png", "toy.svg"):
            (toy / "out" / name).unlink()
        assert run(toy, "--render") == 0
        assert {path.name: path.read_bytes() for path in (toy / "out").iterdir()} == files
        assert len(log(toy)) == 6

    def test_nothing_to_render(self, toy, capsys):
        assert run(toy, "--render") == 1
        assert "toy.csv has no results: run `python -m experiments toy` first" in capsys.readouterr().err

    def test_quick_results_are_printed_and_not_stored(self, toy, capsys, monkeypatch):
        monkeypatch.setattr(command, "OUT", toy / "elsewhere")
        assert command.main(["toy", "--quick"]) == 0
        assert log(toy) == ["a 0 quick", "b 0 quick", "c 0 quick"]
        assert "**A quick look**" in capsys.readouterr().out
        assert not (toy / "elsewhere").exists()

    def test_quick_results_are_no_results(self, toy):
        assert run(toy, "--quick") == 0
        assert "**A quick look**" in (toy / "out" / "toy.md").read_text()
        assert run(toy, "--seeds", "1") == 0
        assert log(toy)[3:] == ["a 0", "b 0", "c 0"]
        assert "**A quick look**" not in (toy / "out" / "toy.md").read_text()

    def test_what_is_missing_is_on_the_page(self, toy):
        assert run(toy, "--seeds", "1") == 0
        text = (toy / "out" / "toy.md").read_text()
        assert "**Incomplete.** 3 of 6 runs are not stored yet, of: a; b; c." in text

    def test_some_methods_alone_and_then_the_others(self, toy):
        assert run(toy, "--methods", "b", "zzz", "--seeds", "1") == 0
        assert log(toy) == ["b 0"]
        assert "**Incomplete.** 5 of 6 runs are not stored yet" in (toy / "out" / "toy.md").read_text()
        assert run(toy) == 0
        assert log(toy)[1:] == ["a 0", "c 0", "a 1", "b 1", "c 1"]

    def test_the_page_has_what_another_process_stored_meanwhile(self, toy, monkeypatch):
        measure = runner.measure

        def beside(*given, **options):
            monkeypatch.setattr(runner, "measure", measure)
            assert run(toy, "--methods", "c") == 0
            return runner.measure(*given, **options)

        monkeypatch.setattr(runner, "measure", beside)
        assert run(toy, "--methods", "a", "b") == 0
        assert "Incomplete" not in (toy / "out" / "toy.md").read_text()

    def test_no_such_method(self, toy, capsys):
        assert run(toy, "--methods", "x", "y") == 1
        assert "toy: no method has x or y in its name: a, b, c" in capsys.readouterr().err
        assert log(toy) == []

    def test_a_quick_look_does_not_have_every_method(self, toy, capsys):
        toy_experiment = command.load("toy")
        assert toy_experiment.quick_methods is None
        object.__setattr__(toy_experiment, "quick_methods", ["a"])
        assert run(toy, "--quick", "--methods", "b") == 1
        assert "toy: no method has b in its name: a" in capsys.readouterr().err

    def test_a_folder_that_cannot_be_written_is_told_before_the_work(self, toy, capsys):
        (toy / "out").write_text("a file")
        assert run(toy) == 1
        assert "FAILED toy: [Errno" in capsys.readouterr().err
        assert log(toy) == []

    def test_a_disk_that_fills_up_ends_the_run(self, toy, capsys, monkeypatch):
        (toy / "broken").write_text("a")
        monkeypatch.setattr(Store, "append", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert run(toy) == 1
        told = capsys.readouterr().err
        assert "FAILED toy: a, seed 0: ValueError: out of paint" in told
        assert "FAILED toy: b, seed 0 could not be stored: [Errno 28] No space left on device" in told
        assert log(toy) == ["a 0", "b 0"]

    def test_a_failing_method_is_told_and_the_others_go_on(self, toy, capsys):
        (toy / "broken").write_text("a b")
        assert run(toy) == 1
        told = capsys.readouterr().err
        assert log(toy) == ["a 0", "b 0", "c 0", "a 1", "b 1", "c 1"]
        assert {(method, seed) for method, seed, _ in stored(toy)} == {("c", 0), ("c", 1)}
        assert "FAILED toy: a, seed 0: ValueError: out of paint" in told
        assert "Traceback" in told.partition("FAILED b")[0]
        assert "Traceback" not in told.partition("FAILED b, seed 0")[2].partition("FAILED a, seed 1")[0]
        assert told.count("InputError: no such colour: give another") == 1
        assert "FAILED toy: b, seed 1: as above" in told
        (toy / "broken").unlink()
        assert run(toy) == 0
        assert log(toy)[6:] == ["a 0", "b 0", "a 1", "b 1"]

    def test_all_runs_everything_though_one_is_missing(self, toy, capsys, monkeypatch):
        both = {"gone": "no_such_module", "toy": "toy_experiment"}
        monkeypatch.setattr(command, "EXPERIMENTS", both)
        assert command.main(["all", "--out", str(toy / "out")]) == 1
        assert len(log(toy)) == 6
        assert "FAILED gone: No module named 'no_such_module'" in capsys.readouterr().err

    def test_a_wrong_line_of_the_registry_is_told(self, toy, capsys, monkeypatch):
        monkeypatch.setattr(command, "EXPERIMENTS", {"game": "toy_experiment"})
        assert command.main(["game", "--out", str(toy / "out")]) == 1
        assert "toy_experiment has the experiment 'toy'" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["tyo"], "there is no experiment 'tyo'; did you mean 'toy'?"),
            (["zzz"], "there is no experiment 'zzz'. Known: toy, all"),
            ([], "name an experiment, or 'all'. Known: toy"),
            (["toy", "--seeds", "0"], "must be a whole number from 1. Got '0' instead"),
            (["toy", "--seeds", "few"], "must be a whole number from 1. Got 'few' instead"),
        ],
    )
    def test_what_is_wrong_is_told(self, toy, capsys, arguments, message):
        with pytest.raises(SystemExit) as caught:
            command.main(arguments)
        assert caught.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split())
        assert log(toy) == []

    def test_list(self, toy, capsys):
        assert command.main(["--list"]) == 0
        assert capsys.readouterr().out.split(None, 1) == ["toy", "A toy experiment: first line.\n"]
        assert log(toy) == []


class TestRegistry:
    def test_the_experiments_of_the_issue_are_there(self):
        assert set(registry.EXPERIMENTS) >= {
            "adult-proxy",
            "adult-fairness",
            "macro-f",
            "base-quality",
            "validation-size",
            "runtime",
        }

    @pytest.mark.parametrize("name", registry.EXPERIMENTS)
    def test_each_is_described(self, name):
        text = command.described(registry.EXPERIMENTS[name])
        assert text
        assert not text.startswith("(")


# -- the parts ----------------------------------------------------------------------------------------------

ROW = Row(
    method="a",
    seed=0,
    name="test",
    value=0.5,
    seconds=0.1,
    queries=3,
    n_values=1,
    config='{"quick": false}',
    versions="v 1",
)


def results_of(values, *, paper=None, seeds=2):
    """Return results of methods given by their values."""
    rows = [
        Row(**{**vars(ROW), "method": method, "seed": seed, "value": value})
        for method, found in values.items()
        for seed, value in enumerate(found)
    ]
    experiment = Experiment(
        name="some",
        title="Some",
        methods=dict.fromkeys(values, lambda seed, quick: Measured(values={"test": seed + quick})),
        page=lambda results: whole_page(results, table(results)),
        paper=paper or {},
        seeds=seeds,
    )
    return experiment.results(rows)


class TestTables:
    def test_welch_is_scipys(self):
        rng = np.random.default_rng(0)
        first, second = rng.normal(size=5), rng.normal(1.0, 3.0, size=8)
        assert welch(first, second) == pytest.approx(stats.ttest_ind(first, second, equal_var=False).pvalue)

    def test_welch_of_equal_values(self):
        same = np.array([0.5, 0.5])
        assert welch(same, same) == 1
        assert welch(same, same + 0.1) == 0
        assert np.isnan(welch(same, same[:1]))

    @pytest.mark.parametrize(
        ("p", "mark"), [(0.2, ""), (0.05, ""), (0.049, "*"), (0.009, "**"), (0.0009, "***"), (np.nan, "")]
    )
    def test_stars(self, p, mark):
        assert stars(p) == mark

    def test_summary_is_the_t_interval(self):
        values = np.array([0.1, 0.4, 0.2, 0.35])
        found = summary(values)
        low, high = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
        assert (found.mean, found.sd) == pytest.approx((values.mean(), values.std(ddof=1)))
        assert (found.low, found.high) == pytest.approx((low, high))
        assert summary(values[:1]).cells() == ["0.100", "", ""]

    def test_the_closest_is_the_best_of_the_others(self):
        results = results_of({"a": [0.1, 0.11], "b": [0.5, 0.51], "ours": [0.7, 0.72]})
        assert against_closest(results, "ours", ["a", "b"]) == "+0.205*"
        assert against_closest(results, "a", ["b", "ours"]) == "-0.605**"
        assert against_closest(results, "ours", []) == ""

    def test_a_table(self):
        results = results_of({"a": [0.5, 0.7], "ours": [0.8, 0.9]}, paper={"a": (0.58, 0.02), "ours": (0.9, np.nan)})
        lines = table(results, ours=["ours"]).splitlines()
        assert lines[2] == "| a | 0.600 | 0.141 | -0.671 to 1.871 |  | 0.1 | 3 | 0.580 ± 0.020 | +0.020 |"
        assert lines[3] == "| ours | 0.850 | 0.071 | 0.215 to 1.485 | +0.250 | 0.1 | 3 | 0.900 | -0.050 |"
        assert len(lines) == 4

    def test_methods_keep_the_experiments_order(self):
        results = results_of({"b": [0.1], "a": [0.2]})
        shuffled = results.experiment.results(results.rows[::-1])
        assert shuffled == results
        assert shuffled.methods == ["b", "a"]

    def test_long_paragraphs_are_wrapped_and_tables_are_not(self):
        results = results_of({"a": [0.5, 0.7]})
        text = whole_page(results, f"{'word ' * 60}\n\n| {'cell ' * 60}|")
        assert re.search(r"^\| (cell ){60}\|$", text, re.MULTILINE)
        assert max(len(line) for line in text.splitlines() if line.startswith("word")) <= 120


class TestRunner:
    @pytest.mark.parametrize("values", [{}, {"test": np.nan}, {"test": 0.5, "loss": np.inf}])
    def test_what_is_no_number_is_not_stored(self, values, tmp_path):
        experiment = Experiment(
            name="some",
            title="Some",
            methods={"a": lambda seed, quick: Measured(values=values)},  # noqa: ARG005
            page=lambda results: whole_page(results, ""),
        )
        outcome = runner.run(experiment, folder=tmp_path, seeds=1, quick=False)
        assert len(outcome.failures) == 1
        assert outcome.results.rows == ()
        assert Store(tmp_path / "some.csv").read() == []

    def test_the_time_given_is_kept(self):
        given = Experiment(
            name="some",
            title="Some",
            methods={"a": lambda seed, quick: Measured(values={"test": 1.0}, seconds=12.3456)},  # noqa: ARG005
            page=lambda results: whole_page(results, ""),
        )
        assert runner.measure(given, "a", 0, quick=False)[0].seconds == 12.346

    def test_lines_where_there_is_no_terminal(self, capsys):
        with runner.progress("some", 2) as step:
            step("first")
            step("second")
        assert capsys.readouterr().err == "some 1 of 2: first\nsome 2 of 2: second\n"

    @pytest.mark.parametrize("package", ["rich", "tqdm"])
    def test_a_bar_on_a_terminal(self, package, capsys, monkeypatch):
        pytest.importorskip(package)
        if package == "tqdm":
            monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with runner.progress("some", 2) as step:
            step("[first]")
            step("[second]")
        told = capsys.readouterr().err
        assert "2/2" in told
        assert "[second]" in told

    def test_no_bar_without_the_packages(self, capsys, monkeypatch):
        for package in ("rich", "tqdm"):
            monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with runner.progress("some", 1) as step:
            step("first")
        assert capsys.readouterr().err == "some 1 of 1: first\n"

    def test_figures_without_matplotlib(self, toy, capsys, monkeypatch):
        (toy / "drawn").touch()
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert run(toy) == 1
        assert "figures need matplotlib: pip install '.[report]'" in capsys.readouterr().err
        assert (toy / "out" / "toy.md").exists()


def test_results_without_rows_say_so():
    empty = Results(experiment=results_of({"a": []}).experiment, rows=())
    assert empty.methods == []
    assert len(empty.missing) == 2
