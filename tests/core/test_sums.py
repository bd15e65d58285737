"""Sums over rows against loops over rows; sums of blocks add up to the sums of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import MemoryEngine, Rows
from postshift.core.plugin import onehot
from postshift.core.sums import (
    confusion_sums,
    engine_of,
    gram_sums,
    hit_sums,
    influence_sums,
    label_confusions,
    label_sums,
    pair_hits,
    weighted_confusions,
)
from postshift.exceptions import LabelError
from tests.problems import make_problem, problems


def distribution_of(rows, seed):
    return np.random.default_rng(seed).dirichlet(np.ones(rows.n_classes), size=rows.n_rows)


@given(problem=problems(max_classes=4, max_bases=3), seed=st.integers(0, 99))
def test_sums_are_those_of_loops(problem, seed):
    rows = problem.train
    table = distribution_of(rows, seed)
    size = (rows.n_bases, rows.n_bases, rows.n_classes)
    labels, hits, confusions = np.zeros(size), np.zeros(size), np.zeros((*size, rows.n_classes))
    for eta_h, phi, label, weight in zip(table, rows.phi, rows.labels, rows.row_weights, strict=True):
        pair = weight * np.outer(phi, phi)
        labels[:, :, label] += pair
        hits[:, :, label] += pair * eta_h[label]
        confusions[:, :, label] += pair[:, :, None] * eta_h
    np.testing.assert_allclose(label_sums(rows).pair, labels, atol=1e-12)
    np.testing.assert_allclose(hit_sums(rows, table).pair, hits, atol=1e-12)
    np.testing.assert_allclose(confusion_sums(rows, table).pair, confusions, atol=1e-12)


@pytest.mark.parametrize("basis", ["hard", "overlapping", "soft"])
def test_sums_of_blocks_add_up(basis):
    rows = make_problem(seed=2, basis=basis, weighted=True).train
    table = distribution_of(rows, 0)
    ratios = np.random.default_rng(1).uniform(0.2, 5, size=(rows.n_bases, rows.n_classes))
    order = np.array_split(np.arange(rows.n_rows), [13, 40])
    for sums in (
        lambda some: label_sums(rows.take(some)).pair,
        lambda some: confusion_sums(rows.take(some), table[some]).single,
        lambda some: gram_sums(rows.take(some)).gram,
        lambda some: influence_sums(rows.take(some), table[some]).pair,
        lambda some: pair_hits(rows.take(some), ratios, reference=0).own,
    ):
        np.testing.assert_allclose(sum(sums(some) for some in order), sums(np.arange(rows.n_rows)), atol=1e-9)


def test_confusions_of_labels_are_those_of_their_rows_of_ones():
    rng = np.random.default_rng(0)
    weights, categories, labels = rng.random((2, 50)), rng.integers(6, size=50), rng.integers(3, size=50)
    np.testing.assert_allclose(
        label_confusions(weights, categories, labels, n_categories=6, n_classes=3),
        weighted_confusions(weights.T, categories, onehot(labels, n_classes=3), n_categories=6),
    )


def test_rows_in_memory_get_an_engine_and_an_engine_stays():
    rows = make_problem(seed=0).train
    engine = engine_of(rows)
    assert isinstance(engine, MemoryEngine)
    assert engine_of(engine) is engine


def test_labels_are_needed():
    rows = make_problem(seed=0).train
    with pytest.raises(LabelError, match="these rows have no labels"):
        label_sums(Rows.of(rows.eta, phi=rows.phi))
