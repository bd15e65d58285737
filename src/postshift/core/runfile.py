"""Saved runs: the state of a conversation in one file, and a digest of what it stands on."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from typing import Any, get_args

import numpy as np

from postshift._validation import SQUARABLE, FloatArray, IntArray, check_count, check_in_range
from postshift.core.archive import contradicting, read_archive, write_answers
from postshift.core.mixture import Mixture
from postshift.core.moments import ClassifierSums
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Kind
from postshift.core.records import Iteration, RunSettings, State, Status
from postshift.core.rows import Rows


def write_run(path: str | os.PathLike[str], *, settings: RunSettings, data: str, state: State) -> None:
    """Write settings, the digest of the data and the state."""
    digests = list(state.known)
    arrays: dict[str, Any] = {
        "sums_pair": state.sums.pair,
        "sums_single": state.sums.single,
        "known": np.array([state.known[digest] for digest in digests]),
        "vertices": np.array(state.vertices),
    }
    if state.view is not None:
        arrays["view"] = state.view
    header = {
        "settings": asdict(settings),
        "data": data,
        "iteration": state.iteration,
        "steps": list(state.steps),
        "status": state.status,
        "digests": digests,
        "trace": [asdict(line) for line in state.trace],
    }
    write_answers(path, kind="run", header=header, arrays=arrays, known="known")


def read_run(path: str | os.PathLike[str], *, kind: Kind) -> tuple[dict[str, Any], str, State]:
    """Return the settings as a dict, digest of the data and state of a file written by :func:`write_run`."""
    header, arrays = read_archive(path, kind="run")
    with contradicting(path):
        state = _state(header, arrays, kind)
        settings, data = dict(header["settings"]), str(header["data"])
    return settings, data, state


def _state(header: dict[str, Any], arrays: dict[str, Any], kind: Kind) -> State:
    """Return the state in a file; a ValueError says what a run would not have written."""
    if any(array.dtype != np.float64 or not (np.abs(array) <= SQUARABLE).all() for array in arrays.values()):
        raise ValueError(f"an array holds something else than finite numbers up to {SQUARABLE:g}")
    answers = arrays["known"] if kind == "confusion" else [float(value) for value in arrays["known"].ravel()]
    state = State(
        iteration=check_count(header["iteration"], name="iteration", low=0),
        vertices=tuple(arrays["vertices"]),
        steps=tuple(check_in_range(step, name="step", low=0, high=1) for step in header["steps"]),
        sums=ClassifierSums(pair=arrays["sums_pair"], single=arrays["sums_single"]),
        view=arrays.get("view"),
        known=dict(zip(header["digests"], list(answers), strict=kind == "confusion")),
        trace=tuple(Iteration(**line) for line in header["trace"]),
        status=header["status"],
    )
    n_seen = state.iteration + (state.status != "running")
    if state.status not in get_args(Status) or (state.view is None) != (n_seen == 0):
        raise ValueError(f"status {state.status!r} in iteration {state.iteration}")
    if len(state.steps) != state.iteration or len(state.vertices) != state.iteration or len(state.trace) != n_seen:
        raise ValueError(
            f"iteration {state.iteration}, {len(state.vertices)} plug-ins, {len(state.steps)} steps, a trace of "
            f"{len(state.trace)} lines"
        )
    if not all(isinstance(line.value, float) and isinstance(line.n_queries, int) for line in state.trace):
        raise ValueError("the trace must hold numbers")
    return state


def data_digest(
    kind: Kind,
    metric: ConfusionMetric | None,
    val: Rows,
    start: Mixture,
    halves: tuple[IntArray, IntArray] | None,
    *sums: FloatArray,
) -> str:
    """Return a digest of everything a run stands on."""
    names = [member.weighting.name for member in start.members]
    digest = hashlib.blake2b(f"{kind}/{_identity(metric)}/{names}".encode(), digest_size=16)
    optional = [array for array in (val.labels, val.weights, *(halves or ())) if array is not None]
    members = [member.alpha for member in start.members]
    coarse = [array.astype(np.float32) for array in (*members, *sums)]  # other blocks of rows, other last digits
    for array in (val.eta, val.phi, start.shares, *optional, *coarse):
        digest.update(f"{array.dtype.str}/{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _identity(metric: ConfusionMetric | None) -> str:
    """Return what tells one metric from another: its repr, or its name where the repr is an address."""
    if metric is None:
        return ""
    if type(metric).__repr__ is object.__repr__:
        return metric.name
    with np.printoptions(threshold=2**31, precision=17, floatmode="unique"):
        return f"{metric.name}/{metric!r}"
