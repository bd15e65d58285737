"""The other sides: the probe loop, scikit-learn's tuned threshold, xCOLUMNs, differential evolution, a plain read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import differential_evolution
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score
from sklearn.model_selection import TunedThresholdClassifierCV

from benchmarks.timing import SkippedError, clocked
from postshift import Mixture, Rows

N_THRESHOLDS = 100


class ProbeLoop:
    """The paper's method as it is written down: a table (n, m) for the classifier, and another for every probe.

    Every step is vectorised over the rows. As in the authors' program, the phi-confusions of a probe are the diagonals
    of L matrix products of tables (n, m); ``tight`` takes all of them by one product, which is less work.
    """

    def __init__(self, rows: Rows, *, radius: float, tight: bool = False) -> None:
        self.eta, self.phi, self.radius, self.tight = rows.eta, rows.phi, radius, tight
        self.true = np.eye(rows.n_classes)[rows.labels]

    def vertex(self, alpha: np.ndarray) -> np.ndarray:
        """Return the table of a plug-in classifier."""
        return np.eye(self.eta.shape[1])[np.argmax((self.phi @ alpha) * self.eta, axis=1)]

    def moved(self, h: np.ndarray, alpha: np.ndarray, step: float) -> np.ndarray:
        """Return the table of the classifier after a step towards a plug-in classifier."""
        return (1 - step) * h + step * self.vertex(alpha)

    def equations(self, h: np.ndarray) -> np.ndarray:
        """Return the phi-confusions of every probe less those of h, per unit of radius (L m, L m)."""
        n_bases, n_classes = self.phi.shape[1], self.eta.shape[1]
        base = self._confusions(h)
        probes = (self._probe(h, basis, label) for basis in range(n_bases) for label in range(n_classes))
        return np.array([(self._confusions(probe) - base).ravel() for probe in probes]) / self.radius

    def predict(self, mixture: Mixture) -> np.ndarray:
        """Return the likeliest class of every row under a mixture."""
        return np.argmax(self.distribution(mixture), axis=1)

    def distribution(self, mixture: Mixture) -> np.ndarray:
        """Return the table of a mixture, member by member."""
        h = np.zeros(self.eta.shape)
        for member, share in zip(mixture.members, mixture.shares, strict=True):
            h += share * self.vertex(member.alpha)
        return h

    def _probe(self, h: np.ndarray, basis: int, label: int) -> np.ndarray:
        """Return the table of one probe (Eq. 12)."""
        trivial = np.eye(self.eta.shape[1])[label]
        return h + self.radius * self.phi[:, [basis]] * (trivial - h)

    def _confusions(self, h: np.ndarray) -> np.ndarray:
        """Return the phi-confusions (L, m) of a table."""
        if self.tight:
            return self.phi.T @ (self.true * h) / len(h)
        return np.array([np.diag((function[:, None] * self.true).T @ h) for function in self.phi.T]) / len(h)


class GivenProbabilities(ClassifierMixin, BaseEstimator):
    """A model whose features are its probabilities, so that only the tuning takes time."""

    def fit(self, X: Any, y: Any) -> GivenProbabilities:
        """Note the classes."""
        self.classes_ = np.arange(X.shape[1])
        self.n_features_in_ = X.shape[1]
        self.n_rows_ = len(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the features."""
        return X

    def predict(self, X: Any) -> Any:
        """Return the likeliest class."""
        return np.argmax(X, axis=1)


def tuned_threshold(eta: np.ndarray, y: np.ndarray, *, scoring: Any, cv: Any = "prefit") -> TunedThresholdClassifierCV:
    """Return scikit-learn's threshold for given probabilities, on all rows or, with a number of folds, by folds."""
    model = FrozenEstimator(GivenProbabilities().fit(eta[:2], y[:2]))
    tuned = TunedThresholdClassifierCV(model, scoring=scoring, cv=cv, refit=cv != "prefit", thresholds=N_THRESHOLDS)
    return tuned.fit(eta, y)


def xcolumns_fit(eta: np.ndarray, true: np.ndarray, **options: Any) -> Any:
    """Return what xCOLUMNs' Frank-Wolfe finds for macro-F1 with one label a row; ``true`` is one-hot."""
    try:
        from xcolumns.frank_wolfe import find_classifier_using_fw
        from xcolumns.metrics import macro_f1_score_on_conf_matrix
    except ImportError as error:
        raise SkippedError("the package xcolumns is missing: pip install -e '.[bench]'") from error
    return find_classifier_using_fw(true, eta, macro_f1_score_on_conf_matrix, 1, skip_tn=True, seed=0, **options)


def xcolumns_value(found: Any, eta: np.ndarray, true: np.ndarray) -> float:
    """Return the macro-F1 of xCOLUMNs' randomised classifier: that of its average confusion matrix, without draws."""
    hits, predicted = np.zeros(eta.shape[1]), np.zeros(eta.shape[1])
    for a, b, share in zip(found.a, found.b, found.p, strict=True):
        labels = np.argmax(a * eta + b, axis=1)
        predicted += share * np.bincount(labels, minlength=eta.shape[1])
        hits += share * np.bincount(labels, weights=true[np.arange(len(eta)), labels], minlength=eta.shape[1])
    return float(np.mean(2 * hits / (predicted + true.sum(axis=0))))


def xcolumns_sparse_value(found: Any, eta: Any, y: np.ndarray) -> float:
    """Return the same for sparse rows, as the mean over the classes that have rows; xCOLUMNs labels the rows."""
    from xcolumns.weighted_prediction import predict_weighted_per_instance

    n_classes = eta.shape[1]
    hits, predicted = np.zeros(n_classes), np.zeros(n_classes)
    for a, b, share in zip(found.a, found.b, found.p, strict=True):
        labels = predict_weighted_per_instance(as_xcolumns(eta), 1, th=0.0, a=a, b=b).indices
        predicted += share * np.bincount(labels, minlength=n_classes)
        hits += share * np.bincount(labels[labels == y], minlength=n_classes)
    sizes = np.bincount(y, minlength=n_classes)
    return float(np.mean((2 * hits / np.maximum(predicted + sizes, 1))[sizes > 0]))


def as_xcolumns(eta: Any) -> csr_matrix:
    """Return a CSR array in the type that xCOLUMNs takes."""
    return csr_matrix(eta.astype(np.float32))


def evolved_weights(eta: np.ndarray, y: np.ndarray, *, max_iter: int) -> np.ndarray:
    """Return class weights of ``argmax w_i eta_i`` by differential evolution of their logarithms, for macro-F1."""
    n_classes = eta.shape[1]
    sizes = np.bincount(y, minlength=n_classes)

    def loss(logs: np.ndarray) -> float:
        labels = np.argmax(np.exp(logs) * eta, axis=1)
        hits = np.bincount(y[labels == y], minlength=n_classes)
        return -float(np.mean(2 * hits / (sizes + np.bincount(labels, minlength=n_classes))))

    found = differential_evolution(
        loss, [(-3, 3)] * n_classes, maxiter=max_iter, popsize=10, init="sobol", polish=False, rng=0
    )
    return np.exp(found.x)


def macro_f1(y: np.ndarray, labels: np.ndarray) -> float:
    """Return the macro-F1 of labels, by scikit-learn."""
    return float(f1_score(y, labels, average="macro", zero_division=0))


def plain_read(*tables: np.ndarray) -> Callable[[], float]:
    """Return the fastest read of all bytes there is: NumPy's sum, or a compiled loop."""
    flat = [np.ascontiguousarray(table).reshape(-1) for table in tables]
    ways = [lambda: float(sum(np.add.reduce(table) for table in flat))]
    total = _compiled_sum()
    if total is not None:
        ways.append(lambda: float(sum(total(table) for table in flat)))
    for way in ways:
        way()
    return min(ways, key=lambda way: min(clocked(way)[0].cpu for _ in range(5)))


def _compiled_sum() -> Callable[[np.ndarray], float] | None:
    """Return a sum in whatever order is fastest, compiled; None without numba."""
    try:
        import numba
    except ImportError:
        return None

    @numba.njit(fastmath=True)
    def total(table: Any) -> Any:
        found = table.dtype.type(0)
        for value in table:
            found += value
        return found

    return total
