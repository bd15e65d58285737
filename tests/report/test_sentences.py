"""Sentences: each is written if the numbers support it, and only then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from postshift.report import counts, formats, sentences
from postshift.report.facts import Belief, FunctionWeights, Weights
from tests.report import cases

SCORES = st.floats(-5, 5)


def plain(sentence):
    """The sentence with ordinary blanks."""
    return sentence.replace(formats.NO_BREAK, " ")


def with_verdict(**more):
    facts = cases.digits_auto()
    return replace(facts, verdict=replace(facts.verdict, **more))


# -- the verdict --------------------------------------------------------------------------------------------


def test_digits_in_a_sentence():
    facts = cases.digits_auto()
    judged = sentences.judgement(facts)
    verdict = facts.verdict
    low, high = verdict.after_interval
    assert judged.kind == "worth it"
    assert plain(judged.headline) == (
        f"f1_macro rises from {verdict.before:.3f} to {verdict.after:.3f} (95 % interval {low:.3f} to {high:.3f}) "
        "on 400 rows held out from the fit: worth it."
    )


@given(st.tuples(SCORES, SCORES).map(sorted), SCORES, SCORES)
def test_the_interval_of_the_gain_decides(limits, before, after):
    judged = sentences.judgement(with_verdict(gain_interval=tuple(limits), before=before, after=after))
    low, high = limits
    expected = "worth it" if low > 0 else "not worth it" if high < 0 else "may be noise"
    assert judged.kind == expected
    assert ("worth it." in judged.headline) == (low > 0)
    assert ("may be noise" in judged.headline) == (low <= 0 <= high)
    moved = formats.number(before) != formats.number(after)
    assert ("rises" in judged.headline) == (moved and after > before)
    assert ("falls" in judged.headline) == (moved and after < before)
    assert ("stays at" in judged.headline) == (not moved)


def test_the_base_is_kept():
    judged = sentences.judgement(cases.fallback())
    assert judged.kind == "base kept"
    said = f"accuracy is {cases.fallback().verdict.before:.3f} on 600 rows held out from the fit."
    assert judged.headline == f"The model is kept as it is: no rule is likely enough to be better. {said}"
    assert cases.fallback().verdict.gain_interval is None
    assert "interval" not in " ".join(judged.details)
    assert sentences.judgement(cases.untouched()).kind == "no change"
    assert "no label changes" in sentences.judgement(cases.untouched()).headline


def test_rows_that_were_also_used_for_the_fit():
    facts = cases.queried_facts()
    judged = sentences.judgement(facts)
    assert "on 600 rows that were also used for the fit" in judged.headline
    assert any("may be smaller" in each for each in judged.details)
    assert "held out" not in judged.headline
    some = with_verdict(n_rows=100)
    assert "on 100 of 400 rows held out from the fit" in sentences.judgement(some).headline


def test_a_cost_is_written_without_its_minus():
    made = cases.cost()
    judged = sentences.judgement(made.facts)
    before, after = -made.shifter.base_score_, -made.shifter.score_
    assert f"expected_cost falls from {before:.3f} to {after:.3f}" in judged.headline
    low, high = made.facts.verdict.after_interval
    assert f"interval {-high:.3f} to {-low:.3f}" in plain(judged.headline)
    assert any("Lower expected_cost is better" in each for each in judged.details)
    assert not any("Lower" in each for each in sentences.judgement(cases.digits_auto()).details)


def test_a_constrained_rule_is_not_compared_with_the_base():
    facts = cases.constrained().facts
    judged, verdict = sentences.judgement(facts), facts.verdict
    low, high = verdict.after_interval
    assert judged.kind == "constrained"
    assert plain(judged.headline) == (
        f"accuracy is {verdict.after:.3f} (95 % interval {low:.3f} to {high:.3f}) on 3,000 rows that were also used "
        "for the fit, subject to 2 constraints."
    )
    assert judged.details == (
        f"The model as it is has {verdict.before:.3f} without constraints.",
        "All constraints hold on these rows.",
    )
    said = " ".join((judged.headline, *judged.details, sentences.choice_sentence(facts)))
    assert not any(word in said for word in ("worth", "better", "gain", "change", "noise"))
    on_test = sentences.judgement(cases.constrained().test)
    assert "on 3,000 test rows, subject to 2 constraints" in on_test.headline
    assert on_test.details[0].startswith("These rows were not used for the fit")


def test_a_cost_with_a_constraint():
    facts = cases.constrained_cost()
    judged = sentences.judgement(facts)
    assert f"expected_cost is {-facts.verdict.after:.3f}" in judged.headline
    assert "subject to one constraint" in judged.headline
    assert judged.details[0] == f"The model as it is has {-facts.verdict.before:.3f} without constraints."
    assert judged.details[-1] == "Lower expected_cost is better."


def test_constraints_that_are_missed():
    facts = cases.constrained().facts
    first, second = facts.constraints.records
    missed = replace(first, holds=False, value=0.05)
    some = replace(facts, constraints=replace(facts.constraints, records=(missed, second)))
    assert sentences.holds_sentence(some) == "On these rows, recall[2] >= 0.4 (the value is 0.050) does not hold."


def test_the_guarantee_in_a_sentence():
    certificate = cases.constrained().shifter.certificate_
    assert plain(sentences.guarantee_sentence(0.9, certificate)) == (
        "With a confidence of 90 %, recall[2] >= 0.4 and rate[2] <= 0.5 hold for new rows from the same source "
        f"(binomial test, exact; 3,000 labelled rows; p = {certificate.p_value:.2g})."
    )
    other = replace(certificate, is_exact=False, constraints=("a <= 1",), n_unlabelled=5000, confidence=0.975)
    said = plain(sentences.guarantee_sentence(0.975, other))
    assert said.startswith("With a confidence of about 97.5 %, a <= 1 holds for new rows")
    assert "3,000 labelled rows and 5,000 rows without labels" in said
    assert "without a guarantee" in sentences.guarantee_sentence(0.9, None)
    assert "no guarantee" in sentences.guarantee_sentence(None, None)


def test_changes_in_a_sentence():
    changes = replace(cases.digits_auto().changes, n_rows=200, n_changed=20, n_right=12, n_wrong=5)
    facts = replace(cases.digits_auto(), changes=changes)
    said = "20 of 200 labels (10 %) differ from the model's"
    outcomes = "12 become right, 5 become wrong, 3 change from one wrong label to another"
    assert plain(sentences.change_sentence(facts)) == f"{said}: {outcomes}."
    assert sentences.change_sentence(cases.untouched()) == "None of the 600 labels differ from the model's."
    hidden = replace(facts, changes=replace(changes, n_right=None, n_wrong=None))
    assert plain(sentences.change_sentence(hidden)) == f"{said}."
    one = replace(facts, changes=replace(hidden.changes, n_changed=1))
    assert plain(sentences.change_sentence(one)) == "1 of 200 labels (0.5 %) differs from the model's."


# -- weights ------------------------------------------------------------------------------------------------


def test_digits_with_wrong_training_labels():
    said = " ".join(map(plain, sentences.weight_sentences(cases.digits_auto())))
    for digit, name in ((2, 0), (4, 7), (9, 1)):
        assert f"{digit} is up-weighted" in said
        assert f"as if many of them were labelled {name} in training" in said
        assert f"{name} is down-weighted" in said
    assert "3 and 5 look swapped in many training labels" in said
    assert "makes up 10 % of the validation rows and" in said


@given(st.lists(st.floats(0.02, 50), min_size=10, max_size=10))
def test_only_clear_weights_get_a_sentence_and_all_are_counted(weights):
    facts = replace(cases.digits_auto(), weights=Weights(by_class=tuple(weights), functions=()))
    said = sentences.weight_sentences(facts)
    up = {str(k) for k, w in enumerate(weights) if w >= sentences.CLEARLY}
    down = {str(k) for k, w in enumerate(weights) if w <= 1 / sentences.CLEARLY}
    named_up = {each.partition(" is up-weighted")[0] for each in said if " is up-weighted" in each}
    named_down = {each.partition(" is down-weighted")[0] for each in said if " is down-weighted" in each}
    assert named_up <= up
    assert named_down <= down
    n_named, n_clear = len(named_up | named_down), len(up | down)
    assert n_named == min(n_clear, sentences.MAX_SENTENCES)
    assert any("more classes are clearly up- or down-weighted" in each for each in said) == (n_clear > n_named)


@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_no_training_labels_of_a_calibrated_model_are_called_wrong(seed, n_classes, sharp):
    """Every row counts as each of its classes, with its probability as weight: calibrated to the last digit."""
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.full(n_classes, 0.3 if sharp else 2.0) * rng.uniform(0.1, 2, n_classes), size=60)
    rows, codes = np.repeat(eta, n_classes, axis=0), np.tile(np.arange(n_classes), len(eta))
    beliefs = counts.beliefs(rows, codes, weights=eta.ravel())
    facts = of_classes(n_classes, beliefs, weights=rng.uniform(0.1, 10, n_classes))
    said = " ".join(sentences.weight_sentences(facts))
    assert "in training" not in said
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
    said = sentences.weight_sentences(of_classes(3, [belief()], weights=weights))
    plain_fact = "A is up-weighted (×3.0): the model gives rows of A a mean probability of 0.50 for B and 0.40 for A."
    assert said == (f"{plain_fact[:-1]}, as if many of them were labelled B in training.",)
    as_much_back = of_classes(3, [belief(back=0.3)], weights=weights)
    assert sentences.weight_sentences(as_much_back) == (plain_fact,)
    same_shares = of_classes(3, [belief()], weights=weights, training=(0.34, 0.33, 0.33))
    assert sentences.weight_sentences(same_shares) == (plain_fact,)
    elsewhere = of_classes(3, [belief()], weights=weights, training=(0.25, 0.34, 0.41))
    assert sentences.weight_sentences(elsewhere) == (plain_fact,)
    gone_there = of_classes(3, [belief()], weights=weights, training=(0.25, 0.42, 0.33))
    assert "labelled B in training" in sentences.weight_sentences(gone_there)[0]
    for no_reason in (belief(n_rows=sentences.FEW_ROWS - 1), belief(to_other=sentences.MUCH - 0.01)):
        assert sentences.weight_sentences(of_classes(3, [no_reason], weights=weights)) == ("A is up-weighted (×3.0).",)
    refitted = replace(of_classes(3, [belief()], weights=weights), refitted=True)
    assert sentences.weight_sentences(refitted) == ("A is up-weighted (×3.0).",)


def test_what_it_takes_to_say_that_classes_are_swapped():
    pair = [belief(), belief(true=1, other=0)]
    ones = (1.0, 1.0, 1.0)
    (said,) = sentences.weight_sentences(of_classes(3, pair, weights=ones))
    assert said.startswith("A and B look swapped in many training labels")
    for other in (belief(true=1, other=0, own=0.6), belief(true=1, other=2), belief(true=1, other=0, n_rows=3)):
        assert sentences.weight_sentences(of_classes(3, [belief(), other], weights=ones)) == ()


def test_the_reasons_of_shares_and_of_the_metric():
    by_share = "A is up-weighted (×3.0): A makes up 12 % of the validation rows and 4.0 % of the training labels."
    facts = of_classes(3, [], weights=(3.0, 1.0, 0.3), training=(0.04, 0.30, 0.66), validation=(0.12, 0.30, 0.58))
    assert [plain(each) for each in sentences.weight_sentences(facts)] == [
        "C is down-weighted (×0.30).",
        by_share,
    ]
    facts = replace(facts, metric=replace(facts.metric, counts_classes_evenly=True, name="g_mean"))
    assert [plain(each) for each in sentences.weight_sentences(facts)] == [
        "C is down-weighted (×0.30): it is common (58 % of the rows), and g_mean counts it no more than others.",
        f"{by_share[:-1]}; it is rare (12 % of the rows), and g_mean counts rare classes as much as others.",
    ]


@given(st.floats(0.1, 10))
def test_two_classes_share_one_sentence(weight):
    assume(abs(np.log(weight)) > 1e-3)
    facts = of_classes(2, [], weights=(weight, 1 / weight))
    said = sentences.weight_sentences(facts)
    up, down = ("A", "B") if weight > 1 else ("B", "A")
    ratio = max(weight, 1 / weight) ** 2
    sentence = f"{up} is up-weighted ({formats.factor(ratio)} against {down})."
    assert said == ((sentence,) if ratio >= sentences.CLEARLY else ())


def test_where_weights_differ():
    function = FunctionWeights(basis="tree", name="leaf 1", n_rows=100.0, by_class=(3.0, 1.0, 1.0))
    few = replace(function, name="leaf 2", n_rows=sentences.LOCAL_ROWS - 1.0)
    same = replace(function, name="leaf 3", by_class=(1.1, 1.0, 0.9))
    facts = of_classes(3, [], weights=(1.0, 1.0, 1.0))
    facts = replace(facts, weights=replace(facts.weights, functions=(function, few, same)))
    assert sentences.local_sentences(facts) == ("In leaf 1, the weight of A is ×3.0; over all rows it is ×1.00.",)
