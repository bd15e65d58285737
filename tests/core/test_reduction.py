"""Fewer members with the same confusion matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import Mixture, PlugIn, Rows
from postshift.core.reduction import reduced
from postshift.core.sums import weighted_confusions
from postshift.exceptions import LabelError, SettingError
from tests.problems import make_problem, problems


def confusion(mixture, val):
    table = mixture.distribution(val.eta, val.phi)
    return weighted_confusions(val.row_weights[:, None], val.labels, table, n_categories=val.n_classes)[0]


def random_mixture(val, n_members, seed):
    rng = np.random.default_rng(seed)
    shape = (val.n_bases, val.n_classes)
    members = [
        PlugIn(weighting="diagonal", alpha=rng.uniform(0.3, 3, size=shape), n_classes=val.n_classes)
        for _ in range(n_members)
    ]
    return Mixture.of(members, rng.dirichlet(np.ones(n_members)))


@given(problem=problems(max_classes=4), seed=st.integers(0, 99), keeps=st.sampled_from(["diagonal", "columns", "full"]))
def test_what_is_kept_is_kept_with_few_members(problem, seed, keeps):
    val, m = problem.val, problem.n_classes
    mixture = random_mixture(val, 40, seed)
    few = reduced(mixture, val, keeps=keeps)
    one, two = confusion(mixture, val), confusion(few, val)
    np.testing.assert_allclose(np.diag(two), np.diag(one), atol=1e-7 * val.row_weights.sum())
    if keeps != "diagonal":
        np.testing.assert_allclose(two.sum(axis=0), one.sum(axis=0), atol=1e-7 * val.row_weights.sum())
    if keeps == "full":
        np.testing.assert_allclose(two, one, atol=1e-7 * val.row_weights.sum())
    assert len(few.members) <= {"diagonal": m + 1, "columns": 2 * m, "full": m * m - m + 1}[keeps]


def test_what_it_refuses():
    val = make_problem(seed=0).val
    mixture = random_mixture(val, 3, 0)
    with pytest.raises(LabelError, match="need labels"):
        reduced(mixture, Rows.of(val.eta, phi=val.phi))
    with pytest.raises(SettingError):
        reduced(mixture, val, keeps="everything")
