"""skops, imported without what it does not need.

When it is imported, skops looks at every module of scikit-learn, and those about other kinds of arrays import torch,
dask or cupy where they are installed: seconds, for a command that takes one.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_NOT_NEEDED = ("torch", "dask", "cupy", "jax", "sparse")


def import_skops() -> Any:
    """Return ``skops.io``; while it is imported, packages of other arrays that are not loaded yet are kept away."""
    hidden = [name for name in _NOT_NEEDED if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # so says the import system: there is none
    try:
        return importlib.import_module("skops.io")
    finally:
        for name in hidden:
            del sys.modules[name]
