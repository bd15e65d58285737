"""What the choice leaves behind: every entry, the scores, and why the result is what it is, in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from postshift._validation import FloatArray
from postshift.rules.few_rows import FewRows
from postshift.rules.fitted import FittedRule, Rule
from postshift.rules.verdict import Comparison, Intervals

NEGLIGIBLE = 1e-3  # entries of less weight are not fitted again


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the record: an entry, its score on rows not used for its fit, and its weight in the result."""

    name: str
    score: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class Record:
    """Why the result is what it is; ``notes`` say where only a randomised classifier reaches the optimum.

    Attributes
    ----------
    how : str
        How it was chosen.
    entries : tuple of Entry
        Every entry of the menu.
    score, base_score : float
        Of the result and of the base, on labels that had no say in the choice. Where only values are known, ``score``
        is the best of ``len(entries)`` scores on the same rows.
    noise : float
        The standard error of the candidate's gain; where only values are known, of a difference of shares of rows, from
        the rows on which the candidate and the base differ.
    fallback : bool
        Whether the base was kept.
    reason : str
        All that in a sentence.
    intervals : Intervals or None
        Of the result; None where only values are known, as these give no honest one.
    candidate : Comparison or None
        The rule before it was adopted or not, against the base.
    few_rows : FewRows or None
        The categories that rest on few rows.
    """

    how: Literal["average", "best", "only", "queries"]
    entries: tuple[Entry, ...]
    score: float
    base_score: float
    noise: float
    fallback: bool
    reason: str
    intervals: Intervals | None = None
    candidate: Comparison | None = None
    few_rows: FewRows | None = None
    notes: tuple[str, ...] = ()


def lines(entries: tuple[Rule, ...], values: FloatArray, weights: FloatArray) -> tuple[Entry, ...]:
    """Return the record's lines."""
    return tuple(
        Entry(name=rule.name, score=float(value), weight=float(weight))
        for rule, value, weight in zip(entries, values, weights, strict=True)
    )


def reason_of(
    entries: tuple[Rule, ...], weights: FloatArray, found: Comparison, *, needed: float, fallback: bool, asked: bool
) -> str:
    """Say in a sentence why the result is what it is."""
    top = entries[int(np.argmax(weights))].name
    against = f"{found.score:.3f} (base {found.base_score:.3f}, gain {found.gain:+.3f} +- {found.noise:.3f})"
    if len(entries) == 1:
        return f"you chose {top!r}: {found.score:.3f}"
    if asked:
        return f"you chose {top!r}: {against}{', it scores lower than the base' if found.gain < 0 else ''}"
    if fallback and found.score == found.base_score:
        return f"the base is kept: no other rule scores higher than its {found.base_score:.3f}"
    if fallback:
        return (
            f"the base is kept: the best of the menu scores {against}; the chance that it is better is "
            f"{found.chance:.2f}, and {needed:.2f} is needed"
        )
    n_kept = int((weights > NEGLIGIBLE).sum())
    if n_kept == 1:
        return f"{top!r} alone: {against}"
    return f"weighted average of {n_kept} rules: {against}; {top!r} has the largest weight, {weights.max():.2f}"


def queried_reason(
    entries: tuple[Rule, ...], values: FloatArray, rival: int, noise: float, *, fallback: bool, asked: bool
) -> str:
    """Say in a sentence why the result is what it is, where only values are known."""
    name, score, base = entries[rival].name, values[rival], values[0]
    if len(entries) == 1:
        return f"you chose {name!r}: {score:.3f}"
    against = f"{score:.3f} (base {base:.3f}, noise {noise:.3f})"
    if asked:
        return f"you chose {name!r}: {against}{', it scores lower than the base' if score < base else ''}"
    if fallback:
        return f"the base is kept: {name!r} has the highest score of the others, {against}, no more than noise above"
    return f"{name!r} has the best of {len(entries)} scores on the same rows: {against}"


def notes_of(rules: tuple[FittedRule, ...]) -> tuple[str, ...]:
    """Return what the fitted rules have to say, each under its name."""
    return tuple(f"{rule.name}: {rule.note}" for rule in rules if getattr(rule, "note", ""))
