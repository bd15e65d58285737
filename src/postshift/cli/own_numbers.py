"""Scores as people read them: costs without the minus that they have inside, where greater is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_own_numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores with their intervals in the user's own numbers.

    Parameters
    ----------
    found : mapping
        Has before, after, gain, intervals, and whether less of the metric is better.

    Examples
    --------
    >>> scores = {"before": -2.0, "after": -0.5, "gain": 1.5, "intervals": {"gain": (1.0, 2.0), "base": None}}
    >>> shown = in_own_numbers({**scores, "less_is_better": True})
    >>> shown["before"], shown["after"], shown["gain"], shown["intervals"]
    (2.0, 0.5, -1.5, {'gain': (-2.0, -1.0), 'base': None})
    """
    if not found["less_is_better"]:
        return dict(found)
    scores = {name: 0.0 - found[name] for name in ("before", "after", "gain")}
    intervals = {
        name: None if limits is None else (0.0 - limits[1], 0.0 - limits[0])
        for name, limits in (found["intervals"] or {}).items()
    }
    return {**found, **scores, "intervals": intervals}


def reason_in_own_numbers(found: Mapping[str, Any]) -> str:
    """Return why the result is what it is; of a cost what it is, as scores have a minus in the reason."""
    if not found["less_is_better"]:
        return str(found["reason"])
    from postshift.report.sentences import result_sentence

    weights = {rule["name"]: rule["weight"] for rule in found["rules"]}
    return result_sentence(weights, how=found["how"], fallback=found["fallback"])


def name_of_gain(found: Mapping[str, Any]) -> str:
    """Return what to call the difference: of a cost, less is better, and a gain below 0 would mislead."""
    return "change" if found["less_is_better"] else "gain"
