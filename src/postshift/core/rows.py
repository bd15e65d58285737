"""Rows of one sample: class probabilities, named bases, labels and weights, validated here and nowhere else.

Notation: n rows, m classes, L basis functions.

=========  ==========  =====================================================
symbol     shape       meaning
=========  ==========  =====================================================
eta        (n, m)      class probabilities of the model, rows sum to 1; or a CSR
                       array of the top few, rows sum to at most 1
phi        (n, L)      basis functions in [0, 1], no row all zero
labels     (n,)        classes ``0..m-1``, or None if they are unknown
weights    (n,)        how often a row counts, or None for once each
=========  ==========  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from postshift._validation import (
    MIN_ROWS,
    NEGLIGIBLE,
    FloatArray,
    IntArray,
    check_eta,
    check_labels,
    check_phi,
    check_weights,
    read_only,
    relative_weights,
)
from postshift.core.sparse_eta import check_sparse_eta, mean_eta
from postshift.exceptions import BasisError, WeightError

CONSTANT = "constant"
_CHECKED_ROWS = 1 << 13  # rows that are checked at a time
PHI = "phi"  # the name of a basis that was given without one


class Posterior(Protocol):
    """A map from probabilities (n, m) to probabilities (n, m): what a rule reads in place of eta."""

    def __call__(self, eta: FloatArray) -> FloatArray:
        """Return the posterior of every row."""


class RemoteRows(Protocol):
    """More rows than one machine holds, on the workers of a cluster: only sums over them are read."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def engine(self, basis: str) -> Any:
        """Return the engine over one basis."""

    def through(self, posterior: Posterior) -> RemoteRows:
        """Return the rows with eta replaced by a posterior."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows of one sample. Build them with :meth:`of`, which validates; the constructor does not.

    Attributes
    ----------
    eta : array or CSR array of shape (n, m)
        Class probabilities. Sparse ones have only the constant basis; engines and most rules need dense ones.
    bases : mapping of str to array of shape (n, L)
        Basis functions by the name of their basis. The last basis is the one in use: ``phi``.
    labels : array of shape (n,), optional
        Classes as positions ``0..m-1``.
    weights : array of shape (n,), optional
        Sample weights.
    whole : RemoteRows, optional
        All rows, if these are a random sample of them. Sums are over all rows; everything else reads the sample.

    Examples
    --------
    >>> rows = Rows.of([[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
    >>> rows.n_rows, rows.n_classes, rows.n_bases
    (2, 2, 1)
    """

    eta: FloatArray
    bases: Mapping[str, FloatArray]
    labels: IntArray | None = None
    weights: FloatArray | None = None
    whole: RemoteRows | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        eta: Any,
        *,
        phi: Any = None,
        bases: Mapping[str, Any] | None = None,
        labels: Any = None,
        weights: Any = None,
        name: str = "eta",
    ) -> Rows:
        """Validate and hold rows.

        Parameters
        ----------
        eta : array or SciPy sparse matrix of shape (n, m)
            Class probabilities; every row must sum to 1 (nothing is normalised silently). In a sparse matrix an entry
            that is not stored is 0, and a row may sum to less than 1.
        phi : array of shape (n, L), optional
            The functions of one basis in [0, 1], used as they are; every row needs one above 0. By default the constant
            basis.
        bases : mapping of str to array of shape (n, L), optional
            Several bases, in place of ``phi``. Each row is divided by its sum, and the constant basis is added.
        labels : array of shape (n,), optional
            Classes as positions ``0..m-1``.
        weights : array of shape (n,), optional
            Sample weights >= 0; a weight of 2 equals giving the row twice.
        name : str
            The name of ``eta`` in error messages.
        """
        if sparse.issparse(eta):
            if phi is not None or bases:
                raise BasisError(
                    f"{name} is sparse, which allows only the constant basis: leave phi out, or give a dense {name}"
                )
            table = check_sparse_eta(eta, name=name)
        else:
            table = read_only(check_eta(eta, name=name))
        n_rows, n_classes = table.shape
        named = _named(bases or {}, n_rows=n_rows) if phi is None else {PHI: check_phi(phi, n_rows=n_rows)}
        found = check_weights(weights, n_rows=n_rows)
        return cls(
            eta=table,
            bases={basis: read_only(functions) for basis, functions in named.items()},
            labels=None if labels is None else read_only(check_labels(labels, n_rows=n_rows, n_classes=n_classes)),
            weights=None if found is None else read_only(found),
        )

    @classmethod
    def of_labels(cls, labels: Any, *, n_classes: int, weights: Any = None) -> Rows:
        """Validate and hold rows of which only the labels count: their probabilities are equal, and take no memory.

        Examples
        --------
        >>> Rows.of_labels([0, 1, 1], n_classes=2).n_classes
        2
        """
        n_rows = len(labels)
        found = check_weights(weights, n_rows=n_rows)
        return cls(
            eta=np.broadcast_to(1 / n_classes, (n_rows, n_classes)),
            bases={CONSTANT: np.broadcast_to(1.0, (n_rows, 1))},
            labels=read_only(check_labels(labels, n_rows=n_rows, n_classes=n_classes)),
            weights=None if found is None else read_only(found),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Drop the engines, and rows on a cluster, when the rows are sent to another process."""
        return {name: value for name, value in vars(self).items() if name not in ("engines", "whole")}

    @cached_property
    def engines(self) -> dict[str, Any]:
        """Engines over these rows, by basis; all rules share them and what they prepare."""
        return {}

    @property
    def phi(self) -> FloatArray:
        """The functions of the basis in use."""
        return self.bases[list(self.bases)[-1]]

    @property
    def is_sparse(self) -> bool:
        """Whether eta is a CSR array."""
        return bool(sparse.issparse(self.eta))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.eta.shape[0])

    @property
    def n_total(self) -> int:
        """Number of rows, including those on a cluster."""
        return self.n_rows if self.whole is None else self.whole.n_rows

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return int(self.eta.shape[1])

    @property
    def n_bases(self) -> int:
        """Number of functions L of the basis in use."""
        return int(self.phi.shape[1])

    @property
    def row_weights(self) -> FloatArray:
        """The weight of every row; 1 if no weights were given."""
        return np.ones(self.n_rows) if self.weights is None else self.weights

    def mean_eta(self) -> FloatArray:
        """Return the weighted mean (m,) of the probabilities of each class."""
        if self.is_sparse:
            return mean_eta(self.eta, self.row_weights)
        return np.asarray(np.average(self.eta, axis=0, weights=self.weights))

    def is_certain(self, least: float) -> bool:
        """Return whether every row has a probability of at least this; it stops at the first rows that do not."""
        parts = (self.eta[start : start + _CHECKED_ROWS] for start in range(0, self.n_rows, _CHECKED_ROWS))
        return all(part.max(axis=1).min() >= least for part in parts)

    def functions(self, basis: str) -> FloatArray:
        """Return the functions of one basis."""
        if basis not in self.bases:
            raise BasisError(f"these rows have no basis {basis!r}; their bases are {sorted(self.bases)}")
        return self.bases[basis]

    def over(self, basis: str) -> Rows:
        """Return the rows in memory with one basis only, which is then the one in use."""
        return replace(self, bases={basis: self.functions(basis)}, whole=None)

    def take(self, rows: IntArray | slice) -> Rows:
        """Return some of the rows."""
        return Rows(
            eta=self.eta[rows],
            bases={name: functions[rows] for name, functions in self.bases.items()},
            labels=None if self.labels is None else self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
        )

    def blocks(self, size: int) -> Iterator[Rows]:
        """Yield the rows in blocks of at most ``size``."""
        for first in range(0, self.n_rows, size):
            yield self.take(slice(first, first + size))

    def through(self, posterior: Posterior) -> Rows:
        """Return the rows with eta replaced by a posterior."""
        whole = None if self.whole is None else self.whole.through(posterior)
        return replace(self, eta=posterior(self.eta), whole=whole)

    def in_memory(self) -> Rows:
        """Return the rows without those on a cluster."""
        return self if self.whole is None else replace(self, whole=None)

    def relative(self) -> Rows:
        """Return the rows with weights of mean 1, or without weights if all are equal."""
        return self if self.weights is None else replace(self, weights=relative_weights(self.weights))

    def places_with_weight(self, *, name: str) -> IntArray | None:
        """Return which rows have a weight above 0, or None for all; raise if there are fewer than two."""
        weights = relative_weights(self.weights)
        if weights is None or weights.all():
            return None
        places = np.flatnonzero(weights)
        if len(places) < MIN_ROWS:
            raise WeightError(
                f"only {len(places)} of the {self.n_rows} {name} rows has a weight that counts; the others are 0, or "
                f"below {NEGLIGIBLE:g} of the mean: give weights to at least {MIN_ROWS} rows"
            )
        return places


def _named(bases: Mapping[str, Any], *, n_rows: int) -> dict[str, FloatArray]:
    """Return named bases whose rows sum to 1, after the constant basis."""
    named = {CONSTANT: np.ones((n_rows, 1))}
    for basis, phi in bases.items():
        if basis == CONSTANT:
            raise BasisError(f"a basis must not be called {CONSTANT!r}: the constant basis is always added")
        named[basis] = unit_rows(check_phi(phi, n_rows=n_rows, name=f"basis {basis!r}"), name=basis)
    return named


def unit_rows(phi: FloatArray, *, name: str) -> FloatArray:
    """Return basis functions whose rows sum to 1; raise if a row sums to less."""
    sums = phi.sum(axis=1, keepdims=True)
    short = int((sums < 1 - 1e-6).sum())
    if short:
        raise BasisError(
            f"basis {name!r} has {short} rows whose functions sum to less than 1: append the complement with "
            "postshift.basis.CoverBasis, fitted on the training rows"
        )
    return np.asarray(phi / sums)
