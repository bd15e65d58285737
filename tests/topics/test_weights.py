"""Sample weights: their scale says nothing, rows are counted, and weights that cannot be used are refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from postshift import PostShiftClassifier, PostShifter, Rows, fw_eg
from postshift.exceptions import LabelError, MetricError, WeightError
from postshift.metrics import GMean, MacroF1, from_labels

N_ROWS = 400
SCALES = [1 / N_ROWS, 1e6, 1e150, 1e-150]
pytestmark = pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")


def rows(seed=0, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet([4, 2, 0.5], size=n_rows)
    y = np.array([rng.choice(3, p=row) for row in eta])
    y[:6] = np.arange(6) % 3
    return eta, y, rng.uniform(0.5, 2, size=n_rows)


def shifter(metric="g_mean", method="auto"):
    return PostShifter(metric, method=method)


# -- the scale -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", ["auto", "stack", "influence", "paper"])
def test_all_weights_equal_are_no_weights(method, scale):
    eta, y, _ = rows()
    one = shifter("min_recall", method).fit(eta, y)
    two = shifter("min_recall", method).fit(eta, y, sample_weight_val=np.full(N_ROWS, scale))
    assert (two.score_, two.base_score_) == (one.score_, one.base_score_)
    np.testing.assert_array_equal(one.predict(eta), two.predict(eta))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", ["auto", "stack", "influence", "paper"])
def test_the_scale_of_both_sides_says_nothing(method, scale):
    eta, y, weights = rows()
    eta_train, y_train, weights_train = rows(1)
    fits = [
        shifter("min_recall", method).fit(
            eta, y, eta_train, y_train, sample_weight_val=weights * val, sample_weight_train=weights_train * train
        )
        for val, train in ((1.0, 1.0), (scale, 3.0), (3.0, scale))
    ]
    for other in fits[1:]:
        assert other.score_ == pytest.approx(fits[0].score_, abs=1e-9)
        assert other.base_score_ == pytest.approx(fits[0].base_score_, abs=1e-9)
        np.testing.assert_array_equal(other.predict(eta), fits[0].predict(eta))
        np.testing.assert_allclose(other.coef_, fits[0].coef_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:FrozenEstimator takes no sample_weight:UserWarning")
@pytest.mark.parametrize("scale", SCALES)
def test_the_scale_of_the_weights_of_a_classifier(scale):
    """The leaves of the tree are fitted with weights too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + 0.7 * rng.normal(size=300) > 0.8).astype(int)
    weights = rng.uniform(0.5, 2, size=300)
    model = FrozenEstimator(GaussianNB().fit(X, y))
    one, two = (
        PostShiftClassifier(model, metric="g_mean", basis="tree", method="influence").fit(
            X, y, X, y, sample_weight=weights * factor, sample_weight_val=weights * factor
        )
        for factor in (1.0, scale)
    )
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert two.score_ == pytest.approx(one.score_, abs=1e-9)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "settings", [{}, {"weighting": "full"}, {"min_hit": 0.05, "max_leak": 0.02, "weighting": "diagonal"}], ids=str
)
def test_the_scale_of_weights_of_samples(scale, settings):
    eta, y, weights = rows()
    groups = np.eye(2)[(eta[:, 0] > 0.6).astype(int)]
    one, two = (
        fw_eg(
            Rows.of(eta, phi=groups, labels=y, weights=weights * factor),
            Rows.of(eta, phi=groups, labels=y, weights=weights / factor),
            MacroF1(),
            max_iter=5,
            **settings,
        )
        for factor in (1.0, scale)
    )
    assert two.score == pytest.approx(one.score, rel=1e-9)
    np.testing.assert_array_equal(one.mixture.labels(eta, groups), two.mixture.labels(eta, groups))
    for first, second in zip(one.mixture.members, two.mixture.members, strict=True):
        np.testing.assert_allclose(second.alpha, first.alpha, rtol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_what_a_function_of_labels_is_tried_with(scale):
    """Whether a function is one of the confusion matrix does not depend on the scale of the weights."""

    def reads_rows(y_true, y_pred, sample_weight):
        return float(np.average(y_true == y_pred, weights=sample_weight) - 0.1 * (np.diff(y_pred) != 0).mean())

    def adds_up(y_true, y_pred, sample_weight):
        return float(sample_weight @ (y_true == y_pred)) / float(np.sum(sample_weight**1.0)) + 0.1 * y_pred[0]

    eta, y, weights = rows(n_rows=60)
    for function in (reads_rows, adds_up):
        one, two = (
            shifter(from_labels(function), "inverse prior").fit(eta, y, sample_weight_val=weights * factor)
            for factor in (1.0, scale)
        )
        assert one.n_queries_ == two.n_queries_ > 0
        assert two.score_ == pytest.approx(one.score_, abs=1e-9)


# -- counts --------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_weights():
    eta, y, weights = rows(n_rows=60)
    weights = weights * np.array([1.0, 5.0, 200.0])[y]
    found = shifter("balanced_accuracy", "base").fit(eta, y, sample_weight_val=weights)
    right = np.argmax(eta, axis=1) == y
    recalls = [np.average(right[y == k], weights=weights[y == k]) for k in range(3)]
    assert found.base_score_ == pytest.approx(np.mean(recalls))


def test_what_a_class_weighs_does_not_make_its_rows_more():
    """Recalls are all that a G-mean reads: a factor for each class changes nothing of what counts rows."""
    eta, y, weights = rows()
    factors = np.array([1.0, 5.0, 200.0])[y]
    for metric in ("g_mean", "min_recall"):
        one, two = (
            shifter(metric, "smoothed plug-in").fit(eta, y, sample_weight_val=each)
            for each in (weights, weights * factors)
        )
        assert two.score_ == pytest.approx(one.score_, abs=1e-6)
        np.testing.assert_array_equal(one.predict(eta), two.predict(eta))


# -- rows of weight 0 ----------------------------------------------------------------------------------------


def test_rows_of_weight_0_are_left_out_of_the_folds():
    eta, y, _ = rows()
    kept = np.arange(0, N_ROWS, 7)
    weights = np.zeros(N_ROWS)
    weights[kept] = 2.5
    one = shifter().fit(eta[kept], y[kept])
    two = shifter().fit(eta, y, sample_weight_val=weights)
    assert two.score_ == one.score_
    np.testing.assert_array_equal(one.predict(eta), two.predict(eta))
    np.testing.assert_array_equal(two.held_out_.rows, kept[one.held_out_.rows])
    assert two.diagnostics_.n_val == N_ROWS


def test_rows_of_weight_0_keep_their_metadata():
    def paid(y_true, y_pred, *, amount, sample_weight=None):
        return np.average(amount * (y_true == y_pred), weights=sample_weight)

    eta, y, weights = rows(n_rows=80)
    amount = np.arange(80) / 80
    weights[::3] = 0
    kept = np.flatnonzero(weights)
    one = shifter(paid, "inverse prior").fit(eta[kept], y[kept], sample_weight_val=weights[kept], amount=amount[kept])
    two = shifter(paid, "inverse prior").fit(eta, y, sample_weight_val=weights, amount=amount)
    assert two.score_ == pytest.approx(one.score_)


def test_validation_rows_with_weight_of_one_class():
    eta, y, _ = rows()
    with pytest.raises(LabelError, match=r"all \d+ validation rows of a weight above 0 are of class 0"):
        shifter().fit(eta, y, sample_weight_val=(y == 0).astype(float))


# -- what is refused -----------------------------------------------------------------------------------------


def one_row(n_rows, weight=1.0):
    weights = np.zeros(n_rows)
    weights[5] = weight
    return weights


@pytest.mark.parametrize("metric", ["g_mean", "f1_macro", "min_recall", "matthews_corrcoef"])
@pytest.mark.parametrize(
    "method", ["auto", "best", "stack", "influence", "paper", "plug-in search", "smoothed plug-in"]
)
def test_weight_on_one_validation_row(metric, method):
    eta, y, _ = rows(n_rows=60)
    with pytest.raises(WeightError, match=r"only 1 of the 60 validation rows.*at least 2 rows"):
        shifter(metric, method).fit(eta, y, sample_weight_val=one_row(60))


def test_weight_on_one_training_row():
    eta, y, _ = rows(n_rows=60)
    with pytest.raises(WeightError, match="only 1 of the 60 training rows"):
        shifter().fit(eta, y, eta, y, sample_weight_train=one_row(60, 1e150))


def test_one_row_that_outweighs_all_others():
    eta, y, _ = rows(n_rows=60)
    with pytest.raises(WeightError, match="only 1 of the 60 validation rows"):
        shifter().fit(eta, y, sample_weight_val=one_row(60, 1e150) + 1e-150)
    fitted = shifter().fit(eta, y, sample_weight_val=one_row(60, 1e15) + 1)
    assert np.isfinite(fitted.score_)


@pytest.mark.parametrize("model", [GaussianNB(), LogisticRegression()], ids=lambda model: type(model).__name__)
def test_a_fold_of_a_classifier_without_weight(model):
    eta, y, _ = rows(n_rows=60)
    for given in ({}, {"X_val": eta, "y_val": y}):
        with pytest.raises(WeightError, match=r"above 0 in 1 of 60 rows only.*fold \d"):
            PostShiftClassifier(model).fit(eta, y, sample_weight=one_row(60), **given)
    with pytest.raises(WeightError, match="only 1 of the 60 validation rows"):
        PostShiftClassifier(model).fit(eta, y, X_val=eta, y_val=y, sample_weight_val=one_row(60))


@pytest.mark.parametrize("name", ["sample_weight", "sample_weight_val"])
@pytest.mark.parametrize(("weight", "why"), [(-1.0, "negative"), (np.nan, "non-finite"), (0.0, "positive and finite")])
def test_weights_of_a_classifier_are_checked_before_the_model_sees_them(name, weight, why):
    eta, y, _ = rows(n_rows=60)
    with pytest.raises(WeightError, match=f"{name} (has|must).*{why}"):
        PostShiftClassifier(GaussianNB()).fit(eta, y, X_val=eta, y_val=y, **{name: np.full(60, weight)})


def test_a_function_that_adds_up_weights_of_1e150():
    def total(y_true, y_pred, sample_weight):
        return float(sample_weight @ (y_true == y_pred))

    eta, y, weights = rows(n_rows=60)
    for method in ("auto", "paper", "stack"):
        with pytest.raises(MetricError, match=r"'total' gave .*e\+15\d.*divide"):
            shifter(from_labels(total, scale=100), method).fit(eta, y, sample_weight_val=weights * 1e150)


def test_a_metric_of_the_confusion_matrix_with_values_that_overflow():
    class Huge(GMean):
        def value(self, confusion):
            return 1e200 * GMean.value(self, confusion)

    eta, y, _ = rows(n_rows=60)
    with pytest.raises(MetricError, match=r"'g_mean' gave .*e\+1\d\d"):
        shifter(Huge(), "plug-in search").fit(eta, y)
