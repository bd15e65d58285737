"""Facts gathered from every kind of fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import BasisError, InputError, LabelError, ShapeError
from postshift.metrics import from_labels
from postshift.report import Facts
from postshift.report.counts import matrices
from postshift.report.gather import metric_facts
from tests.report import cases


def test_scores_and_intervals_are_those_of_the_estimator():
    rows = cases.random_rows(3)
    shifter = cases.fitted(rows, method="smoothed plug-in")
    facts = Facts.of(shifter, rows.eta_val, rows.y_val)
    verdict, intervals = facts.verdict, shifter.diagnostics_.choice.intervals
    assert (verdict.before, verdict.after) == (shifter.base_score_, shifter.score_)
    assert verdict.gain == shifter.score_ - shifter.base_score_
    assert (verdict.before_interval, verdict.after_interval) == (intervals.base, intervals.score)
    assert verdict.gain_interval == intervals.gain
    assert not verdict.in_fit
    entries = shifter.diagnostics_.choice.entries
    assert [(r.name, r.score, r.weight) for r in facts.rules] == [(e.name, e.score, e.weight) for e in entries]
    assert facts.settings == (("method", "smoothed plug-in"), ("seed", "0"))


def test_confusions_are_of_the_rows_held_out():
    made = cases.weighted()
    before, after = matrices(made.facts.confusion.cells, n_classes=3)
    assert before.sum() == pytest.approx(made.weights.sum())
    held = made.facts
    assert held.confusion.weighted
    np.testing.assert_allclose(after.sum(axis=1), np.bincount(made.rows.y_val, weights=made.weights))


def test_weights_are_1_if_the_base_is_kept():
    for facts in (cases.untouched(), cases.fallback()):
        np.testing.assert_allclose(facts.weights.by_class, 1, rtol=1e-6)
        assert facts.changes.n_changed == 0
        assert facts.changes.pairs == facts.changes.rows == ()


def test_digits_with_wrong_training_labels_are_up_weighted():
    weights = cases.digits_auto().weights.by_class
    assert min(weights[k] for k in (2, 4, 9)) > 2
    assert max(weights[k] for k in (0, 1, 7)) < 0.6


def test_weights_in_every_basis_function():
    made, facts = cases.two_classes(), cases.two_classes_facts()
    names = made.model.bases_["tree"].get_feature_names_out().tolist()
    assert [function.name for function in facts.weights.functions] == names
    assert {function.basis for function in facts.weights.functions} == {"tree"}
    assert sum(f.n_rows for f in facts.weights.functions) == pytest.approx(facts.verdict.n_val)


def test_functions_given_as_arrays_and_frames():
    import pandas as pd

    rows = cases.random_rows(3)
    side = (rows.eta_val[:, 0] > 0.4).astype(float)
    phi, train = np.column_stack([side, 1 - side]), np.full((len(rows.y), 2), 0.5)
    shifter = PostShifter("f1_macro", method="influence")
    shifter.fit(rows.eta_val, rows.y_val, rows.eta, rows.y, phi, train)
    facts = Facts.of(shifter, rows.eta_val, rows.y_val, phi=phi)
    assert [f.name for f in facts.weights.functions] == ["function 1", "function 2"]
    assert facts.weights.functions[0].n_rows == side.sum()
    frame = pd.DataFrame(phi, columns=["high", "low"])
    named = Facts.of(shifter, rows.eta_val, rows.y_val, phi=frame)
    assert [f.name for f in named.weights.functions] == ["high", "low"]
    assert [f.by_class for f in named.weights.functions] == [f.by_class for f in facts.weights.functions]
    assert "phi" in facts.how_to_use[0][1]
    with pytest.raises(BasisError, match="give phi"):
        Facts.of(shifter, rows.eta_val, rows.y_val)
    named = PostShifter("f1_macro", method="influence [side]")
    named.fit(rows.eta_val, rows.y_val, rows.eta, rows.y, {"side": phi}, {"side": train})
    facts = Facts.of(named, rows.eta_val, rows.y_val, phi={"side": phi})
    assert [f.name for f in facts.weights.functions] == ["side function 1", "side function 2"]


def test_without_labels_there_is_no_confusion_matrix():
    facts = cases.queried_facts()
    assert facts.confusion is None
    assert facts.beliefs == ()
    assert facts.shares.validation is None
    assert facts.changes.n_right is None
    assert facts.verdict.in_fit
    assert facts.verdict.after_interval is None
    assert 0 < facts.n_queries <= 200
    assert dict(facts.settings)["budget"] == "200 queries"


def test_a_model_that_was_fitted_again_is_marked():
    assert cases.crossfitted().refitted
    assert not cases.digits_auto().refitted


def test_costs_are_recognised():
    assert cases.cost().facts.metric.is_cost
    assert cases.cost().facts.verdict.after < 0
    assert cases.cost().facts.metric.name == "expected_cost"
    loss = from_labels(lambda t, p: float(np.mean(t != p)), name="misses", greater_is_better=False)
    weighted = from_labels(
        lambda t, p, sample_weight=None: np.average(t != p, weights=sample_weight), name="m", greater_is_better=False
    )
    for metric, is_cost in ((loss, True), (weighted, True), ("accuracy", False)):
        shifter = PostShifter(metric)
        shifter.classes_, shifter.groups_ = np.arange(3), None
        assert metric_facts(shifter, None).is_cost is is_cost


@pytest.mark.parametrize(
    ("metric", "even"),
    [("g_mean", True), ("min_recall", True), ("f1_macro", True), ("f1_micro", False), ("accuracy", False)],
)
def test_metrics_that_count_classes_evenly(metric, even):
    shifter = PostShifter(metric)
    shifter.classes_, shifter.groups_ = np.arange(3), None
    assert metric_facts(shifter, None).counts_classes_evenly is even
    assert metric_facts(shifter, "mine").name == "mine"


def test_shares_of_the_training_rows():
    facts, rows = cases.digits_auto(), cases.digits()
    np.testing.assert_allclose(facts.shares.training, np.bincount(rows.y) / len(rows.y))
    np.testing.assert_allclose(facts.shares.by_model_in_training, rows.eta.mean(axis=0))


def test_more_rows_than_are_held_out():
    """Above 20,000 validation rows a quarter of them is held out."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, size=21_000)
    eta, y = np.column_stack([1 - p, p]), (rng.random(21_000) < p).astype(int)
    shifter = PostShifter("g_mean", method="inverse prior").fit(eta, y)
    facts = Facts.of(shifter, eta, y)
    assert (facts.verdict.n_rows, facts.verdict.n_val) == (5000, 21_000)
    before, _ = matrices(facts.confusion.cells, n_classes=2)
    np.testing.assert_array_equal(before.sum(axis=1), np.bincount(y[shifter.held_out_.rows]))
    for row in facts.changes.rows:
        assert row.true == y[row.row]
        assert row.p_before == eta[row.row, row.before]


def test_rows_of_another_number_are_refused():
    rows = cases.random_rows(3)
    shifter = cases.fitted(rows, method="smoothed plug-in")
    with pytest.raises(ShapeError, match=r"of the 600 validation rows of the fit, in the same order.*\. Got 5"):
        Facts.of(shifter, rows.eta_val[:5])
    with pytest.raises(ShapeError, match=r"one label for each of the 600 rows\. Got 5"):
        Facts.of(shifter, rows.eta_val, rows.y_val[:5])
    with pytest.raises(LabelError, match="y has"):
        Facts.of(shifter, rows.eta_val, rows.y_val + 7)
    with pytest.raises(LabelError, match="y_train has"):
        Facts.of(shifter, rows.eta_val, rows.y_val, y_train=rows.y + 7)


def test_other_estimators_are_refused():
    rows = cases.random_rows(3)
    with pytest.raises(NotFittedError):
        Facts.of(PostShifter(), rows.eta_val)
    with pytest.raises(InputError, match=r"PostShifter or PostShiftClassifier\. Got LogisticRegression"):
        Facts.of(LogisticRegression(), rows.eta_val)
    older = cases.fitted(rows, method="base")
    del older.held_out_
    with pytest.raises(InputError, match="fit it again"):
        Facts.of(older, rows.eta_val)


def test_the_model_of_a_classifier_is_named():
    from sklearn.frozen import FrozenEstimator

    made = cases.two_classes()
    assert dict(cases.two_classes_facts().used)["model"] == "LogisticRegression"
    data, base = made.data, LogisticRegression().fit(made.data.X, made.data.y)
    frozen = PostShiftClassifier(FrozenEstimator(base), metric="g_mean", method="smoothed plug-in")
    frozen.fit(data.X, data.y, data.X_val, data.y_val)
    assert dict(Facts.of(frozen, data.X_val).used)["model"] == "LogisticRegression"
