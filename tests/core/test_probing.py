"""Probes as the looks see them: moves, slopes and tables agree, for displaced probes and for classifiers."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.core.draws import even_order, shared_draws
from postshift.core.plugin import PlugIn
from postshift.core.probes import ProbePlan
from postshift.core.probing import ClassifierProbes, DisplacedProbes
from postshift.core.sums import weighted_confusions
from postshift.core.weighting import weighting_named
from tests.problems import make_problem

N_CLASSES = 3


def rule(seed):
    alpha = np.random.default_rng(seed).random((2, N_CLASSES))
    return PlugIn(weighting="diagonal", alpha=alpha, n_classes=N_CLASSES)


def probes_of(kind):
    if kind == "classifiers":
        return ClassifierProbes(anchor=rule(1), classifiers=tuple(rule(k) for k in range(2, 8)), n_terms=3, share=0.2)
    family = weighting_named("full").probes
    anchor = rule(1) if kind == "anchored" else None
    return DisplacedProbes(family=family, plan=ProbePlan(radius=0.2), anchor=anchor)


@pytest.fixture(params=["displaced", "anchored", "classifiers"])
def probes(request):
    return probes_of(request.param)


def seen_by(probes, val):
    """Confusion matrices of the iterate and of the known classifiers, on all rows and on those of each function."""
    columns = np.column_stack([np.ones(val.n_rows), val.phi]) / val.n_rows
    tables = [each.distribution(val.eta, val.phi) for each in (rule(0), *probes.known)]
    return np.stack([weighted_confusions(columns, val.labels, table, n_categories=N_CLASSES) for table in tables])


def test_slopes_are_those_of_the_moves(probes):
    val = make_problem(seed=3).val
    seen, beta = seen_by(probes, val), np.random.default_rng(0).normal(size=(N_CLASSES, N_CLASSES))
    moves = np.concatenate(list(probes.moves(seen)), axis=1).reshape(-1, N_CLASSES, N_CLASSES)
    np.testing.assert_allclose(probes.slopes(seen, beta), np.tensordot(moves, beta, axes=2), atol=1e-12)


def test_tables_have_the_confusions_that_the_moves_say(probes):
    val = make_problem(seed=4).val
    seen, base = seen_by(probes, val), rule(0).distribution(val.eta, val.phi)
    moves = np.concatenate(list(probes.moves(seen)), axis=1).reshape(-1, N_CLASSES, N_CLASSES)

    def known(place):
        return probes.known[place].distribution(val.eta, val.phi)

    def confusion(table):
        ones = np.full((val.n_rows, 1), 1 / val.n_rows)
        return weighted_confusions(ones, val.labels, table, n_categories=N_CLASSES)[0]

    centre = confusion(probes.moved(base, known, val.phi, ()))
    n_probes = probes.n_probes(N_CLASSES)
    for place, move in enumerate(moves):
        table = probes.moved(base, known, val.phi, divmod(place, n_probes))
        np.testing.assert_allclose(table.sum(axis=1), 1)
        np.testing.assert_allclose(probes.share * (confusion(table) - centre), probes.reach * move, atol=1e-12)
        assert probes.describe(place % n_probes, n_classes=N_CLASSES)


def test_labels_are_drawn_from_the_tables(probes):
    val = make_problem(seed=5, n_val=4000).val
    labels = np.argmax(rule(0).distribution(val.eta, val.phi), axis=1)
    draws = shared_draws(even_order(val.eta), seed=0, iteration=0)

    def known(place):
        return probes.known[place].distribution(val.eta, val.phi)

    how = {"draws": draws, "n_classes": N_CLASSES}
    centre = probes.moved_labels(labels, known, val.phi, (), **how)
    expected = labels if not probes.known else np.argmax(known(0), axis=1)
    np.testing.assert_array_equal(centre, expected)
    found = probes.moved_labels(labels, known, val.phi, (1, 2), **how)
    assert set(np.unique(found)) <= set(range(N_CLASSES))
