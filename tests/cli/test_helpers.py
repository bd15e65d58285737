"""The small parts by themselves."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from postshift.cli import run_folder
from postshift.cli.app import run
from postshift.cli.columns import Classes, canonical, classes_of, eta_of, feature_columns, probability_columns
from postshift.cli.console import Console, as_json
from postshift.cli.errors import FileError, UsageError, WorkError, explained
from postshift.cli.folders import put_in_place
from postshift.cli.metric_option import read_metric
from postshift.cli.program import Answers, number_in, predictions_file, split_command
from postshift.cli.tables import FileTable
from postshift.exceptions import ArchiveError, BudgetError, MetricError, SettingError

HEADER = {
    "settings": {},
    "digests": {},
    "layout": {"class_names": ["a", "b"], "class_values": ["a", "b"]},
    "metric": {"text": "accuracy", "kind": "name", "digest": None},
    "copies": {},
    "program": None,
}


def table(**columns):
    return FileTable(path="rows.csv", frame=pd.DataFrame(columns), digest="")


@pytest.mark.parametrize(
    ("left", "right"), [(1, "1"), (1.0, "1.0"), ("01", 1), (-0.0, 0), (True, "TRUE"), (np.int8(3), "3"), (" a", "a")]
)
def test_labels_that_are_the_same(left, right):
    assert canonical(left) == canonical(right)


@pytest.mark.parametrize(("left", "right"), [(1, True), (0.5, "0"), ("a", "A"), (10, 1), (-1, 1), (1e300, 1e299)])
def test_labels_that_differ(left, right):
    assert canonical(left) != canonical(right)


@pytest.mark.parametrize(
    ("labels", "values"),
    [
        ([1, 0, 1], (0, 1)),
        ([1.0, 0.0], (0.0, 1.0)),
        ([True, False], (False, True)),
        (["0", "1"], ("0", "1")),
    ],
)
def test_classes_have_the_type_of_the_labels(labels, values):
    names = ["false", "true"] if isinstance(labels[0], bool) else ["0", "1"]
    found = classes_of(names, pd.Series(labels)).values
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def test_two_columns_of_the_same_class_are_refused():
    with pytest.raises(UsageError, match="both read as '1'"):
        classes_of(["1", "1.0"])


def test_codes_of_labels():
    classes = Classes(names=("0", "1"), values=(0, 1))
    assert classes.codes(table(y=[1.0, 0.0, 1.0]), "y").tolist() == [1, 0, 1]
    with pytest.raises(UsageError, match=r"label '2.0' .* \(2 rows, the first is row 1\)"):
        classes.codes(table(y=[1.0, 2.0, 2.0]), "y")


def test_the_star_is_the_class_and_other_columns_are_left_out():
    rows = table(p_a=[0.5], p_b=[0.5], p_y=[1], q=[2])
    assert probability_columns(rows, "p_*", but=["p_y", None]) == {"a": "p_a", "b": "p_b"}
    assert feature_columns(rows, but=["p_a", "p_b"], chosen=None) == ["p_y", "q"]
    with pytest.raises(UsageError, match="one column only, 'qa'"):
        probability_columns(table(qa=[1], p=[2]), "q*")


def test_probabilities_are_checked():
    assert eta_of(table(a=[1.0], b=[3.0]), ["a", "b"], normalise=True).tolist() == [[0.25, 0.75]]
    with pytest.raises(UsageError, match=r"row 1 .* -0\.1 in column 'a'"):
        eta_of(table(a=[0.5, -0.1], b=[0.5, 1.1]), ["a", "b"], normalise=False)
    with pytest.raises(UsageError, match=r"row 0 .* all 0"):
        eta_of(table(a=[0.0], b=[0.0]), ["a", "b"], normalise=True)
    with pytest.raises(UsageError, match="missing or infinite, the first is row 1"):
        eta_of(table(a=[0.5, np.nan], b=[0.5, 1.0]), ["a", "b"], normalise=False)


def test_exit_codes():
    assert explained(SettingError("x"))[0] == explained(BudgetError("x"))[0] == 2
    assert explained(ArchiveError("x"))[0] == explained(OSError(13, "Permission denied", "f"))[0] == 3
    assert explained(MetricError("x"))[0] == explained(MemoryError())[0] == 1
    assert explained(KeyError("k")) == (1, "unexpected KeyError: 'k' (--debug shows where)")
    wrapped = MetricError("long")
    wrapped.__cause__ = WorkError("short")
    assert explained(wrapped) == (1, "short")


def test_answers_are_kept_and_half_a_line_is_dropped(tmp_path):
    path = tmp_path / "answers.jsonl"
    answers = Answers(path)
    answers.add("a", 0.1)
    answers.add("b", 1e-17)
    with path.open("a") as stream:
        stream.write('{"predictions": "c", "val')
    again = Answers(path)
    assert (len(again), again.get("a"), again.get("b"), again.get("c")) == (2, 0.1, 1e-17, None)
    again.add("c", 2.0)
    assert Answers(path).get("c") == 2.0
    whole = path.read_text()
    path.write_text(whole.replace("1e-17", "1e-11"))
    with pytest.raises(FileError, match=r"line 2 of .* was damaged"):
        Answers(path)
    path.write_text(whole)
    path.write_text("rubbish\n" + path.read_text())
    with pytest.raises(FileError, match="line 1 of"):
        Answers(path)


def test_what_programs_read_and_print():
    text = predictions_file(np.array(["a,b", 'c"d']))
    assert pd.read_csv(io.BytesIO(text)).to_dict("list") == {"row": [0, 1], "label": ["a,b", 'c"d']}
    assert number_in("1\n 2e-3 \n\n", "p") == 0.002
    for wrong in ("inf", "1 2", "", "0.5\nend"):
        with pytest.raises(WorkError):
            number_in(wrong, "p")
    with pytest.raises(UsageError, match="cannot be split"):
        split_command("sh '{predictions}")


def test_json_has_no_nan():
    assert json.loads(as_json({"a": np.float64("inf"), "b": np.arange(2), "c": [float("nan")]})) == {
        "a": None,
        "b": [0, 1],
        "c": [None],
    }


class _Context:
    def __init__(self, name, parent=None, max_subtasks=None):
        self.task_name, self.parent, self.max_subtasks = name, parent, max_subtasks


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_on_a_terminal_and_elsewhere(terminal, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with Console().progress("fit") as progress:
        root = _Context("root")
        stage = _Context("stage", root, 30)
        for context in (root, stage, *(_Context(f"step {k}", stage) for k in range(30))):
            progress.on_fit_task_begin(None, context)
        progress.on_fit_task_end(None, stage)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = [line for line in shown.err.splitlines() if "of at most 30" in line]
    assert len(lines) == (0 if terminal else 10)
    assert "30/30" in shown.err or not terminal
    with Console(quiet=True).progress("fit") as progress:
        assert progress is None


def test_two_processes_do_not_write_the_same_run(tmp_path):
    target = run_folder.target_of(tmp_path / "run", force=False, resume=False)
    first, second = run_folder.Writer(target, HEADER), run_folder.Writer(target, HEADER)
    with first.writing(resumable=True):
        pid = os.fork() if hasattr(os, "fork") else None
        if pid == 0:
            code = 1
            try:
                with second.writing(resumable=True):
                    pass
            except UsageError as error:
                code = 0 if "another process" in str(error) else 2
            finally:
                os._exit(code)
        assert pid is None or os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run_folder.open_run(tmp_path / "run").state == "finished"


def test_a_failed_run_that_cannot_be_resumed_leaves_nothing(tmp_path):
    def make(*, resumable):
        target = run_folder.target_of(tmp_path / "run", force=False, resume=True)
        with run_folder.Writer(target, HEADER).writing(resumable=resumable):
            raise WorkError("no luck")

    with pytest.raises(WorkError):
        make(resumable=False)
    assert not (tmp_path / "run").exists()
    with pytest.raises(WorkError):
        make(resumable=True)
    assert run_folder.open_run(tmp_path / "run", finished=False).state == "failed"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["why"] == "no luck"


def test_a_folder_takes_the_place_of_another(tmp_path):
    new, out = tmp_path / "new", tmp_path / "out"
    for folder in (new, out):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    put_in_place(new, out, Path.is_file)
    assert (out / "name").read_text() == "new"
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_that_cannot_take_the_place_leaves_the_old_one(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "name").write_text("old")
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "gone", out, Path.is_file)
    assert (out / "name").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_python_file_that_cannot_be_imported(tmp_path, files):
    (tmp_path / "bad.py").write_text("import nothing_of_that_name")
    with pytest.raises(WorkError, match="nothing_of_that_name"):
        read_metric(f"{tmp_path / 'bad.py'}:f", None)
    assert run(["fit", "--val", str(files / "val.csv"), "--label", "y", "--metric", "none.py:f", "--out", "r"]) == 3
