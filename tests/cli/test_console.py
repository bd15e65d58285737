"""Output is plain text: no control character of a file reaches the terminal; progress and JSON."""

import json
import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from postshift.cli.console import Console, as_json
from tests.cli.helpers import environment, fit, inside, make_rows, postshift, script

pytestmark = pytest.mark.slow

RED = "\x1b[31m"

TITLE = "\x1b]0;owned\x07"  # sets the title of a terminal

MARKS = {"ant": f"ant{RED}", "bee": f"be\u202ee{TITLE}", "cat": "cat\x9b2J"}


def is_plain(text):
    """Whether a terminal gets printable characters and ends of lines only."""
    return all(each.isprintable() for line in text.split("\n") for each in line)


@pytest.fixture
def marked(tmp_path):
    """A folder and files with control characters in class names, column names, groups and paths."""
    folder = tmp_path / f"rows{RED}"
    folder.mkdir()
    for name, seed in (("train", 0), ("val", 1), ("test", 2)):
        frame = make_rows(320, seed).replace({"y": MARKS}).replace({"region": {"north": f"north{TITLE}"}})
        columns = {f"p_{name}": f"p_{mark}" for name, mark in MARKS.items()}
        frame.rename(columns={**columns, "region": f"region{RED}"}).to_csv(folder / f"{name}.csv", index=False)
    return folder


def test_class_names_columns_groups_and_paths(marked):
    run, test = marked / "run", marked / "test.csv"
    how = ["--val", marked / "val.csv", "--label", "y", "--metric", "f1_macro", "--basis", f"col:region{RED}"]
    shown = [
        postshift("fit", *how, "--method", f"influence [region{RED}]", "--out", run),
        inside("evaluate", run, test),
        inside("evaluate", run, test, "--json"),
        inside("predict", run, test, "-o", marked / "labels.csv"),
        inside("report", run),
    ]
    for done in shown:
        assert done.code == 0, done.err
        assert is_plain(done.out), repr(done.out)
        assert is_plain(done.err), repr(done.err)
    assert "ant\\x1b[31m" in shown[1].out  # as text, so that the name can still be read
    assert shown[2].json["classes"] == list(MARKS.values())  # and JSON says what it is
    assert set(pd.read_csv(marked / "labels.csv")["label"]) == set(MARKS.values())


def test_errors_warnings_and_tracebacks(marked):
    val, out = marked / "val.csv", marked / "run"
    few = marked / "few.csv"
    pd.read_csv(val).head(60).to_csv(few, index=False)
    warned = fit("--val", few, "--label", "y", "--metric", "f1_macro", "--out", out)
    assert warned.code == 0, warned.err
    failed = [
        inside("fit", "--val", val, "--label", f"z{RED}", "--metric", "f1_macro", "--out", out, "--force"),
        inside("fit", "--val", val, "--label", "y", "--metric", f"f1{TITLE}", "--out", out, "--force"),
        inside("fit", "--val", marked / f"none{RED}.csv", "--label", "y", "--metric", "f1", "--out", out, "--force"),
        postshift("evaluate", out, marked / "test.csv", "--label", f"region{RED}", "--debug"),
        postshift(f"fit{RED}"),
    ]
    for done in failed:
        assert done.code in (2, 3)
        assert is_plain(done.out), repr(done.out)
        assert is_plain(done.err), repr(done.err)


def test_messages_of_programs(files, tmp_path):
    message = f"{TITLE}{RED}no\x9bgood"
    program = script(tmp_path / "score.py", f"import sys\nsys.exit({message!r})\n")
    how = ["--val", files / "val.csv", "--label", "y", "--metric-command", f"{program} {{predictions}}"]
    done = postshift("fit", *how, "--budget", 30, "--out", tmp_path / "run")
    assert done.code == 1
    assert is_plain(done.err), repr(done.err)
    assert "\\x1b]0;owned\\x07\\x1b[31mno\\x9bgood" in done.error


def test_one_name_is_one_line(files, tmp_path):
    """A class name with the end of a line in it cannot look like a line of ours."""
    forged = "ant\nerror: the disk is full"
    for name in ("val", "test"):
        frame = pd.read_csv(files / f"{name}.csv").replace({"y": {"ant": forged}})
        frame.rename(columns={"p_ant": f"p_{forged}"}).to_csv(tmp_path / f"{name}.csv", index=False)
    assert (
        fit("--val", tmp_path / "val.csv", "--label", "y", "--metric", "f1_macro", "--out", tmp_path / "run").code == 0
    )
    done = inside("evaluate", tmp_path / "run", tmp_path / "test.csv")
    assert done.code == 0, done.err
    assert not any(line.startswith("error: the disk") for line in done.out.splitlines())
    assert "ant\\nerror: the disk is full" in done.out


def test_a_terminal_with_a_progress_bar(marked):
    pty = pytest.importorskip("pty")
    pid, terminal = pty.fork()
    if pid == 0:  # the child has a terminal of its own
        how = ["--val", marked / "val.csv", "--label", "y", "--metric", "f1_macro", "--basis", f"col:region{RED}"]
        command = ["-m", "postshift.cli", "fit", *how, "--method", f"influence [region{RED}]", "--out", marked / "run"]
        os.execve(sys.executable, [sys.executable, *map(str, command)], environment(TERM="xterm"))  # noqa: S606
    shown = _all_of(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    assert "f1_macro" in shown
    assert RED not in shown
    assert TITLE not in shown


def _all_of(terminal):
    """Everything that a terminal is sent."""
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side has closed it
            part = b""
        if not part:
            return b"".join(parts).decode(errors="replace")
        parts.append(part)


def test_letters_that_the_terminal_has_not(files, tmp_path):
    for name in ("val", "test"):
        frame = pd.read_csv(files / f"{name}.csv").replace({"y": {"ant": "Ameise ä"}})
        frame.rename(columns={"p_ant": "p_Ameise ä"}).to_csv(tmp_path / f"{name}.csv", index=False)
    assert (
        fit("--val", tmp_path / "val.csv", "--label", "y", "--metric", "f1_macro", "--out", tmp_path / "run").code == 0
    )
    shown = postshift("evaluate", tmp_path / "run", tmp_path / "test.csv", PYTHONIOENCODING="ascii")
    assert shown.code == 0, shown.err
    assert "Ameise \\xe4" in shown.out
    found = postshift("evaluate", tmp_path / "run", tmp_path / "test.csv", "--json", PYTHONIOENCODING="ascii")
    assert found.code == 0, found.err
    assert json.loads(found.out)["classes"][0] == "Ameise ä"


def test_paths_that_are_no_text(made, files, tmp_path):
    run, _ = made
    odd = os.fsdecode(b"rows\xff.csv")
    try:
        shutil.copy(files / "test.csv", tmp_path / odd)
    except OSError:
        pytest.skip("this file system takes names of text only")
    new = ["predict", run, tmp_path / odd, "-o", tmp_path / f"out-{odd}"]
    for arguments in (new, [*new, "--json", "--force"], ["evaluate", run, tmp_path / odd]):
        done = postshift(*arguments)
        assert done.code == 0, done.err
        assert "--json" not in arguments or done.json["output"].endswith("out-rows\udcff.csv")
    how = ["--label", "y", "--metric", "f1_macro"]
    done = fit("--val", tmp_path / odd, *how, "--out", tmp_path / f"run-{odd}")
    assert done.code == 0, done.err


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
