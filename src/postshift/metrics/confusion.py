"""Metrics psi(C) of the confusion matrix: rows are true classes, entries are shares of the weight.

Each knows what it depends on (``weighting``), whether it needs every class to occur, and its gradient. The
row sums of C do not depend on the classifier, so a gradient is meant up to a constant per row. ``value`` takes
a stack of matrices (..., m, m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from postshift._validation import FloatArray, as_table
from postshift.exceptions import ShapeError


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of right predictions, ``sum_i C_ii``.

    Examples
    --------
    >>> float(Accuracy().value(np.array([[0.4, 0.1], [0.2, 0.3]])))
    0.7
    """

    name: ClassVar[str] = "accuracy"
    weighting: ClassVar[str] = "diagonal"
    needs_every_class: ClassVar[bool] = False

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the accuracy of each matrix."""
        return np.asarray(np.trace(confusion, axis1=-2, axis2=-1))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the identity."""
        return np.eye(confusion.shape[-1])


@dataclass(frozen=True, slots=True)
class GMean:
    """The geometric mean of the recalls, ``(prod_i C_ii / sum_j C_ij)^(1/m)``; 0 where a recall is 0.

    Examples
    --------
    >>> round(float(GMean().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6928
    """

    name: ClassVar[str] = "g_mean"
    weighting: ClassVar[str] = "diagonal"
    needs_every_class: ClassVar[bool] = True

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the geometric mean of the recalls of each matrix."""
        recalls = _ratio(np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=-1))
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(np.log(recalls).mean(axis=-1)))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return psi / (m C_ii) on the diagonal, the class priors held fixed; 0 where psi is 0."""
        hits = np.diagonal(confusion)
        slope = _ratio(np.full(len(hits), float(self.value(confusion))), len(hits) * hits)
        return np.diag(slope)


@dataclass(frozen=True, slots=True)
class MacroF1:
    """The mean over classes of ``2 C_ii / (sum_j C_ij + sum_j C_ji)``; 0 for a class neither true nor predicted.

    Examples
    --------
    >>> round(float(MacroF1().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.697
    """

    name: ClassVar[str] = "f1_macro"
    weighting: ClassVar[str] = "columns"
    needs_every_class: ClassVar[bool] = False

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the macro-F1 of each matrix."""
        hits, sizes = self._parts(confusion)
        return np.asarray(_ratio(2 * hits, sizes).mean(axis=-1))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij with row and column sums moving along."""
        hits, sizes = self._parts(confusion)
        pull = _ratio(2 * hits, sizes**2)
        return (np.diag(_ratio(np.full(len(hits), 2.0), sizes)) - pull[:, None] - pull) / len(hits)

    @staticmethod
    def _parts(confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the hits and the sums of row and column sums."""
        hits = np.diagonal(confusion, axis1=-2, axis2=-1)
        return hits, confusion.sum(axis=-1) + confusion.sum(axis=-2)


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedReward:
    """The linear metric ``sum_ij L_ij C_ij`` for a reward matrix L: rows true, columns predicted.

    Examples
    --------
    >>> round(float(ExpectedReward([[1, 0], [-5, 2]]).value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.0
    """

    reward: Any
    name: ClassVar[str] = "expected_reward"
    needs_every_class: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse anything but a square matrix of finite numbers."""
        reward = as_table(self.reward, name="reward")
        if reward.shape[0] != reward.shape[1] or not np.isfinite(reward).all():
            raise ShapeError(f"reward must be a square matrix of finite numbers. Got shape {reward.shape}")
        object.__setattr__(self, "reward", reward)

    @property
    def weighting(self) -> str:
        """``"diagonal"`` for a diagonal matrix, else ``"full"``."""
        return "diagonal" if not (self.reward - np.diag(np.diag(self.reward))).any() else "full"

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the expected reward of each matrix."""
        if confusion.shape[-2:] != self.reward.shape:
            raise ShapeError(
                f"the reward matrix has shape {self.reward.shape}, the problem {confusion.shape[-1]} classes"
            )
        return np.asarray(np.einsum("...ij,ij->...", confusion, self.reward))

    def gradient(self, confusion: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return L."""
        return np.array(self.reward)


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return ``above / below``, 0 where ``below`` is 0."""
    return np.divide(above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > 0)
