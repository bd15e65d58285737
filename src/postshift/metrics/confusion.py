"""Metrics psi(C) of the confusion matrix: rows are true classes, entries are shares of the weight.

Each knows what it depends on (``weighting``), whether it needs every class to occur, and its gradient. The
row sums of C do not depend on the classifier, so a gradient is meant up to a constant per row. ``value`` takes
a stack of matrices (..., m, m). Functions of the recalls alone are in ``recalls``, those of the recalls of
groups in ``groups``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from postshift._validation import FloatArray, as_table
from postshift.exceptions import SettingError, ShapeError

_POWERS = {None: 0, "linear": 1, "quadratic": 2}  # of the distance of two classes, what an error costs


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
        return np.asarray(ratio(2 * hits, sizes).mean(axis=-1))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij with row and column sums moving along."""
        hits, sizes = self._parts(confusion)
        pull = ratio(2 * hits, sizes**2)
        return (np.diag(ratio(np.full(len(hits), 2.0), sizes)) - pull[:, None] - pull) / len(hits)

    @staticmethod
    def _parts(confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the hits and the sums of row and column sums."""
        hits = np.diagonal(confusion, axis1=-2, axis2=-1)
        return hits, confusion.sum(axis=-1) + confusion.sum(axis=-2)


@dataclass(frozen=True, slots=True)
class BinaryF1:
    """The F1 of one of two classes, ``2 C_pp / (sum_j C_pj + sum_j C_jp)``; 0 if it is neither true nor predicted.

    Parameters
    ----------
    positive : {0, 1}, default=1
        The positive class p.

    Examples
    --------
    >>> round(float(BinaryF1().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6667
    """

    positive: int = 1
    name: ClassVar[str] = "f1"
    weighting: ClassVar[str] = "columns"
    needs_every_class: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse anything but the position of one of two classes."""
        if (
            type(self.positive) is bool
            or not isinstance(self.positive, int | np.integer)
            or self.positive not in (0, 1)
        ):
            raise SettingError(f"positive must be 0 or 1, the position of a class. Got {self.positive!r} instead")

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the F1 of each matrix."""
        hits, sizes = self._parts(confusion)
        return ratio(2 * hits, sizes)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij with the column sums moving along."""
        hits, sizes = self._parts(confusion)
        gradient = np.zeros_like(confusion)
        gradient[:, self.positive] = -ratio(2 * hits, sizes**2)
        gradient[self.positive, self.positive] += ratio(np.asarray(2.0), sizes)
        return gradient

    def _parts(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the hits and the sum of row and column sum of the positive class."""
        if confusion.shape[-2:] != (2, 2):
            raise ShapeError(f"BinaryF1 is for two classes. Got matrices of {confusion.shape[-2:]}; see MacroF1")
        chosen = self.positive
        sizes = confusion[..., chosen, :].sum(axis=-1) + confusion[..., :, chosen].sum(axis=-1)
        return np.asarray(confusion[..., chosen, chosen]), np.asarray(sizes)


@dataclass(frozen=True, slots=True)
class MatthewsCorrelation:
    """The correlation of truth and prediction, for any number of classes; 0 where either is always one class.

    With row sums t and column sums p of shares that sum to 1 it is
    ``(sum_i C_ii - t.p) / sqrt((1 - t.t) (1 - p.p))``.

    Examples
    --------
    >>> round(float(MatthewsCorrelation().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.4082
    """

    name: ClassVar[str] = "matthews_corrcoef"
    weighting: ClassVar[str] = "columns"
    needs_every_class: ClassVar[bool] = False

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the correlation of each matrix."""
        chance, found, spread_true, spread_predicted = self._parts(confusion)
        total = confusion.sum(axis=(-2, -1))
        return ratio(total * (chance - found), np.sqrt(spread_true * spread_predicted))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij with the column sums moving along; 0 where psi is 0 / 0."""
        chance, found, spread_true, spread_predicted = self._parts(confusion)
        loss, total = _disagreement(confusion.shape[-1], None), confusion.sum()
        lean = ratio(chance - found, spread_predicted) * (loss @ confusion.sum(axis=0))
        slopes = ratio(loss @ confusion.sum(axis=1), total) - loss - lean
        return np.asarray(slopes * ratio(total, np.sqrt(spread_true * spread_predicted)))

    @staticmethod
    def _parts(confusion: FloatArray) -> tuple[FloatArray, ...]:
        """Return the errors of chance, those found, and ``1 - t.t``, ``1 - p.p`` as sums that are 0 exactly."""
        loss = _disagreement(confusion.shape[-1], None)
        spreads = [
            np.asarray(np.einsum("...i,ij,...j->...", sums, loss, sums))
            for sums in (confusion.sum(axis=-1), confusion.sum(axis=-2))
        ]
        return (*_losses(confusion, loss), *spreads)


@dataclass(frozen=True, slots=True)
class CohenKappa:
    """Cohen's kappa, ``1 - loss / loss of chance`` with the row and column sums held; 0 where chance errs never.

    Parameters
    ----------
    weights : {"linear", "quadratic"}, optional
        What an error costs: 1, or the distance of the two classes, or its square.

    Examples
    --------
    >>> round(float(CohenKappa().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.4
    """

    weights: Literal["linear", "quadratic"] | None = None
    name: ClassVar[str] = "cohen_kappa"
    needs_every_class: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse weights that are not known."""
        if self.weights not in tuple(_POWERS):
            raise SettingError(f"weights must be None, 'linear' or 'quadratic'. Got {self.weights!r} instead")

    @property
    def weighting(self) -> str:
        """``"columns"`` where all errors cost the same, else ``"full"``."""
        return "columns" if self.weights is None else "full"

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the kappa of each matrix."""
        chance, found = _losses(confusion, _disagreement(confusion.shape[-1], self.weights))
        return ratio(chance - found, chance)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij with the column sums moving along; 0 where psi is 0 / 0."""
        loss = _disagreement(confusion.shape[-1], self.weights)
        chance, found = _losses(confusion, loss)
        moved = ratio(loss @ confusion.sum(axis=1), confusion.sum())
        return (ratio(found, chance) * moved - loss) * ratio(np.asarray(1.0), chance)


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

    @property
    def scale(self) -> float:
        """The width of the range of rewards."""
        return float(np.ptp(self.reward))

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


def _disagreement(n_classes: int, weights: Literal["linear", "quadratic"] | None) -> FloatArray:
    """Return what each error costs (m, m): 1, the distance of the classes, or its square."""
    apart = np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))).astype(np.float64)
    return np.asarray(np.where(apart > 0, apart ** _POWERS[weights], 0.0))


def _losses(confusion: FloatArray, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the loss of each matrix's row and column sums if they were independent, and its own loss."""
    true, predicted = confusion.sum(axis=-1), confusion.sum(axis=-2)
    chance = ratio(np.asarray(np.einsum("...i,ij,...j->...", true, loss, predicted)), true.sum(axis=-1))
    return chance, np.asarray(np.einsum("...ij,ij->...", confusion, loss))


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return ``above / below``, 0 where ``below`` is 0."""
    return np.divide(above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > 0)
