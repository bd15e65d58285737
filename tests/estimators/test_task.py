"""The task of a fit: which metric is fitted, and which arguments reach it."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, get_scorer, roc_auc_score, zero_one_loss

from postshift import PostShiftClassifier, PostShifter, Rows
from postshift.estimators.task import compare_labels
from postshift.exceptions import BudgetEndedError, MetricError, PostshiftWarning, SettingError
from postshift.metrics import ConfusionOracle, GMean, SoftOracle, WorstGroup, from_confusion, from_labels, from_oracle
from tests.estimators.data import NAMES, overlapping


def profit(y_true, y_pred, sample_weight=None):  # noqa: ARG001
    return float(10 * ((y_pred == 1) & (y_true == 1)).sum() - (y_pred == 1).sum())


def test_a_function_that_ignores_its_weights_is_called_on_rows():
    X, y = overlapping(1000, weights=(0.95,), seed=1)
    model = PostShiftClassifier(LogisticRegression(C=1e-3), metric=profit).fit(X, y)
    assert model.score(X, y) == profit(y, model.predict(X))
    assert profit(y, model.predict(X)) > 0


def test_a_function_without_weights_is_fitted_as_one_that_ignores_them():
    """An unused ``sample_weight`` decided which rules a function got, and whether it was queried."""

    def plain(y_true, y_pred):
        return profit(y_true, y_pred)

    X, y = overlapping(1000, weights=(0.9,), seed=1)
    fits = [PostShiftClassifier(LogisticRegression(), metric=each).fit(X, y) for each in (profit, plain)]
    assert [fit.n_queries_ for fit in fits] == [0, 0]
    np.testing.assert_array_equal(*(fit.predict(X) for fit in fits))
    assert fits[0].score_ == fits[1].score_ > fits[0].base_score_


def test_a_function_that_reads_the_order_of_rows_is_called_on_rows():
    def streak(y_true, y_pred):
        return float(np.mean((y_true[1:] == y_pred[1:]) & (y_true[:-1] == y_pred[:-1])))

    X, y = overlapping(600)
    model = PostShiftClassifier(LogisticRegression(), metric=streak).fit(X[:300], y[:300], X[300:], y[300:])
    assert model.n_queries_ > 0


def test_a_function_that_needs_every_class_is_called_on_rows():
    """A fold may have no row of the rarest class."""

    def ratio(y_true, y_pred):
        return float(
            np.mean(y_pred[y_true == 1] == 1) / np.count_nonzero(y_true == 1) if (y_true == 1).any() else np.nan
        )

    X, y = overlapping(600, weights=(0.9,))
    model = PostShiftClassifier(LogisticRegression(), metric=ratio).fit(X[:300], y[:300], X[300:], y[300:])
    assert model.n_queries_ > 0


def test_a_loss_in_a_partial_is_found_out():
    X, y = overlapping()
    with pytest.raises(MetricError, match="'zero_one_loss' has the name of a loss"):
        PostShiftClassifier(LogisticRegression(), metric=partial(zero_one_loss, normalize=True)).fit(X, y)
    with pytest.raises(MetricError, match="'roc_auc_score' reads scores"):
        PostShiftClassifier(LogisticRegression(), metric=roc_auc_score).fit(X, y)


def test_arguments_that_nobody_reads_are_refused():
    X, y = overlapping()
    eta = LogisticRegression().fit(X, y).predict_proba(X)
    with pytest.raises(SettingError, match=r"does not read 'sample_weight'.*did you mean 'sample_weight_val'"):
        PostShifter("accuracy").fit(eta, y, sample_weight=np.ones(400))
    fitted = PostShifter("accuracy", method="base").fit(eta, y)
    with pytest.raises(SettingError, match="does not read 'gruops'"):
        fitted.score(eta, y, gruops=y)


def test_groups_mean_the_same_in_every_part():
    X, y = overlapping()

    def only_b(confusion):
        block = confusion.reshape(3, 2, 2)[1]
        return float(np.trace(block) / max(block.sum(), 1e-12))

    metric = from_confusion(only_b, name="only b", n_categories=6)
    groups = np.where(np.arange(400) < 200, "b", "c").astype(object)
    groups[7] = "a"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PostShiftClassifier(LogisticRegression(), metric=metric, method="base", cv=0.3)
        model.fit(X, y, groups=groups)
        of_b = np.mean(model.predict(X[groups == "b"]) == y[groups == "b"])
        assert model.score(X, y, groups=groups) == pytest.approx(of_b)
    worst = PostShiftClassifier(LogisticRegression(), metric=WorstGroup(n_groups=2, n_classes=2), method="base")
    halves = np.arange(400) % 2
    worst.fit(X, y, groups=halves)
    some = halves == 1
    with pytest.warns(match="pair"):
        alone = worst.score(X[some], y[some], groups=halves[some])
    assert alone == pytest.approx(np.mean(worst.predict(X[some]) == y[some]))


def test_a_class_that_is_missing_is_left_out_of_the_mean():
    X, y = overlapping(600, 3, None)
    model = PostShiftClassifier(LogisticRegression(), method="smoothed plug-in").fit(X, y)
    kept = y != 2
    with pytest.warns(match="no validation row of class 2"):
        found = model.score(X[kept], y[kept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found == pytest.approx(get_scorer("balanced_accuracy")(model, X[kept], y[kept]))


def test_a_function_that_needs_every_class_is_not_asked_about_parts():
    X, y = overlapping(600, 3, None)
    rare = np.r_[np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:1]]

    def mean_recall(y_true, y_pred):
        return float(np.mean([(y_pred[y_true == c] == c).mean() for c in (0, 1, 2)]))

    model = PostShiftClassifier(LogisticRegression(), metric=mean_recall, method="best")
    assert model.fit(X, y, X[rare], y[rare]).n_queries_ > 0


def test_a_list_as_metric_is_told_of_cost_matrices(yes_or_no):
    eta, y = yes_or_no
    with pytest.raises(MetricError, match="ExpectedCost"):
        PostShifter([[0, 1], [5, 0]], classes=NAMES).fit(eta, y)


CLASSES = np.array(["no", "yes"])
TRUTH = np.arange(300) % 2
BASE = np.where(np.arange(300) < 60, 1 - TRUTH, TRUTH)
VAL = Rows.of(np.full((300, 2), 0.5), labels=TRUTH)


def right(y_true, y_pred):
    return float(np.mean(y_true == y_pred))


def right_by_weight(y_true, y_pred, sample_weight=None):
    return float(np.average(y_true == y_pred, weights=sample_weight) + 0 * (y_pred[0] == "no"))


def cost(y_true, y_pred):
    return float(np.mean(y_true != y_pred))


def compared(metric, labels, **more):
    return compare_labels(metric, labels=labels, base=BASE, val=VAL, classes=CLASSES, groups=None, metadata={}, **more)


@pytest.mark.parametrize(
    "metric", ["accuracy", from_labels(right), from_labels(right_by_weight)], ids=["name", "rows", "weights"]
)
def test_the_gain_and_its_interval(metric):
    found = compared(metric, TRUTH)
    assert (found.score, found.base_score) == pytest.approx((1.0, 0.8))
    low, high = found.intervals.gain
    assert 0.14 < low < 0.2 < high < 0.26
    assert found.kind == "worth it"


def test_less_of_a_cost_is_better():
    found = compared(from_labels(cost, greater_is_better=False), TRUTH)
    assert found.gain == pytest.approx(0.2)
    assert found.score == 0


@pytest.mark.parametrize("metric", ["accuracy", from_labels(right)], ids=["name", "rows"])
def test_the_base_itself_gains_nothing(metric):
    found = compared(metric, TRUTH, fallback=True)
    assert found.gain == 0
    assert found.intervals.gain == (0, 0)


class TestMetricsOfOracles:
    """A metric that an oracle answers with confusion matrices, in an estimator."""

    @pytest.fixture
    def given(self):
        rng = np.random.default_rng(0)
        p = rng.beta(1, 6, size=1500)
        labels = (rng.random(1500) < p).astype(int)
        eta, phi = np.column_stack([1 - p, p]), np.eye(3)[rng.integers(0, 3, 1500)]
        return labels[:500], (eta[:500], None, eta[500:], labels[500:], phi[:500], phi[500:])

    @pytest.mark.parametrize("method", ["auto", "paper", "influence", "smoothed plug-in"])
    def test_it_is_fitted_by_confusion_queries(self, given, method):
        labels, arrays = given
        metric = from_oracle(ConfusionOracle(labels, n_classes=2), metric=GMean())
        shifter = PostShifter(metric, method=method).fit(*arrays)
        assert shifter.n_queries_ > 0
        direct = GMean().value(confusion_matrix(labels, shifter.predict(arrays[0], arrays[4]), normalize="all"))
        assert shifter.score_ == pytest.approx(float(direct))
        assert shifter.score_ > shifter.base_score_ + 0.2

    def test_no_query_is_asked_twice(self, given):
        labels, arrays = given
        seen = []

        class Counting(ConfusionOracle):
            def answer(self, query):
                seen.append((query.predictions.tobytes(), query.columns.tobytes()))
                return super().answer(query)

        PostShifter(from_oracle(Counting(labels, n_classes=2), metric=GMean())).fit(*arrays)
        assert len(seen) == len(set(seen))

    def test_constraints_are_refused(self, given):
        labels, arrays = given
        metric = from_oracle(ConfusionOracle(labels, n_classes=2), metric=GMean())
        with pytest.raises(SettingError, match="takes no constraints"):
            PostShifter(metric, subject_to="rate[1] <= 0.5").fit(*arrays)

    def test_matrices_need_their_metric(self, given):
        with pytest.raises(MetricError, match="needs metric"):
            from_oracle(ConfusionOracle(given[0], n_classes=2))
        with pytest.raises(MetricError, match="takes no metric"):
            from_oracle(SoftOracle(np.mean), metric=GMean())

    def test_the_best_rule_so_far_is_the_result_if_the_budget_of_the_oracle_ends(self, given):
        labels, arrays = given

        class Poor(ConfusionOracle):
            left = 6

            def answer(self, query):
                if not self.left:
                    raise BudgetEndedError("nothing is left")
                self.left -= 1
                return super().answer(query)

        poor = Poor(labels, n_classes=2)
        with pytest.warns(PostshiftWarning, match="ended after 6 queries"):
            shifter = PostShifter(from_oracle(poor, metric=GMean())).fit(*arrays)
        predicted = shifter.predict(arrays[0], arrays[4])
        wanted = GMean().value(confusion_matrix(labels, predicted, normalize="all"))
        assert shifter.score_ == pytest.approx(float(wanted))
        assert shifter.score_ > shifter.base_score_
        assert "so far" in shifter.diagnostics_.choice.reason

    def test_nothing_is_the_result_if_no_rule_was_scored(self, given):
        labels, arrays = given

        class Poor(ConfusionOracle):
            def answer(self, _):
                raise BudgetEndedError("nothing is left")

        with pytest.raises(BudgetEndedError, match="nothing is left"):
            PostShifter(from_oracle(Poor(labels, n_classes=2), metric=GMean())).fit(*arrays)
