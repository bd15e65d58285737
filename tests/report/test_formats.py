"""How numbers are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.report import formats


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (formats.number(-0.00001), "0.000"),
        (formats.number(0.00001, signed=True), "0.000"),
        (formats.number(-0.5), "−0.500"),
        (formats.number(12345.678), "12,345.7"),
        (formats.percent(0.034), "3.4\u00a0%"),
        (formats.percent(0.0), "0\u00a0%"),
        (formats.amount(3.0, signed=True), "+3"),
        (formats.amount(0.0, signed=True), "0"),
        (formats.amount(1234.5), "1,234.5"),
        (formats.amount(-0.25, signed=True), "−0.25"),
        (formats.factor(0.001), "×<0.01"),
        (formats.factor(12.3), "×12"),
        (formats.rows(1), "1 row"),
    ],
)
def test_how_numbers_are_written(written, expected):
    assert written == expected


@given(st.floats(-1e6, 1e6))
def test_a_number_that_is_shown_is_near_the_number(value):
    shown = float(formats.number(value).replace(",", "").replace(formats.MINUS, "-"))
    assert shown == pytest.approx(value, abs=0.0005 if abs(value) < 100 else 0.05, rel=1e-9)
