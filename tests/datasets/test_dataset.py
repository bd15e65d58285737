"""The container of the loaders, and the functions that they share."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.datasets.dataset import Dataset, one_hot, stratified


def test_take_selects_every_column() -> None:
    data = Dataset(
        X=np.arange(8.0).reshape(4, 2),
        y=np.array([0, 1, 0, 1]),
        rows=np.array([3, 5, 7, 9]),
        columns={"clean": np.array([1, 1, 0, 0])},
        groups={"sex": np.array([0, 0, 1, 1])},
        feature_names=("a", "b"),
        group_names={"sex": ("f", "m")},
    )
    part = data.take(np.array([1, 3]))
    assert part.X.tolist() == [[2, 3], [6, 7]]
    assert (part.y.tolist(), part.rows.tolist()) == ([1, 1], [5, 9])
    assert part.columns["clean"].tolist() == [1, 0]
    assert part.groups["sex"].tolist() == [0, 1]
    assert (part.feature_names, part.group_names, part.class_names) == (("a", "b"), {"sex": ("f", "m")}, ())


def test_stratified_rows_have_the_proportions_of_the_strata() -> None:
    strata = np.repeat([0, 1, 2], [60, 30, 10])
    rest, drawn = stratified(strata, share=0.2, seed=0)
    assert np.bincount(strata[drawn]).tolist() == [12, 6, 2]
    assert sorted([*rest, *drawn]) == list(range(100))
    assert (np.diff(drawn) > 0).all()
    assert not np.array_equal(drawn, stratified(strata, share=0.2, seed=1)[1])


def test_one_hot_columns_are_sorted() -> None:
    names, table = one_hot(["b", "a", "b"], name="kind")
    assert names == ("kind=a", "kind=b")
    assert table.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_frozen() -> None:
    data = Dataset(X=np.zeros((1, 1)), y=np.zeros(1, dtype=int), rows=np.zeros(1, dtype=int))
    with pytest.raises(AttributeError):
        data.y = data.y  # type: ignore[misc]
