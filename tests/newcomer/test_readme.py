"""Every code block of the README runs, in order, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_python_blocks_run(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rule.npz", "run.npz"]


def test_the_two_commands_stand_on_top():
    head = (ROOT / "README.md").read_text()[:900]
    assert "make demo" in head
    assert "make test" in head


def test_no_dead_link():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
