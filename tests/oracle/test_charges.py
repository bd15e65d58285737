"""Charges: what cannot be put into a ledger is refused before it is opened."""

from __future__ import annotations

import pytest

from postshift.exceptions import SettingError
from postshift.oracle.charges import LARGEST, Charge, check_units, check_words

GIVEN = {"key": "0123456789abcdef", "kind": "value", "cost": 1, "token": "deadbeef", "text": "value of labels"}


@pytest.mark.parametrize("key", ["0" * 16, "f" * 128])
def test_keys_of_every_length_that_is_allowed(key):
    assert Charge(**{**GIVEN, "key": key}).key == key


@pytest.mark.parametrize("key", ["", "0" * 15, "0" * 129, "ABCDEF0123456789", "0123456789abcdef\n", "g" * 16])
def test_a_key_that_is_no_digest(key):
    with pytest.raises(SettingError, match=r"key must be 16 to 128 hexadecimal digits. Got"):
        Charge(**{**GIVEN, "key": key})


@pytest.mark.parametrize("cost", [0, -1, 1.5, True, LARGEST + 1, "1"])
def test_a_cost_that_is_no_number_of_units(cost):
    with pytest.raises(SettingError, match="cost must be"):
        Charge(**{**GIVEN, "cost": cost})


@pytest.mark.parametrize("field", ["kind", "text"])
@pytest.mark.parametrize("text", ["", "two\nlines", "\x1b[31m", "x" * 501])
def test_a_text_that_a_terminal_cannot_show(field, text):
    with pytest.raises(SettingError, match=f"{field} must have 1 to 500 printable characters"):
        Charge(**{**GIVEN, field: text})


def test_a_long_text_is_not_repeated_in_full():
    with pytest.raises(SettingError) as refused:
        check_words("x" * 100_000, name="name")
    assert len(str(refused.value)) < 600


def test_units_have_a_least_and_a_largest_value():
    assert check_units(0, name="budget", low=0) == 0
    assert check_units(LARGEST, name="budget", low=0) == LARGEST
    with pytest.raises(SettingError, match=r"budget must be at most 2\*\*62"):
        check_units(LARGEST + 1, name="budget", low=0)
    with pytest.raises(SettingError, match="budget must be a whole number >= 1"):
        check_units(0, name="budget", low=1)


PARTS = {"key": "0123456789abcdef", "kind": "value", "cost": 1, "token": "x", "text": "labels"}


def test_the_largest_charge():
    assert Charge(**{**PARTS, "cost": LARGEST}).cost == 2**62


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cost": 0}, "cost"),
        ({"cost": -1}, "cost"),
        ({"cost": 0.5}, "cost"),
        ({"cost": True}, "cost"),
        ({"cost": LARGEST + 1}, "at most 2"),
        ({"key": "0123"}, "hexadecimal"),
        ({"key": "0123456789ABCDEF"}, "hexadecimal"),
        ({"key": "0123456789abcdef\n"}, "hexadecimal"),
        ({"kind": ""}, "kind must have 1 to 500"),
        ({"text": "a\nb"}, "printable"),
        ({"text": "\x1b[31m"}, "printable"),
        ({"text": "x" * 501}, "text must have 1 to 500"),
    ],
)
def test_what_is_no_charge(changes, words):
    with pytest.raises(SettingError, match=words):
        Charge(**{**PARTS, **changes})
