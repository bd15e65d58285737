"""The optional packages of export, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from postshift._installing import install
from postshift.exceptions import ExportError


def needed(name: str) -> Any:
    """Return an optional package, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExportError(f"this needs the package {name.partition('.')[0]!r}: {install('export')}") from error
