"""The record of the choice: every rule, the scores, and the reason for the result in one sentence; certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from postshift._validation import FloatArray
from postshift.constraints.p_values import TestResult
from postshift.rules.few_rows import FewRows
from postshift.rules.fitted import FittedRule, Rule
from postshift.rules.verdict import Comparison, Intervals

NEGLIGIBLE = 1e-3  # rules with less weight are not refitted


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the record: a rule, its score on rows not used for its fit, and its weight in the result."""

    name: str
    score: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class Record:
    """The reason for the result; ``notes`` say if only a randomised classifier reaches the optimum.

    Attributes
    ----------
    how : str
        How the result was chosen.
    entries : tuple of Entry
        Every rule of the menu.
    score, base_score : float
        The scores of the result and of the base, on labels that were not used for the choice. If the metric only
        returns scores, ``score`` is the best of ``len(entries)`` scores on the same rows.
    noise : float
        The standard error of the candidate's gain. If the metric only returns scores: the standard error of a
        difference of shares of rows, from the rows on which the labels of the candidate and the base differ.
    fallback : bool
        Whether the base was kept.
    reason : str
        The reason, in one sentence.
    intervals : Intervals or None
        The intervals of the result; None if the metric only returns scores, which give no honest interval.
    candidate : Comparison or None
        The selected rule compared with the base, whether it was adopted or not.
    few_rows : FewRows or None
        The categories with few rows.
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
    """Return the lines of the record."""
    return tuple(
        Entry(name=rule.name, score=float(value), weight=float(weight))
        for rule, value, weight in zip(entries, values, weights, strict=True)
    )


def reason_of(
    entries: tuple[Rule, ...], weights: FloatArray, found: Comparison, *, needed: float, fallback: bool, asked: bool
) -> str:
    """Return the reason for the result, in one sentence."""
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
    """Return the reason for the result, in one sentence, if the metric only returns scores."""
    name, score, base = entries[rival].name, values[rival], values[0]
    if len(entries) == 1:
        return f"you chose {name!r}: {score:.3f}"
    against = f"{score:.3f} (base {base:.3f}, noise {noise:.3f})"
    if asked:
        return f"you chose {name!r}: {against}{', it scores lower than the base' if score < base else ''}"
    if fallback:
        return (
            f"the base is kept: {name!r} scores highest of the other rules, {against}, but not above the base by more "
            "than the noise"
        )
    return f"{name!r} has the best of {len(entries)} scores on the same rows: {against}"


def notes_of(rules: tuple[FittedRule, ...]) -> tuple[str, ...]:
    """Return the notes of the fitted rules, each with the rule's name."""
    return tuple(f"{rule.name}: {rule.note}" for rule in rules if getattr(rule, "note", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Which constraints were certified, at which confidence, by which tests.

    Attributes
    ----------
    confidence : float
        The probability, at least, that every constraint holds for new rows of the same kind.
    constraints : tuple of str
        The constraints.
    tests : tuple of TestResult
        The test of each piece of the constraints.
    p_value : float
        The largest of their p-values.
    is_exact : bool
        Whether every test is exact; a test of a gap between groups is asymptotic.
    n_rows : int
        Number of labelled rows that tested.
    n_unlabelled : int
        Number of rows without labels that tested.
    n_tested, n_accepted, n_path : int
        Number of rules that were tested, that were accepted, and on the path.
    """

    confidence: float
    constraints: tuple[str, ...]
    tests: tuple[TestResult, ...]
    p_value: float
    is_exact: bool
    n_rows: int
    n_unlabelled: int
    n_tested: int
    n_accepted: int
    n_path: int
