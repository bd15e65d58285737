"""What the owner holds: what is refused, the categories, and the digest that answers belong to."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.exceptions import MetricError, PostshiftError, SettingError, ShapeError
from postshift.metrics import from_labels, from_predictions
from tests.oracle.owned import holdings


def profit(y_true, y_pred, amount):
    return float(((y_true == y_pred) * amount).mean())


def changed(array, place=0):
    """Return 0/1 values, one of them the other one."""
    found = np.array(array)
    found[place] = 1 - found[place]
    return found


class TestChecks:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"ids": ["a"] * 60}, r"59 row identifiers occur more than once \('a' 60 times\): make them unique"),
            ({"ids": ["a", "b"]}, "labels"),
            ({"ids": []}, "validation"),
            ({"classes": [0]}, "the number of classes must be a whole number >= 2"),
            ({"labels": np.full(60, 2)}, "labels"),
            ({"labels": np.full(60, -1)}, "labels"),
            ({"labels": np.zeros(59, dtype=int)}, "labels"),
            ({"groups": np.full(60, 2)}, "groups"),
            ({"groups": np.zeros(61, dtype=int)}, "groups"),
        ],
    )
    def test_rows_that_do_not_fit_together(self, changes, message):
        with pytest.raises(PostshiftError, match=message):
            holdings(**changes)

    @pytest.mark.parametrize("values", [np.ones(59), 3.0, np.ones((1, 60))])
    def test_metadata_of_another_length(self, values):
        with pytest.raises(ShapeError, match=r"amount must have one value for each of the 60 rows. Got"):
            holdings(metadata={"amount": values})

    def test_a_metric_that_is_not_known(self):
        with pytest.raises(SettingError, match="did you mean 'g_mean'"):
            _ = holdings(metric="g_men").goal

    def test_a_metric_with_labels_of_its_own(self):
        def elsewhere(y_pred):
            return float(y_pred[0])

        metric = from_predictions(elsewhere)
        with pytest.raises(SettingError, match="'elsewhere' has its own labels: give a function of y_true and y_pred"):
            _ = holdings(metric=metric).goal


class TestCategories:
    def test_pairs_of_group_and_class_for_a_metric_over_groups(self):
        held = holdings(n_classes=3, n_groups=2)
        assert held.n_categories == 6
        np.testing.assert_array_equal(held.categories, held.groups * 3 + held.labels)

    def test_classes_for_any_other_metric(self):
        held = holdings(metric="g_mean")
        assert held.n_categories == 2
        np.testing.assert_array_equal(held.categories, held.labels)

    def test_a_function_of_single_rows_has_no_confusion_matrix(self):
        held = holdings(metric=from_labels(profit), metadata={"amount": np.ones(60)})
        assert held.psi is None
        assert held.n_categories == held.n_classes


class TestFunctions:
    """A function without sample_weight is one of the confusion matrix if it only counts rows."""

    def test_it_only_counts(self):
        def hits(y_true, y_pred):
            return float(np.mean(y_true == y_pred))

        held = holdings(metric=hits)
        assert held.takes_distributions
        assert held.psi.value(np.array([[0.3, 0.2], [0.1, 0.4]])) == pytest.approx(0.7)

    def test_it_reads_the_order_of_the_rows(self):
        def first(y_true, y_pred):
            return float(y_true[0] == y_pred[0])

        held = holdings(metric=first)
        assert held.psi is None
        assert not held.takes_distributions
        held.check_function()

    def test_it_fails(self):
        def fails(y_true, y_pred, amount):
            raise KeyError(f"{len(y_true)} {len(y_pred)} {len(amount)}")

        with pytest.raises(MetricError, match=r"raised KeyError at query 'check' \(random labels\): '60 60 60'"):
            holdings(metric=from_labels(fails), metadata={"amount": np.ones(60)}).check_function()


class TestDigest:
    def test_it_is_the_same_for_the_same_content(self):
        held = holdings(metadata={"amount": np.arange(60)})
        narrow = holdings(
            labels=held.labels.astype(np.int8),
            groups=held.groups.astype(np.uint8),
            metadata={"amount": np.arange(60, dtype=np.int16)},
        )
        assert held.digest == narrow.digest
        assert len(held.digest) == 32

    def test_everything_that_answers_depend_on_changes_it(self):
        held = holdings(metadata={"amount": np.arange(60.0)})
        others = [
            holdings(metadata=held.metadata, labels=changed(held.labels)),
            holdings(metadata=held.metadata, groups=changed(held.groups)),
            holdings(metadata=held.metadata, group_names=["group1", "group0"]),
            holdings(metadata=held.metadata, classes=["0", "2"]),
            holdings(metadata=held.metadata, ids=[f"row{place}" for place in reversed(range(60))]),
            holdings(metadata=held.metadata, metric="worst_group_accuracy"),
            holdings(metadata={"amount": np.arange(60.0) + 1e-9}),
            holdings(metadata={"price": np.arange(60.0)}),
            holdings(),
        ]
        assert len({held.digest, *(each.digest for each in others)}) == len(others) + 1

    def test_names_are_not_run_together(self):
        one, two = holdings(group_names=["a", "bc"]), holdings(group_names=["ab", "c"])
        assert one.digest != two.digest


def ordered(labels, groups=None, *, ids=None):
    n_rows = len(labels)
    names = list(map(str, range(n_rows) if ids is None else ids))
    groups = np.random.default_rng(9).integers(0, 2, n_rows) if groups is None else groups
    return holdings(n_rows, ids=names, labels=np.asarray(labels), groups=np.asarray(groups)).known_by_order()


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

    @pytest.mark.parametrize("pattern", [[0, 1], [1, 0, 0], [0, 0, 1, 1], [0, 0, 1], [1] + [0] * 9])
    def test_cases_and_controls_in_turns(self, pattern):
        codes = np.tile(pattern, 400 // len(pattern))
        other = np.random.default_rng(0).permutation(codes)
        assert ordered(codes, other) == "label"
        assert ordered(other, codes, ids=np.random.default_rng(1).permutation(len(codes))) == "group"

    def test_rows_in_a_few_blocks(self):
        assert ordered(np.arange(400) // 50 % 2) == "label"

    @pytest.mark.parametrize("name", ["{}", "case-{:04d}"])
    def test_sorted_identifiers(self, name):
        """First all cases got a number, then all controls; the rows themselves were shuffled."""
        order = np.random.default_rng(0).permutation(400)
        assert ordered(order < 200, ids=[name.format(place) for place in order]) == "label"

    def test_few_rows(self):
        assert ordered([0, 1]) is None
