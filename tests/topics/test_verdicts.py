"""What a fit says of itself: scores, intervals and "worth it" that hold on rows nobody has seen."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import SmallValidationWarning
from postshift.metrics import from_predictions
from postshift.report import Facts
from postshift.report.sentences import judgement

N_PROBLEMS, N_TRUTH = 40, 20_000


def noise(rng, n):
    """Probabilities that are right: accuracy cannot be raised, whatever the labels of a sample say."""
    p = 1 / (1 + np.exp(-1.5 * rng.normal(size=n)))
    return np.column_stack([1 - p, p]), (rng.random(n) < p).astype(int)


@pytest.fixture(scope="module")
def fitted():
    """Fits to pure noise, each with the true gain of what was adopted."""
    eta, _ = noise(np.random.default_rng(1), N_TRUTH)
    found = []
    for seed in range(N_PROBLEMS):
        rows = noise(np.random.default_rng([2, seed]), 100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallValidationWarning)
            shifter = PostShifter("accuracy", classes=[0, 1]).fit(*rows)
        gained = [eta[np.arange(N_TRUTH), each].mean() for each in (shifter.predict(eta), eta.argmax(axis=1))]
        found.append((shifter, gained[0] - gained[1], gained[0]))
    return found


@pytest.mark.slow
def test_nothing_is_worth_it_on_pure_noise(fitted):
    """Before, one fit in seven was called worth it."""
    called = [s for s, *_ in fitted if not s.fallback_ and s.diagnostics_.choice.intervals.gain[0] > 0]
    assert len(called) <= 1


@pytest.mark.slow
def test_intervals_hold_the_truth(fitted):
    """Before, the interval of the gain held it in six fits of ten."""
    adopted = [(s.diagnostics_.choice.intervals, gain, score) for s, gain, score in fitted if not s.fallback_]
    held = [limits.gain[0] <= gain <= limits.gain[1] for limits, gain, _ in adopted]
    scores = [limits.score[0] <= score <= limits.score[1] for limits, _, score in adopted]
    assert len(adopted) >= 5
    assert np.mean(held) >= 0.85
    assert np.mean(scores) >= 0.85


@pytest.mark.slow
def test_what_is_rejected_leaves_no_interval(fitted):
    rejected = [s for s, *_ in fitted if s.fallback_]
    assert len(rejected) >= 5
    for shifter in rejected:
        record = shifter.diagnostics_.choice
        assert shifter.score_ == shifter.base_score_
        assert record.intervals.gain is None
        assert record.intervals.score == record.intervals.base
        assert "base is kept" in record.reason


def test_the_score_is_that_of_the_labels():
    """A model that always says the commonest class has a G-mean of 0; .31 was said."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.choice(3, size=60, p=[0.6, 0.3, 0.1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallValidationWarning)
        model = PostShiftClassifier(DummyClassifier(), metric="g_mean").fit(X, y)
    assert model.score_ == pytest.approx(model.score(X, y))
    assert model.base_score_ == 0


def test_scores_alone_have_no_interval_and_no_verdict():
    eta, y = noise(np.random.default_rng(3), 400)
    skewed = eta * [5, 1] / (eta * [5, 1]).sum(axis=1, keepdims=True)
    oracle = from_predictions(lambda labels: float(np.mean(labels == y)), name="theirs")
    shifter = PostShifter(oracle, classes=[0, 1], budget=80).fit(skewed)
    record = shifter.diagnostics_.choice
    assert not shifter.fallback_
    assert record.intervals is None
    assert f"best of {len(record.entries)} scores on the same rows" in record.reason
    judged = judgement(Facts.of(shifter, skewed))
    assert judged.kind == "best of several"
    said = " ".join([judged.headline, *judged.details])
    assert "worth it" not in said
    assert "No interval can be computed" in said


def test_classes_with_few_rows_are_named_with_the_score_without_them():
    rng = np.random.default_rng(4)
    eta = rng.dirichlet([4, 3, 0.2], size=400)
    y = np.array([rng.choice(3, p=row) for row in eta])
    rare = np.flatnonzero(y == 2)
    kept = np.setdiff1d(np.arange(400), rare[3:])
    names = np.array(["ham", "eggs", "spam"])
    order = [1, 0, 2]  # columns in the order of the sorted names
    with pytest.warns(SmallValidationWarning, match=r"of class 'spam' \(3\).*Without them, the score is") as caught:
        shifter = PostShifter("g_mean", classes=sorted(names)).fit(eta[kept][:, order], names[y[kept]])
    facts = Facts.of(shifter, eta[kept][:, order], names[y[kept]])
    assert any("'spam' (3)" in text for text in facts.warnings)
    assert len(caught) == 1
