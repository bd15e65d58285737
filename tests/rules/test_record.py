"""The record of a choice: entries, reason, held-out labels and intervals."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.core.queries import without_queries
from postshift.metrics import Accuracy, GMean
from postshift.rules import Choice
from tests.rules.helpers import big


@pytest.mark.parametrize("how", ["average", "best"])
def test_the_record_says_why(how):
    problem = big(GMean(), 1)
    chosen = without_queries(Choice(how=how).fit(problem))
    record = chosen.record
    assert record.how == how
    assert len(record.entries) == 10
    assert sum(entry.weight for entry in record.entries) == pytest.approx(1)
    assert record.base_score == record.entries[0].score
    top = max(record.entries, key=lambda entry: entry.weight)
    assert record.fallback or (top.name in record.reason and record.score > record.base_score)
    if how == "best":
        assert len(chosen.rule.rules) == 1


@pytest.mark.parametrize("how", ["average", "best", "only"])
def test_held_out_labels_have_the_score_and_its_interval_is_around_it(how):
    problem = big(Accuracy())
    chosen = without_queries(Choice(how=how).fit(problem))
    held, record = chosen.held_out, chosen.record
    assert np.array_equal(held.rows, np.arange(problem.val.n_rows))
    assert not held.in_fit
    assert np.mean(held.base_labels == problem.val.labels) == pytest.approx(
        np.mean(np.argmax(problem.val.eta, axis=1) == problem.val.labels)
    )
    assert np.mean(held.labels == problem.val.labels) == pytest.approx(record.score)
    assert record.intervals.score[0] < record.score < record.intervals.score[1]
    assert record.intervals.base[0] < record.base_score < record.intervals.base[1]
    assert record.candidate.intervals.gain[0] < record.candidate.gain < record.candidate.intervals.gain[1]
    assert record.intervals.gain == (None if record.fallback else record.candidate.intervals.gain)
