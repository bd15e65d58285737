"""Forward correction (Patrini et al., 2017): train through the matrix that turns classes into noisy labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from postshift._validation import FloatArray, IntArray, check_in_range, unknown
from postshift.baselines._baseline import BothSides, ModelBaseline
from postshift.baselines.deep import fit_positions, is_network
from postshift.baselines.deep_methods import check_no_transition, prepared, trained
from postshift.baselines.softmax import check_transition, fitted_head, joined
from postshift.core.plugin import onehot
from postshift.estimators.model import eta_of
from postshift.exceptions import MissingClassWarning, SettingError

ESTIMATE, VALIDATION = "estimate", "validation"


@dataclass(eq=False, repr=False)
class ForwardCorrection(ModelBaseline):
    """A model of the clean labels, trained on noisy ones with the loss ``-log (p T)[label]`` (Patrini et al., 2017).

    ``T[i, j]`` is the probability that a row of class i has label j, whatever its features. If T is right, the minimum
    of this loss is the model of the clean labels.

    Parameters
    ----------
    estimator : SoftmaxRegression, NetworkClassifier or Pipeline that ends in one, optional
        The model, ``SoftmaxRegression()`` by default. It is trained twice unless the transition is given. Pass a
        network already fitted to the noisy labels in :class:`sklearn.frozen.FrozenEstimator`; it is trained once.
    transition : "estimate", "validation" or array-like of shape (m, m), default="estimate"
        T, or how to estimate it from a model of the noisy labels. ``"estimate"``: the row of class i is the prediction
        for an anchor, a training row that is almost certainly of class i. ``"validation"``: it is the mean prediction
        for the validation rows of class i (Hendrycks et al., 2018).
    percentile : float, default=97
        The anchor of class i is the row at this percentile of the probability of label i. 100 is the most probable row,
        as in the paper's formulas; its experiments use 97, against outliers, unless there are many classes.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model of the clean labels.
    transition_ : array of shape (m, m)
        T.
    noisy_estimator_ : classifier or None
        The model of the noisy labels from which T is estimated; None if T was given.

    Notes
    -----
    Validation rows are used for ``transition="validation"`` only. Otherwise no rows are held out if none are given.

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

    estimator: Any = None
    _: KW_ONLY
    transition: Any = ESTIMATE
    percentile: float = 97

    @property
    def _fits_to_all_rows(self) -> bool:
        """Whether validation rows are ignored."""
        return not (isinstance(self.transition, str) and self.transition == VALIDATION)

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Estimate the transition if it is not given, and train."""
        if isinstance(self.transition, str) and self.transition not in {ESTIMATE, VALIDATION}:
            raise SettingError(unknown(self.transition, [ESTIMATE, VALIDATION], what="transition"))
        if is_network(self.estimator):
            self._fit_network(rows)
        else:
            self._fit_softmax(rows)

    def _fit_network(self, rows: BothSides) -> None:
        """Train a network."""
        head, model, seen = prepared(self.estimator, rows, classes=self.classes_)
        check_no_transition(model, method="forward correction")
        self.noisy_estimator_ = None
        if isinstance(self.transition, str):
            self.noisy_estimator_ = joined(head, trained(model, seen, classes=self.classes_))
        self.transition_ = check_transition(self._transition(rows), onehot(rows.y, n_classes=rows.n_classes))
        corrected = clone(model).set_params(transition=self.transition_)
        fit_positions(corrected, seen.X, seen.y, classes=self.classes_, name="corrected")
        self.estimator_ = joined(head, corrected)

    def _fit_softmax(self, rows: BothSides) -> None:
        """Train a softmax model."""
        labels = self.classes_[rows.y]
        head, X, model = fitted_head(self.estimator, rows.X, labels, method="forward correction")
        estimated = isinstance(self.transition, str)
        self.noisy_estimator_ = joined(head, clone(model).fit(X, labels)) if estimated else None
        self.transition_ = check_transition(self._transition(rows), onehot(rows.y, n_classes=rows.n_classes))
        model.set_params(transition=self.transition_).fit(X, labels, classes=self.classes_)
        self.estimator_ = joined(head, model)

    def _transition(self, rows: BothSides) -> Any:
        """Return the given transition, or estimate it."""
        if not isinstance(self.transition, str):
            return self.transition
        if self.transition == ESTIMATE:
            return anchor_transition(eta_of(self.noisy_estimator_, rows.X, self.classes_), percentile=self.percentile)
        return labelled_transition(eta_of(self.noisy_estimator_, rows.X_val, self.classes_), rows.y_val)


def anchor_transition(eta: FloatArray, *, percentile: float = 97) -> FloatArray:
    """Return the transition (m, m) from probabilities of the noisy labels (n, m), with an anchor for each class.

    A class that has probability 0 in every row keeps its label, with a warning.
    """
    share = check_in_range(percentile, name="percentile", low=0, high=100) / 100
    anchors = np.argsort(eta, axis=0, kind="stable")[int(share * (len(eta) - 1))]
    return _with_rest(eta[anchors], missing=eta.max(axis=0) == 0, where="training labels")


def labelled_transition(eta: FloatArray, y_val: IntArray) -> FloatArray:
    """Return the transition (m, m): the mean probabilities of the noisy labels (n, m) in each clean class.

    A class without rows keeps its label, with a warning.
    """
    members = onehot(y_val, n_classes=eta.shape[1])
    counts = members.sum(axis=0)
    means = members.T @ eta / np.maximum(counts, 1)[:, None]
    return _with_rest(means, missing=counts == 0, where="validation rows")


def _with_rest(transition: FloatArray, *, missing: Any, where: str) -> FloatArray:
    """Return the transition; missing classes keep their label."""
    if missing.any():
        warnings.warn(
            f"class number {', '.join(map(str, np.flatnonzero(missing)))} is missing from the {where} and is assumed "
            "to keep its label; give the transition itself if that is wrong",
            MissingClassWarning,
            stacklevel=2,
        )
    return np.where(missing[:, None], np.eye(len(transition)), transition)
