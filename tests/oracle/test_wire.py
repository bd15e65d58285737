from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postshift.exceptions import BadQueryError
from postshift.oracle.wire import GRID, KINDS, decoded, encoded, on_grid


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 4), (2, 1, 2)])
def test_an_array_comes_back(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(KINDS[dtype])
    found = decoded(encoded(array, dtype), name="cells")
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert found.shape == array.shape


def test_numbers_keep_every_bit():
    odd = np.array([np.nan, -0.0, np.inf, 5e-324, 1 / 3])
    assert decoded(encoded(odd, "f8"), name="x").tobytes() == odd.tobytes()


@pytest.mark.parametrize(
    ("field", "message", "code"),
    [
        ({"dtype": "O", "shape": [1], "data": ""}, "dtype in", "bad_dtype"),
        ({"dtype": "u1", "shape": [1], "data": "?"}, "not base64", "bad_base64"),
        ({"dtype": "u1", "shape": [1], "data": "é"}, "not base64", "bad_base64"),
        ({"dtype": "u1", "shape": [3], "data": "AQI="}, "2 bytes", "bad_shape"),
        ({"dtype": "f8", "shape": [2**40, 2**40], "data": ""}, "0 bytes", "bad_shape"),
        ({"dtype": "f8", "shape": [0, 2**31, 2**31], "data": ""}, "0 bytes", "bad_shape"),
        ({"dtype": "u1", "shape": [-2, -1], "data": "AQI="}, "2 bytes", "bad_shape"),
    ],
)
def test_what_is_no_array_is_refused(field, message, code):
    with pytest.raises(BadQueryError, match=message) as refused:
        decoded(field, name="cells")
    assert refused.value.code == code


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(2, 6)), elements=st.floats(0, 1)).filter(
        lambda table: (table.sum(axis=1) > 0).all()
    )
)
def test_rows_on_the_grid_sum_to_it_and_are_near(table):
    shares = table / table.sum(axis=1, keepdims=True)
    found = on_grid(shares)
    assert (found.sum(axis=1) == GRID).all()
    assert np.abs(found / GRID - shares).max() <= 1 / GRID
    np.testing.assert_array_equal(on_grid(found / GRID), found)
