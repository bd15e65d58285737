"""The positive class of a metric: known by its name, written in brackets, given as pos_label, or asked for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier, PostShifter
from postshift.baselines import CoordinatePlugin
from postshift.exceptions import PostshiftError, SettingError, ShapeError
from postshift.metrics import BinaryF1, EqualOpportunityGap, Recall, from_labels, metric_named, resolve_metric
from postshift.persistence import dump, load
from postshift.report import Facts, render

SICK, WELL = "hypothyroid", "negative"
FUNCTIONS = {
    "f1": sk.f1_score,
    "recall": sk.recall_score,
    "precision": sk.precision_score,
    "jaccard": sk.jaccard_score,
}
GAPS = ["demographic_parity", "equal_opportunity", "equalized_odds"]


def two(names, seed=0, n_rows=300):
    """Probabilities of two classes of which the first is rare, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 6, size=n_rows)
    return np.column_stack([p, 1 - p]), np.asarray(names)[(rng.random(n_rows) >= p).astype(int)]


def many(names, seed=0, n_rows=300):
    """Probabilities of some classes, and labels."""
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.linspace(2, 1, len(names)), size=n_rows)
    return eta, np.asarray(names)[[rng.choice(len(names), p=row) for row in eta]]


def fitted(metric, eta, y, names, *, groups=None, **more):
    shifter = PostShifter(metric, classes=names, method="smoothed plug-in", **more)
    return shifter.fit(eta, y, **({} if groups is None else {"groups": groups}))


def positive_of(shifter, eta, y):
    return Facts.of(shifter, eta, y).metric.positive


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(SICK, WELL), (0, 2), ("yes", "true")])
@pytest.mark.parametrize("metric", [*FUNCTIONS, "f1 - demographic_parity", "accuracy - 0.5 * equal_opportunity"])
def test_a_positive_class_that_is_not_clear_is_refused_with_a_remedy_that_works(metric, names):
    eta, y = two(names)
    groups = np.arange(len(y)) % 2 if "-" in metric else None
    with pytest.raises(SettingError) as refused:
        fitted(metric, eta, y, names, groups=groups)
    said = str(refused.value)
    assert "pos_label=" in said
    assert "--pos-label" in said
    remedies = [part for part in said.split("'") if "[" in part]
    assert len(remedies) == 2
    for remedy, name in zip(remedies, names, strict=True):
        shifter = fitted(remedy, eta, y, names, groups=groups)
        assert positive_of(shifter, eta, y) == str(name)


@pytest.mark.parametrize("names", [("ham", "spam"), ("pos", "Y"), ("n", "N"), (" yes", "no"), (2, 3), ("1.0", "0.0")])
def test_labels_that_do_not_say_it(names):
    with pytest.raises(SettingError, match="do not show which"):
        resolve_metric("f1", classes=names)


def test_it_is_refused_before_a_model_is_fitted():
    class Never(LogisticRegression):
        def fit(self, *_, **__):
            raise AssertionError

    eta, y = two((SICK, WELL))
    with pytest.raises(SettingError, match=rf"f1\[{SICK}\]"):
        PostShiftClassifier(Never(), metric="f1").fit(eta, y)
    with pytest.raises(SettingError, match=rf"f1\[{SICK}\]"):
        CoordinatePlugin(LogisticRegression(), metric="f1").fit(eta, y, eta, y)


# -- how it is known -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "place"),
    [
        ((0, 1), 1), ((1, 2), 0), ((-1, 1), 1), ((0.0, 1.0), 1), ((False, True), 1), (("0", "1"), 1),
        (("no", "yes"), 1), (("YES", "NO"), 0), (("n", "Y"), 1), (("negative", "Positive"), 1), (("pos", "neg"), 0),
        (("true", "false"), 0), (("True", "False"), 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("metric", FUNCTIONS)
def test_labels_that_say_it(metric, names, place):
    eta, y = two(names)
    shifter = fitted(metric, eta, y, names)
    assert positive_of(shifter, eta, y) == str(names[place])
    expected = FUNCTIONS[metric](y, shifter.predict(eta), pos_label=names[place], zero_division=0)
    assert shifter.score(eta, y) == pytest.approx(expected)


@pytest.mark.parametrize("names", [(SICK, WELL), (WELL, SICK)])
@pytest.mark.parametrize("how", ["brackets", "pos_label"])
def test_the_rare_class_is_the_one_that_is_optimised(how, names):
    eta, y = two((SICK, WELL))
    eta = eta if names[0] == SICK else eta[:, ::-1]
    given = {"metric": f"f1[{SICK}]"} if how == "brackets" else {"metric": "f1", "pos_label": SICK}
    shifter = fitted(**given, eta=eta, y=y, names=names)
    labels = shifter.predict(eta)
    assert sk.recall_score(y, labels, pos_label=SICK) > 0.3
    assert shifter.score(eta, y) == pytest.approx(sk.f1_score(y, labels, pos_label=SICK))
    assert positive_of(shifter, eta, y) == SICK


@pytest.mark.parametrize("metric", FUNCTIONS)
@pytest.mark.parametrize(
    ("names", "text", "place"),
    [
        (("a", "b", "c"), "b", 1),
        ((1, 2, 3), "3", 2),
        ((1, 2, 3), "1.0", 0),
        ((0.5, 1.5, 3.0), "3", 2),
        (("x[0]", "x[1]", "]"), "x[1]", 1),
        (("x[0]", "x[1]", "]"), "]", 2),
        (("a - b", "a * b", ""), "a - b", 0),
        (("a - equal_opportunity", "b", "c"), "a - equal_opportunity", 0),
        (("3", "03", "x"), "03", 1),
        (("Apple", "apple", "Pear"), "apple", 1),
        (("Apple", "apple", "Pear"), "pear", 2),
    ],
)
def test_one_class_against_the_rest(metric, names, text, place):
    eta, y = many(names)
    shifter = fitted(f"{metric}[{text}]", eta, y, names)
    rest = y == names[place], shifter.predict(eta) == names[place]
    assert shifter.score(eta, y) == pytest.approx(FUNCTIONS[metric](*rest, zero_division=0))
    assert positive_of(shifter, eta, y) == str(names[place])
    by_label = fitted(metric, eta, y, names, pos_label=names[place])
    np.testing.assert_array_equal(by_label.predict(eta), shifter.predict(eta))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("f1[hypothyrod]", "there is no class 'hypothyrod'; did you mean 'hypothyroid'"),
        ("accuracy - equal_opportunity[negativ]", "did you mean 'negative'"),
        ("f1[]", "there is no class ''"),
        ("f1[negative", "must end with a bracket"),
        ("f1_macro[negative]", r"not about one class.*f1\[negative\]"),
        ("accuracy[negative]", "not about one class"),
        ("worst_group_accuracy[negative]", "not about one class"),
        ("f1_marco[negative]", "did you mean 'f1_macro'"),
        ("f1[negative] - equal_oportunity", "did you mean 'equal_opportunity'"),
    ],
)
def test_texts_that_are_none(metric, message):
    eta, y = two((SICK, WELL))
    over_groups = " - " in metric or metric.startswith("worst_group")
    with pytest.raises(PostshiftError, match=message):
        fitted(metric, eta, y, (SICK, WELL), groups=np.arange(len(y)) % 2 if over_groups else None)


def test_more_than_two_classes_need_a_class_in_brackets():
    eta, y = many(("a", "b", "c"))
    with pytest.raises(SettingError, match=r"'f1_macro', or name one class, 'f1\[CLASS\]'"):
        fitted("f1", eta, y, ("a", "b", "c"))


# -- gaps between groups ---------------------------------------------------------------------------------------


def opportunity(y, labels, groups, positive):
    recalls = [np.mean(labels[(groups == g) & (y == positive)] == positive) for g in np.unique(groups)]
    return max(recalls) - min(recalls)


@pytest.mark.parametrize("positive", [SICK, WELL])
def test_the_gap_is_about_the_same_class_unless_it_names_another(positive):
    names = (SICK, WELL)
    eta, y = two(names)
    groups = np.arange(len(y)) % 2
    other = WELL if positive == SICK else SICK
    for metric, of_rate, of_gap in (
        (f"f1[{positive}] - 0.5 * equal_opportunity", positive, positive),
        (f"f1 - 0.5 * equal_opportunity[{positive}]", positive, positive),
        (f"f1[{positive}] - 0.5 * equal_opportunity[{other}]", positive, other),
    ):
        shifter = fitted(metric, eta, y, names, groups=groups)
        labels = shifter.predict(eta)
        expected = sk.f1_score(y, labels, pos_label=of_rate) - 0.5 * opportunity(y, labels, groups, of_gap)
        assert shifter.score(eta, y, groups=groups) == pytest.approx(expected)
        assert positive_of(shifter, eta, y) == (of_rate if of_rate == of_gap else f"{of_rate}, {of_gap}")


@pytest.mark.parametrize("gap", ["demographic_parity", "equalized_odds"])
def test_a_gap_that_is_the_same_for_both_classes_needs_none(gap):
    names = (SICK, WELL)
    eta, y = two(names)
    groups = np.arange(len(y)) % 2
    shifter = fitted(f"accuracy - {gap}", eta, y, names, groups=groups)
    score = shifter.score(eta, y, groups=groups)
    for name in names:
        named = fitted(f"accuracy - {gap}[{name}]", eta, y, names, groups=groups)
        assert named.score(eta, y, groups=groups) == pytest.approx(score)
    assert positive_of(shifter, eta, y) is None


@pytest.mark.parametrize("gap", GAPS)
def test_one_of_three_classes_in_a_gap(gap):
    names = ("a", "b", "c")
    eta, y = many(names)
    groups = np.arange(len(y)) % 2
    found = fitted(f"f1[b] - {gap}[c]", eta, y, names, groups=groups)
    assert np.isfinite(found.score(eta, y, groups=groups))
    assert positive_of(found, eta, y) == "b, c"
    assert positive_of(fitted(f"accuracy - {gap}", eta, y, names, groups=groups), eta, y) is None
    assert positive_of(fitted(f"accuracy - {gap}", eta, y, names, groups=groups, pos_label="a"), eta, y) == "a"


# -- metrics that have their own -------------------------------------------------------------------------------


def test_scorers_and_objects_keep_their_own():
    names = (SICK, WELL)
    eta, y = two(names)
    for metric in (sk.make_scorer(sk.f1_score, pos_label=SICK), BinaryF1(positive=0), Recall("one_vs_rest", 0)):
        assert positive_of(fitted(metric, eta, y, names), eta, y) == SICK
        with pytest.raises(SettingError, match="pos_label is for a metric by its name"):
            fitted(metric, eta, y, names, pos_label=SICK)
    assert EqualOpportunityGap(n_groups=2, n_classes=2, positive=1).positive_classes == (1,)


@pytest.mark.parametrize("metric", ["g_mean", "f1_macro", f"f1[{SICK}]", "accuracy"])
def test_a_pos_label_that_nothing_reads_is_refused(metric):
    eta, y = two((SICK, WELL))
    with pytest.raises(SettingError, match="leave pos_label"):
        fitted(metric, eta, y, (SICK, WELL), pos_label=SICK)


def test_a_pos_label_that_is_no_class():
    eta, y = two((SICK, WELL))
    with pytest.raises(SettingError, match="did you mean 'negative'"):
        fitted("f1", eta, y, (SICK, WELL), pos_label="negatve")
    with pytest.raises(SettingError, match="pos_label is for a metric by its name"):
        fitted(from_labels(lambda a, b: np.mean(a == b)), eta, y, (SICK, WELL), pos_label=SICK)


# -- clones, files, the report ---------------------------------------------------------------------------------


def test_classifier_clone_file_and_report(tmp_path):
    eta, y = two((SICK, WELL))
    model = PostShiftClassifier(LogisticRegression(), metric="f1", pos_label=SICK, method="smoothed plug-in")
    model = clone(model).fit(eta, y)
    assert model.get_params()["pos_label"] == SICK
    assert model.score(eta, y) == pytest.approx(sk.f1_score(y, model.predict(eta), pos_label=SICK))
    dump(model, tmp_path / "model.skops")
    assert load(tmp_path / "model.skops").score(eta, y) == model.score(eta, y)
    shifter = fitted(f"f1[{SICK}]", eta, y, (SICK, WELL))
    dump(shifter, tmp_path / "shifter.skops")
    read = load(tmp_path / "shifter.skops")
    assert (read.metric, read.score(eta, y)) == (f"f1[{SICK}]", shifter.score(eta, y))
    facts = Facts.of(read, eta, y)
    assert Facts.from_json(facts.to_json()) == facts
    assert ("positive class", SICK) in facts.settings
    assert facts.metric.about == f"harmonic mean of precision and recall, of class {SICK}"
    assert "positive class" in render(facts)


def test_an_estimator_saved_before_there_was_a_pos_label_still_scores():
    eta, y = two((0, 1))
    shifter = fitted("f1", eta, y, (0, 1))
    del shifter.__dict__["pos_label"]
    assert shifter.get_params()["pos_label"] is None
    assert np.isfinite(shifter.score(eta, y))


# -- by positions ----------------------------------------------------------------------------------------------


def test_names_of_positions():
    found = metric_named("recall[2]", n_classes=3), resolve_metric("recall[2]", classes=[0, 1, 2])
    assert found == (Recall("one_vs_rest", 2),) * 2
    assert metric_named("f1[0]", n_classes=2) == BinaryF1(0)
    with pytest.raises(SettingError, match="positive must be"):
        Recall("one_vs_rest", -1)
    with pytest.raises(ShapeError, match="position 2, but there are 2 classes"):
        Recall("one_vs_rest", 2).value(np.eye(2) / 2)
