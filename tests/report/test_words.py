"""Sentences: each is said where the numbers support it, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from postshift.report import counts, text, words
from postshift.report.facts import Belief, FunctionWeights, Weights
from tests.report import cases

SCORES = st.floats(-5, 5)


def plain(sentence):
    """The sentence with blanks that may break."""
    return sentence.replace(text.NO_BREAK, " ")


def with_verdict(**more):
    facts = cases.digits_auto()
    return replace(facts, verdict=replace(facts.verdict, **more))


# -- the verdict --------------------------------------------------------------------------------------------


def test_digits_in_a_sentence():
    facts = cases.digits_auto()
    judged = words.judgement(facts)
    verdict = facts.verdict
    low, high = verdict.after_interval
    assert judged.kind == "worth it"
    assert plain(judged.headline) == (
        f"f1_macro rises from {verdict.before:.3f} to {verdict.after:.3f} (95 % interval {low:.3f} to {high:.3f}) "
        "on 400 rows held out of the fit: worth it."
    )


@given(st.tuples(SCORES, SCORES).map(sorted), SCORES, SCORES)
def test_the_interval_of_the_gain_decides(limits, before, after):
    judged = words.judgement(with_verdict(gain_interval=tuple(limits), before=before, after=after))
    low, high = limits
    expected = "worth it" if low > 0 else "not worth it" if high < 0 else "may be noise"
    assert judged.kind == expected
    assert ("worth it." in judged.headline) == (low > 0)
    assert ("may be noise" in judged.headline) == (low <= 0 <= high)
    moved = text.number(before) != text.number(after)
    assert ("rises" in judged.headline) == (moved and after > before)
    assert ("falls" in judged.headline) == (moved and after < before)
    assert ("stays at" in judged.headline) == (not moved)


def test_a_model_that_is_left_as_it_is():
    judged = words.judgement(cases.fallback())
    assert judged.kind == "left as it is"
    said = f"accuracy is {cases.fallback().verdict.before:.3f} on 600 rows held out of the fit."
    assert judged.headline == f"The model is left as it is: no rule is likely enough to be better. {said}"
    assert cases.fallback().verdict.gain_interval is None
    assert "interval" not in " ".join(judged.details)
    assert words.judgement(cases.untouched()).kind == "no change"
    assert "no label changes" in words.judgement(cases.untouched()).headline


def test_rows_that_the_fit_has_seen_are_told():
    facts = cases.queried_facts()
    judged = words.judgement(facts)
    assert "on 600 rows that the fit has seen too" in judged.headline
    assert any("may be smaller" in each for each in judged.details)
    assert "held out" not in judged.headline
    some = with_verdict(n_rows=100)
    assert "on 100 rows of 400 held out of the fit" in words.judgement(some).headline


def test_a_cost_is_told_in_the_users_own_number():
    made = cases.cost()
    judged = words.judgement(made.facts)
    before, after = -made.shifter.base_score_, -made.shifter.score_
    assert f"expected_cost falls from {before:.3f} to {after:.3f}" in judged.headline
    low, high = made.facts.verdict.after_interval
    assert f"interval {-high:.3f} to {-low:.3f}" in plain(judged.headline)
    assert any("Less of expected_cost is better" in each for each in judged.details)
    assert not any("Less of" in each for each in words.judgement(cases.digits_auto()).details)


def test_changes_in_a_sentence():
    changes = replace(cases.digits_auto().changes, n_rows=200, n_changed=20, n_right=12, n_wrong=5)
    facts = replace(cases.digits_auto(), changes=changes)
    said = (
        "20 of 200 rows (10 %) change the label: 12 become right, 5 become wrong, 3 go from one wrong label to another."
    )
    assert plain(words.change_sentence(facts)) == said
    assert words.change_sentence(cases.untouched()) == "None of 600 rows changes its label."
    hidden = replace(facts, changes=replace(changes, n_right=None, n_wrong=None))
    assert plain(words.change_sentence(hidden)) == "20 of 200 rows (10 %) change the label."


# -- weights ------------------------------------------------------------------------------------------------


def test_digits_and_what_training_calls_them():
    said = " ".join(map(plain, words.weight_sentences(cases.digits_auto())))
    for digit, name in ((2, 0), (4, 7), (9, 1)):
        assert f"{digit} is up-weighted" in said
        assert f"as where training labels call many of them {name}" in said
        assert f"{name} is down-weighted" in said
    assert "3 and 5 look swapped in many training labels" in said
    assert "it is 10 % of the validation rows and" in said


@given(st.lists(st.floats(0.02, 50), min_size=10, max_size=10))
def test_only_clear_weights_are_told_and_all_of_them_counted(weights):
    facts = replace(cases.digits_auto(), weights=Weights(by_class=tuple(weights), functions=()))
    said = words.weight_sentences(facts)
    up = {str(k) for k, w in enumerate(weights) if w >= words.CLEARLY}
    down = {str(k) for k, w in enumerate(weights) if w <= 1 / words.CLEARLY}
    told_up = {each.partition(" is up-weighted")[0] for each in said if " is up-weighted" in each}
    told_down = {each.partition(" is down-weighted")[0] for each in said if " is down-weighted" in each}
    assert told_up <= up
    assert told_down <= down
    n_told, n_clear = len(told_up | told_down), len(up | down)
    assert n_told == min(n_clear, words.MAX_SENTENCES)
    assert any("more classes are clearly weighted" in each for each in said) == (n_clear > n_told)


@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_of_a_calibrated_model_no_label_is_called_wrong(seed, n_classes, sharp):
    """Every row counts as each of its classes, with its probability as weight: calibrated to the last digit."""
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.full(n_classes, 0.3 if sharp else 2.0) * rng.uniform(0.1, 2, n_classes), size=60)
    rows, codes = np.repeat(eta, n_classes, axis=0), np.tile(np.arange(n_classes), len(eta))
    beliefs = counts.beliefs(rows, codes, weights=eta.ravel())
    facts = of_classes(n_classes, beliefs, weights=rng.uniform(0.1, 10, n_classes))
    said = " ".join(words.weight_sentences(facts))
    assert "training labels" not in said
    assert "swapped" not in said


def of_classes(n_classes, beliefs, *, weights, training=None, validation=None):
    facts = cases.digits_auto()
    even = (1 / n_classes,) * n_classes
    shares = replace(
        facts.shares,
        training=training,
        validation=validation or even,
        before=even,
        after=even,
        by_model=even,
        by_model_in_training=None,
    )
    return replace(
        facts,
        classes=tuple("ABCDEF"[:n_classes]),
        weights=Weights(by_class=tuple(weights), functions=()),
        shares=shares,
        beliefs=tuple(beliefs),
        metric=replace(facts.metric, counts_classes_evenly=False),
    )


def belief(**more):
    given = {"true": 0, "n_rows": 100, "mass": 100.0, "own": 0.4, "other": 1, "to_other": 0.5, "back": 0.05}
    return Belief(**{**given, "other_mass": 100.0, **more})


def test_what_it_takes_to_say_that_labels_are_wrong():
    weights = (3.0, 0.9, 1.0)
    said = words.weight_sentences(of_classes(3, [belief()], weights=weights))
    plain_fact = "A is up-weighted (×3.0): rows of A get 0.50 for B from the model, 0.40 for A."
    assert said == (f"{plain_fact[:-1]}, as where training labels call many of them B.",)
    as_much_back = of_classes(3, [belief(back=0.3)], weights=weights)
    assert words.weight_sentences(as_much_back) == (plain_fact,)
    same_shares = of_classes(3, [belief()], weights=weights, training=(0.34, 0.33, 0.33))
    assert words.weight_sentences(same_shares) == (plain_fact,)
    elsewhere = of_classes(3, [belief()], weights=weights, training=(0.25, 0.34, 0.41))
    assert words.weight_sentences(elsewhere) == (plain_fact,)
    gone_there = of_classes(3, [belief()], weights=weights, training=(0.25, 0.42, 0.33))
    assert "many of them B" in words.weight_sentences(gone_there)[0]
    for no_reason in (belief(n_rows=words.FEW_ROWS - 1), belief(to_other=words.MUCH - 0.01)):
        assert words.weight_sentences(of_classes(3, [no_reason], weights=weights)) == ("A is up-weighted (×3.0).",)
    refitted = replace(of_classes(3, [belief()], weights=weights), refitted=True)
    assert words.weight_sentences(refitted) == ("A is up-weighted (×3.0).",)


def test_what_it_takes_to_say_that_classes_are_swapped():
    pair = [belief(), belief(true=1, other=0)]
    ones = (1.0, 1.0, 1.0)
    (said,) = words.weight_sentences(of_classes(3, pair, weights=ones))
    assert said.startswith("A and B look swapped in many training labels")
    for other in (belief(true=1, other=0, own=0.6), belief(true=1, other=2), belief(true=1, other=0, n_rows=3)):
        assert words.weight_sentences(of_classes(3, [belief(), other], weights=ones)) == ()


def test_the_reasons_of_shares_and_of_the_metric():
    by_share = "A is up-weighted (×3.0): it is 12 % of the validation rows and 4.0 % of the training labels."
    facts = of_classes(3, [], weights=(3.0, 1.0, 0.3), training=(0.04, 0.30, 0.66), validation=(0.12, 0.30, 0.58))
    assert [plain(each) for each in words.weight_sentences(facts)] == [
        "C is down-weighted (×0.30).",
        by_share,
    ]
    facts = replace(facts, metric=replace(facts.metric, counts_classes_evenly=True, name="g_mean"))
    assert [plain(each) for each in words.weight_sentences(facts)] == [
        "C is down-weighted (×0.30): it is common (58 % of the rows), and g_mean counts it no more than others.",
        f"{by_share[:-1]}; it is rare (12 % of the rows), and g_mean counts rare classes as much as others.",
    ]


@given(st.floats(0.1, 10))
def test_of_two_classes_one_sentence_is_said(weight):
    assume(abs(np.log(weight)) > 1e-3)
    facts = of_classes(2, [], weights=(weight, 1 / weight))
    said = words.weight_sentences(facts)
    up, down = ("A", "B") if weight > 1 else ("B", "A")
    ratio = max(weight, 1 / weight) ** 2
    assert said == ((f"{up} is up-weighted ({text.factor(ratio)} against {down}).",) if ratio >= words.CLEARLY else ())


def test_where_weights_differ():
    function = FunctionWeights(basis="tree", name="leaf 1", n_rows=100.0, by_class=(3.0, 1.0, 1.0))
    few = replace(function, name="leaf 2", n_rows=words.LOCAL_ROWS - 1.0)
    same = replace(function, name="leaf 3", by_class=(1.1, 1.0, 0.9))
    facts = of_classes(3, [], weights=(1.0, 1.0, 1.0))
    facts = replace(facts, weights=replace(facts.weights, functions=(function, few, same)))
    assert words.local_sentences(facts) == ("In leaf 1: A has ×3.0, over all rows ×1.00.",)


# -- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (text.number(-0.00001), "0.000"),
        (text.number(0.00001, signed=True), "0.000"),
        (text.number(-0.5), "−0.500"),
        (text.number(12345.678), "12,345.7"),
        (text.percent(0.034), "3.4\u00a0%"),
        (text.percent(0.0), "0\u00a0%"),
        (text.amount(3.0, signed=True), "+3"),
        (text.amount(0.0, signed=True), "0"),
        (text.amount(1234.5), "1,234.5"),
        (text.amount(-0.25, signed=True), "−0.25"),
        (text.factor(0.001), "×<0.01"),
        (text.factor(12.3), "×12"),
        (text.rows(1), "1 row"),
        (text.short("one\ntwo  three", 8), "one two…"),
    ],
)
def test_how_numbers_are_written(written, expected):
    assert written == expected


@given(st.floats(-1e6, 1e6))
def test_a_number_that_is_shown_is_near_the_number(value):
    shown = float(text.number(value).replace(",", "").replace(text.MINUS, "-"))
    assert shown == pytest.approx(value, abs=0.0005 if abs(value) < 100 else 0.05, rel=1e-9)
