"""Trouble with a ledger: what a learner sees of it, and what the owner does."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess

import pytest

from tests.oracle.servers import code_of, value_body


def answers(client, seeds):
    """Ask for values; return the answer of each query, or the code of the refusal."""
    found = []
    for seed in seeds:
        response = client.post("/v1/answers", json=value_body(seed))
        found.append(response.json()["answer"]["data"] if response.status_code == 200 else code_of(response))
    return found


def copied(source, target):
    """Copy a database of SQLite while it is in use, as a backup does."""
    with contextlib.closing(sqlite3.connect(source)) as one, contextlib.closing(sqlite3.connect(target)) as two:
        one.backup(two)


def behind_its_back(url, statements, *, triggers=False):
    """Change the database of a ledger with SQL; without the triggers, unless they are to refuse it."""
    change = _change_sqlite if url.startswith("sqlite") else _change_postgres
    change(url, [each for each in statements.split("; ") if each], triggers=triggers)


def _change_sqlite(url, statements, *, triggers):
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        if not triggers:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            connection.execute(statement.replace("'\\x41'", "x'41'"))


def _change_postgres(url, statements, *, triggers):
    import psycopg

    with psycopg.connect(url) as connection:
        if not triggers:
            connection.execute("SET session_replication_role = replica")
        for statement in statements:
            connection.execute(statement)


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
