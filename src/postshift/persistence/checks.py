"""Checks of models in files: before one is saved, and after one was loaded.

Files store functions and classes by name, so lambdas and local ones cannot be saved.

A file can put any class in any place, with attributes that no constructor has checked. So every object that was loaded
is compared with the annotation of the attribute that holds it, and the checks of its constructor are repeated.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from postshift.exceptions import ArchiveError, ExportError
from postshift.persistence.data_classes import KINDS, NAMES, PARTS, class_name

_LEAVES = (str, bytes, int, float, complex, bool, type(None), types.ModuleType, np.generic)
_REMEDY = (
    "define it in a module that can be imported where the model is loaded; the .onnx graph needs neither metric nor "
    "bases: compute phi outside and feed it"
)
_PLAIN: dict[Any, tuple[type, ...]] = {
    str: (str,),
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    type(None): (type(None),),
}
_CONTAINERS = (Mapping, list, tuple, set, frozenset, np.ndarray)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, np.ufunc, type)


# -- before saving ---------------------------------------------------------------------------------------------


def check_savable(model: Any) -> None:
    """Raise if a lambda, a local function or an object of a local class is anywhere in a model, and say where."""
    waiting, seen = [("", model)], set()
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        named = value if isinstance(value, types.FunctionType | type) else type(value)
        if "<" in named.__qualname__:
            what = "a lambda" if named.__name__ == "<lambda>" else f"defined inside a function ({named.__qualname__})"
            raise ExportError(f"{place.lstrip('.') or 'the model'} is {what} and cannot be saved: {_REMEDY}")
        waiting += reversed([(place + step, part) for step, part in parts_of(value)])


def not_saved(error: Exception, suffix: str) -> ExportError:
    """Return the error for a model that pickle or skops cannot save."""
    return ExportError(f"the model cannot be saved as {suffix}: {error}. If that is an object of your own, {_REMEDY}")


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a container or an object, each with the step that leads to it."""
    if isinstance(value, type | types.FunctionType):
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
    elif isinstance(value, types.MethodType):
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


# -- after loading ---------------------------------------------------------------------------------------------


def check_places(model: Any, *, trusted: Collection[str]) -> None:
    """Raise if an object of postshift is in a wrong place, or holds something that it cannot hold.

    Parameters
    ----------
    model : object
        The content of a file, as skops loads it.
    trusted : collection of str
        Full names of types and functions that the user trusts: they may be in any place.
    """
    _Walk(trusted=frozenset(trusted), good=set()).check(model, _FILE, "")


@dataclass(frozen=True, slots=True)
class _Free:
    """A place without an annotation: whether parts of rules, and functions that skops trusts, may be there."""

    parts: bool
    functions: bool


_FILE = _Free(parts=True, functions=True)  # the file itself, and containers in it
_FOREIGN = _Free(parts=False, functions=True)  # inside an object of another library
_OWN = _Free(parts=False, functions=False)  # inside a class of postshift


@dataclass(frozen=True, slots=True)
class _Walk:
    """A check of every object of a file in its place; ``good`` has the objects and places that were checked."""

    trusted: frozenset[str]
    good: set[tuple[int, int]]

    def check(self, value: Any, hint: Any, place: str) -> None:
        """Raise if a value, or a part of it, does not belong in its place."""
        key = id(value), id(hint)
        if key in self.good:
            return
        if class_name(value if isinstance(value, _FUNCTIONS) else type(value)) in self.trusted:
            self._check_held(value, _FOREIGN, place)
        elif isinstance(hint, _Free):
            self._check_free(value, hint, place)
        else:
            self._check_typed(value, hint, place)
        self.good.add(key)

    def _check_free(self, value: Any, hint: _Free, place: str) -> None:
        """Check a value in a place without an annotation."""
        kind = class_name(type(value))
        if isinstance(value, _FUNCTIONS):
            if not hint.functions or class_name(value).startswith("postshift."):
                raise _misplaced(value, "data", place)
        elif kind in PARTS and not hint.parts:
            raise _misplaced(value, "a model, a metric or data", place)
        elif kind in NAMES:
            self._check_own(value, place)
        else:
            self._check_held(value, hint if isinstance(value, _CONTAINERS) else _FOREIGN, place)

    def _check_typed(self, value: Any, hint: Any, place: str) -> None:
        """Check a value against an annotation."""
        origin = get_origin(hint)
        if hint is Any:
            self.check(value, _OWN, place)
        elif origin in {Union, types.UnionType}:
            self._check_union(value, hint, place)
        elif origin in {tuple, list, dict, Mapping} and isinstance(value, origin):
            self._check_container(value, hint, place)
        elif not _fits(value, hint):
            raise _misplaced(value, _said(hint), place)
        elif class_name(type(value)) in NAMES:
            self._check_own(value, place)

    def _check_union(self, value: Any, hint: Any, place: str) -> None:
        """Check a value against the alternatives of an annotation."""
        for alternative in get_args(hint):
            try:
                return self.check(value, alternative, place)
            except ArchiveError:
                if type(value) is alternative:  # it belongs here, but a part of it does not
                    raise
        raise _misplaced(value, _said(hint), place)

    def _check_container(self, value: Any, hint: Any, place: str) -> None:
        """Check the values of a tuple, a list or a mapping against an annotation."""
        wanted = get_args(hint)
        if isinstance(value, Mapping):
            for key, part in value.items():
                self.check(key, wanted[0], f"{place}[{key!r}]")
                self.check(part, wanted[1], f"{place}[{key!r}]")
            return
        if isinstance(value, list) or wanted[-1] is Ellipsis:
            wanted = wanted[:1] * len(value)
        if len(value) != len(wanted):
            raise _misplaced(value, _said(hint), place)
        for index, (part, each) in enumerate(zip(value, wanted, strict=True)):
            self.check(part, each, f"{place}[{index}]")

    def _check_own(self, value: Any, place: str) -> None:
        """Check the attributes of an object of postshift, and repeat the checks of its constructor."""
        kind: Any = type(value)
        given, hints = dict(attributes_of(value)), _hints(kind)
        if class_name(kind) in PARTS or _is_plain_dataclass(kind):
            _check_names(kind, given, place)
        for name, part in given.items():
            if not _is_plain_dataclass(kind) and hasattr(inspect.getattr_static(kind, name, None), "__get__"):
                raise _misplaced(part, f"the fixed value that every {kind.__name__} has there", f"{place}.{name}")
            self.check(part, hints.get(name, _OWN), f"{place}.{name}")
        if isinstance(value, tuple):
            self._check_container(value, kind.__orig_bases__[0], place)
        if hasattr(value, "__post_init__"):
            value.__post_init__()

    def _check_held(self, value: Any, hint: _Free, place: str) -> None:
        """Check the parts of a container or of an object of another library."""
        for step, part in parts_of(value):
            self.check(part, hint, place + step)


def _check_names(kind: Any, given: Collection[str], place: str) -> None:
    """Raise if the attributes of an object are not exactly the fields of its class."""
    expected = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    if set(given) != expected:
        named = f"{place.lstrip('.') or 'it'}, a {class_name(kind)},"
        raise ArchiveError(f"{named} must have the attributes {sorted(expected)}. Got {sorted(given)} instead")


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a plain value, an array or an object of postshift has the type of an annotation."""
    origin = get_origin(hint)
    if hint in _PLAIN:
        return isinstance(value, _PLAIN[hint])
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin is np.ndarray:
        return type(value) is np.ndarray and value.dtype.kind in "biufSU"
    if hint in KINDS:
        return class_name(type(value)) in KINDS[hint]
    return isinstance(hint, type) and isinstance(value, hint) and class_name(type(value)) in NAMES


def _is_plain_dataclass(kind: Any) -> bool:
    """Return whether objects of a class have its fields and nothing else; a fit adds attributes to an estimator."""
    return not issubclass(kind, BaseEstimator) and is_dataclass(kind)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """Return the annotations of a class, except of an estimator's parameters; the same objects for every call.

    A user may set a parameter to anything, such as a number of NumPy; ``fit`` checks it.
    """
    is_estimator = issubclass(kind, BaseEstimator) and is_dataclass(kind)
    parameters = {field.name for field in fields(kind)} if is_estimator else set()
    return {name: hint for name, hint in get_type_hints(kind).items() if name not in parameters}


def _said(hint: Any) -> str:
    """Return the description of an annotation for messages."""
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        return " or ".join(map(_said, get_args(hint)))
    if origin is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if hint in KINDS:
        return " or ".join(name.rpartition(".")[2] for name in KINDS[hint])
    words = {np.ndarray: "an array of numbers or texts", Callable: "a function named in trusted", type(None): "None"}
    return words.get(origin or hint) or str(getattr(hint, "__name__", hint))


def _misplaced(value: Any, wanted: str, place: str) -> ArchiveError:
    """Return the error for a value in a wrong place."""
    found = class_name(value if isinstance(value, type | types.FunctionType) else type(value))
    return ArchiveError(f"{place.lstrip('.') or 'it'} must be {wanted}. Got {found} instead")
