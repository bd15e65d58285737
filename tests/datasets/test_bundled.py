"""scikit-learn's own data sets as the same kind of table."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.datasets import load_embedded
from postshift.exceptions import SettingError


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [("breast_cancer", (569, 30), 2), ("digits", (1797, 64), 10), ("iris", (150, 4), 3), ("wine", (178, 13), 3)],
)
def test_shapes(name: str, shape: tuple[int, int], n_classes: int) -> None:
    table = load_embedded(name)
    assert table.X.shape == shape
    assert len(table.feature_names) == shape[1]
    assert len(table.class_names) == n_classes
    assert set(np.unique(table.y)) == set(range(n_classes))
    assert (table.groups, table.group_names) == ({}, {})


def test_a_name_that_is_not_known() -> None:
    with pytest.raises(SettingError, match="did you mean 'digits'"):
        load_embedded("digit")
