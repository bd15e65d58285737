"""Build frozen dataclasses from JSON types, by their annotations; ``dataclasses.asdict`` is the inverse."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_plain(kind: type[T], value: Any) -> T:
    """Return an object of a type from its JSON types; raise a TypeError for a value that does not fit."""
    return _built(kind, value, where=kind.__name__)  # type: ignore[no-any-return]


def _built(kind: Any, value: Any, *, where: str) -> Any:
    """Return a value of a type."""
    if is_dataclass(kind):
        return _object(kind, value, where)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), value, where)
    if get_origin(kind) is UnionType:
        (inner,) = (each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _built(inner, value, where=where)
    wanted = (int, float) if kind is float else (kind,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{where} must be of type {kind.__name__}. Got {value!r} instead")
    return float(value) if kind is float else value


def _object(kind: Any, value: Any, where: str) -> Any:
    """Return a dataclass from a dict that has all its fields and no other."""
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    if not isinstance(value, dict) or not set(value) <= set(known):
        raise TypeError(f"{where} must be an object with {sorted(known)}")
    missing = [n for n, f in known.items() if n not in value and f.default is MISSING]
    if missing:
        raise TypeError(f"{where} lacks {missing[0]!r}")
    return kind(**{name: _built(hints[name], each, where=f"{where}.{name}") for name, each in value.items()})


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    """Return a tuple from a list."""
    if not isinstance(value, list):
        raise TypeError(f"{where} must be a list. Got {value!r} instead")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise TypeError(f"{where} must have {len(kinds)} values. Got {len(value)} instead")
    return tuple(_built(kind, each, where=where) for kind, each in zip(kinds, value, strict=True))
