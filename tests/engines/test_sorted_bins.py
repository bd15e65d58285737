"""Sorted rows: bins and thresholds of two classes give exactly the counts of a pass over all rows."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postshift import MemoryEngine, PlugIn, Rows
from postshift.core.rows import PHI
from postshift.engines.memory import memory_engine, sorted_bins
from postshift.engines.memory.kernel_rows import KernelRows, RuleWeights
from postshift.engines.memory.sorted_bins import SortedBins, strongest_other
from postshift.engines.memory.sorted_column import SortedColumn

KERNELS = [False, pytest.param(True, marks=pytest.mark.skipif(find_spec("numba") is None, reason="no numba"))]


def drawn_rows(rng, *, n, m, n_bases, weighted, dtype, coarse):
    """Rows with ties, zeros and rows without any probability among them."""
    eta = rng.dirichlet(np.full(m, 0.5), size=n)
    if coarse:
        eta = np.round(eta * 8) / 8  # many ties, sums that differ from 1
    phi = np.eye(n_bases)[rng.integers(n_bases, size=n)]
    weights = rng.uniform(0, 2, size=n) if weighted else None
    sample = Rows(eta=eta.astype(dtype), bases={PHI: phi}, labels=rng.integers(m, size=n), weights=weights)
    return KernelRows.of(sample, n_categories=m)


def drawn_rule(rng, *, m, n_bases, kind):
    weights = rng.uniform(0.2, 3, size=(n_bases, m))
    if kind in {"signs", "shifted signs"}:
        weights = rng.normal(size=(n_bases, m))
    if kind == "extreme":
        weights = 10.0 ** rng.uniform(-200, 200, size=(n_bases, m))
    if kind == "round":
        weights = rng.integers(0, 3, size=(n_bases, m)).astype(float)
    shift = rng.normal(size=(n_bases, m)) * 0.2 if "shifted" in kind else None
    return RuleWeights(weights=weights, shift=shift)


def counted(rows, rule):
    """The definition: score every row, take the first largest, count."""
    scores = rule.weights[rows.clusters] * rows.eta.astype(np.float64)
    if rule.shift is not None:
        scores += rule.shift[rows.clusters]
    table = np.zeros((rows.n_bases, rows.n_categories, rows.n_classes))
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    np.add.at(table, (rows.clusters, rows.labels, np.argmax(scores, axis=1)), weights)
    return table


kinds = st.sampled_from(["usual", "signs", "extreme", "round", "shifted", "shifted signs"])
options = {
    "seed": st.integers(0, 10_000),
    "n": st.integers(1, 400),
    "n_bases": st.integers(1, 4),
    "weighted": st.booleans(),
    "coarse": st.booleans(),
    "dtype": st.sampled_from([np.float32, np.float64]),
    "kind": kinds,
}


@pytest.mark.parametrize("compiled", KERNELS)
@settings(max_examples=60, deadline=None)
@given(m=st.integers(3, 7), **options)
def test_settled_bins_count_every_row(compiled, seed, kind, **shape):
    rng = np.random.default_rng(seed)
    rows = drawn_rows(rng, **shape)
    bins = SortedBins(rows, rows.clusters, compiled=compiled, each=map)
    for _ in range(3):
        rule = drawn_rule(rng, m=shape["m"], n_bases=shape["n_bases"], kind=kind)
        check(bins.confusions(rule), counted(rows, rule), exact=rows.weights is None)


@settings(max_examples=150, deadline=None)
@given(**options)
def test_a_threshold_of_two_classes_counts_every_row(seed, kind, **shape):
    rng = np.random.default_rng(seed)
    rows = drawn_rows(rng, m=2, **shape)
    ordered = SortedColumn(rows, rows.clusters)
    for _ in range(3):
        rule = drawn_rule(rng, m=2, n_bases=shape["n_bases"], kind=kind)
        check(ordered.confusions(rule), counted(rows, rule), exact=rows.weights is None)


def check(found, expected, *, exact):
    np.testing.assert_allclose(found, expected, rtol=0 if exact else 1e-12, atol=0 if exact else 1e-12)


def test_most_rows_of_a_sure_model_are_settled():
    rng = np.random.default_rng(0)
    rows = drawn_rows(rng, n=20_000, m=5, n_bases=2, weighted=False, dtype=np.float64, coarse=False)
    bins = SortedBins(rows, rows.clusters, compiled=False, each=map)
    read = []
    count = bins._count
    bins._count = lambda some, rule: read.append((bins._stops - bins._starts)[some].sum()) or count(some, rule)
    rule = drawn_rule(rng, m=5, n_bases=2, kind="usual")
    np.testing.assert_array_equal(bins.confusions(rule), counted(rows, rule))
    assert 0 < sum(read) < 0.6 * 20_000


def test_weights_on_the_whole_matrix_are_left_to_the_kernels(monkeypatch):
    rows = drawn_rows(np.random.default_rng(0), n=50, m=2, n_bases=1, weighted=False, dtype=float, coarse=False)
    monkeypatch.setattr(SortedColumn, "confusions", None)
    engine = MemoryEngine(Rows(eta=rows.eta, bases={PHI: rows.phi}, labels=rows.labels.astype(np.intp)))
    rule = PlugIn(weighting="full", alpha=np.ones((1, 4)), n_classes=2)
    assert engine.classifier_sums(rule, confusions=True).single.sum() == 50


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_engine_uses_them(monkeypatch, kernels, n_threads):
    if kernels == "numba":
        pytest.importorskip("numba")
    rng = np.random.default_rng(1)
    rows = drawn_rows(rng, n=3000, m=4, n_bases=3, weighted=False, dtype=np.float64, coarse=False)
    sample = Rows(eta=rows.eta, bases={PHI: rows.phi}, labels=rows.labels.astype(np.intp))
    rules = [PlugIn(weighting="diagonal", alpha=rng.uniform(0.5, 2, size=(3, 4)), n_classes=4) for _ in range(3)]
    plain = MemoryEngine(sample, kernels=kernels)
    assert plain._sorted is None
    expected = [plain.classifier_sums(rule, confusions=True) for rule in rules]
    monkeypatch.setattr(memory_engine, "FEW_SORTED", 0)
    monkeypatch.setattr(sorted_bins, "_CHUNK_ROWS", {False: 64, True: 64})
    monkeypatch.setattr(sorted_bins, "_MANY_CHUNKS", 2)
    engine = MemoryEngine(sample, kernels=kernels, n_threads=n_threads)
    for rule, sums in zip(rules, expected, strict=True):
        found = engine.classifier_sums(rule, confusions=True)
        np.testing.assert_array_equal(found.pair, sums.pair)
        np.testing.assert_array_equal(found.single, sums.single)
    assert isinstance(engine._sorted, SortedBins)


def test_two_queries_about_a_rule_are_one_pass(monkeypatch):
    rows = drawn_rows(np.random.default_rng(2), n=300, m=2, n_bases=1, weighted=False, dtype=float, coarse=False)
    engine = MemoryEngine(Rows(eta=rows.eta, bases={PHI: rows.phi}, labels=rows.labels.astype(np.intp)))
    passes = []
    confusions = SortedColumn.confusions
    monkeypatch.setattr(SortedColumn, "confusions", lambda self, rule: passes.append(rule) or confusions(self, rule))
    rules = [PlugIn(weighting="diagonal", alpha=[[1.0, weight]], n_classes=2) for weight in (2.0, 3.0)]
    for rule in rules:
        engine.classifier_sums(rule, confusions=False)
        engine.look(rule, influence=False)
    assert len(passes) == 2


@given(values=st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_the_strongest_other(values):
    weights = np.array(values)
    expected = [max(np.delete(weights, place)) for place in range(len(weights))]
    np.testing.assert_array_equal(strongest_other(weights[None])[0], expected)
