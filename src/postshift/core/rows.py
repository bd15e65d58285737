"""One sample: class probabilities, basis functions, labels and weights, validated once.

Notation: n rows, m classes, L basis functions.

=========  ==========  =================================================
symbol     shape       meaning
=========  ==========  =================================================
eta        (n, m)      class probabilities of the model, rows sum to 1
phi        (n, L)      basis functions in [0, 1], no row all zero
labels     (n,)        classes ``0..m-1``, or None where they are private
weights    (n,)        how often a row counts, or None for once each
=========  ==========  =================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import (
    FloatArray,
    IntArray,
    check_eta,
    check_labels,
    check_phi,
    check_weights,
    read_only,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one sample. Build it with :meth:`of`, which validates; the constructor trusts.

    Examples
    --------
    >>> sample = Rows.of([[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
    >>> sample.n_samples, sample.n_classes, sample.n_bases
    (2, 2, 1)
    """

    eta: FloatArray
    phi: FloatArray
    labels: IntArray | None = None
    weights: FloatArray | None = None

    @classmethod
    def of(cls, eta: Any, *, phi: Any = None, labels: Any = None, weights: Any = None) -> Rows:
        """Validate and hold one sample; ``phi=None`` is the constant basis.

        Parameters
        ----------
        eta : array of shape (n, m)
            Class probabilities; every row must sum to 1 (nothing is normalised silently).
        phi : array of shape (n, L), optional
            Basis functions in [0, 1]; every row needs one above 0.
        labels : array of shape (n,), optional
            Classes as positions ``0..m-1``.
        weights : array of shape (n,), optional
            Sample weights >= 0; a weight of 2 equals giving the row twice.
        """
        table = check_eta(eta)
        n_rows, n_classes = table.shape
        found = check_weights(weights, n_rows=n_rows)
        return cls(
            eta=read_only(table),
            phi=read_only(check_phi(phi, n_rows=n_rows)),
            labels=None if labels is None else read_only(check_labels(labels, n_rows=n_rows, n_classes=n_classes)),
            weights=None if found is None else read_only(found),
        )

    @property
    def n_samples(self) -> int:
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
    def row_weights(self) -> FloatArray:
        """The weight of every row, ones where none were given."""
        return np.ones(self.n_samples) if self.weights is None else self.weights

    def take(self, rows: IntArray | slice) -> Rows:
        """Return the sample of these rows only."""
        return Rows(
            eta=self.eta[rows],
            phi=self.phi[rows],
            labels=None if self.labels is None else self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
        )

    def blocks(self, size: int) -> Iterator[Rows]:
        """Yield the sample in blocks of at most ``size`` rows."""
        for first in range(0, self.n_samples, size):
            yield self.take(slice(first, first + size))
