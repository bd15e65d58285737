"""Every code block of the README runs, in order, in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.paper import overview

ROOT = Path(__file__).parents[2]


def test_the_python_blocks_run(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_commands_for_the_terminal_run(tmp_path):
    blocks = re.findall(r"```console\n(postshift .*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    lines = blocks[0].splitlines()
    assert {shlex.split(line)[1] for line in lines} == {"demo", "fit", "evaluate", "predict"}
    for line in lines:
        command = [sys.executable, "-m", "postshift.cli", *shlex.split(line)[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").exists()
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 501


@pytest.mark.parametrize(("page", "short"), [(overview.README, True), (overview.PAGE, False)])
def test_the_tables_of_results_are_made_from_what_is_stored(page, short):
    text = page.read_text()
    assert overview.with_table(text, short=short) == text
    assert text.count("| [Adult, ") == 2


def test_the_readme_fits_on_two_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_two_commands_stand_on_top():
    head = (ROOT / "README.md").read_text()[:900]
    assert "make demo" in head
    assert "make test" in head


def test_no_dead_link():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
