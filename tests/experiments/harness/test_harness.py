"""The harness: results survive a kill, pages come from the CSV, failures are reported, tables are right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from scipy import stats

from experiments import registry
from experiments.harness import command, runner
from experiments.harness.experiment import Experiment, Results
from experiments.harness.files import versions
from experiments.harness.page import whole_page
from experiments.harness.progress import progress
from experiments.harness.store import LONG, Row, Store, StoredLineError, locked
from experiments.harness.tables import against_closest, mean_sd, stars, summary, table, welch

ROOT = Path(__file__).parents[3]

# Every run is written to a log; where a file "block" names a run, it waits there. A file "drawn" asks for figures.
TOY = """
    \"\"\"A toy experiment: first line.\"\"\"

    import os
    import time
    from functools import partial
    from pathlib import Path

    from experiments.harness.experiment import Experiment
    from experiments.harness.figures import draw_line, side_by_side
    from experiments.harness.page import whole_page
    from experiments.harness.store import Row
    from experiments.harness.tables import table
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
        return Row(values={"test": 0.25 + seed / 8, "loss": 2.0 if name == "a" else 3.0}, queries=7)


    def draw(results, axes):
        for rank, name in enumerate(results.methods):
            draw_line(axes, [1], [results.values(name)], label=name, rank=rank)


    EXPERIMENT = Experiment(
        name="toy",
        title="A toy",
        methods={name: partial(method, name) for name in "abc"},
        paper={"a": (0.5, 0.1)},
        page=lambda results: whole_page(results, table(results, ours=["c"])),
        figure=side_by_side(draw) if (HERE / "drawn").exists() else None,
        seeds=2,
        config={"paint": os.environ.get("PAINT", "red")},
    )
"""
CALL = """
    import sys
    from experiments import registry
    from experiments.harness.command import main
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
    monkeypatch.setattr(registry, "EXPERIMENTS", {"toy": "toy_experiment"})
    yield tmp_path
    sys.modules.pop("toy_experiment", None)


def log(folder):
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


def run(folder, *options):
    return command.main(["toy", "--out", str(folder / "out"), *options])


def stored(folder):
    return {(row.method, row.seed): row for row in Store(folder / "out" / "toy.csv").read()}


class TestProcesses:
    """The command in a process of its own."""

    @staticmethod
    def start(folder, *options):
        environment = {
            **os.environ,
            "TOY": str(folder),
            "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT, ROOT / "src"))),
        }
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
        assert len(before) == 4
        (toy / "block").unlink()

        assert run(toy) == 0
        assert log(toy)[5:] == ["b 1", "c 1"]
        after = stored(toy)
        assert len(after) == 6
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
        assert len(stored(toy)) == 3
        assert run(toy) == 0
        assert path.read_bytes().startswith(whole)
        assert len(stored(toy)) == 6
        assert log(toy)[3:] == ["a 1", "b 1", "c 1"]

    def test_a_run_with_lines_missing_is_run_again(self, toy):
        assert run(toy, "--seeds", "1") == 0
        path = toy / "out" / "toy.csv"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-1]))  # the second value of c
        assert run(toy, "--seeds", "1") == 0
        assert log(toy) == ["a 0", "b 0", "c 0", "c 0"]
        assert [list(row.values) for row in stored(toy).values()] == [["test", "loss"]] * 3

    def test_a_torn_first_line(self, tmp_path):
        (tmp_path / "some.csv").write_text("method,se")
        store = Store(tmp_path / "some.csv")
        assert store.read() == []
        store.append([ROW])
        assert store.read() == [ROW]
        assert (tmp_path / "some.csv").read_text().splitlines()[0] == ",".join(LONG)

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
        assert re.search(r"FAILED toy: .*toy\.csv is damaged .*: fix it, or delete it", capsys.readouterr().err)

    def test_one_process_waits_for_another(self, tmp_path):
        path = tmp_path / "some.csv"
        code = f"""
            from pathlib import Path
            from experiments.harness.store import Row, Store
            print("begun", flush=True)
            Store(Path({str(path)!r})).append([Row(**{vars(ROW)!r})])
        """
        with path.open("ab") as stream, locked(stream):
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
        row = replace(ROW, method='a, "b" ± ψ', values={"test@5": 0.5})
        store = Store(tmp_path / "some.csv")
        store.append([row])
        assert store.read() == [row]

    def test_configuration_and_versions_are_stored(self, toy):
        assert run(toy, "--seeds", "1") == 0
        row = stored(toy)["a", 0]
        assert row.config == {"paint": "red", "quick": False}
        assert all(name in row.versions for name in ("postshift ", "numpy ", "scikit-learn ", "Python "))
        assert (row.values, row.queries) == ({"test": 0.25, "loss": 2.0}, 7)
        assert row.seconds >= 0

    def test_results_of_another_configuration_do_not_count(self, toy, monkeypatch):
        assert run(toy, "--seeds", "1") == 0
        monkeypatch.setenv("PAINT", "blue")
        sys.modules.pop("toy_experiment")
        assert run(toy, "--seeds", "1") == 0
        assert log(toy) == ["a 0", "b 0", "c 0"] * 2


class TestWideFiles:
    """Files with a column for each value, and the versions in lines above the rows that were made with them."""

    COLUMNS = ("task", "method", "size", "seed", "score", "adopted")
    FIRST = Row(task="x, y", method="a", size=50, seed=0, values={"score": 0.5, "adopted": 1.0}, versions="v 1")

    def store(self, folder):
        return Store(folder / "some.csv", self.COLUMNS)

    def test_rows_come_back_as_they_were(self, tmp_path):
        store, second = self.store(tmp_path), replace(self.FIRST, seed=1, values={"adopted": 0.0})
        store.append([self.FIRST, second])
        assert store.read() == [self.FIRST, second]
        assert store.path.read_text().splitlines() == [
            "# v 1",
            "task,method,size,seed,score,adopted",
            '"x, y",a,50,0,0.5,1.0',
            '"x, y",a,50,1,nan,0.0',
        ]

    def test_rows_keep_the_versions_they_were_made_with(self, tmp_path):
        store, later = self.store(tmp_path), [replace(self.FIRST, seed=seed, versions="v 2") for seed in (1, 2)]
        for rows in ([self.FIRST], later[:1], later[1:]):
            store.append(rows)
        assert store.read() == [self.FIRST, *later]
        assert store.path.read_text().count("# ") == 2

    def test_truth_values_and_the_order_of_columns_of_older_files(self, tmp_path):
        (tmp_path / "some.csv").write_text("# v 1\nmethod,seed,adopted,task,size,score\na,0,True,x,50,0.25\n")
        store = self.store(tmp_path)
        kept = replace(self.FIRST, task="x", values={"adopted": 1.0, "score": 0.25})
        store.append([self.FIRST])
        assert store.read() == [kept, self.FIRST]

    @pytest.mark.parametrize("bad", ["x,a,50,0", "x,a,50,0,much,1.0", "x,a,50,0,1,1,1", "x,a,few,0,1,1"])
    def test_a_line_that_is_no_result_is_named(self, tmp_path, bad):
        store = self.store(tmp_path)
        store.append([self.FIRST])
        store.path.write_text(f"{store.path.read_text()}{bad}\n")
        with pytest.raises(StoredLineError, match=r"line 4 of .*some\.csv is no result"):
            store.read()

    def test_a_disk_that_fills_up_leaves_what_was_there(self, tmp_path, monkeypatch):
        store = self.store(tmp_path)
        store.append([self.FIRST])
        before = store.path.read_bytes()

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.append([replace(self.FIRST, seed=1)])
        assert store.path.read_bytes() == before


def of_task(task, seed, quick):
    """Return two made-up rows of a task, or fail."""
    if (task, seed) == ("a", 1) and quick:
        raise ValueError("out of paint")
    return [Row(task=task, method=name, values={"f1": 0.5 + 0.01 * seed}) for name in ("base", "ours")]


class TestTasks:
    """A method may give several rows, which its name is a part of."""

    @pytest.fixture
    def tiny(self):
        return Experiment(
            name="tiny",
            title="Tiny",
            methods={task: partial(of_task, task) for task in "ab"},
            page=lambda _: "",
            by=("task",),
            columns=("task", "seed", "name", "method", "value"),
            seeds={"a": 2, "b": 3},
        )

    def test_only_what_is_missing_is_run(self, tiny, tmp_path):
        store = runner.store_of(tiny, tmp_path)
        kept = [
            replace(row, seed=1, values={"f1": 0.25}, versions="postshift 0, numpy 0") for row in of_task("b", 1, False)
        ]
        store.append(kept)
        outcome = runner.run(tiny, folder=tmp_path)
        assert outcome.failures == ()
        assert outcome.results.missing == []
        assert [(row.task, row.seed, row.method) for row in outcome.results.rows] == [
            (task, int(seed), method) for task, seed in ("a0", "a1", "b0", "b1", "b2") for method in ("base", "ours")
        ]
        assert outcome.results.made_with == f"{versions()}; postshift 0, numpy 0"
        np.testing.assert_array_equal(outcome.results.values("ours", "f1", task="b"), [0.5, 0.25, 0.52])
        assert [path.name for path in tmp_path.iterdir()] == ["tiny.csv"]

    def test_a_task_that_fails_takes_no_other_with_it(self, tiny, tmp_path):
        outcome = runner.run(tiny, folder=tmp_path, seeds=2, quick=True)
        assert outcome.failures == ("tiny: a, seed 1: ValueError: out of paint",)
        assert {(row.task, row.seed) for row in outcome.results.rows} == {("a", 0), ("b", 0), ("b", 1)}
        assert [path.name for path in tmp_path.iterdir()] == ["tiny.quick.csv"]

    def test_rows_without_a_time_have_none(self, tiny):
        results = tiny.results([Row(task="a", method="base", values={"f1": 0.5})])
        assert np.isnan(results.seconds("base", task="a")).all()
        assert list(results.by_method("a", "f1")) == ["base"]
        assert results.by_method("b", "f1") == {}


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

    def test_several_processes(self, toy):
        (toy / "broken").write_text("a")
        assert run(toy, "--jobs", "2") == 1
        assert sorted(log(toy)) == ["a 0", "a 1", "b 0", "b 1", "c 0", "c 1"]
        assert set(stored(toy)) == {(method, seed) for method in "bc" for seed in (0, 1)}

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
        toy_experiment = registry.load("toy")
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
        assert set(stored(toy)) == {("c", 0), ("c", 1)}
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
        monkeypatch.setattr(registry, "EXPERIMENTS", both)
        assert command.main(["all", "--out", str(toy / "out")]) == 1
        assert len(log(toy)) == 6
        assert "FAILED gone: No module named 'no_such_module'" in capsys.readouterr().err

    def test_a_wrong_line_of_the_registry_is_told(self, toy, capsys, monkeypatch):
        monkeypatch.setattr(registry, "EXPERIMENTS", {"game": "toy_experiment"})
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
            "baselines",
            "classifier_table",
            "menu_study",
            "verdicts",
            "weight_rates",
            "adult-proxy",
            "adult-fairness",
            "macro-f",
            "base-quality",
            "validation-size",
            "runtime",
        }

    @pytest.mark.parametrize("name", registry.EXPERIMENTS)
    def test_each_is_described(self, name):
        text = registry.described(name)
        assert text
        assert not text.startswith("(")


# -- the parts ----------------------------------------------------------------------------------------------

ROW = Row(method="a", values={"test": 0.5}, seconds=0.1, queries=3, config={"quick": False}, versions="v 1")


def results_of(values, *, paper=None, seeds=2):
    """Return results of methods given by their values."""
    rows = [
        replace(ROW, method=method, seed=seed, values={"test": value})
        for method, found in values.items()
        for seed, value in enumerate(found)
    ]
    experiment = Experiment(
        name="some",
        title="Some",
        methods=dict.fromkeys(values, lambda seed, quick: Row(values={"test": seed + quick})),
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

    def test_mean_and_standard_deviation(self):
        assert mean_sd(np.array([])) == ""
        assert mean_sd(np.array([0.5])) == "0.500"
        assert mean_sd(np.array([0.5, 0.7]), 2) == "0.60 ± 0.14"

    def test_a_difference_has_its_sign(self):
        assert summary(np.array([0.1, 0.2])).difference() == ["+0.1500", "-0.4853 to +0.7853"]
        assert summary(np.array([-0.1])).difference(2) == ["-0.10", ""]

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
            methods={"a": lambda seed, quick: Row(values=values)},  # noqa: ARG005
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
            methods={"a": lambda seed, quick: Row(values={"test": 1.0}, seconds=12.3456)},  # noqa: ARG005
            page=lambda results: whole_page(results, ""),
        )
        assert runner.measure(given, "a", 0, quick=False)[0].seconds == 12.346

    def test_lines_where_there_is_no_terminal(self, capsys):
        with progress("some", 2) as step:
            step("first")
            step("second")
        assert capsys.readouterr().err == "some 1 of 2: first\nsome 2 of 2: second\n"

    @pytest.mark.parametrize("package", ["rich", "tqdm"])
    def test_a_bar_on_a_terminal(self, package, capsys, monkeypatch):
        pytest.importorskip(package)
        if package == "tqdm":
            monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with progress("some", 2) as step:
            step("[first]")
            step("[second]")
        told = capsys.readouterr().err
        assert "2/2" in told
        assert "[second]" in told

    def test_no_bar_without_the_packages(self, capsys, monkeypatch):
        for package in ("rich", "tqdm"):
            monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with progress("some", 1) as step:
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
