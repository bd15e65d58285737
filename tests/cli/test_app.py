"""Help, lists and wrong usage, also if packages are missing."""

import subprocess
import sys

import pytest

from tests.cli.helpers import environment, inside, postshift

COMMANDS = ("demo", "fit", "predict", "evaluate", "report", "metrics", "bases", "doctor")


def python(code, **more):
    return subprocess.run(
        [sys.executable, "-c", code], env=environment(**more), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command):
    done = postshift(command, "--help")
    assert done.code == 0, done.err
    assert f"postshift {command}" in done.out
    assert "--debug" in done.out
    assert "130 stopped by Ctrl-C" in done.out


def test_help_lists_the_commands_and_needs_neither_scikit_learn_nor_pandas():
    code = (
        "import sys; from postshift.cli.app import run; code = run(['--help']); "
        "run(['metrics', '--quiet']); loaded = {'sklearn', 'pandas', 'matplotlib'} & set(sys.modules); "
        "sys.exit(f'loaded {loaded}' if loaded else code)"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert all(f" {command} " in done.stdout for command in COMMANDS)


def test_no_command_and_version():
    done = postshift()
    assert (done.code, done.err.strip()) == (2, "")
    assert "Usage" in done.out
    done = postshift("--version")
    assert done.code == 0
    assert done.out.startswith("postshift ")


def test_wrong_usage_offers_the_nearest():
    done = postshift("fti")
    assert done.code == 2
    assert "fit" in done.error
    done = inside("predict", "--otput", "x")
    assert done.code == 2
    assert "--otput" in done.error


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("typer", ["--help"], "cli"),
        ("rich", ["--help"], "cli"),
        ("skops", ["fit", "--val", "v.csv", "--label", "y", "--metric", "f1", "--out", "r"], "cli"),
        ("dask", ["fit", "--val", "v.csv", "--metric", "f1", "--scheduler", "tcp://a:1", "--out", "r"], "dask"),
        ("distributed", ["fit", "--val", "v.csv", "--metric", "f1", "--scheduler", "local", "--out", "r"], "dask"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(missing, arguments, extra, tmp_path):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['postshift', *{arguments!r}]; "
        "from postshift.cli import main; main()"
    )
    done = python(code)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"pip install '.[{extra}]'" in done.stderr
    assert not (tmp_path / "r").exists()


def test_importing_the_library_imports_no_package_of_the_command_line():
    done = python(
        "import sys, postshift; sys.exit(str({'typer', 'rich', 'pandas', 'jinja2'} & set(sys.modules) or '') or 0)"
    )
    assert done.returncode == 0, done.stderr
