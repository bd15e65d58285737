from __future__ import annotations

import pytest

from postshift.exceptions import SettingError
from postshift.oracle.charges import LARGEST, Charge

GIVEN = {"key": "0123456789abcdef", "kind": "value", "cost": 1, "token": "x", "text": "labels"}


def test_the_largest_charge():
    assert Charge(**{**GIVEN, "cost": LARGEST}).cost == 2**62


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
        Charge(**{**GIVEN, **changes})
