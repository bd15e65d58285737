"""Columns of Arrow tables: by pattern and by name, numbers and text, and what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from postshift.engines import ParquetSource
from postshift.exceptions import BasisError, LabelError, ProbabilityError, SettingError, ShapeError, WeightError
from tests.engines.files import FORMATS, N, all_rows, summed, write


@FORMATS
def test_columns_by_pattern_and_by_name(kind, columns, eta, tmp_path):
    path = write(tmp_path / f"rows{kind._suffixes[0]}", columns)
    for names in ("p_*", ["p_0", "p_1", "p_2"]):
        source = kind(path, eta=names, labels="y", weights="w")
        assert (source.n_rows, source.n_classes, source.n_bases) == (N, 3, 1)
        np.testing.assert_array_equal(all_rows(source, "eta"), eta)
        assert all_rows(source, "eta").dtype == np.float32
        np.testing.assert_array_equal(all_rows(source, "labels"), columns["y"])
    turned = kind(path, eta=["p_2", "p_1", "p_0"])
    np.testing.assert_array_equal(all_rows(turned, "eta"), eta[:, ::-1])


@FORMATS
@pytest.mark.parametrize("encoded", [False, True])
def test_labels_and_groups_as_text(kind, encoded, columns, tmp_path):
    table = pa.table(columns)
    if encoded:
        for name in ("name", "group"):
            table = table.set_column(table.schema.names.index(name), name, table[name].dictionary_encode())
    path = write(tmp_path / f"rows{kind._suffixes[0]}", {name: table[name] for name in table.schema.names})
    source = kind(path, eta="p_*", labels="name", classes=["cat", "dog", "eel"], group="group", groups=["a", "b", "c"])
    assert source.n_bases == 3
    np.testing.assert_array_equal(all_rows(source, "labels"), columns["y"])
    np.testing.assert_array_equal(all_rows(source, "phi"), np.eye(3)[1 - np.arange(N) % 2])
    np.testing.assert_array_equal(summed(source).single.sum(axis=1), [50, 50, 0])


def test_stars_that_are_numbers_or_classes_order_the_columns(tmp_path):
    names = ["p_0", "p_1", "p_10", *(f"p_{place}" for place in range(2, 10))]
    table = {name: np.full(3, 1 / 11) for name in names}
    source = ParquetSource(write(tmp_path / "a.parquet", table), eta="p_*")
    assert source.columns.eta == tuple(f"p_{place}" for place in range(11))
    named = {"p_cat": [0.5], "p_dog": [0.5], "y": ["dog"]}
    path = write(tmp_path / "b.parquet", named)
    assert ParquetSource(path, eta="p_*", labels="y", classes=["dog", "cat"]).columns.eta == ("p_dog", "p_cat")
    assert ParquetSource(path, eta="p_*").columns.eta == ("p_cat", "p_dog")


@FORMATS
def test_numbers_of_other_types(kind, tmp_path):
    table = {"a": pa.array([1, 0], pa.int8()), "b": pa.array([False, True]), "y": pa.array([0.0, 1.0])}
    source = kind(write(tmp_path / f"rows{kind._suffixes[0]}", table), eta=["a", "b"], labels="y")
    np.testing.assert_array_equal(summed(source).classes, [1, 1])


@FORMATS
@pytest.mark.parametrize(
    "case",
    [
        ("p_1", np.nan, ProbabilityError, "rows 50 to 59: eta has 1 of 10 rows with NaN"),
        ("p_1", None, ProbabilityError, "rows 50 to 59: eta has 1 of 10 rows with NaN"),
        ("y", 7, LabelError, "rows 50 to 59: labels has 1 of 10 rows with values outside"),
        ("y", None, LabelError, "rows 50 to 59: labels has 1 of 10 rows with values outside"),
        ("w", -1.0, WeightError, "rows 50 to 59: weights has 1 of 10 rows with negative"),
        ("name", "fox", LabelError, "rows 50 to 59: labels has values that are not among classes: 'fox'"),
        ("group", None, BasisError, "rows 50 to 59: column 'group' has values that are not among groups: None"),
    ],
)
def test_bad_values_of_columns(kind, case, columns, tmp_path):
    name, value, error, problem = case
    kinds = {"p_1": pa.float32()}
    values = np.asarray(columns[name]).tolist()
    values[53] = value
    columns = {**columns, name: pa.array(values, kinds.get(name))}
    path = write(tmp_path / f"rows{kind._suffixes[0]}", columns, piece_rows=50)
    more = {"labels": "name", "classes": ["cat", "dog", "eel"]} if name == "name" else {"labels": "y"}
    source = kind(path, eta="p_*", weights="w", group="group", groups=["a", "b"], **more)
    with pytest.raises(error, match=problem):
        summed(source)


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        ({"eta": "q_*"}, ShapeError, r"must have columns like 'q_\*'"),
        ({"eta": ["p_0", "p_7"]}, ShapeError, "must have one column 'p_7'"),
        ({"eta": "p*_*"}, SettingError, "one star"),
        ({"eta": ["p_0", "name"]}, ShapeError, "column 'name' must hold numbers"),
        ({"labels": "name"}, LabelError, "give classes="),
        ({"labels": "name", "classes": ["cat", "dog"]}, SettingError, "classes must name the 3 columns"),
        ({"labels": "name", "classes": ["cat", "dog", "dog"]}, SettingError, "classes must be distinct"),
        ({"labels": "y", "classes": ["cat", "dog", "eel"]}, SettingError, "values of column 'y'"),
        ({"group": "group"}, SettingError, "given together"),
        ({"group": "group", "groups": ["a"], "phi": ["w"]}, SettingError, "must not both be given"),
    ],
)
def test_settings_that_do_not_fit_the_columns(settings, error, problem, columns, tmp_path):
    path = write(tmp_path / "rows.parquet", columns)
    with pytest.raises(error, match=problem):
        ParquetSource(path, **{"eta": "p_*", **settings})
