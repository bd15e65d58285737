"""Functions that no file can hold: a file names them, and what has no place in a module cannot be found again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from postshift.exceptions import ExportError

_PLAIN = (str, bytes, int, float, complex, bool, type(None), ModuleType, np.ndarray, np.generic)
_REMEDY = (
    "define it in a module that can be imported where the model is loaded; the .onnx graph needs neither metric nor "
    "bases: compute phi outside and feed it"
)


def check_reachable(model: Any) -> None:
    """Refuse a model with a lambda, a local function or an object of a local class anywhere in it, by its place."""
    waiting, seen = [("", model)], set()
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        named = value if isinstance(value, FunctionType | type) else type(value)
        if "<" in named.__qualname__:
            what = "a lambda" if named.__name__ == "<lambda>" else f"defined inside a function ({named.__qualname__})"
            raise ExportError(f"{place.lstrip('.') or 'the model'} is {what} and cannot be saved: {_REMEDY}")
        waiting += reversed([(place + step, part) for step, part in _parts(value)])


def not_saved(error: Exception, suffix: str) -> ExportError:
    """Return the error for a model that pickle or skops refuses."""
    return ExportError(f"the model cannot be saved as {suffix}: {error}. If that is a part of yours, {_REMEDY}")


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, each with the step that leads to it."""
    if isinstance(value, type | FunctionType):
        return
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield "", value.__self__
    else:
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())
        slots = (name for kind in type(value).__mro__ for name in _slots(kind))
        yield from ((f".{name}", getattr(value, name)) for name in slots if hasattr(value, name))


def _slots(kind: type) -> tuple[str, ...]:
    """Return the names of a class's slots."""
    slots = kind.__dict__.get("__slots__", ())
    return tuple(name for name in ([slots] if isinstance(slots, str) else slots) if not name.startswith("__"))
