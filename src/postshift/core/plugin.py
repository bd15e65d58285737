"""The plug-in classifier: post-shifted probabilities, argmax (Algorithm 2, line 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.weighting import DIAGONAL, Weighting
from postshift.exceptions import ShapeError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlugIn:
    """``argmax_j sum_i W_ij(x) eta_i(x)`` with ``W = sum_l phi_l alpha_l``; ties go to the first class.

    Parameters
    ----------
    weighting : Weighting
        Which entries the coefficients weigh.
    alpha : array of shape (L, P)
        The coefficients, P per basis function.
    n_classes : int
        Number of classes m.

    Examples
    --------
    >>> rule = PlugIn(weighting=DIAGONAL, alpha=np.array([[1.0, 4.0]]), n_classes=2)
    >>> rule.labels(np.ones((2, 1)), np.array([[0.9, 0.1], [0.7, 0.3]]))
    array([0, 1])
    """

    weighting: Weighting
    alpha: FloatArray
    n_classes: int

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return int(self.alpha.shape[0])

    def scores(self, phi: FloatArray, eta: FloatArray) -> FloatArray:
        """Return the post-shifted scores (n, m)."""
        if phi.shape[1] != self.n_bases or eta.shape[1] != self.n_classes or len(phi) != len(eta):
            raise ShapeError(
                f"phi and eta must have shapes (n, {self.n_bases}) and (n, {self.n_classes}), as in the fit. "
                f"Got {phi.shape} and {eta.shape} instead"
            )
        return self.weighting.scores(self.alpha, phi, eta)

    def labels(self, phi: FloatArray, eta: FloatArray) -> IntArray:
        """Return the predicted class of every row."""
        return np.asarray(np.argmax(self.scores(phi, eta), axis=1))

    def distribution(self, phi: FloatArray, eta: FloatArray) -> FloatArray:
        """Return the predictions one-hot (n, m)."""
        return onehot(self.labels(phi, eta), n_classes=self.n_classes)

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
    """
    floor = prior[prior > 0].min()
    weights = 1 / np.maximum(prior, floor)
    return PlugIn(weighting=DIAGONAL, alpha=np.tile(weights, (n_bases, 1)), n_classes=len(prior))
