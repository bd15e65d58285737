"""Inputs and runs that all cases copy and none changes."""

from functools import cache

import pytest

from tests.fuzz.runs import Used, make, write_inputs


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """Files of the user's."""
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="session")
def made(inputs, tmp_path_factory):
    """Return a function that gives the run of a kind, made when it is first wanted."""
    folder = tmp_path_factory.mktemp("made")
    return cache(lambda kind: make(kind, inputs, folder / kind))


@pytest.fixture
def secret(tmp_path):
    """A folder of files that no run may make a command open, each with code that would leave a mark there."""
    folder = tmp_path / "secret"
    folder.mkdir()
    mark = folder / "mark"
    code = f"import pathlib\npathlib.Path({str(mark)!r}).write_text('run')\ndef f(y_true, y_pred):\n    return 1.0\n"
    (folder / "x.py").write_text(code)
    (folder / "costs.csv").write_text("true,ant,bee,cat\nant,0,1,1\nbee,1,0,1\ncat,1,1,hunter2\n")
    yield folder
    assert not mark.exists()


@pytest.fixture
def used(made, inputs, tmp_path, secret):
    """Return a function that copies a run of a kind."""
    return lambda kind: Used.copy_of(made(kind), inputs, tmp_path, secret)
