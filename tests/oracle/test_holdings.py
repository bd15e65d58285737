"""What an owner holds: what is refused, what the digest covers, and orders that tell labels."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.exceptions import LabelError, SettingError, ShapeError
from postshift.metrics import from_labels, from_predictions
from tests.oracle.owned import holdings


def test_categories_are_groups_times_classes_for_a_metric_over_groups_only():
    over, without = holdings(), holdings(metric="g_mean")
    np.testing.assert_array_equal(over.categories, over.groups * 2 + over.labels)
    np.testing.assert_array_equal(without.categories, without.labels)
    assert (over.n_categories, without.n_categories) == (4, 2)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"ids": ["a"] * 60}, SettingError, "59 row identifiers occur more than once"),
        ({"labels": np.full(60, 2)}, LabelError, "labels"),
        ({"groups": np.full(60, 5)}, LabelError, "groups"),
        ({"metadata": {"amount": np.ones(59)}}, ShapeError, "amount must have one value for each of the 60 rows"),
    ],
)
def test_what_does_not_fit_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        holdings(**changes)


def test_a_metric_with_labels_of_its_own():
    with pytest.raises(SettingError, match="has its own labels"):
        _ = holdings(metric=from_predictions(len)).goal


def test_a_metric_of_single_rows_is_no_function_of_the_confusion_matrix():
    def gain(y_true, y_pred, amount):
        return float((amount * (y_true == y_pred)).sum())

    held = holdings(metric=from_labels(gain), metadata={"amount": np.arange(60.0)})
    assert held.psi is None


class TestDigest:
    def test_equal_holdings_have_equal_digests(self):
        assert holdings().digest == holdings().digest
        narrow = holdings(labels=holdings().labels.astype(np.uint8))
        assert narrow.digest == holdings().digest

    @pytest.mark.parametrize(
        "changes",
        [
            {"labels": np.roll(holdings().labels, 1)},
            {"groups": 1 - holdings().groups},
            {"ids": [f"r{place}" for place in range(60)]},
            {"classes": ["no", "yes"]},
            {"group_names": ["a", "b"]},
            {"metric": "g_mean"},
            {"metadata": {"amount": np.ones(60)}},
        ],
    )
    def test_whatever_changes_an_answer_changes_the_digest(self, changes):
        assert holdings(**changes).digest != holdings().digest


def ordered(labels, groups=None, *, ids=None):
    n_rows = len(labels)
    names = list(map(str, range(n_rows) if ids is None else ids))
    groups = np.arange(n_rows) % 2 if groups is None else groups
    return holdings(n_rows, ids=names, labels=np.asarray(labels), groups=np.asarray(groups)).told_by_order()


class TestOrder:
    """Learners get the rows in the owner's order: a file that is sorted by label would show them the labels."""

    def test_random_orders_tell_nothing(self):
        rng = np.random.default_rng(0)
        for share in (0.02, 0.1, 0.5):
            for n_rows in (40, 300, 2000):
                for _ in range(50):
                    assert ordered(rng.random(n_rows) < share, rng.random(n_rows) < 0.3) is None

    @pytest.mark.parametrize(("n_rows", "n_ones"), [(40, 20), (200, 20), (2000, 10), (2000, 1000)])
    def test_sorted_rows(self, n_rows, n_ones):
        codes = (np.arange(n_rows) < n_ones).astype(int)
        other = np.random.default_rng(0).permutation(codes)
        assert ordered(codes, other) == ordered(1 - codes, other) == "label"
        assert ordered(other, codes) == "group"

    def test_rows_in_a_few_blocks(self):
        assert ordered(np.arange(400) // 50 % 2) == "label"

    @pytest.mark.parametrize("name", ["{}", "case-{:04d}"])
    def test_sorted_identifiers(self, name):
        """First all cases got a number, then all controls; the rows themselves were shuffled."""
        order = np.random.default_rng(0).permutation(400)
        assert ordered(order < 200, ids=[name.format(place) for place in order]) == "label"

    def test_few_rows(self):
        assert ordered([0, 1]) is None
