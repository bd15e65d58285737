"""Expected shares of rows: known ones, those of probabilities, and the correction by labels."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.core.plugin import PlugIn
from postshift.exceptions import LabelError, ShapeError
from postshift.rules.expected_cells import ExpectedRows, Halves, Table

RULE = PlugIn(weighting="diagonal", alpha=np.array([[1.0, 3.0]]), n_classes=2)
OTHER = PlugIn(weighting="diagonal", alpha=np.array([[1.0, 1.0]]), n_classes=2)


def rows(n_rows=501, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n_rows)
    return np.column_stack([1 - p, p]), (rng.random(n_rows) < p).astype(int)


def by_hand(eta, chances, rule):
    labels, base = (eta * rule.alpha[0]).argmax(axis=1), eta.argmax(axis=1)
    cells = np.zeros((2, 2, 2))
    for row, label, own in zip(chances, labels, base, strict=True):
        cells[:, label, own] += row / len(eta)
    return cells


def test_a_table_is_known():
    cells = Table.of([[3, 1], [0, 4]], n_axes=2).cells
    assert cells.is_known
    np.testing.assert_allclose(cells.shares.sum(axis=2), [[0.375, 0.125], [0, 0.5]])


def test_blocks_add_up_to_the_cells_of_the_probabilities():
    eta, y = rows()
    blocks = ExpectedRows.of(eta, None).blocks(RULE)
    assert blocks.shape == (200, 2, 2, 2)
    np.testing.assert_allclose(blocks.mean(axis=0), by_hand(eta, eta, RULE))
    corrected = ExpectedRows.of(eta, None, labels=y).blocks(RULE).mean(axis=0)
    np.testing.assert_allclose(corrected, by_hand(eta, np.eye(2)[y] - eta, RULE), atol=1e-15)


def test_groups_are_rows_of_the_cells():
    eta, _ = rows()
    groups = np.array(["b", "a"])[np.arange(501) % 2]
    rule = PlugIn(weighting="diagonal", alpha=np.repeat(RULE.alpha, 2, axis=0), n_classes=2)
    blocks = ExpectedRows.of(eta, groups).blocks(rule).mean(axis=0)
    assert blocks.shape == (4, 2, 2)
    in_a = groups == "a"
    np.testing.assert_allclose(blocks[:2], by_hand(eta[in_a], eta[in_a], RULE) * in_a.mean())


def test_each_half_is_labelled_by_the_rule_of_the_other():
    halves = Halves.of(ExpectedRows.of(rows()[0], None), None)
    first, second = (half.rows.eta for half in halves.halves)
    assert len(first) + len(second) == 501
    expected = by_hand(second, second, RULE) * len(second) + by_hand(first, first, OTHER) * len(first)
    np.testing.assert_allclose(halves.cells([RULE, OTHER]).shares, expected / 501)


def test_with_all_labels_the_cells_are_those_of_the_labels():
    eta, y = rows()
    halves = Halves.of(ExpectedRows.of(eta, None), ExpectedRows.of(eta, None, labels=y))
    np.testing.assert_allclose(halves.cells([RULE, RULE]).shares, by_hand(eta, np.eye(2)[y], RULE), atol=1e-12)


def test_draws_have_the_noise_of_the_rows():
    eta, _ = rows(2000)
    cells = Halves.of(ExpectedRows.of(eta, None), None).cells([RULE, RULE])
    drawn = np.array(list(cells.drawn(300)))
    share = cells.shares[:, 1].sum()  # of rows that get the label 1
    assert drawn[:, :, 1].sum(axis=(1, 2)).mean() == pytest.approx(share, abs=0.005)
    assert drawn[:, :, 1].sum(axis=(1, 2)).std() == pytest.approx(np.sqrt(share * (1 - share) / 2000), rel=0.25)


def test_what_it_refuses():
    eta, y = rows(10)
    with pytest.raises(ShapeError, match="groups must have one value"):
        ExpectedRows.of(eta, y[:5])
    with pytest.raises(LabelError, match="groups of eta_val must be among"):
        ExpectedRows.of(eta, np.full(10, "c"), known_groups=np.array(["a", "b"]), name="eta_val")
