"""What the kernels read: rows in their types, and the weights of a plug-in classifier.

Notation: n rows, m classes, L basis functions, R categories (the values of the labels; R = m by default).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray, read_only
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.rows import Rows
from postshift.core.weighting import Entries
from postshift.exceptions import LabelError, ShapeError

CodeArray = npt.NDArray[np.uint32]  # labels and clusters: half the bytes of an index
CHUNK_CELLS = 1 << 17  # numbers of a chunk of a table, 1 MB: smaller chunks cost more in calls than caches save


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRows:
    """Rows in the types of the kernels. eta and phi keep their precision, float32 or float64, and are not copied."""

    eta: npt.NDArray[Any]
    phi: npt.NDArray[Any]
    clusters: CodeArray | None  # hard clusters: the basis function of each row that is 1; None for any other basis
    labels: CodeArray  # zeros where the rows have no labels
    weights: FloatArray | None
    n_categories: int

    @classmethod
    def of(cls, rows: Rows, *, n_categories: int) -> KernelRows:
        """Convert rows; the range of the labels is checked here, because compiled loops do not check bounds."""
        labels = rows.labels
        if labels is not None and len(labels) and (labels.min() < 0 or labels.max() >= n_categories):
            raise LabelError(
                f"labels must be in 0..{n_categories - 1}. Got {labels.min()}..{labels.max()} instead; "
                "an engine over more categories than classes needs n_categories=..."
            )
        return cls(
            eta=kernel_table(rows.eta),
            phi=kernel_table(rows.phi),
            clusters=clusters_of(rows.phi),
            labels=read_only((np.zeros(len(rows.eta)) if labels is None else labels).astype(np.uint32)),
            weights=None if rows.weights is None else read_only(rows.weights),
            n_categories=n_categories,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.eta.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return int(self.eta.shape[1])

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return int(self.phi.shape[1])

    @property
    def chunk_rows(self) -> int:
        """Number of rows that are scored at a time."""
        return max(CHUNK_CELLS // self.n_classes, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWeights:
    """The coefficients of a plug-in: its scores are ``W eta``, ``W eta + V`` or ``A' eta``."""

    weights: FloatArray  # W (L, m) or A (L, m, m)
    shift: FloatArray | None = None  # V (L, m)

    @classmethod
    def of(cls, rule: PlugIn) -> RuleWeights | None:
        """Return the coefficients of a rule, or None for a weighting that the kernels do not know."""
        n_classes, alpha = rule.n_classes, np.ascontiguousarray(rule.alpha)
        if rule.weighting.name == "diagonal":
            return cls(weights=alpha)
        if rule.weighting.name == "columns":
            first, last = alpha[:, :n_classes], alpha[:, n_classes:]
            return cls(weights=np.ascontiguousarray(first), shift=np.ascontiguousarray(last))
        if rule.weighting.name == "full" or isinstance(rule.weighting, Entries):
            return cls(weights=np.ascontiguousarray(rule.weight_matrices()))
        return None

    @property
    def key(self) -> bytes:
        """The coefficients as bytes, to compare rules."""
        return self.weights.tobytes() + (b"" if self.shift is None else self.shift.tobytes())

    @property
    def full(self) -> bool:
        """Whether the weights are on the whole confusion matrix."""
        return self.weights.ndim == 3


def kernel_table(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a table row by row in memory, in float32 if it is stored so, else in float64; most need no copy."""
    narrow = table.dtype.kind == "f" and table.dtype.itemsize <= 4
    return np.asarray(read_only(np.require(table, np.float32 if narrow else np.float64, ["C", "A"])))


def check_shapes(rule: PlugIn | Mixture, eta: npt.NDArray[Any], phi: npt.NDArray[Any]) -> None:
    """Raise if rows do not fit a rule: compiled loops do not check bounds."""
    if (eta.shape[1], *phi.shape) != (rule.n_classes, len(eta), rule.n_bases):
        raise ShapeError(
            f"eta and phi must have shapes (n, {rule.n_classes}) and (n, {rule.n_bases}), as in the fit. "
            f"Got {eta.shape} and {phi.shape} instead"
        )


def clusters_of(phi: npt.NDArray[Any], *, rows: int = 1 << 16) -> CodeArray | None:
    """Return which basis function is 1 in each row if exactly one is 1 and the others are 0 in all rows, else None.

    Examples
    --------
    >>> clusters_of(np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([1, 0], dtype=uint32)
    >>> clusters_of(np.array([[0.5, 0.5], [1.0, 0.0]])) is None
    True
    """
    n_bases = phi.shape[1]
    found = np.zeros(len(phi), dtype=np.uint32)
    for some in row_slices(0, len(phi), rows):
        block = phi[some]
        ones = np.flatnonzero(block == 1)  # sorted: one per row where the n-th of them is in row n
        if np.count_nonzero(block) != len(block) or len(ones) != len(block):
            return None
        places = ones - n_bases * np.arange(len(block))
        if places.min() < 0 or places.max() >= n_bases:
            return None
        found[some] = places
    return np.asarray(read_only(found))


def stable_order(codes: IntArray) -> IntArray:
    """Return the order that sorts codes, equal ones in the order of the rows."""
    # NumPy sorts narrow integers by radix, in a tenth of the time.
    return np.argsort(codes.astype(np.min_scalar_type(codes.max(initial=0))), kind="stable")


def row_slices(start: int, stop: int, size: int) -> list[slice]:
    """Return the rows from start to stop, cut into slices of at most ``size``."""
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]
