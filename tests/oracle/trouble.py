"""Trouble with a ledger: what a learner sees of it, and what the owner does."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess

import pytest

from tests.oracle.servers import code_of, value_body


def answers(client, seeds):
    """Ask for values; return the answer of each question, or the code of the refusal."""
    found = []
    for seed in seeds:
        response = client.post("/v1/answers", json=value_body(seed))
        found.append(response.json()["answer"]["data"] if response.status_code == 200 else code_of(response))
    return found


def copied(source, target):
    """Copy a database of SQLite while it is in use, as a backup does."""
    with contextlib.closing(sqlite3.connect(source)) as one, contextlib.closing(sqlite3.connect(target)) as two:
        one.backup(two)


def changed(path, *statements):
    """Change a database of SQLite behind the back of its ledger, without the triggers that refuse it."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)


@contextlib.contextmanager
def small_disk(folder, *, kilobytes):
    """Mount a disk of this size at a folder, where the system lets tests do that."""
    folder.mkdir()
    mount = shutil.which("mount")
    words = [mount or "mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
