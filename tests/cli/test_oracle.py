"""``postshift oracle``: what the commands show."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import inside


@pytest.fixture
def folder(tmp_path):
    labels = np.random.default_rng(0).permutation(60) % 2
    pd.DataFrame({"y": labels}).to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


def init(folder, *options):
    return inside("oracle", "init", "labels", "rows.csv", "--label", "y", "--metric", "accuracy", *options, cwd=folder)


def test_init_says_what_comes_next(folder):
    made = init(folder)
    assert made.code == 0, made.err
    lines = made.out.splitlines()
    assert lines[0] == "labels: 60 rows, metric accuracy, private mode"
    assert lines[1] == "answered: table, confusion; budget: rho 0.1 (epsilon 1.91 at delta 1e-05)"
    assert "your token (it is shown only now): pso_" in made.out
    assert "next: postshift oracle token create labels --name LEARNER; postshift oracle serve labels" in " ".join(
        made.out.split()
    )


def test_a_token_is_shown_with_its_end(folder):
    init(folder)
    made = inside("oracle", "token", "create", "labels", "--name", "ann", cwd=folder)
    head, secret = made.out.split()[:2], made.out.split()[-1]
    assert head[0] == "token"
    assert secret.startswith(f"psl_{head[1]}_")


def test_log_and_list_are_tables(folder):
    init(folder)
    assert inside("oracle", "log", "labels", "--limit", "1", cwd=folder).out.split()[:6] == [
        "number",
        "time",
        "event",
        "token",
        "cost",
        "text",
    ]
    assert "owner" in inside("oracle", "token", "list", "labels", cwd=folder).out


def test_the_clock_is_accepted(folder):
    init(folder)
    shown = inside("oracle", "accept", "labels", "--clock", cwd=folder)
    assert (shown.code, "the clock is accepted" in shown.out) == (0, True)
    lines = inside("oracle", "log", "labels", "--json", cwd=folder).json["lines"]
    assert lines[0]["event"] == "clock"


@pytest.mark.parametrize("words", [("oracle",), ("oracle", "token")])
def test_help_is_shown_without_a_command(words):
    assert "Usage" in inside(*words).out + inside(*words).err
