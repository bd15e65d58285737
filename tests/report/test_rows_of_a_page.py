"""Pages about test rows, and how test rows are distinguished from the rows of the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import InputError, MetricError, SettingError, ShapeError
from postshift.metrics import from_labels
from postshift.report import Facts, render
from postshift.report.counts import matrices
from tests.estimators.data import noisy
from tests.report import cases


def test_scores_are_of_the_labels_that_predict_gives():
    made = cases.on_test_rows()
    scores, labels = made.facts.test, made.shifter.predict(made.eta)
    assert scores.n_rows == len(made.y) == made.facts.verdict.n_val  # as many as there are validation rows
    assert scores.after == pytest.approx(f1_score(made.y, labels, average="macro"))
    assert scores.before == pytest.approx(f1_score(made.y, made.eta.argmax(axis=1), average="macro"))
    assert scores.gain == scores.after - scores.before
    for value, limits in ((scores.before, scores.before_interval), (scores.after, scores.after_interval)):
        assert limits[0] < value < limits[1]
    _, after = matrices(made.facts.confusion.cells, n_classes=10)
    assert np.trace(after) == (labels == made.y).sum()
    assert made.facts.verdict.after == made.shifter.score_


def test_the_page_says_what_the_rows_are():
    made = cases.on_test_rows()
    page = render(made.facts)
    assert "These rows were not used for the fit" in page
    assert "on 400 test rows" in page
    assert "test labels" in page
    assert "validation labels" not in page
    assert "held out from the fit" not in page
    assert "validation rows (by the fit)" in page
    assert "These rows were not used" not in render(cases.digits_auto())


@pytest.mark.parametrize(
    ("limits", "kind"), [((0.01, 0.1), "worth it"), ((-0.1, 0.1), "may be noise"), ((-0.2, -0.1), "not worth it")]
)
def test_the_interval_of_the_gain_decides(limits, kind):
    facts = cases.on_test_rows().facts
    page = render(replace(facts, test=replace(facts.test, gain_interval=limits)))
    assert f'class="card {kind.replace(" ", "-")}"' in page


def test_the_base_is_kept():
    rows = cases.random_rows(3, seed=2)
    shifter = cases.fitted(rows, "accuracy", method="best", with_train=False)
    other = cases.random_rows(3, seed=9)
    facts = Facts.of(shifter, other.eta_val, other.y_val)
    assert facts.test.gain == 0
    assert "the model is kept as it is, and no label changes" in render(facts)


def test_rows_are_recognised_by_their_content_not_by_their_number():
    rows, other = cases.random_rows(3), cases.random_rows(3, seed=7)
    shifter = cases.fitted(rows, method="smoothed plug-in")
    assert Facts.of(shifter, rows.eta_val, rows.y_val).test is None
    assert Facts.of(shifter, rows.eta_val.astype(np.float32).astype(float), rows.y_val).test is None
    assert Facts.of(shifter, rows.eta_val).test is None
    assert Facts.of(shifter, other.eta_val, other.y_val).test.n_rows == len(rows.y_val)
    assert Facts.of(shifter, other.eta_val, rows.y_val).test is not None  # the same labels by chance


def test_rows_of_the_fit_are_no_test_rows():
    rows = cases.random_rows(3)
    shifter = cases.fitted(rows, method="smoothed plug-in")
    order = np.random.default_rng(0).permutation(len(rows.y_val))
    with pytest.raises(ShapeError, match=r"the 600 validation rows of the fit in the same order"):
        Facts.of(shifter, rows.eta_val[order], rows.y_val[order])
    with pytest.raises(ShapeError, match="same order"):
        Facts.of(shifter, rows.eta_val[order])
    with pytest.raises(InputError, match="the 600 training rows of the fit"):
        Facts.of(shifter, rows.eta, rows.y)


@pytest.mark.parametrize("cv", [None, 0.25])
def test_rows_of_a_classifier(cv):
    """Cross-fitted and held out: the model is fitted again, and knows its rows all the same."""
    data = noisy(3, n_rows=5000)
    model = PostShiftClassifier(LogisticRegression(), metric="f1_macro", method="smoothed plug-in", cv=cv)
    model.fit(data.X, data.y)
    if cv is None:
        assert Facts.of(model, data.X, data.y).test is None
    else:
        with pytest.raises(InputError, match="training rows of the fit"):
            Facts.of(model, data.X, data.y)
    facts = Facts.of(model, data.X_test, data.y_test)
    assert facts.test.after == pytest.approx(f1_score(data.y_test, model.predict(data.X_test), average="macro"))
    model.fit(data.X, data.y, data.X_val, data.y_val)
    assert Facts.of(model, data.X_val, data.y_val).test is None
    assert Facts.of(model, data.X_test, data.y_test).test is not None
    with pytest.raises(InputError, match="training rows of the fit"):
        Facts.of(model, data.X, data.y)


def test_the_rows_are_recognised_by_a_loaded_estimator(tmp_path):
    from postshift.persistence import dump, load

    made = cases.on_test_rows()
    dump(made.shifter, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    assert Facts.of(again, made.eta, made.y).test == made.facts.test


def test_metrics_over_groups():
    shifter, rows = cases.fitted_over_groups(), cases.random_rows(2, seed=8)
    groups = cases.groups_of(rows)
    facts = Facts.of(shifter, rows.eta_val, rows.y_val, groups=groups)
    labels = shifter.predict(rows.eta_val)
    worst = min(
        np.mean([np.mean(labels[(groups == g) & (rows.y_val == k)] == k) for k in (0, 1)]) for g in ("north", "south")
    )
    assert facts.test.after == pytest.approx(worst)
    assert [group.n_rows for group in facts.groups] == [int((groups == g).sum()) for g in ("north", "south")]
    with pytest.raises(SettingError, match="groups"):
        Facts.of(shifter, rows.eta_val, rows.y_val)
    with pytest.raises(ShapeError, match="groups must have one value for each of the 600 rows"):
        Facts.of(shifter, rows.eta_val, rows.y_val, groups=groups[:5])


def test_a_metric_that_reads_a_column():
    def profit(y_true, y_pred, amount):
        return float(np.mean((y_true == y_pred) * amount))

    rows, other = cases.random_rows(3), cases.random_rows(3, seed=7)
    amount = np.linspace(1, 2, len(rows.y_val))
    shifter = PostShifter(from_labels(profit), method="plug-in search")
    shifter.fit(rows.eta_val, rows.y_val, rows.eta, rows.y, amount=amount)
    facts = Facts.of(shifter, other.eta_val, other.y_val, amount=amount[::-1])
    assert facts.test.after == pytest.approx(profit(other.y_val, shifter.predict(other.eta_val), amount[::-1]))
    with pytest.raises(SettingError, match="needs 'amount'"):
        Facts.of(shifter, other.eta_val, other.y_val)
    with pytest.raises(SettingError, match="'amount' is for test rows"):
        Facts.of(shifter, rows.eta_val, rows.y_val, amount=amount)


def test_a_metric_that_knows_the_validation_rows_only():
    made, other = cases.queried(), cases.random_rows(3, seed=7)
    with pytest.raises(MetricError, match=r"has its own labels, for the validation rows only: score other rows with"):
        Facts.of(made.shifter, other.eta_val, other.y_val)
    facts = Facts.of(made.shifter, other.eta_val, other.y_val, metric="balanced_accuracy")
    assert facts.metric.name == "balanced_accuracy"
    assert facts.fit_metric.name == "their metric"
    page = render(facts)
    assert "balanced_accuracy before and after" in page
    assert "their metric of the result and of every rule of the menu" in page
    assert "samples-table" not in page  # scores by two metrics are not compared
    with pytest.raises(SettingError, match="'metric' is for test rows"):
        Facts.of(made.shifter, made.rows.eta_val, made.rows.y_val, metric="balanced_accuracy")


def test_sample_weights_count():
    made = cases.on_test_rows()
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(made.y))
    facts = Facts.of(made.shifter, made.eta, made.y, sample_weight=weights)
    labels = made.shifter.predict(made.eta)
    assert facts.test.after == pytest.approx(f1_score(made.y, labels, average="macro", sample_weight=weights))
    assert facts.confusion.weighted
