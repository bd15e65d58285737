"""What run.json says, read whole before any of it is used: a run may come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from postshift.cli.inputs import Layout
from postshift.cli.metric_option import StoredMetric
from postshift.cli.model_file import SUFFIXES
from postshift.cli.run_files import METRIC, MODEL

State = Literal["running", "finished", "failed"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Header:
    """The parts of run.json, each of the type that a fit writes.

    Attributes
    ----------
    state : {"running", "finished", "failed"}
        How far the run is.
    settings, digests : mapping
        What the run was begun with; None for a file that was not given.
    layout : Layout
        Which columns are what.
    metric : StoredMetric
        The metric.
    copies : mapping of str to str
        The names of the copies of the user's model and metric in the folder: never a path.
    program : str, optional
        The digest of a metric program.
    """

    state: State
    settings: Mapping[str, Any]
    digests: Mapping[str, str | None]
    layout: Layout
    metric: StoredMetric
    copies: Mapping[str, str]
    program: str | None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return the header; a TypeError or ValueError says what a fit would not have written."""
        state = _part(content, "state", str)
        if state not in get_args(State):
            raise ValueError(f"the state {state!r} is none of {', '.join(get_args(State))}")
        digests, copies = _part(content, "digests", dict), _part(content, "copies", dict)
        program = content.get("program")
        if not all(isinstance(each, str | None) for each in (program, *digests.values(), *copies.values())):
            raise ValueError("digests and names of copies must be texts")
        _check_copies(copies, digests)
        return cls(
            state=state,
            settings=_part(content, "settings", dict),
            digests=digests,
            layout=Layout.from_json(_part(content, "layout", dict)),
            metric=StoredMetric.of(_part(content, "metric", dict), copy=copies.get(METRIC), digest=digests.get(METRIC)),
            copies=copies,
            program=program,
        )


def _part(content: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a part that must be there."""
    if name not in content:
        raise ValueError(f"it lacks {name!r}")
    if not isinstance(content[name], kind):
        raise TypeError(f"{name!r} must be {'an object' if kind is dict else 'a text'}")
    return content[name]


def _check_copies(copies: Mapping[str, Any], digests: Mapping[str, str | None]) -> None:
    """Refuse copies of other files than model and metric, and a model under another name."""
    names = [f"{MODEL}{suffix}" for suffix in SUFFIXES]
    if unknown := set(copies) - {MODEL, METRIC}:
        raise ValueError(f"there is no copy of a {min(unknown)!r}")
    if (MODEL in copies) != (digests.get(MODEL) is not None) or copies.get(MODEL, names[0]) not in names:
        raise ValueError(f"the copy of the model must be called {' or '.join(names)}, and have a digest")
