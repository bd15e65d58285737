"""Arrays in the bodies of requests and responses: base64 of little-endian bytes, with their kind and shape.

=========  ===================================================
field      holds
=========  ===================================================
``dtype``  one of the names in ``KINDS``
``shape``  the lengths of the axes
``data``   base64 of the bytes, in C order
=========  ===================================================
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postshift.exceptions import BadQueryError

KINDS = {"u1": "|u1", "u2": "<u2", "u4": "<u4", "i8": "<i8", "f8": "<f8"}
MICRO = 1_000_000  # micro-rho in a rho: costs are whole numbers of micro-rho
GRID = 1024  # in private mode, probabilities are multiples of 1 / GRID


def encoded(values: Any, dtype: str) -> dict[str, Any]:
    """Return an array as a field of a body.

    Examples
    --------
    >>> encoded([1, 2], "u1")
    {'dtype': 'u1', 'shape': [2], 'data': 'AQI='}
    """
    array = np.asarray(values, dtype=KINDS[dtype])
    return {"dtype": dtype, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode("ascii")}


def decoded(field: Mapping[str, Any], *, name: str) -> NDArray[Any]:
    """Return the array in a field of a body; raise if the field does not hold one.

    Examples
    --------
    >>> decoded({"dtype": "u1", "shape": [2], "data": "AQI="}, name="cells")
    array([1, 2], dtype=uint8)
    """
    kind, shape = KINDS.get(field["dtype"]), tuple(field["shape"])
    if kind is None:
        raise BadQueryError(
            f"{name} must be of a dtype in {', '.join(KINDS)}. Got {field['dtype']!r}", code="bad_dtype"
        )
    try:
        content = base64.b64decode(field["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadQueryError(f"the data of {name} are not base64: {error}", code="bad_base64") from error
    try:
        if len(content) == math.prod(shape) * np.dtype(kind).itemsize:
            return np.frombuffer(content, dtype=kind).reshape(shape)
    except ValueError:  # a length of 0 beside one that numpy does not allow
        pass
    raise BadQueryError(
        f"{name} has {len(content)} bytes, which is not an array of shape {shape} and dtype {kind}", code="bad_shape"
    )


def on_grid(distribution: Any) -> NDArray[np.uint16]:
    """Return class distributions (n, m) as whole numbers of 1 / GRID; each row sums to GRID.

    What rounding down leaves goes to the largest remainders.

    Examples
    --------
    >>> on_grid([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]]).tolist()
    [[512, 256, 256], [342, 341, 341]]
    """
    scaled = np.asarray(distribution, dtype=np.float64) * GRID
    whole = np.floor(scaled)
    left = (GRID - whole.sum(axis=1)).astype(np.intp)
    order = np.argsort(-(scaled - whole), axis=1, kind="stable")
    ranks = np.argsort(order, axis=1, kind="stable")
    rounded: NDArray[np.uint16] = (whole + (ranks < left[:, None])).astype(np.uint16)
    return rounded
