from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from postshift.basis import ConstantBasis, GroupBasis, TreeBasis
from postshift.exceptions import ExportError
from postshift.persistence.onnx_basis import basis_to_onnx
from tests.persistence.helpers import run

CLOSE = [0.1, np.nextafter(0.1, 1), float(np.float32(0.1)), 1 + 2.0**-24, 1 + 3 * 2.0**-25, 1e-45, -0.0, np.nan]
VALUES = st.one_of(st.sampled_from(CLOSE), st.integers(-2, 2).map(float), st.floats(-9, 9))


def tables(n_columns):
    return st.integers(2, 25).flatmap(lambda n: arrays(float, (n, n_columns), elements=VALUES))


def assert_same(basis, rows):
    columns = {f"column {place}": column[:, None] for place, column in enumerate(rows.T)}
    for feeds in ({"X": rows}, columns):
        found = run(basis_to_onnx(basis, feeds), feeds)["phi"]
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, basis.transform(rows))


@settings(max_examples=80)
@given(data=st.data())
def test_leaves_are_those_of_the_basis(data):
    n_columns, n_leaves = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 9))
    first = data.draw(tables(n_columns))
    basis = TreeBasis(n_leaves).fit(first, data.draw(arrays(int, len(first), elements=st.integers(0, 2))))
    assert_same(basis, first)
    assert_same(basis, data.draw(tables(n_columns)))


def test_one_leaf_is_one_everywhere():
    rows = np.array([[0.0, np.nan], [np.nan, 1.0]])
    assert_same(TreeBasis().fit(rows, [1, 1]), rows)


@pytest.mark.parametrize("unseen", [True, "average"])
def test_groups_are_those_of_the_basis(unseen):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, size=(60, 3)) / 3
    basis = GroupBasis([2, 0], unseen=unseen).fit(rows)
    rows[::7, 0] = 0.5  # a value that was not there
    assert_same(basis, rows)


@pytest.mark.parametrize(
    ("basis", "feeds", "why"),
    [
        (ConstantBasis(), {"X": np.ones((2, 1))}, "ConstantBasis cannot be converted to a graph"),
        (GroupBasis(0, unseen=True), {"a": np.array([["x"], ["y"]], dtype=object)}, "column 'a' of text|not numbers"),
        (GroupBasis(0, values=[1], unseen=True), {"a": np.array([["x"], ["y"]], dtype=object)}, "column 'a' of text"),
    ],
)
@pytest.mark.filterwarnings("ignore::postshift.exceptions.EmptyBasisWarning")
def test_what_has_no_graph_is_refused(basis, feeds, why):
    basis.fit(np.hstack(list(feeds.values())))
    with pytest.raises(ExportError, match=why):
        basis_to_onnx(basis, feeds)
