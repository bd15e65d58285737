"""The watch itself: it sees code and files that must not be touched, and lets the rest pass."""

import ctypes
import os
import pickle
import subprocess
import sys
import warnings

import pytest

from tests.fuzz.damage import BYTE_WAYS, JSON_WAYS, damaged_bytes, damaged_json
from tests.fuzz.watch import watched


class Runs:
    def __reduce__(self):
        return os.getpid, ()


PICKLE = pickle.dumps(Runs())
SINS = {
    "system": lambda _: os.system("true"),  # noqa: S605
    "process": lambda _: subprocess.run([sys.executable, "--version"], check=True, capture_output=True),
    "pickle": lambda _: pickle.loads(PICKLE),  # noqa: S301
    "secret": lambda folder: (folder / "secret" / "x.py").read_text(),
    "link to a secret": lambda folder: (folder / "work" / "link").read_text(),
    "elsewhere": lambda folder: (folder / "other.txt").write_text("x"),
    "opened elsewhere": lambda folder: os.close(os.open(folder / "other.txt", os.O_WRONLY | os.O_CREAT)),
    "removed elsewhere": lambda folder: (folder / "there.txt").unlink(),
    "code": lambda folder: exec(compile("x = 1", str(folder / "work" / "x.py"), "exec")),  # noqa: S102
    "filters": lambda _: warnings.simplefilter("ignore"),
    "folder": os.chdir,
}


@pytest.fixture
def folder(tmp_path, secret):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(secret / "x.py")
    (tmp_path / "there.txt").write_text("x")
    return tmp_path


@pytest.mark.parametrize("sin", SINS.values(), ids=SINS.keys())
def test_it_sees(sin, folder, secret, monkeypatch):
    monkeypatch.chdir(folder / "work")
    with pytest.raises(AssertionError), watched(folder / "work", secret):
        sin(folder)


def test_it_lets_the_rest_pass(folder, secret):
    with watched(folder / "work", secret, allowed=(sys.executable,)):
        (folder / "work" / "new.txt").write_text("x")
        (folder / "there.txt").read_text()
        subprocess.run([sys.executable, "--version"], check=True, capture_output=True)
        ctypes.string_at(b"x")


def test_every_way_to_damage_changes_something():
    import numpy as np

    rng = np.random.default_rng(0)
    value = {"a": [1, {"b": "text"}], "c": None, "d": {"e": 0.5}}
    assert {damaged_json(value, rng)[0] for _ in range(200)} == set(JSON_WAYS)
    found = [damaged_bytes(b"0123456789" * 20, rng) for _ in range(200)]
    assert {name for name, _ in found} == set(BYTE_WAYS)
    assert all(content != b"0123456789" * 20 for _, content in found)
