"""From features, model and bases to rows: which rows a basis is fitted to, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier, PostShifter
from postshift.basis import RBFBasis
from postshift.exceptions import BasisError, ShapeError
from postshift.metrics import from_predictions
from tests.estimators.data import NAMES, overlapping


def noise(n_rows=800, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 30)), rng.integers(0, 2, n_rows)


@pytest.mark.parametrize("how", [{}, {"basis": "tree:40", "cv": 0.5}, {"basis": RBFBasis(width=1.0, clip=(0.0, 1.0))}])
def test_labels_that_are_noise_are_not_learnt(how):
    model = PostShiftClassifier(LogisticRegression(), **how).fit(*noise())
    assert model.score_ < 0.56


def test_a_tree_of_the_labels_needs_other_rows_than_those_that_choose():
    X, y = overlapping()
    with pytest.raises(BasisError, match=r"basis 'tree' is fitted to labels.*hold rows out"):
        PostShiftClassifier(LogisticRegression(), basis="tree:4").fit(X, y)
    assert PostShiftClassifier(LogisticRegression(), method="smoothed plug-in").fit(X, y).bases_ == {}
    metric = from_predictions(lambda labels: float(np.mean(labels == y)))
    with pytest.raises(BasisError, match="give y_val, or use 'rbf:all'"):
        PostShiftClassifier(LogisticRegression(), metric=metric, basis="rbf").fit(X, y, X)


def test_a_column_of_numbers_is_no_group():
    X = pd.DataFrame({"price": np.arange(500.0), "noise": np.random.default_rng(0).normal(size=500)})
    y = (X["noise"] > 0).to_numpy()
    model = PostShiftClassifier(LogisticRegression(), basis="col:price", method="influence")
    with pytest.raises(BasisError, match=r"basis 'price' has 500 functions for 500 rows, 1\.0 rows each.*bins"):
        model.fit(X, y)
    binned = X.assign(price=X["price"] // 50)
    assert len(model.fit(binned, y).bases_["price"].groups_) == 10


def test_columns_in_another_order(yes_or_no):
    eta, y = yes_or_no
    frame = pd.DataFrame(eta, columns=NAMES)
    shifter = PostShifter("f1", classes=NAMES, method="smoothed plug-in").fit(frame, y)
    with pytest.raises(ShapeError, match=r"in the order of the classes, \['no', 'yes'\]\. Got \['yes', 'no'\]"):
        shifter.predict(frame[["yes", "no"]])
