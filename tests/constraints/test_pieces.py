"""The pieces of constraints, judged by the metrics themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import make_scorer

from postshift.constraints import Constraint, Rate, Value
from postshift.constraints.functions import BoundedFunction
from postshift.constraints.pieces import resolve_constraint, slopes_of
from postshift.exceptions import MetricError, SettingError
from postshift.metrics import (
    Accuracy,
    ExpectedCost,
    ExpectedReward,
    FBeta,
    GMean,
    WorstGroup,
    from_confusion,
    from_labels,
    from_predictions,
)

CLASSES = ("no", "maybe", "yes")
COSTS = np.array([[0.0, 1.0, 4.0], [0.5, 0.0, 1.0], [3.0, 2.0, -1.0]])
LINEAR = {
    "recall[yes]": (">=", "<="),
    "precision[no]": (">=", "<="),
    "f1[maybe]": (">=", "<="),
    "jaccard[yes]": (">=", "<="),
    "rate[yes]": (">=", "<="),
    "accuracy": (">=", "<="),
    "min_recall": (">=",),
    "worst_group_accuracy": (">=",),
    "demographic_parity": ("<=",),
    "demographic_parity[yes]": ("<=",),
    "equal_opportunity": ("<=",),
    "equal_opportunity[no]": ("<=",),
    "equalized_odds": ("<=",),
    "equalized_odds[maybe]": ("<=",),
}
CURVED = ("g_mean", "h_mean", "q_mean", "f1_macro", "matthews_corrcoef", "cohen_kappa", "group_g_mean")
N_GROUPS = 2
SHAPE = (N_GROUPS * len(CLASSES), len(CLASSES))


def test_pieces_name_classes_and_groups():
    everywhere = np.full(SHAPE, 1 / np.prod(SHAPE))

    def names(text):
        bounded = resolve_constraint(Constraint.read(text), classes=CLASSES, groups=np.array(["east", "west"]))
        return [piece.name for piece in bounded.pieces(everywhere)]

    assert names("demographic_parity[yes] <= 0.1")[0] == "demographic_parity[yes], predicted yes, groups east and west"
    assert (
        names("equalized_odds[maybe] <= 0.1")[0]
        == "equalized_odds[maybe], true no, predicted maybe, groups east and west"
    )
    assert names("worst_group_accuracy >= 0.1") == [f"worst_group_accuracy, group {name}" for name in ("east", "west")]
    alone = resolve_constraint(Constraint.read("min_recall >= 0.1"), classes=CLASSES).pieces(np.full((3, 3), 1 / 9))
    assert [piece.name for piece in alone] == [f"min_recall, class {name}" for name in CLASSES]


def resolved(constraint, *, n_groups=N_GROUPS, classes=CLASSES, **how):
    constraint = Constraint.read(constraint) if isinstance(constraint, str) else constraint
    return resolve_constraint(constraint, classes=classes, n_groups=n_groups, **how)


def random_confusion(rng, *, empty=False):
    confusion = rng.dirichlet(np.full(np.prod(SHAPE), 0.7)).reshape(SHAPE)
    if empty:
        confusion[rng.integers(SHAPE[0])] = 0
    return confusion / confusion.sum()


def literal_value(text, confusion):
    return float(_literal(text, confusion))


def _literal(text, confusion):
    """The value of a constraint's term, written out for the matrix with (group, class) rows."""
    name, _, label = text.rstrip("]").partition("[")
    by_group = confusion.reshape(N_GROUPS, 3, 3)
    table, k = by_group.sum(axis=0), CLASSES.index(label) if label else None
    classes = range(3) if k is None else [k]
    if name == "accuracy":
        return np.trace(table) / table.sum()
    if name == "min_recall":
        return min(table[i, i] / table[i].sum() for i in range(3) if table[i].sum() > 0)
    if name == "worst_group_accuracy":
        return min(np.trace(each) / each.sum() for each in by_group if each.sum() > 0)
    rates = {
        "demographic_parity": lambda c, j, _: (c[:, j].sum(), c.sum()),
        "equal_opportunity": lambda c, j, _: (c[j, j], c[j].sum()),
        "equalized_odds": lambda c, j, i: (c[i, j], c[i].sum()),
    }
    if name in rates:
        gaps = [0.0]
        for j in classes:
            for i in range(3):
                levels = [above / below for above, below in (rates[name](c, j, i) for c in by_group) if below > 0]
                gaps.append(max(levels) - min(levels) if levels else 0.0)
        return max(gaps)
    hit, true, predicted = table[k, k], table[k].sum(), table[:, k].sum()
    below = {"recall": true, "precision": predicted, "rate": table.sum(), "jaccard": true + predicted - hit}
    if name == "f1":
        return 2 * hit / (true + predicted) if true + predicted else 0.0
    above = predicted if name == "rate" else hit
    return above / below[name] if below[name] else 0.0


@pytest.mark.parametrize("text", LINEAR)
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), empty=st.booleans(), near=st.booleans())
def test_a_piece_is_missed_if_and_only_if_the_metric_is(text, seed, empty, near):
    rng = np.random.default_rng(seed)
    confusion = random_confusion(rng, empty=empty)
    value = literal_value(text, confusion)
    bound = float(np.clip(value + rng.choice([-1, 1]) * 1e-6, 0, 1)) if near else float(rng.random())
    for sense in LINEAR[text]:
        constraint = resolved(f"{text} {sense} {bound!r}")
        assert constraint.value(confusion) == pytest.approx(value, abs=1e-12)
        miss = (value - bound) * (1 if sense == "<=" else -1)
        assert constraint.miss(confusion) == pytest.approx(miss, abs=1e-12)
        pieces = constraint.pieces(confusion)
        worst = max((piece.miss(confusion) for piece in pieces), default=-1.0)
        linear = max((np.sum(piece.half_space(piece.bound, confusion) * confusion) for piece in pieces), default=-1.0)
        if abs(miss) > 1e-9:
            assert (worst > 0) == (miss > 0)
            if all(np.sum(piece.below * confusion) > 0 for piece in pieces):
                assert (linear > 0) == (miss > 0)


@pytest.mark.parametrize("text", LINEAR)
def test_half_spaces_of_one_matrix_judge_others_with_the_same_rows(text):
    """The rate program makes half-spaces once: they must be right for every classifier on the same rows."""
    rng = np.random.default_rng(0)
    confusion = random_confusion(rng)
    sizes = confusion.sum(axis=1, keepdims=True)
    for _ in range(100):
        other = sizes * rng.dirichlet(np.ones(3), size=len(sizes))
        bound = float(np.clip(literal_value(text, other) + rng.normal() * 0.02, 0, 1))
        for sense in LINEAR[text]:
            constraint = resolved(f"{text} {sense} {bound!r}")
            spaces = [piece.half_space(piece.bound, confusion) for piece in constraint.pieces(confusion)]
            assert (max(np.sum(space * other) for space in spaces) > 0) == (constraint.miss(other) > 0)


@pytest.mark.parametrize("text", LINEAR)
def test_the_value_at_the_bound(text):
    confusion = random_confusion(np.random.default_rng(3))
    value = literal_value(text, confusion)
    for sense in LINEAR[text]:
        pieces = resolved(f"{text} {sense} {value!r}").pieces(confusion)
        assert max(piece.miss(confusion) for piece in pieces) == pytest.approx(0, abs=1e-12)


def moved(confusion, cell, step):
    """The matrix after a share of new rows in one cell."""
    other = (1 - step) * confusion
    other[cell] += step
    return other


@pytest.mark.parametrize("text", LINEAR)
def test_influences_are_finite_differences(text):
    confusion = random_confusion(np.random.default_rng(4)) + 0.01
    confusion /= confusion.sum()
    for piece in resolved(f"{text} {LINEAR[text][0]} 0.3").pieces(confusion):
        influence = piece.influence(confusion)
        assert np.sum(influence * confusion) == pytest.approx(0, abs=1e-12)
        for cell in np.ndindex(SHAPE):
            step = 1e-6
            slope = (piece.value(moved(confusion, cell, step)) - piece.value(confusion)) / step
            assert influence[cell] == pytest.approx(slope, abs=1e-3 * max(1, np.abs(influence).max()))


def test_the_influence_of_a_rate_without_rows_is_0():
    confusion = np.array([[0.5, 0.0], [0.5, 0.0]])
    (piece,) = resolved("precision >= 0.5", classes=[0, 1], n_groups=None).pieces(confusion)
    np.testing.assert_array_equal(piece.influence(confusion), 0)
    assert np.isfinite(piece.half_space(0.5, confusion)).all()
    assert np.abs(piece.half_space(0.5, confusion)).max() <= 1000
    assert piece.value(confusion) == 0


@pytest.mark.parametrize("text", LINEAR)
def test_lifted_over_groups(text):
    """A metric of the classes does not see the groups: pieces of the pooled matrix, copied to each group."""
    if "group" in text or text.startswith(("demographic", "equal")):
        assert resolved(f"{text} {LINEAR[text][0]} 0.3").is_over_groups
        return
    confusion = random_confusion(np.random.default_rng(5))
    pooled = confusion.reshape(N_GROUPS, 3, 3).sum(axis=0)
    for sense in LINEAR[text]:
        lifted = resolved(f"{text} {sense} 0.3")
        plain = resolved(f"{text} {sense} 0.3", n_groups=None)
        assert not lifted.is_over_groups
        assert lifted.value(confusion) == pytest.approx(plain.value(pooled))
        np.testing.assert_allclose(lifted.slopes(confusion), np.tile(plain.slopes(pooled), (N_GROUPS, 1)))
        for one, other in zip(lifted.pieces(confusion), plain.pieces(pooled), strict=True):
            assert one.value(confusion) == pytest.approx(other.value(pooled))
            np.testing.assert_array_equal(one.above, np.tile(other.above, (N_GROUPS, 1)))
            assert (one.name, one.kind, one.needs_labels) == (other.name, other.kind, other.needs_labels)


def test_which_pieces_need_labels():
    confusion = random_confusion(np.random.default_rng(6))
    without = {
        text for text in LINEAR if not resolved(f"{text} {LINEAR[text][0]} 0.3").pieces(confusion)[0].needs_labels
    }
    assert without == {"rate[yes]", "demographic_parity", "demographic_parity[yes]"}
    by_prediction = ExpectedCost(np.tile([0.0, 1.0, 5.0], (3, 1)))
    for cost, needs in ((COSTS, True), (by_prediction, False)):
        metric = cost if isinstance(cost, ExpectedCost) else ExpectedCost(cost)
        assert resolved(Value(metric) <= 1).pieces(confusion)[0].needs_labels == needs


@pytest.mark.parametrize(("metric", "matrix"), [(ExpectedCost(COSTS), COSTS), (ExpectedReward(-COSTS), -COSTS)])
@pytest.mark.parametrize("sense", [">=", "<="])
def test_costs_and_rewards_are_not_negated(metric, matrix, sense):
    confusion = random_confusion(np.random.default_rng(7))
    expected = float(np.sum(np.tile(matrix, (N_GROUPS, 1)) * confusion))
    constraint = resolved(Constraint(term=Value(metric), sense=sense, bound=expected + 0.1))
    assert constraint.value(confusion) == pytest.approx(expected)
    (piece,) = constraint.pieces(confusion)
    assert piece.kind == "mean"
    assert piece.value(confusion) == pytest.approx(expected)
    assert piece.miss(confusion) == pytest.approx(-0.1 if sense == "<=" else 0.1)


@pytest.mark.parametrize("metric", [*CURVED, FBeta(2.0, average="one_vs_rest", positive=2), "a function"])
def test_other_metrics_have_a_tangent_that_touches_them(metric):
    if metric == "a function":
        metric = from_confusion(lambda c: float(c[0, 0] * c[1, 1] + c[2, 2] ** 2), name="a function")
    confusion = random_confusion(np.random.default_rng(8)) + 0.02
    confusion /= confusion.sum()
    constraint = resolved(Value(metric) >= 0.3)
    (piece,) = constraint.pieces(confusion)
    assert piece.kind == "tangent"
    assert piece.value(confusion) == pytest.approx(constraint.value(confusion), abs=1e-9)
    sizes = confusion.sum(axis=1, keepdims=True)
    other = sizes * np.random.default_rng(9).dirichlet(np.ones(3), size=len(sizes))
    step = 1e-4
    near = confusion + step * (other - confusion)
    change = constraint.value(near) - constraint.value(confusion)
    assert piece.value(near) - piece.value(confusion) == pytest.approx(change, abs=20 * step**2)


def test_slopes_of_a_metric_without_a_gradient():
    """Row sums are fixed, so only differences within a row matter."""
    confusion = np.random.default_rng(10).dirichlet(np.ones(9)).reshape(3, 3)
    found = slopes_of(from_confusion(lambda c: float(GMean().value(c))), confusion)
    exact = GMean().gradient(confusion)
    np.testing.assert_allclose(
        found - np.sum(found * confusion, axis=1, keepdims=True) / confusion.sum(axis=1, keepdims=True),
        exact - np.sum(exact * confusion, axis=1, keepdims=True) / confusion.sum(axis=1, keepdims=True),
        atol=1e-2,
    )


OUT_OF_RANGE = ("recall[yes] >= 1.1", "precision[yes] >= -0.1", "rate[no] <= 2", "accuracy >= 90", "min_recall >= 1.5")


@pytest.mark.parametrize("text", [*OUT_OF_RANGE, "demographic_parity <= -0.1", "worst_group_accuracy >= 80"])
def test_bounds_out_of_range(text):
    with pytest.raises(SettingError, match=r"is between 0 and 1\. Got"):
        resolved(text)


@pytest.mark.parametrize("text", ["demographic_parity >= 0.1", "equal_opportunity >= 0.1", "equalized_odds[no] >= 0"])
def test_gaps_from_below(text):
    with pytest.raises(SettingError, match="a gap can only be bounded from above: use <="):
        resolved(text)


@pytest.mark.parametrize("text", ["min_recall <= 0.5", "worst_group_accuracy <= 0.5", "worst_group_g_mean <= 0.1"])
def test_minima_from_above(text):
    with pytest.raises(SettingError, match="a minimum can only be bounded from below: use >="):
        resolved(text)


def test_names_that_are_close():
    with pytest.raises(SettingError, match="recall"):
        resolved("recal[yes] >= 0.9")
    with pytest.raises(SettingError, match="maybe"):
        resolved("recall[mayby] >= 0.9")
    with pytest.raises(SettingError, match="is not about one class"):
        resolved("g_mean[yes] >= 0.9")


def test_the_class_is_named_where_there_are_several():
    with pytest.raises(SettingError, match=r"rate\[CLASS\]"):
        resolved("rate <= 0.1")
    with pytest.raises(SettingError, match=r"recall\[CLASS\]"):
        resolved("recall >= 0.1")
    assert resolved("recall >= 0.1", pos_label="maybe").metric.positive == 1
    assert resolved("rate <= 0.1", pos_label="maybe").metric.positive == 1
    assert resolved("demographic_parity <= 0.1", pos_label="maybe").metric.positive == 1
    assert resolved("recall[no] >= 0.1", pos_label="maybe").metric.positive == 0


def test_the_positive_of_two_classes():
    two = {"classes": ["yes", "no"], "n_groups": None}
    assert resolved("recall >= 0.1", **two).metric.positive == 0
    assert resolved("rate <= 0.1", **two).metric.positive == 0
    assert resolved(Rate("no") <= 0.1, **two).metric.positive == 1
    for name in ("rate", "recall", "f1"):
        with pytest.raises(SettingError, match=rf"must say which class: {name}\[CLASS\]"):
            resolved(f"{name} >= 0.1", classes=["ham", "spam"], n_groups=None)
        assert resolved(f"{name} >= 0.1", classes=["ham", "spam"], n_groups=None, pos_label="ham").metric.positive == 0


@pytest.mark.parametrize("text", ["demographic_parity <= 0.1", "equalized_odds <= 0.1", "worst_group_accuracy >= 0.5"])
def test_groups_are_needed(text):
    with pytest.raises(SettingError, match="groups"):
        resolved(text, n_groups=None)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Accuracy, "must be an instance"),
        (np.mean, "not .y_true, y_pred"),
        (3, "metric must be a name"),
        (from_predictions(len), "has its own labels, so it cannot be bounded"),
    ],
)
def test_what_cannot_be_bounded(metric, message):
    with pytest.raises(MetricError, match=message):
        resolved(Value(metric) >= 0.5)


def test_a_function_of_labels_stays_one_with_its_sign():
    def waste_cost(y_true, y_pred):
        return float(np.mean(y_true != y_pred))

    for metric in (waste_cost, from_labels(waste_cost, greater_is_better=False), make_scorer(waste_cost)):
        found = resolved(Value(metric) <= 0.5)
        assert isinstance(found, BoundedFunction)
        assert found.function.sign == 1


def test_a_metric_of_other_groups():
    with pytest.raises((SettingError, MetricError), match="groups"):
        resolved(Value(WorstGroup("accuracy", n_groups=3, n_classes=3)) >= 0.5)
    with pytest.raises((SettingError, MetricError), match="groups"):
        resolved(Value(WorstGroup("accuracy", n_groups=3, n_classes=3)) >= 0.5, n_groups=None)


def test_pieces_have_names_of_their_own():
    confusion = random_confusion(np.random.default_rng(11))
    for text, senses in LINEAR.items():
        names = [piece.name for piece in resolved(f"{text} {senses[0]} 0.3").pieces(confusion)]
        assert len(set(names)) == len(names), text


@pytest.mark.parametrize("text", [*LINEAR, "g_mean", "h_mean", "matthews_corrcoef"])
def test_influences_of_metrics_are_finite_differences(text):
    confusion = random_confusion(np.random.default_rng(13)) + 0.02
    confusion /= confusion.sum()
    constraint = resolved(f"{text} {LINEAR.get(text, ('>=',))[0]} 0.3")
    influence = constraint.influence(confusion)
    for cell in np.ndindex(SHAPE):
        slope = (constraint.value(moved(confusion, cell, 1e-6)) - constraint.value(confusion)) / 1e-6
        assert influence[cell] == pytest.approx(slope, abs=1e-3)


def test_f1_is_bounded_through_jaccard():
    confusion = random_confusion(np.random.default_rng(12))
    (piece,) = resolved("f1[yes] >= 0.6").pieces(confusion)
    assert piece.kind == "proportion"
    assert piece.bound == pytest.approx(0.6 / 1.4)
    assert piece.value(confusion) == pytest.approx(literal_value("jaccard[yes]", confusion))
    assert "Jaccard" in piece.name
