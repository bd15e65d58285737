"""The weightings: scores, weight matrices and displaced entries agree with each other."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Mixture, PlugIn, fw_eg
from postshift.core.sums import confusion_sums, hit_sums, label_sums
from postshift.core.weighting import COLUMNS, DIAGONAL, FULL, Entries, weighting_named
from postshift.exceptions import SettingError
from postshift.metrics import Accuracy, GMean
from tests.problems import make_problem

SOME = Entries(((0, 2), (1, 1), (2, 0)))
WEIGHTINGS = pytest.mark.parametrize("weighting", [DIAGONAL, COLUMNS, FULL, SOME], ids=lambda each: each.name)


def weighed(weighting, confusions):
    """The entries that a weighting weighs, of confusions (..., m, m)."""
    diagonal = np.einsum("...ii->...i", confusions)
    if weighting is DIAGONAL:
        return diagonal
    if weighting is COLUMNS:
        return np.concatenate([diagonal, confusions.sum(axis=-2)], axis=-1)
    if weighting is SOME:
        return np.stack([confusions[..., i, j] for i, j in SOME.pairs], axis=-1)
    return confusions.reshape(*confusions.shape[:-2], -1)


@WEIGHTINGS
def test_scores_are_those_of_the_weight_matrices(weighting):
    rows = make_problem(seed=1, n_bases=2, basis="soft").val
    alpha = np.random.default_rng(0).normal(size=(2, weighting.n_terms(3)))
    matrices = weighting.weight_matrices(alpha, 3)
    expected = np.einsum("nl,lij,ni->nj", rows.phi, matrices, rows.eta)
    np.testing.assert_allclose(weighting.scores(alpha, rows.eta, rows.phi), expected, atol=1e-12)


@WEIGHTINGS
def test_displaced_entries_are_those_of_the_displaced_confusions(weighting):
    rows = make_problem(seed=2, n_classes=4, n_bases=2, basis="soft").train
    table = np.random.default_rng(0).dirichlet(np.ones(4), size=rows.n_rows)
    sums = (confusion_sums if weighting.needs_confusions else hit_sums)(rows, table)
    probes = np.arange(weighting.probes.n_probes(4))
    moved = weighting.probes.displace(confusion_sums(rows, table).pair, probes)  # (r, l, k, i, j)
    expected = np.swapaxes(weighed(weighting, moved), 0, 1)
    np.testing.assert_allclose(weighting.displaced(label_sums(rows), sums), expected, atol=1e-9)


def test_names():
    assert [weighting_named(name) for name in ("diagonal", "columns", "full")] == [DIAGONAL, COLUMNS, FULL]
    assert weighting_named([[0, 2], (1, 1), np.array([2, 0])]) == SOME == weighting_named(SOME.name)
    for name in ("diag", "", None, ["full"], [], [(0, 1), (0, 1)], [(0, -1)], [(0, 1, 2)], "entries", "entries 0"):
        with pytest.raises(SettingError, match=r"weighting must be one of \['columns', 'diagonal', 'full'\]"):
            weighting_named(name)


def test_entries_that_do_not_exist():
    with pytest.raises(SettingError, match=r"the entry \(0, 3\), but the classes are 0..2"):
        weighting_named([(0, 0), (0, 3)]).n_terms(3)
    problem = make_problem(seed=0)
    with pytest.raises(SettingError, match=r"the entry \(0, 3\)"):
        fw_eg(problem.train, problem.val, Accuracy(), weighting=[(0, 3)])


def test_all_diagonal_entries_are_the_diagonal():
    problem = make_problem(seed=3, n_bases=2, basis="soft")
    one = fw_eg(problem.train, problem.val, GMean(), max_iter=3)
    two = fw_eg(problem.train, problem.val, GMean(), max_iter=3, weighting=[(0, 0), (1, 1), (2, 2)])
    for ours, theirs in zip(two.vertices, one.vertices, strict=True):
        np.testing.assert_allclose(ours.weight_matrices(), theirs.weight_matrices(), rtol=1e-9)


def test_entries_are_saved(tmp_path):
    rule = PlugIn(weighting=[(0, 2), (1, 1)], alpha=[[1.0, -2.0]], n_classes=3)
    Mixture.of([rule], [1.0]).save(tmp_path / "mixture.npz")
    (again,) = Mixture.load(tmp_path / "mixture.npz").members
    assert again.weighting == rule.weighting
    np.testing.assert_array_equal(again.weight_matrices()[0], [[0, 0, 1], [0, -2, 0], [0, 0, 0]])
