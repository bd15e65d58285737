"""Fitted estimators of every kind that a report is made of, each fitted once."""

from __future__ import annotations

import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import SmallValidationWarning
from postshift.metrics import ExpectedCost, from_predictions
from postshift.report import Facts
from tests.estimators.data import noisy

FLIPS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}  # what six out of ten of these digits are called in training
HOSTILE = ('</script><script>alert("x")</script>', "=1+1", "'\" onload=alert(1) \\ $x^$ & é \u202e")


@cache
def digits(n_val=400):
    """Digits with wrong training labels, as probabilities."""
    X, y = load_digits(return_X_y=True)
    X_train, X_val, y_train, y_val = train_test_split(X / 16, y, test_size=n_val, stratify=y, random_state=0)
    wrong = np.random.default_rng(0).random(len(y_train)) < 0.6
    shown = np.array([FLIPS.get(label, label) if flip else label for label, flip in zip(y_train, wrong, strict=True)])
    model = LogisticRegression(max_iter=2000).fit(X_train, shown)
    return SimpleNamespace(eta_val=model.predict_proba(X_val), y_val=y_val, eta=model.predict_proba(X_train), y=shown)


@cache
def random_rows(n_classes, seed=0, n_rows=600):
    """Probabilities, labels drawn from them with rarer classes, and a training sample of the same kind."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        eta = rng.dirichlet(np.linspace(2, 0.2, n_classes) if n_classes < 20 else np.full(n_classes, 0.05), size=n_rows)
        parts += [eta, np.array([rng.choice(n_classes, p=row) for row in eta])]
    return SimpleNamespace(eta_val=parts[0], y_val=parts[1], eta=parts[2], y=parts[3])


def fitted(rows, metric="f1_macro", *, with_train=True, names=None, **more):
    """A fitted PostShifter."""
    shifter = PostShifter(metric, classes=names, **more)
    y_val, y = (rows.y_val, rows.y) if names is None else (np.array(names)[rows.y_val], np.array(names)[rows.y])
    return shifter.fit(rows.eta_val, y_val, *((rows.eta, y) if with_train else ()))


@cache
def digits_auto():
    rows = digits()
    return Facts.of(fitted(rows), rows.eta_val, rows.y_val, y_train=rows.y, eta_train=rows.eta)


@cache
def two_classes():
    """A classifier over two bases, whose rule reads them, with names of classes that are no words."""
    data = noisy(2, n_rows=4000)
    names = np.array(HOSTILE[:2])
    model = PostShiftClassifier(LogisticRegression(), metric="g_mean", basis="tree:3", method="influence [tree]")
    model.fit(data.X, names[data.y], data.X_val, names[data.y_val])
    return SimpleNamespace(model=model, data=data, names=names)


@cache
def two_classes_facts():
    made = two_classes()
    return Facts.of(made.model, made.data.X_val, made.names[made.data.y_val], y_train=made.names[made.data.y])


@cache
def hostile():
    rows = random_rows(3)
    shifter = fitted(rows, names=HOSTILE, method="smoothed plug-in")
    used, how = [(HOSTILE[0], HOSTILE[1])], [(HOSTILE[0], HOSTILE[2])]
    names = np.array(HOSTILE)
    return Facts.of(
        shifter,
        rows.eta_val,
        names[rows.y_val],
        y_train=names[rows.y],
        metric_name=HOSTILE[0],
        title=HOSTILE[0],
        used=used,
        how_to_use=how,
    )


@cache
def many_classes():
    rows = random_rows(120)
    with pytest.warns(SmallValidationWarning, match=r"and \d+ more"):
        shifter = fitted(rows, "g_mean", method="inverse prior")
    return Facts.of(shifter, rows.eta_val, rows.y_val)


@cache
def queried():
    """A metric by queries, whose labels nobody else knows."""
    rows = random_rows(3)

    def mean_recall(labels):
        return float(np.mean([np.mean(labels[rows.y_val == k] == k) for k in range(3)]))

    shifter = PostShifter(from_predictions(mean_recall, name="their metric"), budget=200).fit(rows.eta_val)
    assert not shifter.fallback_
    return SimpleNamespace(shifter=shifter, rows=rows)


@cache
def queried_facts():
    made = queried()
    return Facts.of(made.shifter, made.rows.eta_val)


@cache
def untouched():
    """A calibrated model and the accuracy: there is nothing to gain."""
    rows = random_rows(3, seed=1)
    return Facts.of(fitted(rows, "accuracy", method="base", with_train=False), rows.eta_val, rows.y_val)


@cache
def fallback():
    rows = random_rows(3, seed=2)
    shifter = fitted(rows, "accuracy", method="best", with_train=False)
    assert shifter.fallback_
    return Facts.of(shifter, rows.eta_val, rows.y_val)


@cache
def weighted():
    rows = random_rows(3)
    weights = np.random.default_rng(3).uniform(0.5, 3, size=len(rows.y_val))
    shifter = PostShifter("g_mean", method="smoothed plug-in")
    shifter.fit(rows.eta_val, rows.y_val, rows.eta, rows.y, sample_weight_val=weights)
    return SimpleNamespace(
        facts=Facts.of(shifter, rows.eta_val, rows.y_val, sample_weight=weights), weights=weights, rows=rows
    )


@cache
def cost():
    rows = random_rows(3)
    costs = np.array([[0, 1, 1], [2, 0, 1], [9, 9, 0]])
    shifter = fitted(rows, ExpectedCost(costs), method="smoothed plug-in")
    return SimpleNamespace(shifter=shifter, facts=Facts.of(shifter, rows.eta_val, rows.y_val))


@cache
def crossfitted():
    """No validation rows: the model is fitted again after its labels were taken out of fold."""
    from sklearn.tree import DecisionTreeClassifier

    data = noisy(3)
    tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    model = PostShiftClassifier(tree, metric="f1_macro", method="smoothed plug-in").fit(data.X, data.y)
    return Facts.of(model, data.X, data.y)


def groups_of(rows):
    """Two groups that have nothing to do with the classes."""
    return np.random.default_rng(4).choice(["north", "south"], size=len(rows.y_val))


@cache
def fitted_over_groups():
    rows = random_rows(2)
    shifter = PostShifter("worst_group_balanced_accuracy", method="paper")
    return shifter.fit(rows.eta_val, rows.y_val, rows.eta, rows.y, groups=groups_of(rows))


@cache
def over_groups():
    rows = random_rows(2)
    return Facts.of(fitted_over_groups(), rows.eta_val, rows.y_val, groups=groups_of(rows))


@cache
def on_test_rows():
    """Test rows of the digits, as many as there are validation rows, and the model that labels them."""
    rows = digits(n_val=800)
    half = len(rows.y_val) // 2
    kept, left = slice(None, half), slice(half, None)
    shifter = PostShifter("f1_macro", method="smoothed plug-in")
    shifter.fit(rows.eta_val[kept], rows.y_val[kept], rows.eta, rows.y)
    eta, y = rows.eta_val[left], rows.y_val[left]
    return SimpleNamespace(shifter=shifter, eta=eta, y=y, facts=Facts.of(shifter, eta, y, y_train=rows.y))


@cache
def cost_on_test_rows():
    made, rows = cost(), random_rows(3, seed=5)
    return SimpleNamespace(shifter=made.shifter, rows=rows, facts=Facts.of(made.shifter, rows.eta_val, rows.y_val))


@cache
def long_names():
    """Twelve classes with long names, of which pairs differ at their ends only."""
    rows = random_rows(12, n_rows=900)
    names = [f"{word} {part}" for word in ("hypothyroid, compensated", "goitre", "replacement therapy", "surgery",
             "hyperthyroid (T3 toxic)", "I131 treatment") for part in ("under", "over")]  # fmt: skip
    shifter = fitted(rows, names=names, method="smoothed plug-in")
    return Facts.of(shifter, rows.eta_val, np.array(names)[rows.y_val], y_train=np.array(names)[rows.y])


@cache
def constrained():
    """A rule with two constraints and a guarantee, and test rows."""
    rows, new = random_rows(3, n_rows=3000), random_rows(3, seed=6, n_rows=3000)
    shifter = PostShifter("accuracy", subject_to=["recall[2] >= 0.4", "rate[2] <= 0.5"], confidence=0.9)
    shifter.fit(rows.eta_val, rows.y_val, eta_unlabelled=rows.eta)
    return SimpleNamespace(
        shifter=shifter,
        rows=rows,
        new=new,
        facts=Facts.of(shifter, rows.eta_val, rows.y_val),
        test=Facts.of(shifter, new.eta_val, new.y_val),
    )


@cache
def constrained_cost():
    """A cost with a constraint and no guarantee."""
    rows = random_rows(3)
    cost_matrix = np.array([[0, 1, 1], [2, 0, 1], [9, 9, 0]])
    shifter = fitted(rows, ExpectedCost(cost_matrix), with_train=False, subject_to="rate[2] <= 0.2", margin=1)
    return Facts.of(shifter, rows.eta_val, rows.y_val)


@cache
def by_method(method):
    rows = random_rows(3)
    return Facts.of(fitted(rows, method=method), rows.eta_val, rows.y_val)


@cache
def with_frontier(confidence=None):
    """A fit with a constraint, and its frontier; with a confidence, it is certified."""
    rows = random_rows(3)
    with warnings.catch_warnings(action="ignore"):  # of few rows, and of a constraint that just fails
        shifter = fitted(rows, "accuracy", with_train=False, subject_to="recall[1] >= 0.6", confidence=confidence)
    facts = Facts.of(shifter, rows.eta_val, rows.y_val)
    return SimpleNamespace(shifter=shifter, rows=rows, facts=facts)


ALL = {
    "digits": digits_auto,
    "two classes, bases": two_classes_facts,
    "hostile names": hostile,
    "120 classes": many_classes,
    "by queries": queried_facts,
    "untouched": untouched,
    "fallback": fallback,
    "weighted": lambda: weighted().facts,
    "a cost": lambda: cost().facts,
    "cross-fitted": crossfitted,
    "over groups": over_groups,
    "paper": lambda: by_method("paper"),
    "stack": lambda: by_method("stack"),
    "test rows": lambda: on_test_rows().facts,
    "a cost of test rows": lambda: cost_on_test_rows().facts,
    "long names": long_names,
    "constraints": lambda: constrained().facts,
    "constraints on test rows": lambda: constrained().test,
    "a cost with a constraint": constrained_cost,
    "a frontier": lambda: with_frontier().facts,
    "a certified frontier": lambda: with_frontier(0.9).facts,
}
