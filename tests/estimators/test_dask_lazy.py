"""Lazy predictions of Dask collections: one task for each partition."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("distributed")

from distributed import Client

from postshift import PostShifter
from postshift.estimators import dask_rows
from tests.engines.dask_clusters import local_cluster
from tests.estimators.dask_data import halves, in_blocks, some_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def client():
    with local_cluster() as address, Client(address) as client:
        yield client


@pytest.fixture
def few_drawn(monkeypatch):
    """A draw so small that most rows are with the workers only."""
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 800)


@pytest.fixture(scope="module")
def rows():
    return some_rows()


@pytest.mark.usefixtures("few_drawn")
def test_lazy_predictions_with_a_basis(rows):
    model, X, y, X_val, y_val = rows
    eta, eta_val = model.predict_proba(X), model.predict_proba(X_val)
    shifter = PostShifter("g_mean", method="influence [half]", classes=model.classes_)
    shifter.fit(
        eta_val,
        y_val,
        in_blocks(eta),
        in_blocks(y),
        phi_val={"half": halves(X_val)},
        phi_train={"half": in_blocks(halves(X), 500)},
    )
    new = {"half": in_blocks(halves(X), 999)}
    for name in ("predict", "predict_distribution", "example_weights"):
        lazy = getattr(shifter, name)(in_blocks(eta), new)
        assert lazy.chunks[0] == in_blocks(eta).chunks[0]
        np.testing.assert_array_equal(lazy.compute(), getattr(shifter, name)(eta, {"half": halves(X)}))
