"""What a pass reads: the rows of a sample as the kernels want them, prepared once.

Notation: n rows, m classes, L basis functions, R categories (the labels; R = m unless the engine is told otherwise).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, read_only
from postshift.core.plugin import PlugIn
from postshift.core.rows import Rows
from postshift.core.sums import ClassifierSums
from postshift.exceptions import LabelError

CodeArray = npt.NDArray[np.uint32]  # labels and clusters: half the bytes of an index, and no sign to look at
CHUNK_CELLS = 1 << 17  # numbers of a chunk of a table, 1 MB: smaller ones cost more in calls than caches save


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRows:
    """Rows in kernel form. eta and phi keep their precision, float32 or float64, and are not copied."""

    eta: npt.NDArray[Any]
    phi: npt.NDArray[Any]
    clusters: CodeArray | None  # the one basis function of each row that is 1, or None where phi is not of that kind
    labels: CodeArray  # zeros where the sample has none; the engine refuses the sums that need them
    weights: FloatArray | None
    n_categories: int

    @classmethod
    def of(cls, sample: Rows, *, n_categories: int) -> KernelRows:
        """Return the rows of a sample, its labels looked at once more: kernels do not check bounds."""
        labels = sample.labels
        if labels is not None and (labels.min() < 0 or labels.max() >= n_categories):
            raise LabelError(
                f"labels must be in 0..{n_categories - 1}. Got {labels.min()}..{labels.max()} instead; "
                "an engine over more categories than classes needs n_categories=..."
            )
        return cls(
            eta=_kernel_table(sample.eta),
            phi=_kernel_table(sample.phi),
            clusters=clusters_of(sample.phi),
            labels=read_only((np.zeros(sample.n_rows) if labels is None else labels).astype(np.uint32)),
            weights=None if sample.weights is None else read_only(sample.weights),
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
        """Rows that are scored at a time."""
        return max(CHUNK_CELLS // self.n_classes, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWeights:
    """The coefficients of a plug-in as the kernels want them: scores ``W eta``, ``W eta + V`` or ``A' eta``."""

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
        if rule.weighting.name == "full":
            return cls(weights=alpha.reshape(-1, n_classes, n_classes))
        return None

    def of_functions(self, place: slice) -> RuleWeights:
        """Return the coefficients of some basis functions alone."""
        return RuleWeights(weights=self.weights[place], shift=None if self.shift is None else self.shift[place])

    @property
    def key(self) -> bytes:
        """What tells rules apart."""
        return self.weights.tobytes() + (b"" if self.shift is None else self.shift.tobytes())

    @property
    def full(self) -> bool:
        """Whether the weights stand on the whole confusion matrix."""
        return self.weights.ndim == 3


def clusters_of(phi: npt.NDArray[Any], *, rows: int = 1 << 16) -> CodeArray | None:
    """Return which basis function is 1 in each row where exactly one is and the others are 0, else None.

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
        ones = np.flatnonzero(block == 1)  # sorted: one per row where the n-th of them lies in row n
        if np.count_nonzero(block) != len(block) or len(ones) != len(block):
            return None
        places = ones - n_bases * np.arange(len(block))
        if places.min() < 0 or places.max() >= n_bases:
            return None
        found[some] = places
    return np.asarray(read_only(found))


def row_slices(start: int, stop: int, size: int) -> list[slice]:
    """Return the rows from start to stop, cut into slices of at most ``size``."""
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def strongest_other(weights: FloatArray) -> FloatArray:
    """Return for each class (..., m) the largest weight among the others.

    Examples
    --------
    >>> strongest_other(np.array([[1.0, 3.0, 2.0]]))
    array([[3., 2., 3.]])
    """
    second, best = np.moveaxis(np.partition(weights, -2, axis=-1)[..., -2:, None], -2, 0)
    return np.asarray(np.where(weights == best, second, best))


def on_the_diagonal(single: FloatArray) -> ClassifierSums:
    """Return the sums of hard clusters: two of them never overlap, and each overlaps with itself in all its rows."""
    n_bases = len(single)
    pair = np.zeros((n_bases, *single.shape))
    pair[np.arange(n_bases), np.arange(n_bases)] = single
    return ClassifierSums(pair=pair, single=single)


def _kernel_table(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a table row by row in memory, float32 or float64; most are so already."""
    kept = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
    return np.asarray(read_only(np.ascontiguousarray(kept)))
