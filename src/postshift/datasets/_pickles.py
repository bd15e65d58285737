"""Read pickled arrays safely.

Unpickling calls any function that the file names. Here a file may name only the parts of a pickled array of bytes, and
these names are replaced by the classes and functions below: no function of NumPy or of another package is called.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

from postshift.datasets.dataset import PixelArray

BYTE_TYPES = frozenset({"u1", b"u1"})


class _Type:
    """Replaces ``numpy.dtype``: keeps the code."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Ignore the byte order: bytes have none."""


class _Array:
    """Replaces ``numpy.ndarray``: keeps the pixels."""

    def __init__(self) -> None:
        self.pixels: PixelArray | None = None

    def __setstate__(self, state: Any) -> None:
        """Make the array from (version, shape, type, whether columns come first, bytes)."""
        _, shape, kind, by_columns, content = state
        if not (isinstance(kind, _Type) and kind.code in BYTE_TYPES and isinstance(content, bytes)):
            raise pickle.UnpicklingError("an array must have bytes as entries")
        if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) != len(content):
            raise pickle.UnpicklingError(f"an array of shape {shape} cannot have {len(content):,} entries")
        self.pixels = np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if by_columns else "C")


def _array(*_: object) -> _Array:
    """Replace NumPy's function that makes an empty array."""
    return _Array()


def _latin1(text: str, *_: object) -> bytes:
    """Replace ``codecs.encode``, with which Python 3 writes bytes for Python 2."""
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("_codecs", "encode"): _latin1,
}


class _Unpickler(pickle.Unpickler):
    """Reads dicts, lists, tuples, numbers, strings, bytes and arrays of bytes; everything else is an error."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the replacement of a name; any other name is an error."""
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not part of an array") from None


def unpickle(content: bytes) -> dict[bytes, Any]:
    """Return a pickled dict of arrays of bytes, lists and strings; anything else is an ``UnpicklingError``.

    Strings and keys written by Python 2 are bytes.
    """
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a hostile or damaged file may raise anything
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error
    if not isinstance(found, dict):
        raise pickle.UnpicklingError(f"it has a {type(found).__name__} instead of a dict")
    return {
        key.encode() if isinstance(key, str) else key: value.pixels if isinstance(value, _Array) else value
        for key, value in found.items()
    }
