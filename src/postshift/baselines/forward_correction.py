"""Forward correction (Patrini et al., 2017): train through the matrix by which classes become noisy labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from postshift._validation import FloatArray, IntArray, check_in_range, unknown
from postshift.baselines._base import Baseline, BothSides
from postshift.baselines.deep import is_network
from postshift.baselines.softmax import check_transition, fitted_head, joined, one_hot
from postshift.estimators.model import eta_of
from postshift.exceptions import MissingClassWarning, SettingError

ESTIMATE, VALIDATION = "estimate", "validation"


class ForwardCorrection(Baseline):
    """A model of the clean labels, trained on noisy ones with the loss ``-log (p T)[label]`` (Patrini et al., 2017).

    ``T[i, j]`` is the probability that a row of class i has label j, whatever its features. Where T is right, the
    minimum of this loss is the model of the clean labels.

    Parameters
    ----------
    estimator : SoftmaxRegression, NetworkClassifier or Pipeline that ends in one, optional
        The model, ``SoftmaxRegression()`` by default. It is trained twice unless the transition is given. A network
        already fitted to the noisy labels is passed in :class:`sklearn.frozen.FrozenEstimator`, and trained once.
    transition : "estimate", "validation" or array-like of shape (m, m), default="estimate"
        T, or how to estimate it from a model of the noisy labels. ``"estimate"``: the row of class i is what the
        model says of an anchor, a training row that is of class i almost surely. ``"validation"``: it is the mean of
        what the model says of the validation rows of class i (Hendrycks et al., 2018).
    percentile : float, default=97
        The anchor of class i is the row at this percentile of the probability of label i. 100 is the likeliest row, as
        in the paper's formulas; its experiments use 97, to be safe from outliers, unless the classes are many.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model of the clean labels.
    transition_ : array of shape (m, m)
        T.
    noisy_estimator_ : classifier or None
        The model of the noisy labels that T is estimated from; None where T was given.
    classes_ : array of shape (m,)
        The classes.

    Notes
    -----
    Validation rows are looked at for ``transition="validation"`` only. Otherwise nothing is held out where none are
    given.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift.baselines.forward_correction import ForwardCorrection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 1))
    >>> clean = (X[:, 0] > 0).astype(int)
    >>> noisy = np.where(rng.random(2000) < 0.6, 0, clean)  # most rows of class 1 are labelled 0
    >>> model = ForwardCorrection(transition=[[1.0, 0.0], [0.6, 0.4]]).fit(X, noisy)
    >>> bool(model.score(X, clean) > 0.95)
    True
    """

    def __init__(self, estimator: Any = None, *, transition: Any = ESTIMATE, percentile: float = 97) -> None:
        self.estimator = estimator
        self.transition = transition
        self.percentile = percentile

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the clean labels (n, m)."""
        return self._new_scores(X)

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Estimate the transition, where it is not given, and train."""
        if isinstance(self.transition, str) and self.transition not in {ESTIMATE, VALIDATION}:
            raise SettingError(unknown(self.transition, [ESTIMATE, VALIDATION], what="way to have a transition"))
        if is_network(self.estimator):
            self._fit_network(rows)
        else:
            self._fit_softmax(rows)

    def _fit_network(self, rows: BothSides) -> None:
        """Train a network."""
        from postshift.baselines import deep_methods  # which estimates transitions as this module does

        head, model, seen = deep_methods.prepared(self.estimator, rows, classes=self.classes_)
        deep_methods.check_no_transition(model, method="forward correction")
        self.noisy_estimator_ = None
        if isinstance(self.transition, str):
            self.noisy_estimator_ = joined(head, deep_methods.trained(model, seen, classes=self.classes_))
        self.transition_ = check_transition(self._transition(rows), one_hot(rows.y, rows.n_classes))
        corrected = deep_methods.forward_correct(model, seen, classes=self.classes_, transition=self.transition_)
        self.estimator_ = joined(head, corrected)

    def _fit_softmax(self, rows: BothSides) -> None:
        """Train a softmax model."""
        labels = self.classes_[rows.y]
        head, X, model = fitted_head(self.estimator, rows.X, labels, method="forward correction")
        estimated = isinstance(self.transition, str)
        self.noisy_estimator_ = joined(head, clone(model).fit(X, labels)) if estimated else None
        self.transition_ = check_transition(self._transition(rows), one_hot(rows.y, rows.n_classes))
        model.set_params(transition=self.transition_).fit(X, labels, classes=self.classes_)
        self.estimator_ = joined(head, model)

    def _transition(self, rows: BothSides) -> Any:
        """Return the transition that was given or is estimated."""
        if not isinstance(self.transition, str):
            return self.transition
        if self.transition == ESTIMATE:
            return anchor_transition(eta_of(self.noisy_estimator_, rows.X, self.classes_), percentile=self.percentile)
        return labelled_transition(eta_of(self.noisy_estimator_, rows.X_val, self.classes_), rows.y_val)

    def _held_out(self, X: Any, y: Any) -> BothSides:
        """Return all rows as training rows, where validation rows are not looked at."""
        held_out = super()._held_out(X, y)
        if isinstance(self.transition, str) and self.transition == VALIDATION:
            return held_out
        return self._rows(X, y, held_out.X_val, self.classes_[held_out.y_val])

    def _scores(self, X: Any) -> FloatArray:
        """Return the probabilities of the clean labels."""
        return eta_of(self.estimator_, X, self.classes_)


def anchor_transition(eta: FloatArray, *, percentile: float = 97) -> FloatArray:
    """Return the transition (m, m) from probabilities of the noisy labels (n, m), by an anchor for each class.

    A class that the model gives to no row keeps its label, with a warning.
    """
    share = check_in_range(percentile, name="percentile", low=0, high=100) / 100
    anchors = np.argsort(eta, axis=0, kind="stable")[int(share * (len(eta) - 1))]
    return _with_rest(eta[anchors], missing=eta.max(axis=0) == 0, where="training labels")


def labelled_transition(eta: FloatArray, y_val: IntArray) -> FloatArray:
    """Return the transition (m, m) from probabilities of the noisy labels (n, m), by their mean in each clean class.

    A class without rows keeps its label, with a warning.
    """
    members = one_hot(y_val, eta.shape[1])
    counts = members.sum(axis=0)
    means = members.T @ eta / np.maximum(counts, 1)[:, None]
    return _with_rest(means, missing=counts == 0, where="validation rows")


def _with_rest(transition: FloatArray, *, missing: Any, where: str) -> FloatArray:
    """Return a transition in which classes that nothing is known of keep their label."""
    if missing.any():
        warnings.warn(
            f"class number {', '.join(map(str, np.flatnonzero(missing)))} is missing from the {where}: it is taken to "
            "keep its label; give the transition itself where that is wrong",
            MissingClassWarning,
            stacklevel=2,
        )
    return np.where(missing[:, None], np.eye(len(transition)), transition)
