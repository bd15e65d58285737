"""Marks: the rows of a fit are known again, rounded or without labels; other rows and another order are found."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.estimators.marks import FIRST, compared, mark_of

RNG = np.random.default_rng(0)
ETA = RNG.dirichlet(np.ones(3), size=200)
CODES = RNG.integers(3, size=200)
MARK = mark_of(ETA, CODES)


def test_a_mark_is_plain_numbers():
    assert all(type(each) is float for each in MARK)
    assert len(MARK) == 2 + 2 * 3


@pytest.mark.parametrize(
    ("eta", "codes", "expected"),
    [
        (ETA, CODES, "same"),
        (ETA, None, "same"),
        (ETA.astype(np.float32).astype(float), CODES, "same"),
        (ETA[::-1], CODES[::-1], "other order"),
        (ETA, CODES[::-1], "other order"),
        (ETA[:-1], CODES[:-1], "other rows"),
        (ETA[:, ::-1], CODES, "other rows"),
    ],
)
def test_rows_are_known_again(eta, codes, expected):
    assert compared(MARK, mark_of(eta, codes)) == expected


def test_marks_of_the_first_rows_alone():
    kept = mark_of(ETA[:FIRST], CODES, n_rows=200)
    assert compared(kept, MARK) == "same"
    assert compared(kept, mark_of(ETA[::-1], CODES[::-1])) == "other rows"
