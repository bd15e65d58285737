"""Random rows scored by every metric of the catalogue: the value that scikit-learn gives."""

import numpy as np
import pytest

from postshift import PostShifter
from postshift.metrics import resolve_metric
from tests.fuzz.cases import cases
from tests.fuzz.problems import draw, expected, is_over_groups, names_for

pytestmark = pytest.mark.filterwarnings("ignore::postshift.exceptions.PostshiftWarning")


def confusion(rows, groups):
    """Return the shares (categories, m) that each pair of labels has, by group where ``groups`` are positions."""
    n_classes, weights = rows.n_classes, np.ones(len(rows.truth)) if rows.weights is None else rows.weights
    table = np.zeros(((1 if groups is None else groups.max() + 1) * n_classes, n_classes))
    lines = rows.truth if groups is None else groups * n_classes + rows.truth
    np.add.at(table, (lines, rows.found), weights / weights.sum())
    return table


@cases(700, 25)
def test_values(case):
    rows = draw(np.random.default_rng(case))
    groups = np.unique(rows.groups, return_inverse=True)[1]
    for name in names_for(rows):
        over = groups if is_over_groups(name) else None
        stem, how = (name, {}) if isinstance(name, str) else (name[0], {"pos_label": rows.classes[name[1]]})
        n_groups = None if over is None else int(over.max()) + 1
        metric = resolve_metric(stem, classes=rows.classes, n_groups=n_groups, **how)
        assert metric.value(confusion(rows, over)) == pytest.approx(expected(name, rows), abs=1e-9), name


@cases(300, 15)
def test_scores_of_estimators(case):
    rng = np.random.default_rng(case + 10_000)
    rows = draw(rng)
    names = names_for(rows)
    for place in rng.permutation(len(names))[:3]:
        name = names[place]
        stem, how = (name, {}) if isinstance(name, str) else (name[0], {"pos_label": rows.classes[name[1]]})
        shifter = PostShifter(stem, method="base", classes=rows.classes, **how)
        train, metadata = learnt(rows, over=is_over_groups(name))
        shifter.fit(*train, **metadata)
        metadata = {"groups": rows.groups} if metadata else {}
        found = shifter.score(rows.eta, rows.y, sample_weight=rows.weights, **metadata)
        assert found == pytest.approx(expected(name, rows), abs=1e-9), name
        np.testing.assert_array_equal(shifter.predict(rows.eta), rows.classes[rows.found])


def learnt(rows, *, over):
    """Return rows of every class in every group, for a fit that leaves the labels as they are."""
    y = np.repeat(rows.classes, 6)
    eta = np.repeat(np.eye(rows.n_classes) * 0.5 + 0.5 / rows.n_classes, 6, axis=0)
    return (eta, y), {"groups": np.tile(["north", "south", "west"], 2 * rows.n_classes)} if over else {}
