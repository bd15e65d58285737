"""The plug-in classifier: post-shifted probabilities, argmax (Algorithm 2, line 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import SQUARABLE, FloatArray, IntArray, as_table, check_count, read_only
from postshift.core.sparse_eta import sparse_labels
from postshift.core.weighting import COLUMNS, DIAGONAL, Weighting, weighting_named
from postshift.exceptions import ShapeError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlugIn:
    """``argmax_j sum_i W_ij(x) eta_i(x)`` with ``W = sum_l phi_l alpha_l``; ties go to the first class.

    Parameters
    ----------
    weighting : Weighting, str or sequence of pairs
        Which confusion entries get weights: ``"diagonal"``, ``"columns"``, ``"full"``, or the entries themselves as
        pairs (true class, predicted class).
    alpha : array of shape (L, P)
        The coefficients, P per basis function, finite.
    n_classes : int
        Number of classes m.

    Examples
    --------
    >>> rule = PlugIn(weighting="diagonal", alpha=[[1.0, 4.0]], n_classes=2)
    >>> rule.labels(np.array([[0.9, 0.1], [0.7, 0.3]]), np.ones((2, 1)))
    array([0, 1])
    """

    weighting: Weighting
    alpha: FloatArray
    n_classes: int

    def __post_init__(self) -> None:
        """Raise if the coefficients do not fit the weighting and the classes."""
        weighting = weighting_named(self.weighting) if isinstance(self.weighting, str | Sequence) else self.weighting
        alpha = as_table(self.alpha, name="alpha")
        n_terms = weighting.n_terms(check_count(self.n_classes, name="n_classes", low=2))
        if alpha.shape[0] == 0 or alpha.shape[1] != n_terms or not (np.abs(alpha) <= SQUARABLE).all():
            raise ShapeError(
                f"alpha must hold finite numbers, up to {SQUARABLE:g}, of shape (n_bases, {n_terms}) for weighting "
                f"{weighting.name!r} and {self.n_classes} classes. Got shape {alpha.shape}"
            )
        object.__setattr__(self, "weighting", weighting)
        object.__setattr__(self, "alpha", read_only(alpha))

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return int(self.alpha.shape[0])

    def scores(self, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the post-shifted scores (n, m)."""
        if phi.shape[1] != self.n_bases or eta.shape[1] != self.n_classes or len(phi) != len(eta):
            raise ShapeError(
                f"eta and phi must have shapes (n, {self.n_classes}) and (n, {self.n_bases}), as in the fit. "
                f"Got {eta.shape} and {phi.shape} instead"
            )
        return self.weighting.scores(self.alpha, eta, phi)

    def labels(self, eta: FloatArray, phi: FloatArray) -> IntArray:
        """Return the predicted class of every row."""
        return np.asarray(np.argmax(self.scores(eta, phi), axis=1))

    @property
    def reads_sparse(self) -> bool:
        """Whether it can label rows with sparse eta: one function, and weights of the classes."""
        return self.n_bases == 1 and self.weighting.name in (DIAGONAL.name, COLUMNS.name)

    def sparse_labels(self, eta: Any) -> tuple[IntArray, FloatArray]:
        """Return the predicted class of every row of a CSR array, and its probability."""
        if not self.reads_sparse or eta.shape[1] != self.n_classes:
            raise ShapeError(
                f"sparse eta needs a plug-in of one basis function with diagonal or columns weights, and "
                f"{self.n_classes} columns. Got {self.n_bases} functions, {self.weighting.name!r} weights and "
                f"{eta.shape[1]} columns: give a dense array"
            )
        weights, shift = self.alpha[0, : self.n_classes], self.alpha[0, self.n_classes :]
        return sparse_labels(eta, weights, shift if len(shift) else None)

    def distribution(self, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the predictions one-hot (n, m)."""
        return onehot(self.labels(eta, phi), n_classes=self.n_classes)

    def weight_matrices(self) -> FloatArray:
        """Return the weights on (true, predicted) confusion entries, per basis function: (L, m, m)."""
        return self.weighting.weight_matrices(self.alpha, self.n_classes)


def onehot(labels: IntArray, *, n_classes: int) -> FloatArray:
    """Return labels (n,) as rows (n, m) with a single 1."""
    table = np.zeros((len(labels), n_classes))
    table[np.arange(len(labels)), labels] = 1
    return table


def inverse_prior(prior: FloatArray, *, n_bases: int) -> PlugIn:
    """Return ``argmax_i eta_i / prior_i``: the start that maximises the sum of the recalls.

    A class without training rows gets the weight of the rarest class that has some.

    Examples
    --------
    >>> inverse_prior(np.array([0.8, 0.2]), n_bases=1).alpha
    array([[1.25, 5.  ]])
    """
    floor = prior[prior > 0].min()
    weights = 1 / np.maximum(prior, floor)
    return PlugIn(weighting=DIAGONAL, alpha=np.tile(weights, (n_bases, 1)), n_classes=len(prior))
