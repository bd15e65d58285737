"""Functions of the user that change their arguments in place: they change copies, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer

from postshift import PostShiftClassifier, PostShifter, fw_eg
from postshift.baselines.plugin_search import CoordinatePlugin
from postshift.basis import GroupBasis, RBFBasis, TransformerBasis
from postshift.metrics import GMean, SoftOracle, from_confusion, from_labels, from_predictions
from tests.problems import make_problem

pytestmark = pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")
N_ROWS = 90
RNG = np.random.default_rng(0)
ETA = RNG.dirichlet([3, 1, 0.6], size=N_ROWS)
TRUTH = np.array([RNG.choice(3, p=row) for row in ETA])
TRUTH[:6] = np.arange(6) % 3
WEIGHTS, AMOUNT = RNG.uniform(0.5, 2, size=(2, N_ROWS))


def recalls(y_true, y_pred, weights=None):
    return float(
        np.mean([np.average(y_pred[y_true == k] == k, weights=None if weights is None else weights[y_true == k])
                 for k in np.unique(y_true)])
    )  # fmt: skip


def spoil(*arrays):
    for array in arrays:
        if array is not None:
            array[...] = array.flat[0]


def weighted(change):
    def of_labels(y_true, y_pred, sample_weight=None):
        found = recalls(y_true, y_pred, sample_weight)
        change(y_true, y_pred, sample_weight)
        return found

    return of_labels


def by_row(change):
    def of_rows(y_true, y_pred):
        found = recalls(y_true, y_pred) + 0.01 * (y_pred[0] == y_true[0])
        change(y_true, y_pred)
        return found

    return of_rows


def paid(change):
    def of_amounts(y_true, y_pred, *, amount, sample_weight=None):
        found = np.average(amount * (y_true == y_pred), weights=sample_weight)
        change(y_true, y_pred, amount, sample_weight)
        return found

    return of_amounts


def of_confusion(change, *, stacked):
    def of_matrix(confusion):
        own = np.diagonal(confusion, axis1=-2, axis2=-1) / confusion.sum(axis=-1)
        found = own.mean(axis=-1) - 0.1 * own.min(axis=-1)
        change(confusion)
        return found

    return from_confusion(of_matrix, stacked=stacked, weighting="diagonal")


def of_predictions(change, *, soft):
    def hidden(shown):
        table = shown if soft else np.eye(3)[shown]
        found = float(np.mean([table[k == TRUTH, k].mean() for k in range(3)]))
        change(shown)
        return found

    return from_predictions(hidden, soft=soft)


def a_class(change):
    @dataclass(frozen=True)
    class Own:
        name: ClassVar[str] = "own"
        weighting: ClassVar[str] = "diagonal"

        def value(self, confusion):
            found = (np.diagonal(confusion, axis1=-2, axis2=-1) / confusion.sum(axis=-1)).mean(axis=-1)
            change(confusion)
            return found

        def gradient(self, confusion):
            found = np.diag(1 / confusion.sum(axis=-1)) / 3
            change(confusion)
            return found

    return Own()


FORMS = {
    "labels with weights": lambda change: from_labels(weighted(change)),
    "a plain function": weighted,
    "labels by row": lambda change: from_labels(by_row(change)),
    "metadata": lambda change: from_labels(paid(change)),
    "a scorer": lambda change: make_scorer(weighted(change)),
    "a confusion matrix": lambda change: of_confusion(change, stacked=False),
    "a stack of confusion matrices": lambda change: of_confusion(change, stacked=True),
    "hard predictions": lambda change: of_predictions(change, soft=False),
    "soft predictions": lambda change: of_predictions(change, soft=True),
    "a class": a_class,
}
METHODS = ["auto", "paper", "smoothed plug-in", "plug-in search"]
SHOWN_LABELS = ["labels by row", "hard predictions"]  # rules that need soft predictions cannot serve these


@pytest.mark.parametrize(
    ("form", "method"),
    [(form, method) for form in FORMS for method in METHODS if form not in SHOWN_LABELS or "smoothed" not in method],
)
def test_a_metric_that_changes_its_arguments(form, method):
    given = {"amount": AMOUNT.copy()} if form == "metadata" else {}
    if form in ("labels with weights", "metadata", "a confusion matrix", "a class"):
        given["sample_weight_val"] = WEIGHTS.copy()
    before = {name: array.copy() for name, array in given.items()}
    eta, y = ETA.copy(), TRUTH.copy()
    one, two = (
        PostShifter(FORMS[form](change), method=method).fit(eta, y, **given) for change in (lambda *_: None, spoil)
    )
    assert two.score_ == one.score_
    np.testing.assert_array_equal(one.predict(eta), two.predict(eta))
    if "predictions" not in form:
        there = {name: array for name, array in given.items() if name == "amount"}
        weights = given.get("sample_weight_val")
        assert two.score(eta, y, sample_weight=weights, **there) == one.score(eta, y, sample_weight=weights, **there)
    for name, array in {"eta": ETA, "y": TRUTH, **before}.items():
        np.testing.assert_array_equal({"eta": eta, "y": y, **given}[name], array)


@pytest.mark.parametrize("form", ["labels with weights", "labels by row", "hard predictions", "a class"])
def test_a_baseline_with_such_a_metric(form):
    X, fit = ETA.copy(), {}
    for name, change in (("polite", lambda *_: None), ("rude", spoil)):
        model = FrozenEstimator(LogisticRegression().fit(ETA, TRUTH))
        fit[name] = CoordinatePlugin(model, metric=FORMS[form](change), max_cuts=5).fit(X, TRUTH, X, TRUTH)
    np.testing.assert_array_equal(fit["polite"].weights_, fit["rude"].weights_)


# -- bases ---------------------------------------------------------------------------------------------------


def rude(X):
    """Return two groups of rows, and leave nothing of them."""
    values = np.asarray(X)[:, 0] if not hasattr(X, "iloc") else X.iloc[:, 0].to_numpy().copy()
    found = (values > 0.5).astype(float)
    if hasattr(X, "iloc"):
        X.iloc[:, :] = 0.0
    else:
        X[:] = 0
    return np.column_stack([found, 1 - found])


def rude_groups(X):
    return np.where(rude(X)[:, 0] > 0, "high", "low")


class RudeTransformer(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.middle_ = 0.5
        X[:] = 0
        if y is not None:
            y[:] = y[0]
        return self

    def transform(self, X):
        return rude(X)


BASES = {
    "a function": lambda: rude,
    "a transformer": RudeTransformer,
    "a basis of a transformer": lambda: TransformerBasis(RudeTransformer()),
    "groups by a function": lambda: GroupBasis(by=rude_groups),
    "nearness to groups by a function": lambda: RBFBasis(by=rude_groups),
    "nearness in an embedding": lambda: RBFBasis(by="class", embedding=RudeTransformer()),
}
OF_FRAMES = ["a function", "groups by a function", "nearness to groups by a function"]


@pytest.mark.parametrize(("basis", "frame"), [(name, False) for name in BASES] + [(name, True) for name in OF_FRAMES])
def test_a_basis_that_changes_its_rows(basis, frame):
    X, y = (pd.DataFrame(ETA.copy()) if frame else ETA.copy()), TRUTH.copy()
    model = FrozenEstimator(LogisticRegression().fit(ETA, TRUTH))
    fitted = PostShiftClassifier(model, metric="g_mean", basis=BASES[basis](), method="influence").fit(X, y, X, y)
    np.testing.assert_array_equal(np.asarray(X), ETA)
    np.testing.assert_array_equal(y, TRUTH)
    again = fitted.predict(X)
    np.testing.assert_array_equal(again, fitted.predict(X))
    np.testing.assert_array_equal(np.asarray(X), ETA)


def test_nobody_can_change_what_others_rely_on():
    """A metric that writes into what it is shown writes into its own copy, and the run is unharmed."""
    problem = make_problem(seed=0)

    def polite(table):
        return table[problem.val.labels == 0, 0].mean() * table[problem.val.labels == 1, 1].mean()

    def rude(table):
        found = polite(table)
        table[:] = 0
        return found

    class Rude(GMean):
        def value(self, confusion):
            found = GMean.value(self, confusion)
            confusion /= confusion.sum(axis=-1, keepdims=True) + 1
            return found

    for first, second in ((SoftOracle(polite), SoftOracle(rude)), (GMean(), Rude())):
        one, two = (fw_eg(problem.train, problem.val, metric, max_iter=3) for metric in (first, second))
        np.testing.assert_array_equal(
            one.mixture.distribution(problem.val.eta, problem.val.phi),
            two.mixture.distribution(problem.val.eta, problem.val.phi),
        )
