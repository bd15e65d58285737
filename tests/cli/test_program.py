"""A program as the metric: stopped, failing, hanging, resumed."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from postshift.cli.errors import UsageError, WorkError
from postshift.cli.program import number_in, predictions_file, split_command
from tests.cli.helpers import FAST, environment, fit, fit_inside, inside, postshift, script

# It counts its runs in a file beside it, and scores by the labels that it alone knows.
SCORE = """
import csv, pathlib, sys, time
here = pathlib.Path(__file__).parent
with open(sys.argv[1]) as stream:
    found = [row["label"] for row in csv.DictReader(stream)]
with open(here / "val.csv") as stream:
    truth = [row["y"] for row in csv.DictReader(stream)]
with open(here / "asked", "a") as stream:
    stream.write("x")
if len(sys.argv) > 2:
    while (here / "asked").stat().st_size > int(sys.argv[2]):
        time.sleep(0.05)
print("scored", len(found), "rows")
print(sum(a == b for a, b in zip(found, truth)) / len(truth))
"""


@pytest.fixture
def folder(files, tmp_path):
    """A folder with the program, its secret labels, and the same rows without labels."""
    frame = pd.read_csv(files / "val.csv")
    frame.to_csv(tmp_path / "val.csv", index=False)
    frame.drop(columns="y").to_csv(tmp_path / "rows.csv", index=False)
    script(tmp_path / "score.py", SCORE)
    return tmp_path


def asked(folder):
    """How often the program was run."""
    path = folder / "asked"
    return path.stat().st_size if path.exists() else 0


def how(name, *, method="influence", wait=()):
    command = " ".join(["./score.py {predictions}", *map(str, wait)])
    return ["--val", "rows.csv", "--metric-command", command, "--budget", "40", "--method", method, "--out", name]


def begin(folder, *arguments):
    """Start a fit and return the process."""
    return subprocess.Popen(
        [sys.executable, "-m", "postshift.cli", "fit", *FAST, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, process):
    """Wait until something is so, while the process lives."""
    for _ in range(2400):
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it took too long")


def is_alive(pid):
    """Whether a process runs; one that has ended and that nobody has waited for is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_stopped_runs_go_on_where_they_were(folder):
    whole = postshift("fit", *FAST, *how("whole"), "--json", cwd=folder)
    assert whole.code == 0, whole.err
    result = whole.json
    n_whole = asked(folder)
    assert 3 < result["queries"] == result["program_runs"] == n_whole <= 40
    assert result["after"] >= result["before"]
    truth = pd.read_csv(folder / "val.csv")["y"]
    labels = pd.read_csv(folder / "whole" / "validation.csv")
    assert result["before"] == pytest.approx((labels["before"] == truth).mean())
    assert "label" not in labels.columns
    rule = (folder / "whole" / "rule.skops").read_bytes()

    # Ctrl-C at the third query, and SIGKILL at the sixth, with half a line written.
    (folder / "asked").unlink()
    waiting = how("run", wait=[2])
    process = begin(folder, *waiting)
    wait_for(lambda: asked(folder) == 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "error: stopped; 2 answers are stored; resume with the same command and --resume\n"
    assert json.loads((folder / "run" / "run.json").read_text())["state"] == "failed"
    assert fit_inside(*waiting, cwd=folder).code == 2  # neither --resume nor --force

    (folder / "asked").unlink()
    process = begin(folder, *waiting, "--resume")
    wait_for(lambda: asked(folder) == 3, process)
    process.kill()
    process.communicate()
    answers = folder / "run" / "answers.jsonl"
    assert json.loads((folder / "run" / "run.json").read_text())["state"] == "running"
    assert len(answers.read_text().splitlines()) == 1 + 4  # the first line says what they are about
    with answers.open("a") as stream:
        stream.write('{"query": "ab')
    (folder / "asked").unlink()
    script(folder / "score.py", SCORE.replace("if len(sys.argv) > 2:", "if False:"))
    done = postshift("fit", *waiting, "--resume", "--json", cwd=folder)
    assert done.code == 0, done.err
    assert "the metric program has changed" in done.err
    assert asked(folder) == done.json["program_runs"] == n_whole - 4
    assert (folder / "run" / "rule.skops").read_bytes() == rule
    assert done.json["after"] == result["after"]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("import sys; print(0.5); sys.exit('the disk is full')", ["exit code 1", "the disk is full"]),
        ("print('0.5'); print('not a number')", ["finite number", "'not a number'"]),
        ("print('nan')", ["finite number", "'nan'"]),
        ("", ["printed nothing"]),
    ],
    ids=["fails", "rubbish", "nan", "nothing"],
)
def test_programs_that_fail(text, texts, folder):
    script(folder / "score.py", text)
    done = fit(*how("run"), cwd=folder)
    assert done.code == 1
    for each in [*texts, "0 answers are stored", "--resume"]:
        assert each in done.error
    assert json.loads((folder / "run" / "run.json").read_text())["state"] == "failed"


@pytest.mark.slow
def test_a_program_that_hangs_is_killed_with_its_children_and_the_run_goes_on(folder):
    script(
        folder / "score.py",
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "time.sleep(600)\n",
    )
    done = fit(*how("run"), "--metric-timeout", "2", cwd=folder)
    assert done.code == 1
    assert "timed out after 2 s" in done.error
    assert "--metric-timeout" in done.error
    child = int((folder / "child").read_text())
    for _ in range(100):
        if not is_alive(child):
            break
        time.sleep(0.05)
    lives = is_alive(child)
    if lives:  # leave nothing behind, whatever the outcome
        os.kill(child, signal.SIGKILL)
    assert not lives
    script(folder / "score.py", SCORE)
    done = fit_inside(*how("run"), "--resume", "--json", cwd=folder)
    assert done.code == 0, done.err
    refused = inside("evaluate", folder / "run", folder / "val.csv", cwd=folder)
    assert refused.code == 2
    assert "--metric NAME" in refused.error
    scored = inside("evaluate", folder / "run", folder / "val.csv", "--label", "y", "--metric", "accuracy", "--json")
    assert scored.json["after"] == pytest.approx(done.json["after"])


def test_less_is_better_and_a_budget_that_is_too_small(folder):
    script(folder / "score.py", SCORE.replace("print(sum(a == b", "print(1 - sum(a == b"))
    arguments = how("run", method="influence")
    done = postshift("fit", *FAST, *arguments, "--less-is-better", "--json", cwd=folder)
    assert done.code == 0, done.err
    labels = pd.read_csv(folder / "run" / "validation.csv")
    truth = pd.read_csv(folder / "val.csv")["y"]
    assert -done.json["before"] == pytest.approx((labels["before"] != truth).mean())
    arguments[arguments.index("40")] = "1"
    done = fit_inside(*arguments, "--less-is-better", "--force", cwd=folder)
    assert done.code == 2
    assert "budget" in done.error


def test_a_request_to_terminate_ends_the_program_too(folder):
    how_to_end = "import os, pathlib, signal, time\npathlib.Path('pid').write_text(str(os.getpid()))\n"
    script(folder / "score.py", how_to_end + "os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(600)\n")
    done = fit_inside(*how("run"), cwd=folder)
    assert done.code == 143
    assert done.error == "stopped; 0 answers are stored; resume with the same command and --resume"
    assert not is_alive(int((folder / "pid").read_text()))


def test_force_with_a_program_that_fails_keeps_the_old_run_and_its_answers(folder):
    shutil.copy(folder / "val.csv", folder / "old.csv")
    how_old = ["--val", "old.csv", "--label", "y", "--metric", "accuracy", "--out", "run"]
    assert fit_inside(*how_old, cwd=folder).code == 0
    old = (folder / "run" / "rule.skops").read_bytes()
    failing = "if (here / 'asked').stat().st_size == 3:\n    sys.exit('away')\nif False:"
    script(folder / "score.py", SCORE.replace("if len(sys.argv) > 2:", failing))
    done = fit_inside(*how("run"), "--force", cwd=folder)
    assert done.code == 1
    assert "away; 2 answers are stored" in done.error
    assert (folder / "run" / "rule.skops").read_bytes() == old
    n_asked = asked(folder)
    done = fit_inside(*how("run"), "--force", "--resume", "--json", cwd=folder)
    assert done.code == 0, done.err
    assert asked(folder) - n_asked == done.json["program_runs"] == done.json["queries"] - 2
    assert (folder / "run" / "rule.skops").read_bytes() != old
    assert not [path for path in folder.iterdir() if path.name.startswith(".run")]


def test_what_programs_read_and_print():
    text = predictions_file(np.array(["a,b", 'c"d']))
    assert pd.read_csv(io.BytesIO(text)).to_dict("list") == {"row": [0, 1], "label": ["a,b", 'c"d']}
    assert number_in("1\n 2e-3 \n\n", "p") == 0.002
    for wrong in ("inf", "1 2", "", "0.5\nend"):
        with pytest.raises(WorkError):
            number_in(wrong, "p")
    with pytest.raises(UsageError, match="cannot be split"):
        split_command("sh '{predictions}")
