"""Columns of arrays, data frames and sparse matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from postshift.basis._columns import (
    distinct,
    missing,
    names_of,
    number_table,
    one_per_row,
    place_of,
    places_of,
    take_columns,
    text_columns,
)
from postshift.exceptions import BasisError, SettingError, ShapeError

VALUES = {"age": [20.0, 30.0, 40.0], "town": ["a", "b", "a"], "old": [False, False, True]}
frames = pytest.mark.parametrize("frame", [pd.DataFrame(VALUES), pl.DataFrame(VALUES)], ids=["pandas", "polars"])


@frames
def test_names_and_positions(frame):
    assert names_of(frame) == ["age", "town", "old"]
    assert [place_of(column, frame) for column in ("town", 2, np.int64(0))] == [1, 2, 0]
    assert text_columns(frame) == [1]
    with pytest.raises(BasisError, match="did you mean 'town'"):
        place_of("twon", frame)


def test_one_column_or_several_or_none_are_given():
    table = np.zeros((2, 3))
    assert places_of(None, table) is None
    assert places_of(2, table) == places_of([2], table) == [2]
    with pytest.raises(SettingError, match="at least one column"):
        places_of([], table)


def test_arrays_have_positions_only():
    table = np.zeros((2, 3))
    assert names_of(table) == text_columns(table) == []
    assert place_of(2, table) == 2
    with pytest.raises(BasisError, match="give a position from 0 to 2"):
        place_of(3, table)


@frames
def test_one_column_or_several(frame):
    assert list(take_columns(frame, 1)) == ["a", "b", "a"]
    assert names_of(take_columns(frame, [0, 2])) == ["age", "old"]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_columns_of_dense_and_sparse_tables(form):
    table = form(np.arange(6.0).reshape(2, 3))
    assert take_columns(table, 1).tolist() == [1, 4]
    several = take_columns(table, [2, 0])
    assert (several.toarray() if sparse.issparse(several) else several).tolist() == [[2, 0], [5, 3]]


def test_missing_values():
    assert missing(np.array([1.0, np.nan])).tolist() == [False, True]
    assert missing(np.array(["a", None, pd.NA, pd.NaT, 1], dtype=object)).tolist() == [False, True, True, True, False]
    assert missing(np.array([1, 2])).tolist() == [False, False]


def test_one_value_per_row():
    assert one_per_row([[1], [2]], what="groups").tolist() == [1, 2]
    with pytest.raises(ShapeError, match=r"groups must be one value per row. Got shape \(1, 2\)"):
        one_per_row([[1, 2]], what="groups")
    with pytest.raises(BasisError, match="groups must not be missing"):
        one_per_row([1.0, np.nan], what="groups")


def test_distinct_values_are_sorted():
    levels, places = distinct(np.array(["b", "a", "b"]), what="groups")
    assert (levels, places.tolist()) == (["a", "b"], [1, 0, 1])
    with pytest.raises(BasisError, match="groups must be of one kind"):
        distinct(np.array(["b", 1], dtype=object), what="groups")


@frames
def test_tables_of_numbers(frame):
    assert number_table(take_columns(frame, [0, 2]), owner=None).tolist() == [[20, 0], [30, 0], [40, 1]]
    with pytest.raises(BasisError, match="needs numbers, but 'town' are not numbers"):
        number_table(frame, owner=None)
