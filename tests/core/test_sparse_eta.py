"""Sparse probabilities: what is accepted, and labels that equal those of the dense table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from postshift import PlugIn, Rows
from postshift.core.sparse_eta import check_sparse_eta, mean_eta, probabilities_at, sparse_labels
from postshift.engines import MemoryEngine
from postshift.exceptions import BasisError, ProbabilityError, SettingError, ShapeError

DENSE = np.array([[0.0, 0.7, 0.3], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr"]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_converted(form, kind):
    found = check_sparse_eta(kind(DENSE).asformat(form))
    assert found.format == "csr"
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), DENSE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, bool, np.int64])
def test_types_become_float64(dtype):
    matrix = sparse.csr_array(np.array([[0, 1], [1, 0]], dtype=dtype))
    assert check_sparse_eta(matrix).dtype == np.float64


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_indices_out_of_order_duplicates_and_stored_zeros(index):
    data = np.array([0.3, 0.4, 0.3, 0.0, 0.5])
    columns, ends = np.array([2, 1, 1, 1, 0], dtype=index), np.array([0, 3, 5], dtype=index)
    matrix = sparse.csr_array((data, columns, ends), shape=(2, 3))
    found = check_sparse_eta(matrix)
    np.testing.assert_allclose(found.toarray(), [[0, 0.7, 0.3], [0.5, 0, 0]])
    assert found.nnz == 3
    np.testing.assert_array_equal(matrix.data, data)  # the given matrix is not changed
    np.testing.assert_array_equal(matrix.indices, columns)


@pytest.mark.parametrize(
    ("matrix", "error", "words"),
    [
        (sparse.csr_array([[0.5, np.nan], [0.5, 0.5]]), ProbabilityError, r"NaN or infinite values \(rows 0\)"),
        (sparse.csr_array([[0.5, 0.5], [0.5, -0.5]]), ProbabilityError, r"negative values \(rows 1\)"),
        (sparse.csr_array([[0.5, 0.5], [0.8, 0.5]]), ProbabilityError, r"sum above 1 \(the largest is 1.3\)"),
        (sparse.csr_array([[0.5], [0.8]]), ShapeError, "at least one row and 2 classes"),
        (sparse.csr_array((0, 3)), ShapeError, "at least one row"),
        (sparse.csr_array((2, 3_000_000)), ShapeError, "at most 2,000,000 classes. Got 3,000,000"),
        (sparse.csr_array([[1j, 0]]), ShapeError, "real numbers"),
    ],
)
def test_what_is_refused(matrix, error, words):
    with pytest.raises(error, match=words):
        check_sparse_eta(matrix)


def test_an_index_out_of_range_is_refused():
    matrix = sparse.csr_array(DENSE)
    matrix.indices[0] = 7
    with pytest.raises(ShapeError, match="not a valid sparse matrix"):
        check_sparse_eta(matrix)


@st.composite
def tables(draw):
    """Probabilities with many zeros and ties, and rows without entries."""
    n_rows, n_classes = draw(st.integers(1, 12)), draw(st.integers(2, 6))
    cells = draw(
        st.lists(st.sampled_from([0, 0, 0, 1, 2, 4]), min_size=n_rows * n_classes, max_size=n_rows * n_classes)
    )
    return np.reshape(cells, (n_rows, n_classes)) / 32


@settings(max_examples=200)
@given(eta=tables(), data=st.data())
def test_labels_equal_those_of_the_dense_table(eta, data):
    """Also with negative weights and shifts, ties, and classes that are not stored."""
    few = st.sampled_from([-1.0, -0.25, 0.0, 0.25, 1.0, 2.0])
    weights, shift = (np.array([data.draw(few) for _ in range(eta.shape[1])]) for _ in range(2))
    rows = np.arange(len(eta))
    for given_ in (None, shift / 16):
        labels, probabilities = sparse_labels(check_sparse_eta(sparse.csr_array(eta)), weights, given_)
        expected = np.argmax(weights * eta + (0 if given_ is None else given_), axis=1)
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(probabilities, eta[rows, expected])


def test_a_plug_in_of_one_function_labels_sparse_rows():
    eta = check_sparse_eta(sparse.csr_array(DENSE))
    member = PlugIn(weighting="columns", alpha=[[1.0, 1, 1, 0, 0.1, 0]], n_classes=3)
    np.testing.assert_array_equal(member.sparse_labels(eta)[0], member.labels(DENSE, np.ones((4, 1))))
    full = PlugIn(weighting="full", alpha=np.ones((1, 9)), n_classes=3)
    assert not full.reads_sparse
    for other in (full, PlugIn(weighting="diagonal", alpha=np.ones((2, 3)), n_classes=3)):
        with pytest.raises(ShapeError, match="give a dense array"):
            other.sparse_labels(eta)


def test_means_and_probabilities():
    eta, weights = check_sparse_eta(sparse.csr_array(DENSE)), np.array([1.0, 2, 3, 4])
    np.testing.assert_allclose(mean_eta(eta, weights), np.average(DENSE, axis=0, weights=weights))
    labels = np.array([1, 2, 0, 2])
    np.testing.assert_array_equal(probabilities_at(eta, labels), DENSE[np.arange(4), labels])


def test_rows_hold_sparse_eta_without_a_basis():
    rows = Rows.of(sparse.csc_array(DENSE), labels=[0, 1, 2, 0], weights=[1, 2, 3, 4])
    dense = Rows(eta=DENSE, bases=rows.bases, weights=rows.weights)
    assert rows.is_sparse
    assert (rows.n_rows, rows.n_classes, rows.n_bases) == (4, 3, 1)
    np.testing.assert_allclose(rows.mean_eta(), dense.mean_eta())
    least = DENSE.max(axis=1).min()
    assert rows.is_certain(least)
    assert dense.is_certain(least)
    assert not rows.is_certain(least + 0.01)
    assert not dense.is_certain(least + 0.01)
    np.testing.assert_array_equal(rows.take(np.array([3, 0])).eta.toarray(), DENSE[[3, 0]])
    with pytest.raises(BasisError, match="only the constant basis"):
        Rows.of(sparse.csr_array(DENSE), phi=np.ones((4, 1)))


def test_an_engine_needs_dense_rows():
    with pytest.raises(SettingError, match="needs dense rows"):
        MemoryEngine(Rows.of(sparse.csr_array(DENSE), labels=[0, 1, 2, 0]))
