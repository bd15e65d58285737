"""Check before saving: files store functions and classes by name, so lambdas and local ones cannot be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from postshift.exceptions import ExportError

_PLAIN = (str, bytes, int, float, complex, bool, type(None), ModuleType, np.generic)
_REMEDY = (
    "define it in a module that can be imported where the model is loaded; the .onnx graph needs neither metric nor "
    "bases: compute phi outside and feed it"
)


def check_savable(model: Any) -> None:
    """Raise if a lambda, a local function or an object of a local class is anywhere in a model, and say where."""
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
        waiting += reversed([(place + step, part) for step, part in parts_of(value)])


def not_saved(error: Exception, suffix: str) -> ExportError:
    """Return the error for a model that pickle or skops cannot save."""
    return ExportError(f"the model cannot be saved as {suffix}: {error}. If that is an object of your own, {_REMEDY}")


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a container or an object, each with the step that leads to it."""
    if isinstance(value, type | FunctionType):
        return
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, each in value.items() for part in (key, each))
    elif isinstance(value, np.ndarray):
        cells = value.ravel().tolist() if value.dtype == object else ()
        yield from ((f"[{index}]", part) for index, part in enumerate(cells))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield "", value.__self__
    yield from ((f".{name}", part) for name, part in attributes_of(value))


def attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object itself, in its ``__dict__`` and its slots, by name."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)
