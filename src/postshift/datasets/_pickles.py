"""Pickled arrays without the dangers of pickle.

Unpickling calls whatever the file names. Here a file may name only what a pickled array of bytes consists of, and even
these names stand for the stand-ins below: no function of NumPy, or of anything else, is called with what a file says.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

from postshift.datasets.images import PixelArray

BYTE_TYPES = frozenset({"u1", b"u1"})


class _Type:
    """Stands for ``numpy.dtype``: keeps the code."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Ignore the byte order: bytes have none."""


class _Array:
    """Stands for ``numpy.ndarray``: keeps what it is to be made of."""

    def __init__(self) -> None:
        self.pixels: PixelArray | None = None

    def __setstate__(self, state: Any) -> None:
        """Make the array of (version, shape, type, whether columns come first, bytes)."""
        _, shape, kind, by_columns, content = state
        if not (isinstance(kind, _Type) and kind.code in BYTE_TYPES and isinstance(content, bytes)):
            raise pickle.UnpicklingError("an array must have bytes as entries")
        if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) != len(content):
            raise pickle.UnpicklingError(f"an array of shape {shape} cannot have {len(content):,} entries")
        self.pixels = np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if by_columns else "C")


def _array(*_: object) -> _Array:
    """Stand for NumPy's function that makes an empty array to be filled."""
    return _Array()


def _latin1(text: str, *_: object) -> bytes:
    """Stand for ``codecs.encode``, by which Python 3 writes bytes for Python 2."""
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("_codecs", "encode"): _latin1,
}


class _Unpickler(pickle.Unpickler):
    """Reads dicts, lists, tuples, numbers, texts, bytes and arrays of bytes, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a name, or refuse it."""
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no part of an array") from None


def unpickle(content: bytes) -> dict[bytes, Any]:
    """Return a pickled dict of arrays of bytes, lists and texts; ``UnpicklingError`` where it is anything else.

    Texts written by Python 2 are bytes, and so are the keys.
    """
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # whatever a stand-in or the reader makes of a hostile or damaged file
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error
    if not isinstance(found, dict):
        raise pickle.UnpicklingError(f"it has a {type(found).__name__} instead of a dict")
    return {
        key.encode() if isinstance(key, str) else key: value.pixels if isinstance(value, _Array) else value
        for key, value in found.items()
    }
