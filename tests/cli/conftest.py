"""Files and runs that many tests read and none changes."""

import shutil

import pytest

from tests.cli.helpers import fit, write_files


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with train.csv, val.csv and test.csv; nobody writes to it."""
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="session")
def _made(files, tmp_path_factory):
    """A run with a basis of groups and one of leaves, and what its making printed."""
    path = tmp_path_factory.mktemp("made") / "run"
    done = fit(
        "--train", files / "train.csv", "--val", files / "val.csv", "--label", "y", "--metric", "g_mean",
        "--basis", "col:region,tree:3", "--method", "influence [region]", "--json", "--out", path,
    )  # fmt: skip
    return path, done


@pytest.fixture
def made(_made, tmp_path):
    """A copy of that run, and what its making printed."""
    path, done = _made
    shutil.copytree(path, tmp_path / "run")
    return tmp_path / "run", done
