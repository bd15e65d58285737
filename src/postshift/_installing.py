"""Optional packages: how to import them, and how to install them from a clone (postshift is not on PyPI)."""

from __future__ import annotations

import importlib
from typing import Any

from postshift.exceptions import ExportError

_EXTRAS = {  # other packages come with `export`
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "httpx": "oracle",
    "pandas": "data",
}


def install(*extras: str) -> str:
    """Return the command that installs extras of postshift.

    Examples
    --------
    >>> install("cli", "report")
    "pip install '.[cli,report]' in a clone of postshift"
    """
    return f"pip install '.[{','.join(extras)}]' in a clone of postshift"


def needed(name: str) -> Any:
    """Return an optional package of the report or of the export, or raise with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        command = install(_EXTRAS.get(package, "export"))
        raise ExportError(f"this needs the package {package!r}: {command}") from error
