"""Training rows weighted so that their mean in the feature space of a kernel is that of the validation rows.

======== ======================================================= =====
symbol   meaning                                                 shape
======== ======================================================= =====
b        weights of the training rows                            (n,)
K        kernel of training rows with each other                 (n, n)
kappa    n times the mean kernel of a row with validation rows   (n,)
======== ======================================================= =====
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import Bounds, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.utils import check_random_state, gen_batches

from postshift._validation import FloatArray, IntArray, check_count, check_in_range, check_positive
from postshift.baselines._baseline import BothSides
from postshift.baselines.importance import Reweighted
from postshift.exceptions import InputError, SettingError

BLOCK = 4_000_000  # values of the kernel in memory at a time, when they are only summed: 32 MB
MEDIAN_ROWS = 1000  # drawn to find the median distance
MAX_STEPS = 5000  # of the solver
MAX_RUNS = 10  # of the solver
PENALTY = 10.0  # for the distance of the sum to its target; entries of K are at most 1
MAX_ROUNDS = 50  # of the multiplier; a few are usually enough


@dataclass(eq=False, repr=False)
class KernelMeanMatching(Reweighted):
    r"""The model fitted to training rows weighted by kernel mean matching (Huang et al. 2006).

    The weights solve the quadratic program

    .. math:: \min_b \; \tfrac{1}{2} b^\top K b - \kappa^\top b \quad \text{with} \quad 0 \le b \le B, \;
              |\mathrm{mean}(b) - 1| \le \epsilon,

    which moves the weighted mean of the training rows towards that of the validation rows in the feature space of a
    Gaussian kernel. The paper compares with it in Section 7.3, on an embedding of the images.

    Parameters
    ----------
    estimator : classifier whose ``fit`` takes ``sample_weight``
        The model; or a pipeline that ends in one.
    kernel_width : "median" or float, default="median"
        Width of the kernel :math:`\exp(-\|x - x'\|^2 / (2 \, width^2))`, or the median distance of training rows.
    bound : float, default=1000.0
        Largest weight of a row, ``B``.
    slack : float, optional
        Largest distance of the mean weight from 1. Default: :math:`(\sqrt n - 1) / \sqrt n`, as in Huang et al.
    on : {"xy", "x"}, default="xy"
        What is matched: features and labels (rows of different labels have kernel 0), or features alone. The latter is
        right if labels depend on features in the same way on both sides (covariate shift).
    max_rows : int, default=2000
        More training rows than this are divided at random into equal parts, each matched to all validation rows, as
        in Chandra et al. 2016. Memory grows with its square, and time with its product with the number of rows.
    tol : float, default=1e-4
        Largest violation of the optimality conditions, relative to the largest ``kappa`` (or to 1, the kernel of a row
        with itself, if that is greater).
    embedding : transformer or callable, optional
        Turns the rows into numbers; a copy is fitted to the training rows. Default: categories of a data frame are
        one-hot, numbers are divided by their standard deviation, columns of 0 and 1 are unchanged.
    random_state : int, RandomState or None, default=0
        Seed of the division into parts and of the rows for the median distance.

    Attributes
    ----------
    kernel_width_ : float
        The width.
    density_ratio_ : array of shape (n_train,)
        The solution ``b``.
    sample_weight_ : array of shape (n_train,)
        The weights of the fit: ``b`` divided by its mean.
    estimator_ : classifier
        The model fitted with them.

    Notes
    -----
    The kernel is exact within a part. A low-rank approximation for all rows at once was tried and is worse: on one-hot
    columns the spectrum of the kernel decreases slowly, and truncating it costs more than dividing the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.kernel_mean_matching import KernelMeanMatching
    >>> rng = np.random.default_rng(0)
    >>> X, X_val = rng.normal(size=(1000, 1)), rng.normal(1, size=(200, 1))
    >>> y, y_val = (np.abs(X[:, 0]) > 1).astype(int), (np.abs(X_val[:, 0]) > 1).astype(int)
    >>> model = KernelMeanMatching(LogisticRegression()).fit(X, y, X_val, y_val)
    >>> bool(model.score(X_val, y_val) > LogisticRegression().fit(X, y).score(X_val, y_val))
    True
    """

    estimator: Any
    _: KW_ONLY
    kernel_width: float | Literal["median"] = "median"
    bound: float = 1000.0
    slack: float | None = None
    on: Literal["xy", "x"] = "xy"
    max_rows: int = 2000
    tol: float = 1e-4
    embedding: Any = None
    random_state: Any = 0

    def _ratio(self, rows: BothSides) -> FloatArray:
        """Return the weights, part by part."""
        self._check_settings()
        rng = check_random_state(self.random_state)
        train, val = self._tables(rows)
        codes, codes_val = (rows.y, rows.y_val) if self.on == "xy" else (np.zeros_like(y) for y in (rows.y, rows.y_val))
        self.kernel_width_ = self._width(train, rng)
        gamma = 1 / (2 * self.kernel_width_**2)
        near = _mean_kernel(train, codes, val, codes_val, gamma=gamma)
        if near.max() == 0:
            raise InputError(
                f"no training row is near a validation row with kernel_width={self.kernel_width_:g}: give a larger one"
            )
        weights = np.empty(len(codes))
        for part in _parts(len(codes), self.max_rows, rng):
            weights[part] = MatchingProgram(
                kernels=tuple(_kernels(train[part], codes[part], gamma=gamma)),
                kappa=len(part) * near[part],
                bound=self.bound,
                slack=1 - 1 / np.sqrt(len(part)) if self.slack is None else self.slack,
                tol=self.tol,
            ).solve()
        return weights

    def _check_settings(self) -> None:
        """Raise if a setting is out of range."""
        check_in_range(self.bound, name="bound", low=1, high=np.inf, open_high=True)
        if self.slack is not None:
            check_in_range(self.slack, name="slack", low=0, high=np.inf)
        check_count(self.max_rows, name="max_rows", low=1)
        check_in_range(self.tol, name="tol", low=0, high=1, open_low=True)
        if isinstance(self.kernel_width, str):
            if self.kernel_width != "median":
                raise SettingError(f"kernel_width must be a number or 'median'. Got {self.kernel_width!r} instead")
        else:
            check_positive(self.kernel_width, name="kernel_width")

    def _width(self, train: Any, rng: np.random.RandomState) -> float:
        """Return the given width of the kernel, or the median distance of distinct rows."""
        if not isinstance(self.kernel_width, str):
            return float(self.kernel_width)
        drawn = rng.permutation(train.shape[0])[:MEDIAN_ROWS]
        distances = euclidean_distances(train[drawn])
        positive = distances[distances > 0]
        if len(positive) == 0:
            raise InputError(f"the {len(drawn)} training rows drawn are all equal: give a number as kernel_width")
        return float(np.median(positive))


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchingProgram:
    """Minimise ``b'Kb / 2 - kappa'b`` with ``0 <= b <= bound`` and ``|mean(b) - 1| <= slack``.

    ``K`` is 0 outside of some blocks: ``kernels`` are the rows and the values of each block.
    """

    kernels: tuple[tuple[IntArray, FloatArray], ...]
    kappa: FloatArray
    bound: float
    slack: float
    tol: float

    def solve(self) -> FloatArray:
        """Return the weights; if their mean is too far from 1, solve again with the nearest mean allowed."""
        free = self._in_box(np.ones(len(self.kappa)))
        excess = free.mean() - 1
        if abs(excess) <= self.slack:
            return free
        return self._of_mean(1 + np.copysign(self.slack, excess), start=free)

    def _of_mean(self, mean: float, *, start: FloatArray) -> FloatArray:
        """Return the weights of a given mean, by the method of multipliers."""
        weights, multiplier = start, 0.0
        for _ in range(MAX_ROUNDS):
            weights = self._in_box(weights, mean=mean, multiplier=multiplier, penalty=PENALTY)
            gap = weights.sum() - mean * len(weights)
            if abs(gap) <= self.tol * len(weights):
                return weights
            multiplier += PENALTY * gap
        _warn(f"the mean weight is {weights.mean():.4g} instead of {mean:.4g}")
        return weights

    def _in_box(
        self, start: FloatArray, *, mean: float = 1.0, multiplier: float = 0.0, penalty: float = 0.0
    ) -> FloatArray:
        """Return the weights between the bounds, with a penalty on the distance of their sum to its target."""
        scale = max(self.kappa.max(), 1.0)

        def value_and_slope(weights: FloatArray) -> tuple[float, FloatArray]:
            smooth = self._times_kernel(weights)
            gap = weights.sum() - mean * len(weights)
            value = weights @ (smooth / 2 - self.kappa) + gap * (multiplier + penalty * gap / 2)
            return value / scale, (smooth - self.kappa + multiplier + penalty * gap) / scale

        weights = start
        for _ in range(MAX_RUNS):  # it may stop early at a step that is lost to rounding
            found = minimize(
                value_and_slope,
                weights,
                jac=True,
                method="L-BFGS-B",
                bounds=Bounds(0, self.bound),
                options={"maxcor": 20, "maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "ftol": 0, "gtol": self.tol},
            )
            weights = np.asarray(found.x, dtype=np.float64)
            violation = np.abs(np.clip(weights - found.jac, 0, self.bound) - weights).max()
            if violation <= self.tol:
                return weights
        _warn(f"the weights violate the optimality conditions by {violation:.2g} (tol={self.tol:g}): {found.message}")
        return weights

    def _times_kernel(self, weights: FloatArray) -> FloatArray:
        """Return ``K b``."""
        product = np.empty_like(weights)
        for rows, kernel in self.kernels:
            product[rows] = kernel @ weights[rows]
        return product


def _mean_kernel(train: Any, codes: IntArray, val: Any, codes_val: IntArray, *, gamma: float) -> FloatArray:
    """Return the mean kernel of every training row with the validation rows, a block of rows at a time."""
    means = np.zeros(len(codes))
    for code in np.intersect1d(codes, codes_val):
        targets, places = val[codes_val == code], np.flatnonzero(codes == code)
        for block in gen_batches(len(places), max(1, BLOCK // len(codes_val))):
            rows = places[block]
            means[rows] = rbf_kernel(train[rows], targets, gamma=gamma).sum(axis=1) / len(codes_val)
    return means


def _parts(n_rows: int, max_rows: int, rng: np.random.RandomState) -> list[IntArray]:
    """Return random parts of the rows, of about the same size, at most ``max_rows``."""
    return np.array_split(rng.permutation(n_rows), -(-n_rows // max_rows))


def _kernels(table: Any, codes: IntArray, *, gamma: float) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the rows of each label and their kernel."""
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        yield rows, rbf_kernel(table[rows], gamma=gamma)


def _warn(what: str) -> None:
    """Warn that the solver did not reach the tolerance."""
    warnings.warn(f"{what}; increase tol or slack", ConvergenceWarning, stacklevel=2)
