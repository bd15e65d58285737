"""Sorted bins give exactly the counts of a pass over all rows."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postshift import MemoryEngine, PlugIn, Rows
from postshift.core.rows import PHI
from postshift.engines.memory import memory_engine, sorted_bins
from postshift.engines.memory.sorted_bins import SortedBins, strongest_other
from tests.engines.sorted_rows import check, counted, drawn_rows, drawn_rule, options

KERNELS = [False, pytest.param(True, marks=pytest.mark.skipif(find_spec("numba") is None, reason="no numba"))]


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


@given(values=st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_the_strongest_other(values):
    weights = np.array(values)
    expected = [max(np.delete(weights, place)) for place in range(len(weights))]
    np.testing.assert_array_equal(strongest_other(weights[None])[0], expected)
