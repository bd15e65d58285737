"""What is put into a ledger and what comes back: charges, answers, budgets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from postshift._validation import check_count
from postshift.exceptions import SettingError

LARGEST = 2**62  # units
_KEY = re.compile(r"[0-9a-f]{16,128}")
_LONGEST = 500  # characters of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What an answer costs, and what it answers.

    Parameters
    ----------
    key : str
        Digest of what was asked, in hexadecimal digits.
    kind : str
        The kind of query.
    cost : int
        Whole units, at least 1: micro-rho in private mode, queries in trusted mode.
    token : str
        The identifier of the token, not its secret.
    text : str
        The query in words, for the log.
    """

    key: str
    kind: str
    cost: int
    token: str
    text: str

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise SettingError(f"key must be 16 to 128 hexadecimal digits. Got {self.key!r} instead")
        check_units(self.cost, name="cost", low=1)
        check_words(self.kind, name="kind")
        check_words(self.text, name="text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that is charged and stored. ``cost`` is 0 if it is ``repeated``; ``number`` is its line in the log."""

    payload: bytes
    cost: int
    number: int
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget in whole units, what is spent and left of it, and the number of answers."""

    total: int
    spent: int
    left: int
    n_answers: int


def check_units(value: int, *, name: str, low: int) -> int:
    """Return a number of units; raise unless it is whole, at least ``low``, and fits into the ledger."""
    if check_count(value, name=name, low=low) > LARGEST:
        raise SettingError(f"{name} must be at most 2**62. Got {value} instead")
    return int(value)


def check_words(text: str, *, name: str) -> str:
    """Return a text that the log can hold and a terminal can show."""
    if not text.isprintable() or not 0 < len(text) <= _LONGEST:
        raise SettingError(f"{name} must have 1 to {_LONGEST} printable characters. Got {text[:_LONGEST]!r} instead")
    return text
