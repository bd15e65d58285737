from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from postshift.exceptions import BadQueryError, MissingClassError
from postshift.metrics import from_labels
from postshift.oracle.answers import MOST_COUNTS, Answers, ServiceQuery
from postshift.oracle.wire import GRID, on_grid
from tests.oracle.owned import distributions, holdings

RHO = 10**12  # a million rho: the noise is below a thousandth of a row


def query(kind, mode, **arrays):
    return ServiceQuery(kind=kind, cost=1 if mode == "trusted" else RHO, **arrays)


def by_hand(held, shown):
    """Return the confusion matrix by a loop over the rows."""
    found = np.zeros((held.n_categories, held.n_classes))
    for label, group, row in zip(held.labels, held.groups, shown, strict=True):
        found[group * held.n_classes + label] += row
    return found / held.n_rows


class TestTable:
    @pytest.mark.parametrize("mode", ["trusted", "private"])
    def test_it_counts_categories_in_cells(self, mode):
        held = holdings()
        cells = np.random.default_rng(1).integers(0, 5, size=held.n_rows)
        found = Answers(held, mode).answer(query("table", mode, cells=cells))
        wanted = [[np.sum((cells == k) & (held.categories == r)) for r in range(4)] for k in range(cells.max() + 1)]
        np.testing.assert_array_equal(found, wanted)

    def test_noise_has_the_variance_of_its_cost(self):
        held = holdings(4, metric="accuracy", n_groups=1, groups=None, group_names=())
        cells = np.zeros(4, dtype=int)
        answers = Answers(held, "private")
        ask = ServiceQuery(kind="table", cost=50_000, cells=cells)
        exact = Answers(held, "trusted").answer(query("table", "trusted", cells=cells))
        drawn = np.concatenate([(answers.answer(ask) - exact).ravel() for _ in range(3000)])
        # rho 0.05, squared change 2: variance 2 / (2 * 0.05) = 20; the mean of 6,000 squares has standard error 0.37
        assert abs(np.mean(drawn**2) - 20) < 5 * 0.37
        assert abs(drawn.mean()) < 5 * np.sqrt(20 / 6000)


class TestConfusion:
    def test_trusted_answers_are_those_of_the_oracle_of_the_core(self):
        held = holdings(metric="accuracy", n_groups=1, groups=None, group_names=())
        shown = distributions(held.n_rows)
        columns = np.column_stack([np.ones(held.n_rows), np.random.default_rng(2).random(held.n_rows)])
        found = Answers(held, "trusted").answer(query("confusion", "trusted", predictions=shown, columns=columns))
        shares = columns / held.n_rows
        wanted = np.einsum("nl,nr,nj->lrj", shares, np.eye(2)[held.labels], shown)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)

    def test_labels_are_distributions_with_one_entry(self):
        held = holdings()
        labels = np.random.default_rng(0).integers(0, 2, held.n_rows)
        ones = np.ones((held.n_rows, 1))
        answers = Answers(held, "trusted")
        hard, soft = (
            answers.answer(query("confusion", "trusted", predictions=shown, columns=ones))
            for shown in (labels, np.eye(2)[labels])
        )
        np.testing.assert_array_equal(hard, soft)

    @pytest.mark.parametrize("soft", [True, False])
    def test_private_answers_are_counts_in_cells(self, soft):
        held = holdings()
        labels, cells = np.random.default_rng(3).integers(0, 2, (2, held.n_rows))
        shown = on_grid(distributions(held.n_rows)) if soft else labels
        found = Answers(held, "private").answer(query("confusion", "private", predictions=shown, cells=cells))
        rows = shown / GRID if soft else np.eye(2)[labels]
        wanted = sum(by_hand(held, rows * (cells == k)[:, None])[None] * np.eye(2)[k][:, None, None] for k in range(2))
        np.testing.assert_allclose(found / GRID / held.n_rows, wanted, atol=1e-4)


class TestValue:
    @pytest.mark.parametrize("mode", ["trusted", "private"])
    def test_it_is_the_metric_of_the_confusion_matrix(self, mode):
        held = holdings()
        shown = distributions(held.n_rows)
        sent = shown if mode == "trusted" else on_grid(shown)
        found = Answers(held, mode).answer(query("value", mode, predictions=sent))
        assert found == pytest.approx(
            float(held.psi.value(by_hand(held, shown))), abs=2e-3 if mode == "private" else 1e-12
        )

    def test_a_function_of_single_rows_is_called(self):
        def gain(y_true, y_pred, amount):
            return float((amount * (y_true == y_pred)).sum())

        amounts = np.arange(60.0)
        held = holdings(metric=from_labels(gain), metadata={"amount": amounts}, groups=None, group_names=())
        labels = np.random.default_rng(0).integers(0, 2, 60)
        found = Answers(held, "trusted").answer(query("value", "trusted", predictions=labels))
        assert found == gain(held.labels, labels, amounts)
        with pytest.raises(BadQueryError, match="single rows"):
            Answers(held, "private")

    def test_a_metric_that_raises_is_nan(self):
        """An error would be free, so that noise could be drawn again, and its text could tell about labels."""

        def fails(y_true, y_pred):
            raise ValueError(f"{y_true[0]} is the first label {y_pred[0]}")

        held = holdings(metric=from_labels(fails), groups=None, group_names=())
        found = Answers(held, "trusted").answer(query("value", "trusted", predictions=held.labels))
        assert np.isnan(found)


def neighbours(held):
    """Data sets that differ from this one in one row's label or group, for the first rows."""
    for row in range(12):
        for label in range(held.n_classes):
            for group in range(len(held.group_names)):
                labels, groups = held.labels.copy(), held.groups.copy()
                labels[row], groups[row] = label, group
                yield holdings(held.n_rows, n_classes=held.n_classes, labels=labels, groups=groups)


class Unmasked(Answers):
    """Answers in private mode without noise; it keeps the counts, the unit, and the cost that they come with."""

    def _with_noise(self, counts, cost, *, unit):
        self.last = counts.astype(object), unit, cost
        return counts


PRIVATE = {
    "table": {"cells": np.arange(60) % 7},
    "table of single rows": {"cells": np.arange(60)},
    "confusion of labels": {"predictions": np.arange(60) % 3, "cells": np.arange(60) % 5},
    "confusion of distributions": {"predictions": on_grid(distributions(60, 3)), "cells": np.arange(60) % 5},
    "value of labels": {"predictions": np.arange(60) % 3},
    "value of distributions": {"predictions": on_grid(distributions(60, 3))},
}


def asked(name, cost=1000):
    return ServiceQuery(kind=name.split()[0], cost=cost, **PRIVATE[name])


class TestPrivacy:
    """The arithmetic of zCDP: rho = (distance of neighbours)^2 / (2 variance), for every kind of query."""

    @pytest.mark.parametrize("name", PRIVATE)
    def test_one_row_moves_the_counts_by_no_more_than_the_noise_is_made_for(self, name):
        held, found = holdings(n_classes=3), []
        answers = Unmasked(held, "private")
        answers.check(asked(name))
        answers.answer(asked(name))
        counts, unit, _ = answers.last
        for other in neighbours(held):
            of_other = Unmasked(other, "private")
            of_other.answer(asked(name))
            found.append(((of_other.last[0] - counts) ** 2).sum() / unit**2)
        assert max(found) <= 2
        if "distributions" not in name:
            assert max(found) == 2  # the bound is reached: the cost is not charged too high either

    @pytest.mark.parametrize("name", PRIVATE)
    @pytest.mark.parametrize("cost", [1, 777, 50_000, 10**6])
    def test_the_noise_has_the_variance_of_the_charge(self, name, cost, monkeypatch):
        seen = []
        monkeypatch.setattr(
            "postshift.oracle.answers.discrete_gaussian",
            lambda variance, *, size: seen.append((variance, size)) or np.zeros(size, dtype=int),
        )
        unmasked = Unmasked(holdings(n_classes=3), "private")
        unmasked.answer(asked(name, cost))
        Answers(holdings(n_classes=3), "private").answer(asked(name, cost))
        counts, unit, _ = unmasked.last
        (variance, size), *more = seen
        assert not more
        assert size == counts.size
        assert 2 * unit**2 / (2 * variance) == Fraction(cost, 10**6)  # rho

    @pytest.mark.parametrize("name", PRIVATE)
    def test_what_follows_the_noise_reads_nothing_else(self, name):
        """Two data sets that differ in every row give the same answer, if the noisy counts are the same."""

        class Forced(Answers):
            def _with_noise(self, counts, cost, *, unit):  # noqa: ARG002
                return np.random.default_rng(0).integers(-50, 500, size=counts.shape)

        first = holdings(n_classes=3)
        other = holdings(n_classes=3, labels=(first.labels + 1) % 3, groups=1 - first.groups)
        found = [Forced(held, "private").answer(asked(name)) for held in (first, other)]
        assert found[0].tobytes() == found[1].tobytes()

    def test_every_count_has_noise_of_its_own(self):
        """Also those that are 0: a table of single rows shows nothing."""
        held = holdings()
        answers = Answers(held, "private")
        drawn = answers.answer(ServiceQuery(kind="table", cost=1000, cells=np.arange(60))).ravel()
        assert len(set(drawn.tolist())) > 60
        assert np.mean(drawn == 0) < 0.1


class TestWithoutRowsOfACategory:
    def test_only_private_mode_answers(self):
        """In private mode, whether the service starts must not depend on a row's label."""
        held = holdings(4, labels=np.zeros(4, int), groups=np.zeros(4, int))
        shown = np.zeros(4, int)
        assert np.isfinite(Answers(held, "private").answer(ServiceQuery(kind="value", cost=1000, predictions=shown)))
        with pytest.raises(MissingClassError):
            Answers(held, "trusted")


class TestRefusals:
    @pytest.mark.parametrize(
        ("mode", "kind", "arrays", "message"),
        [
            ("private", "table", {}, "has cells"),
            ("private", "table", {"cells": np.zeros(60, int), "predictions": np.zeros(60, int)}, "has cells"),
            ("private", "table", {"cells": np.zeros(59, int)}, "60 rows"),
            ("private", "table", {"cells": np.zeros(())}, "60 rows"),
            ("private", "table", {"cells": np.full(60, -1)}, "from 0"),
            ("private", "table", {"cells": np.full(60, MOST_COUNTS)}, "fewer cells"),
            ("private", "table", {"cells": np.zeros(60)}, "whole numbers"),
            ("private", "value", {"predictions": np.full((60, 2), 0.5)}, "sum to 1024"),
            ("private", "value", {"predictions": np.full((60, 2), 511)}, "sum to 1024"),
            ("private", "value", {"predictions": np.tile([1025, -1], (60, 1))}, "from 0"),
            ("private", "confusion", {"predictions": np.zeros(60, int)}, "cells"),
            ("trusted", "confusion", {"predictions": np.zeros(60, int)}, "columns"),
            ("trusted", "value", {"predictions": np.full(60, 2)}, "0..1"),
            ("trusted", "value", {"predictions": np.full((60, 3), 1 / 3)}, "2 classes"),
            ("trusted", "value", {"predictions": np.full((60, 2), np.nan)}, "finite"),
            ("trusted", "value", {"predictions": np.tile([1.5, -0.5], (60, 1))}, "not be negative"),
            ("trusted", "confusion", {"predictions": np.zeros(60, int), "columns": np.zeros((60, 2))}, "ones"),
            ("trusted", "confusion", {"predictions": np.zeros(60, int), "columns": np.full((60, 2), np.nan)}, "finite"),
        ],
    )
    def test_a_query_that_cannot_be_answered(self, mode, kind, arrays, message):
        with pytest.raises(BadQueryError, match=message):
            Answers(holdings(), mode).check(query(kind, mode, **arrays))

    def test_sums_that_overflow_do_not_hide_large_numbers(self):
        """Such a row would be counted 2**53 times, and no noise would hide its category."""
        held = holdings(60, n_classes=3)
        shown = np.tile([1024, 0, 0], (60, 1))
        shown[7] = [2**63 - 1, 2**63 - 1, 1026]
        with np.errstate(over="ignore"):
            assert (shown.sum(axis=1) == GRID).all()
        with pytest.raises(BadQueryError, match="whole numbers from 0 whose rows sum to 1024"):
            Answers(held, "private").check(query("value", "private", predictions=shown))

    def test_keys_tell_queries_apart(self):
        labels = np.zeros(60, int)
        asked = [
            query("value", "trusted", predictions=labels),
            query("value", "private", predictions=labels),
            query("table", "private", cells=labels),
            query("value", "trusted", predictions=np.eye(2)[labels]),
            query("confusion", "private", predictions=labels, cells=labels),
        ]
        assert len({each.key("a") for each in asked} | {each.key("b") for each in asked}) == 10

    @pytest.mark.parametrize("largest", [1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32])
    def test_the_width_of_whole_numbers_does_not_matter(self, largest):
        cells = np.array([0, largest])
        kinds = [kind for kind in ("u1", "u2", "u4", "i8") if np.iinfo(kind).max >= largest]
        assert len({query("table", "private", cells=cells.astype(kind)).key("a") for kind in kinds}) == 1

    def test_other_whole_numbers_have_other_keys(self):
        asked = [[1, 0], [0, 1], [0, 256], [0, 65_536], [0, 2**32], [-1, 0], [255, 0], [1, 0, 0]]
        assert len({query("table", "private", cells=np.array(each)).key("a") for each in asked}) == len(asked)
