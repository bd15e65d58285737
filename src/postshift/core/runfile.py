"""Saved runs: the state of a conversation in one file, and a digest of what it stands on."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from typing import Any, get_args

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.archive import read_archive, write_archive
from postshift.core.mixture import Mixture
from postshift.core.moments import ClassifierSums
from postshift.core.psi import ConfusionMetric
from postshift.core.questions import Kind
from postshift.core.records import Iteration, RunSettings, State, Status
from postshift.core.sample import Sample
from postshift.exceptions import ArchiveError


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
    write_archive(path, kind="run", header=header, arrays=arrays)


def read_run(path: str | os.PathLike[str], *, kind: Kind) -> tuple[dict[str, Any], str, State]:
    """Return the settings as a dict, digest of the data and state of a file written by :func:`write_run`."""
    header, arrays = read_archive(path, kind="run")
    try:
        answers = arrays["known"] if kind == "confusion" else [float(value) for value in arrays["known"].ravel()]
        state = State(
            iteration=header["iteration"],
            vertices=tuple(arrays["vertices"]),
            steps=tuple(header["steps"]),
            sums=ClassifierSums(pair=arrays["sums_pair"], single=arrays["sums_single"]),
            view=arrays.get("view"),
            known=dict(zip(header["digests"], list(answers), strict=kind == "confusion")),
            trace=tuple(Iteration(**line) for line in header["trace"]),
            status=header["status"],
        )
        consistent = state.status in get_args(Status) and len(state.steps) == len(state.vertices) == state.iteration
        settings, data = header["settings"], header["data"]
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(f"{path} lacks a part of a run: {error}") from error
    if not consistent:
        raise ArchiveError(f"{path} contradicts itself: iteration {state.iteration}, {len(state.vertices)} plug-ins")
    return settings, data, state


def data_digest(
    kind: Kind,
    metric: ConfusionMetric | None,
    val: Sample,
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
