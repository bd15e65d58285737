"""Every code block of the pages runs, page by page, in order, in an empty folder; or the page says why it does not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    str(page.relative_to(DOCS))
    for page in DOCS.rglob("*.md")
    if not {"results", "_build"} & set(page.relative_to(DOCS).parts[:-1])
)
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n+)?"
    r"(?P<fence>`{3,})(?P<language>python|console|sh)\n(?P<code>.*?)^(?P=fence)$",
    flags=re.DOTALL | re.MULTILINE,
)


def blocks_of(text):
    """Return language, code and line of every block that is to be run."""
    return [
        (found["language"], found["code"], text.count("\n", 0, found.start("code")))
        for found in BLOCK.finditer(text)
        if not found["reason"]
    ]


def run_python(code, *, page, line, names):
    exec(compile("\n" * line + code, page, "exec"), names)  # noqa: S102


def run_commands(code, *, page, line, folder, commands):
    """Run the lines as a shell would, with the commands of this environment first; return the group of processes."""
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    script = re.sub(r"^\$ ", "", code, flags=re.MULTILINE)
    environment = {**os.environ, "PATH": path}
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with subprocess.Popen(["sh", "-e", "-c", script], cwd=folder, env=environment, **how) as done:
        shown = done.communicate()[0]
    if done.returncode:
        stop(done.pid)
    assert done.returncode == 0, f"{page}, line {line + 1}:\n{shown}"
    return done.pid


def stop(group):
    """Kill what a page left behind: a server would keep its port."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """A folder with the command ``postshift``, which a source tree need not have installed."""
    command = tmp_path_factory.mktemp("bin") / "postshift"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m postshift.cli "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return command.parent


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_run(page, commands, tmp_path, monkeypatch):
    blocks = blocks_of((DOCS / page).read_text(encoding="utf-8"))
    main = ModuleType("__main__")  # classes and functions of a page can be pickled, as in a notebook
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        for language, code, line in blocks:
            if language == "python":
                run_python(code, page=page, line=line, names=main.__dict__)
            else:
                group = run_commands(code, page=page, line=line, folder=tmp_path, commands=commands)
                stack.callback(stop, group)


def test_what_counts_as_a_block():
    text = "# A\n\n```python\nx = 1\n```\n\n<!-- not run: no cluster -->\n```python\ny\n```\n\n"
    text += "```text\nz\n```\n\n```sh\nls\n```\n"
    assert blocks_of(text) == [("python", "x = 1\n", 3), ("sh", "ls\n", 16)]


def test_no_block_hides_from_the_tests():
    """Fences of other spelling (indented, with tildes, of another name for Python) would not be run."""
    hidden = re.compile(
        r"^(?:[ ]+`{3,}(?:python|console|sh)\b|~{3,}|`{3,}(?:py|python3|pycon|bash|shell)\b)", re.MULTILINE
    )
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        assert not hidden.search(text), page
        opened = re.findall(r"^`{3,}(?:python|console|sh)\b.*$", text, flags=re.MULTILINE)
        assert len(opened) == len(BLOCK.findall(text)), page
