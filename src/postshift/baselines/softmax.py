"""Softmax regression with sample weights, soft targets and a transition matrix, and functions to train it.

========== ============ ======================================================================
``theta``   (m, d + 1)   parameters: a row for each class, its coefficients and then its intercept
``scores``  (n, m)       x . coef + intercept; their softmax gives the probabilities p
``targets`` (n, m)       the distribution of each row's label: one-hot for a known label
``T``       (m, m)       transition: ``T[i, j]`` is the probability of label j given class i
========== ============ ======================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.sparse import diags_array, hstack, issparse
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from postshift._validation import (
    FloatArray,
    as_numbers,
    check_count,
    check_eta,
    check_in_range,
    check_weights,
)
from postshift.baselines._baseline import check_classes, checked_labels
from postshift.core.plugin import onehot
from postshift.estimators.model import is_frozen, positions
from postshift.exceptions import InputError, ProbabilityError, SettingError, ShapeError

_SMALL_GRADIENT = 1e-5  # of the mean loss; a line search that fails there fails because of rounding
_SAME = 1e-6  # probabilities that differ by less count as equal
_WIDE = 4000  # with more features, a matrix of d by d is too large
_RIDGE = 1e-10  # relative
_UNSEEN = float(np.log(1e-3))  # added to the mean score: the start of a class unknown to the model


@dataclass(kw_only=True, eq=False, repr=False)
class SoftmaxRegression(ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression that takes soft targets and a transition matrix.

    L-BFGS minimises ``C * sum_i w_i loss_i + ||coef||^2 / 2``, as in :class:`sklearn.linear_model.LogisticRegression`
    (with two classes the penalty counts twice, because two rows of coefficients stand for one). Standardise the
    features first if their scales differ.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty; ``numpy.inf`` for none.
    transition : array-like of shape (m, m), optional
        Probability of each label (column) given the class (row). With it the loss is ``-log (p T)[label]``: that of
        noisy labels, where ``p`` are the probabilities of the classes. Such a loss may have several minima.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-8
        Iterations stop when no entry of the gradient of the mean loss is larger, in units of curvature about 1.

    Attributes
    ----------
    classes_ : array of shape (m,)
        The classes.
    coef_, intercept_ : arrays of shape (m, d) and (m,)
        The parameters, a row for each class, also for two classes.
    n_iter_ : int
        Number of iterations.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from postshift.baselines.softmax import SoftmaxRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SoftmaxRegression(C=10.0).fit(X, y)
    >>> model.coef_.shape
    (3, 4)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    C: float = 1.0
    transition: Any = None
    max_iter: int = 1000
    tol: float = 1e-8

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None, start: Any = None) -> Self:
        """Fit to rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The rows.
        y : array-like of shape (n,) or (n, m)
            Labels, or the distribution of the label of each row.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        classes : array-like of shape (m,), optional
            The classes, sorted, if some have no rows; or the names of the columns of ``y``.
        start : pair of arrays of shape (m, d) and (m,), optional
            Initial coefficients and intercepts; zeros by default.

        Returns
        -------
        SoftmaxRegression
            The fitted model.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        targets = self._targets(y, n_rows=X.shape[0], classes=classes)
        weights = check_weights(sample_weight, n_rows=X.shape[0], name="sample_weight")
        weights = np.ones(X.shape[0]) if weights is None else weights
        shares = weights / weights.sum()
        penalty = penalty_of(self.C, n_classes=targets.shape[1], total=weights.sum())
        transition = None if self.transition is None else check_transition(self.transition, targets)
        loss = partial(penalised_loss, X=X, targets=targets, shares=shares, transition=transition, penalty=penalty)
        theta = np.zeros((targets.shape[1], X.shape[1] + 1)) if start is None else _checked_start(start, targets, X)
        self._minimise(loss, theta, _Units.of(X, shares, penalty))
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes (n, m)."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every row."""
        scores = self._scores(X)  # raises before the fit
        return self.classes_[np.argmax(scores, axis=1)]

    def _scores(self, X: Any) -> FloatArray:
        """Return the scores of the classes (n, m)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return scores_of(X, theta_of(self))

    def _targets(self, y: Any, *, n_rows: int, classes: Any) -> FloatArray:
        """Return the distribution of each row's label; set ``classes_``."""
        if y is None:
            raise ValueError("SoftmaxRegression requires y to be passed, but the target y is None")
        if _has_columns(y):
            targets = check_eta(y, name="y")
            self.classes_ = np.arange(targets.shape[1]) if classes is None else np.asarray(classes)
            if targets.shape != (n_rows, len(self.classes_)):
                raise ShapeError(f"y must have shape {(n_rows, len(self.classes_))}. Got {targets.shape} instead")
            return targets
        labels = checked_labels(y)
        if len(labels) != n_rows:
            raise ShapeError(f"X and y must have the same number of rows. Got {n_rows} rows and {len(labels)} labels")
        self.classes_ = check_classes(np.unique(labels) if classes is None else np.asarray(classes))
        return onehot(positions(labels, self.classes_, name="y"), n_classes=len(self.classes_))

    def _minimise(
        self, loss: Callable[[FloatArray], tuple[float, FloatArray]], theta: FloatArray, units: _Units
    ) -> None:
        """Find the parameters with the least loss, starting from ``theta``."""

        def objective(psi: FloatArray) -> tuple[float, FloatArray]:
            value, slope = loss(units.theta(psi.reshape(theta.shape)))
            return value, units.slope(slope).ravel()

        options = {
            "maxiter": check_count(self.max_iter, name="max_iter", low=1),
            "gtol": check_in_range(self.tol, name="tol", low=0, high=np.inf, open_high=True),
            "ftol": 64 * np.finfo(float).eps,
        }
        found = minimize(objective, units.psi(theta).ravel(), jac=True, method="L-BFGS-B", options=options)
        slope = float(np.abs(found.jac).max())
        if not found.success and slope > max(self.tol, _SMALL_GRADIENT):
            warnings.warn(
                f"no minimum found after {found.nit} iterations: the gradient is {slope:.2g}, tol is {self.tol:g}; "
                "scale the features or raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = int(found.nit)
        set_theta(self, units.theta(found.x.reshape(theta.shape)))

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse rows are supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# -- loss and gradient ----------------------------------------------------------------------------------


def scores_of(X: Any, theta: FloatArray) -> FloatArray:
    """Return the scores (n, m) of rows."""
    return np.asarray(X @ theta[:, :-1].T + theta[:, -1])


def row_losses(scores: FloatArray, targets: FloatArray, transition: Any = None) -> tuple[FloatArray, FloatArray]:
    """Return the cross-entropy of each row (n,) and its derivatives in the scores (n, m), the residuals.

    Without a transition the residuals are ``p - targets``. With one, the labels have probabilities ``p T``, and the
    targets are replaced by the distribution of the class given the label.
    """
    log_p = log_softmax(scores, axis=1)
    if transition is None:
        losses, expected = -(targets * log_p).sum(axis=1), targets
    else:
        losses, expected = _corrected(log_p, targets, transition)
    return losses, np.exp(log_p) * targets.sum(axis=1, keepdims=True) - expected


def gradient_of(X: Any, residuals: FloatArray) -> FloatArray:
    """Return the gradient in theta (m, d + 1) of a sum over rows from its derivatives in the scores."""
    return np.column_stack([residuals.T @ X, residuals.sum(axis=0)])


def penalised_loss(
    theta: FloatArray,
    X: Any,
    targets: FloatArray,
    *,
    shares: FloatArray,
    transition: Any = None,
    penalty: float = 0.0,
) -> tuple[float, FloatArray]:
    """Return ``sum_i shares_i loss_i + penalty ||coef||^2 / 2`` and its gradient in theta."""
    losses, residuals = row_losses(scores_of(X, theta), targets, transition)
    slope = gradient_of(X, residuals * shares[:, None])
    slope[:, :-1] += penalty * theta[:, :-1]
    return float(shares @ losses + penalty / 2 * np.vdot(theta[:, :-1], theta[:, :-1])), slope


def mean_loss(theta: FloatArray, X: Any, targets: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean cross-entropy of rows and its gradient in theta."""
    return penalised_loss(theta, X, targets, shares=np.full(len(targets), 1 / len(targets)))


def penalty_of(C: Any, *, n_classes: int, total: float) -> float:
    """Return the factor of ``||coef||^2 / 2`` in the mean loss of rows with total weight ``total``."""
    strength = 1 / check_in_range(C, name="C", low=0, high=np.inf, open_low=True)
    return (2 if n_classes == 2 else 1) * strength / float(total)


def safe_step(X: Any) -> float:
    """Return the step 1 / L of gradient descent on the mean loss of rows, with which the loss always decreases."""
    return float(1 / np.linalg.norm(_curvature_bound(X, np.full(X.shape[0], 1 / X.shape[0])), 2))


def check_transition(transition: Any, targets: FloatArray) -> FloatArray:
    """Return a transition matrix; raise unless its rows are distributions and every label has some probability."""
    table = check_eta(transition, name="transition")
    n_classes = targets.shape[1]
    if table.shape != (n_classes, n_classes):
        raise ShapeError(f"transition must have shape {(n_classes, n_classes)}. Got {table.shape} instead")
    impossible = (table.max(axis=0) == 0) & (targets.max(axis=0) > 0)
    if impossible.any():
        label = int(np.argmax(impossible))
        raise ProbabilityError(
            f"transition says that no class ever gets label {label} (column {label} is zero), but "
            f"{int((targets[:, label] > 0).sum())} rows have it: give this column some probability"
        )
    return table


def _corrected(log_p: FloatArray, targets: FloatArray, transition: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the losses (n,) under a transition and the expected classes given the labels (n, m)."""
    losses, expected = np.zeros(len(log_p)), np.zeros_like(log_p)
    with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf
        log_t = np.log(transition)
    for label in range(log_p.shape[1]):
        rows = np.flatnonzero(targets[:, label])
        joint = log_p[rows] + log_t[:, label]
        top = joint.max(axis=1, keepdims=True)  # finite, because of check_transition
        terms = np.exp(joint - top)
        total = terms.sum(axis=1, keepdims=True)
        losses[rows] -= targets[rows, label] * (top + np.log(total))[:, 0]
        expected[rows] += targets[rows, label, None] * terms / total
    return losses, expected


def _curvature_bound(X: Any, shares: FloatArray) -> FloatArray:
    """Return half the mean of ``(x, 1) (x, 1)'``, a bound on the curvature of the mean loss in a row of theta."""
    ones = np.ones((X.shape[0], 1))
    extended = hstack([X, ones], format="csr") if issparse(X) else np.hstack([X, ones])
    gram = extended.T @ (diags_array(shares / 2) @ extended)
    return np.asarray(gram.toarray() if issparse(gram) else gram)


@dataclass(frozen=True, eq=False)
class _Units:
    """Coordinates ``psi = theta root`` in which the curvature of the loss is about the same in every direction.

    One-hot features are dependent: L-BFGS needs hundreds of iterations in theta and about ten in psi. Without a root,
    psi is theta.
    """

    root: FloatArray | None

    @classmethod
    def of(cls, X: Any, shares: FloatArray, penalty: float) -> Self:
        """Return the coordinates for these rows; theta itself if there are many features."""
        if X.shape[1] > _WIDE:
            return cls(None)
        bound = _curvature_bound(X, shares)
        diagonal = np.einsum("ii->i", bound)
        diagonal[:-1] += penalty
        diagonal += _RIDGE * bound.trace()  # features may be dependent, and the penalty may be 0
        return cls(cholesky(bound, lower=True))

    def psi(self, theta: FloatArray) -> FloatArray:
        """Return parameters in these coordinates."""
        return theta if self.root is None else theta @ self.root

    def theta(self, psi: FloatArray) -> FloatArray:
        """Return the parameters."""
        return psi if self.root is None else solve_triangular(self.root, psi.T, lower=True, trans="T").T

    def slope(self, slope: FloatArray) -> FloatArray:
        """Return the gradient in psi from that in theta."""
        return slope if self.root is None else solve_triangular(self.root, slope.T, lower=True).T


# -- models and their parameters ------------------------------------------------------------------------


def head_and_last(model: Any) -> tuple[Any, Any]:
    """Return the transforming steps of a model (or None) and its last step, neither of them frozen."""
    inner = _thawed(model)
    if not isinstance(inner, Pipeline):
        return None, inner
    return (inner[:-1] if len(inner.steps) > 1 else None), _thawed(inner.steps[-1][1])


def joined(head: Any, model: Any) -> Any:
    """Return a fitted model after its fitted transforming steps."""
    return model if head is None else Pipeline([("head", head), ("softmax", model)])


def fitted_head(estimator: Any, X: Any, y: Any, *, method: str) -> tuple[Any, Any, SoftmaxRegression]:
    """Return the fitted transforming steps (or None), the transformed rows, and the softmax regression to train."""
    if is_frozen(estimator):
        raise InputError(f"{method} trains the model itself: give one that is not frozen")
    head, last = head_and_last(SoftmaxRegression() if estimator is None else estimator)
    if not isinstance(last, SoftmaxRegression):
        raise InputError(
            f"{method} trains a SoftmaxRegression, alone or as the last step of a Pipeline. Got {last!r} instead; for "
            "LogisticRegression(C=c) give SoftmaxRegression(C=c), the same model"
        )
    if last.transition is not None:
        raise InputError(f"the model of {method} must have transition=None. Got a matrix: set it to None")
    if head is None:
        return None, X, clone(last)
    head = clone(head)
    return head, head.fit_transform(X, y), clone(last)


def transformed(head: Any, X: Any) -> Any:
    """Return rows as the last step of a model sees them."""
    return X if head is None else head.transform(X)


def as_design(X: Any) -> Any:
    """Return rows as an array or CSR matrix of floats."""
    return check_array(X, accept_sparse="csr", dtype=np.float64)


def softmax_model(theta: FloatArray, *, X: Any, classes: Any) -> SoftmaxRegression:
    """Return a fitted softmax regression with given parameters for rows like these."""
    model = SoftmaxRegression()
    validate_data(model, X, skip_check_array=True)
    model.classes_, model.n_iter_ = classes, 0
    set_theta(model, theta)
    return model


def set_theta(model: SoftmaxRegression, theta: FloatArray) -> None:
    """Set the parameters of a model."""
    model.coef_, model.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()


def theta_of(model: Any) -> FloatArray:
    """Return the parameters of a fitted linear model, a row for each class."""
    theta = np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)])
    return np.vstack([-theta, theta]) / 2 if len(theta) == 1 else theta  # one row stands for two classes


def start_of(model: Any, *, X: Any, classes: Any) -> FloatArray:
    """Return the parameters (m, d + 1) of a fitted linear model whose probabilities are the softmax of its scores.

    A class unknown to the model starts with a small probability. The probabilities are compared on the rows ``X``.
    """
    if not all(hasattr(model, name) for name in ("coef_", "intercept_", "predict_proba")):
        raise InputError(
            f"{model!r} is not a softmax model (coef_, intercept_ and predict_proba): give SoftmaxRegression or "
            "LogisticRegression, alone or as the last step of a Pipeline"
        )
    known = theta_of(model)
    off = np.abs(softmax(scores_of(as_design(X), known), axis=1) - model.predict_proba(X)).max()
    if off > _SAME:
        raise InputError(
            f"the probabilities of {model!r} are not the softmax of its scores (difference {off:.2g}): it may be "
            "one-versus-rest; give SoftmaxRegression or a multinomial LogisticRegression"
        )
    theta = np.tile(known.mean(axis=0), (len(classes), 1))
    theta[:, -1] += _UNSEEN
    theta[positions(model.classes_, classes, name="the model's classes")] = known
    return theta


def _has_columns(y: Any) -> bool:
    """Return whether y is a table of several columns."""
    shape = np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1


def _checked_start(start: Any, targets: FloatArray, X: Any) -> FloatArray:
    """Return coefficients and intercepts as one array, after a check of their shapes."""
    if not isinstance(start, tuple | list) or len(start) != 2:
        raise SettingError("start must be a pair: coefficients (m, d) and intercepts (m,)")
    coef, intercept = (as_numbers(part, name="start") for part in start)
    wanted = (targets.shape[1], X.shape[1]), (targets.shape[1],)
    if (coef.shape, intercept.shape) != wanted:
        raise ShapeError(f"start must have shapes {wanted}. Got {(coef.shape, intercept.shape)} instead")
    return np.column_stack([coef, intercept])


def _thawed(model: Any) -> Any:
    """Return the model inside a frozen model, or the model itself."""
    return model.estimator if is_frozen(model) else model
