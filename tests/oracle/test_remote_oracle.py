"""A service as an oracle of the core: what noise cannot have changed, and answers of the wrong shape."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from postshift.core.queries import Query
from postshift.exceptions import MetricError, ShapeError
from postshift.oracle.remote_oracle import RemoteOracle, onto_sums

ABOUT = {
    "is_private": False,
    "allowance": 9,
    "metric_name": "g_mean",
    "n_rows": 4,
    "classes": ("a", "b"),
    "n_categories": 2,
    "most_counts": 100,
}


class Noting:
    """The connection to a service, which notes what is asked."""

    url, rho = "http://127.0.0.1:1", None

    def __init__(self, answer, **about):
        self.about, self.answer, self.bodies = SimpleNamespace(**{**ABOUT, **about}), answer, []

    def asks(self, kind):
        return kind != "table"

    def asked(self, body, *, shape):
        self.bodies.append((body["kind"], shape, sorted(body)))
        return self.answer


def oracle_of(kind, answer, **about):
    noting = Noting(np.asarray(answer, dtype=float), **about)
    return RemoteOracle(noting, kind=kind, order=np.array([1, 0])), noting


def query_of(kind, shown, **more):
    return Query(key="q", kind=kind, text="", n_rows=len(shown), _predict=lambda: np.asarray(shown), **more)


def test_matrices_are_in_the_order_of_the_learner():
    matrix = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    oracle, noting = oracle_of("confusion", matrix)
    found = oracle.answer(query_of("confusion", np.full((4, 2), 0.5), columns=np.ones((4, 1))))
    np.testing.assert_array_equal(found, matrix[:, ::-1, ::-1])
    assert noting.bodies == [("confusion", (1, 2, 2), ["columns", "cost", "kind", "predictions"])]


def test_a_table_comes_from_matrices_where_there_are_no_tables():
    oracle, noting = oracle_of("table", np.full((2, 2, 2), 1024.0))
    np.testing.assert_array_equal(oracle.answer(query_of("table", [0, 1, 1, 0])), np.ones((2, 2)))
    assert noting.bodies == [("confusion", (2, 2, 2), ["cells", "cost", "kind", "predictions"])]


def test_a_value_that_is_no_number():
    with pytest.raises(MetricError, match="answered nan"):
        oracle_of("hard", np.nan)[0].answer(query_of("hard", [0, 1, 1, 0]))


def test_another_number_of_rows_is_not_asked_about():
    oracle, noting = oracle_of("hard", 1.0)
    with pytest.raises(ShapeError, match="3 validation rows here and 4 at"):
        oracle.answer(query_of("hard", [0, 1, 1]))
    assert noting.bodies == []


def test_noise_is_removed_where_the_learner_knows_better():
    rng = np.random.default_rng(0)
    sums = rng.uniform(1, 50, size=(5, 3))
    counts = rng.normal(sums[:, None, :] / 4, 20, size=(5, 4, 3))
    found = onto_sums(counts, sums)
    np.testing.assert_allclose(found.sum(axis=1), sums)
    assert found.min() >= 0
    for _ in range(200):  # no other such table is nearer
        other = rng.dirichlet(np.ones(4), size=(5, 3)).transpose(0, 2, 1) * sums[:, None, :]
        distance = ((found - counts) ** 2).sum(axis=1)
        assert (distance <= ((other - counts) ** 2).sum(axis=1) + 1e-9).all()
