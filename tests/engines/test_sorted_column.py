"""Two classes: a threshold in the sorted column gives exactly the counts of a pass over all rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from postshift import MemoryEngine, PlugIn, Rows
from postshift.core.rows import PHI
from postshift.engines.memory.sorted_column import SortedColumn
from tests.engines.sorted_rows import check, counted, drawn_rows, drawn_rule, options


@settings(max_examples=150, deadline=None)
@given(**options)
def test_a_threshold_of_two_classes_counts_every_row(seed, kind, **shape):
    rng = np.random.default_rng(seed)
    rows = drawn_rows(rng, m=2, **shape)
    ordered = SortedColumn(rows, rows.clusters)
    for _ in range(3):
        rule = drawn_rule(rng, m=2, n_bases=shape["n_bases"], kind=kind)
        check(ordered.confusions(rule), counted(rows, rule), exact=rows.weights is None)


def test_weights_on_the_whole_matrix_are_left_to_the_kernels(monkeypatch):
    rows = drawn_rows(np.random.default_rng(0), n=50, m=2, n_bases=1, weighted=False, dtype=float, coarse=False)
    monkeypatch.setattr(SortedColumn, "confusions", None)
    engine = MemoryEngine(Rows(eta=rows.eta, bases={PHI: rows.phi}, labels=rows.labels.astype(np.intp)))
    rule = PlugIn(weighting="full", alpha=np.ones((1, 4)), n_classes=2)
    assert engine.classifier_sums(rule, confusions=True).single.sum() == 50


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
