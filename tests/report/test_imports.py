"""What is imported when, and what is said where an optional package is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_report_imports_no_optional_package():
    found = run(
        "import sys, postshift.report; "
        "print(sorted({'jinja2', 'matplotlib', 'pandas', 'sklearn', 'typer', 'rich'} & set(sys.modules)))"
    )
    assert found == "[]"


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("jinja2", "render(None)"),
        ("matplotlib", "report.WeightsDisplay({'all rows': [1, 2]}, ['a', 'b']).plot()"),
    ],
)
def test_a_missing_package_is_named_with_the_remedy(package, call):
    found = run(
        f"import sys; sys.modules[{package!r}] = None\n"
        "from postshift import report\n"
        "from postshift.exceptions import ExportError\n"
        "from postshift.report import render\n"
        f"try:\n    {call}\nexcept ExportError as error:\n    print(error)"
    )
    assert found == f"this needs the package {package!r}: pip install '.[report]' in a clone of postshift"


def test_public_names():
    from postshift import report

    assert all(hasattr(report, name) for name in report.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Strange'"):
        _ = report.Strange
