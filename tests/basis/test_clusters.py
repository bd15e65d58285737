from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from postshift.basis import KMeansBasis, RBFBasis, clusters
from postshift.exceptions import BasisError, EmptyBasisWarning, SettingError
from tests.estimators.data import overlapping

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1, 10, 100]
Y = np.array(["cat", "dog"])[(X[:, 0] > 0).astype(int)]
LATER = RNG.normal(size=(7, 3)) * [1, 10, 100]


def by_hand(x, points, *, width, clip=(0.01, 0.99)):
    total = 0.0
    for point in points:
        square = sum((a - b) ** 2 for a, b in zip(x, point, strict=True))
        total += min(max(math.exp(-square / (2 * width**2)), clip[0]), clip[1])
    return total / len(points)


# -- k-means ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [True, False])
def test_clusters_are_those_of_kmeans(scale):
    basis = KMeansBasis(3, scale=scale).fit(X)
    scaler = StandardScaler().fit(X)
    rows, later = (scaler.transform(X), scaler.transform(LATER)) if scale else (X, LATER)
    expected = KMeans(3, random_state=0).fit(rows).predict(later)
    np.testing.assert_array_equal(basis.transform(LATER), np.eye(3)[expected])
    assert basis.get_feature_names_out().tolist() == ["cluster 1", "cluster 2", "cluster 3"]


def test_clusters_of_some_columns_of_a_frame():
    data = {"a": X[:, 0], "b": X[:, 1], "town": Y, "old": X[:, 2] > 0}
    expected = KMeansBasis(3).fit_transform(X[:, :2])
    for frame in (pd.DataFrame(data), pl.DataFrame(data)):
        np.testing.assert_array_equal(KMeansBasis(3, columns=["a", "b"]).fit_transform(frame), expected)
        KMeansBasis(3, columns=["a", "old"]).fit(frame)
        with pytest.raises(BasisError, match="KMeansBasis needs numbers, but 'town' are not numbers"):
            KMeansBasis(3).fit(frame)
        with pytest.raises(BasisError, match="did you mean 'town'"):
            KMeansBasis(3, columns=["twon"]).fit(frame)


def test_sparse_clusters():
    table = np.where(X > 0, X, 0)
    expected = KMeansBasis(3, scale=False).fit_transform(table)
    np.testing.assert_array_equal(KMeansBasis(3, scale=False).fit_transform(sparse.csc_array(table)), expected)
    assert KMeansBasis(3).fit_transform(sparse.csr_matrix(table)).shape == (40, 3)


def test_fewer_distinct_rows_than_clusters():
    with pytest.warns(EmptyBasisWarning, match="'cluster 3'"):
        basis = KMeansBasis(3).fit([[0.0], [0.0], [1.0]])
    assert basis.transform([[0.0], [1.0]]).tolist() in ([[1, 0], [0, 1]], [[0, 1], [1, 0]])


# -- nearness -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 100, 4_000_000])
def test_nearness_against_a_double_loop(block, monkeypatch):
    monkeypatch.setattr(clusters, "BLOCK", block)
    rows, later = X / [1, 10, 100], LATER / [1, 10, 100]
    basis = RBFBasis(width=0.8).fit(rows, Y)
    near = np.array([[by_hand(x, rows[name == Y], width=0.8) for name in ("cat", "dog")] for x in later])
    expected = np.column_stack([near, np.maximum(1 - near.sum(axis=1), 0)])
    np.testing.assert_allclose(basis.transform(later), expected, atol=1e-12)
    assert basis.get_feature_names_out().tolist() == ["near class cat", "near class dog", "rest"]
    assert basis.fitted_on == "val"
    np.testing.assert_allclose(basis.fit(sparse.csr_array(rows), Y).transform(later), expected, atol=1e-12)


def test_the_square_is_there():
    basis = RBFBasis(by="all", width=2.0).fit([[0.0]])
    np.testing.assert_allclose(basis.transform([[3.0]])[0], [math.exp(-9 / 8), 1 - math.exp(-9 / 8)])


def test_values_are_clipped():
    basis = RBFBasis(by="all").fit([[0.0]])
    np.testing.assert_allclose(basis.transform([[0.0], [1e9]]), [[0.99, 0.01], [0.01, 0.99]])
    bare = RBFBasis(by="all", clip=(0, 1)).fit([[0.0]])
    np.testing.assert_allclose(bare.transform([[0.0], [1e9]]), [[1, 0], [0, 1]])


def test_groups_of_points():
    groups = np.where(X[:, 1] > 0, "old", "young")
    expected = RBFBasis().fit(X, groups).transform(LATER)
    basis = RBFBasis().fit(X, Y, groups=groups)
    np.testing.assert_array_equal(basis.transform(LATER), expected)
    assert basis.get_feature_names_out().tolist() == ["near group old", "near group young", "rest"]
    np.testing.assert_array_equal(RBFBasis(by=lambda rows: rows[:, 1] <= 0).fit(X).transform(LATER), expected)
    frame = pl.DataFrame({"a": X[:, 0], "kind": (X[:, 1] > 0).astype(int)})
    basis = RBFBasis(by="kind").fit(frame)
    assert basis.get_feature_names_out().tolist() == ["near kind=0", "near kind=1", "rest"]
    with pytest.raises(BasisError, match="a callable or a column: there is no column 'knid'; did you mean 'kind'"):
        RBFBasis(by="knid").fit(frame)


def test_classes_are_needed():
    with pytest.raises(ValueError, match="requires y"):
        RBFBasis().fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RBFBasis().fit(X, Y[:5])


def test_an_embedding_comes_first():
    pca = PCA(2).fit(X)
    expected = RBFBasis().fit(pca.transform(X), Y).transform(pca.transform(LATER))
    np.testing.assert_allclose(RBFBasis(embedding=PCA(2)).fit(X, Y).transform(LATER), expected)
    frozen = RBFBasis(embedding=FrozenEstimator(pca)).fit(LATER, Y[:7])
    np.testing.assert_allclose(frozen.points_, pca.transform(LATER))
    doubled = RBFBasis(embedding=lambda rows: rows * 2, width=4.0).fit(X, Y)
    np.testing.assert_allclose(doubled.transform(LATER), RBFBasis().fit(X, Y).transform(LATER), atol=1e-9)


def test_at_most_so_many_points():
    basis = RBFBasis(max_points=3).fit(X, Y)
    assert basis.points_.shape == (6, 3)
    np.testing.assert_allclose(basis.assignment_.sum(axis=0), 1)
    np.testing.assert_array_equal(basis.points_, RBFBasis(max_points=3).fit(X, Y).points_)
    assert RBFBasis(max_points=100).fit(X, Y).points_.shape == X.shape


@pytest.mark.parametrize(
    "settings", [{"width": 0}, {"clip": (0.5, 0.5)}, {"clip": (0, 2)}, {"clip": 1}, {"max_points": 0}]
)
def test_settings_out_of_range(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        RBFBasis(**settings).fit(X, Y)


def test_a_row_is_not_near_itself():
    X, y = overlapping(60)
    basis = RBFBasis(width=1.0, clip=(0.0, 1.0)).fit(X, y)
    kernel = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 2)
    np.fill_diagonal(kernel, 0)
    expected = [[kernel[n, y == g].sum() / ((y == g).sum() - (y[n] == g)) for g in (0, 1)] for n in range(60)]
    np.testing.assert_allclose(basis.on_fit_rows(X)[:, :2], expected, atol=1e-12)
