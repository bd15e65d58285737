"""The command line as a user has it: a process of its own, with its exit code and both of its streams."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

CLASSES = ("ant", "bee", "cat")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
FAST = ("--method", "smoothed plug-in", "--quiet")


@dataclass(frozen=True)
class Done:
    """What a process left."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """The one line of an error, which must be the only one and without a traceback."""
        assert "Traceback" not in self.err, self.err
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("error: ")


def environment(**more):
    """The environment of a process: one thread, no colours, a fixed width."""
    plain = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}
    return os.environ | plain | more


def postshift(*arguments, cwd=None, **more):
    """Run ``postshift`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "postshift.cli", *map(str, arguments)],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    check_advice(arguments, done.stderr)
    return Done(done.returncode, done.stdout, done.stderr)


def inside(*arguments, cwd=None):
    """Run ``postshift`` in this process, for what needs none of its own: imports are most of a command's time."""
    from postshift.cli.app import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd or "."))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        code = run([str(each) for each in arguments])
    check_advice(arguments, err.getvalue())
    return Done(code, out.getvalue(), err.getvalue())


def options_of(*words):
    """The options that a command has; the words may name a command of a group, and more may follow."""
    from typer.main import get_command

    from postshift.cli.app import app

    found, options = get_command(app), set()
    for word in words:
        found = getattr(found, "commands", {}).get(word)
        if found is None:
            break
        options |= {option for each in found.params for option in each.opts}
    return {"--help"} | options


def check_advice(arguments, err):
    """Every option that an error or a warning names is one of the command, or of the command that it names.

    ``--x of the fit`` and ``fit again with --x`` are options of fit, whatever the command is; what the user wrote may
    be repeated.
    """
    words, given = [str(each) for each in arguments], {str(each).partition("=")[0] for each in arguments}
    for line in err.splitlines():
        if not line.startswith(("error: ", "warning: ")):
            continue
        rest = line
        for pattern in (r"postshift (\w+)[^;:,()]*", r"(fit) again with --[\w-]+", r"--[\w-]+ of the (fit)"):
            for found in re.finditer(pattern, rest):
                named = set(_OPTION.findall(found[0])) - options_of(found[1])
                assert not named, f"{found[1]} has no {named}: {line}"
            rest = re.sub(pattern, "", rest)
        missing = set(_OPTION.findall(rest)) - options_of(*words) - given
        assert not missing, f"{words[:1]} has no {missing}: {line}"


def fit_inside(*arguments, cwd=None):
    """Run ``postshift fit`` in this process, with the fast rule."""
    return inside("fit", *FAST, *arguments, cwd=cwd)


def fit(*arguments, cwd=None, **more):
    """Run ``postshift fit`` with the fast rule."""
    return postshift("fit", *FAST, *arguments, cwd=cwd, **more)


def make_rows(n_rows, seed, *, flipped=0.0):
    """Rows of three classes: a label, probabilities that lean to the first class, features, groups and weights."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, p=[0.6, 0.25, 0.15], size=n_rows)
    centres = np.array([[0.0, 0.0], [1.4, 0.2], [0.3, 1.5]])
    x = centres[truth] + rng.normal(scale=0.8, size=(n_rows, 2))
    logits = -((x[:, None, :] - centres) ** 2).sum(axis=2) + np.array([1.2, 0.0, -0.3])
    eta = np.exp(logits)
    eta /= eta.sum(axis=1, keepdims=True)
    wrong = rng.random(n_rows) < flipped
    labels = np.where(wrong, 0, truth)
    return pd.DataFrame(
        {
            "y": np.array(CLASSES)[labels],
            **{f"p_{name}": eta[:, place] for place, name in enumerate(CLASSES)},
            "x1": x[:, 0],
            "x2": x[:, 1],
            "region": np.where(x[:, 0] > 0.5, "north", "south"),
            "amount": rng.uniform(1, 3, size=n_rows).round(3),
        }
    )


def write_files(folder: Path):
    """Write train.csv, val.csv and test.csv, and return the folder."""
    make_rows(300, 0, flipped=0.3).to_csv(folder / "train.csv", index=False)
    make_rows(320, 1).to_csv(folder / "val.csv", index=False)
    make_rows(200, 2).to_csv(folder / "test.csv", index=False)
    return folder


def script(path: Path, text: str):
    """Write a Python program that can be run."""
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def contents(folder):
    """All files of a folder by their relative paths, with their bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
