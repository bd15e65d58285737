"""The sentences of the report: what the numbers mean. A sentence is written only if the numbers support it.

The thresholds are named constants: what counts as a clear weight, a high probability, a different share, a rare class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from postshift.report.facts import Belief, Facts, FunctionWeights
from postshift.report.formats import NO_BREAK, factor, interval, number, percent, rows
from postshift.rules.record import Certificate
from postshift.rules.verdict import verdict_of

Kind = Literal["worth it", "may be noise", "no change", "base kept", "not worth it", "best of several", "constrained"]

CLEARLY = 1.25  # a weight above this, or below its reciprocal, gets a sentence
MUCH = 0.2  # a mean probability of another class that gets a sentence
FEW_ROWS = 10  # for a class with fewer rows, no cause is given
ONE_WAY = 2.0  # how many times more probability must go to the other class than back; calibrated models give the same
GOES_THERE = 0.5  # share of what a class lacks in the training labels that the other class must have in excess
OTHER_SHARE = 1.5  # shares that differ by this factor are different
RARE, COMMON = 0.5, 1.5  # times 1 / m
LOCALLY = 1.5  # a weight under a basis function that differs from the overall one by this factor gets a sentence
LOCAL_ROWS = 30  # weights under functions with fewer rows get no sentence
MAX_SENTENCES = 8
_NOT_USED = "These rows were not used for the fit: neither the rule nor its weights were chosen on them."


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict: its kind, the headline, and sentences that qualify it."""

    kind: Kind
    headline: str
    details: tuple[str, ...]


def judgement(facts: Facts) -> Judgement:
    """Return the verdict on the rows that the page is about."""
    kind, where = kind_of(facts), _on_which_rows(facts)
    if kind == "constrained":
        headline = f"{facts.metric.name} is {_after(facts)} {where}, subject to {_n_constraints(facts)}."
        return Judgement(kind=kind, headline=headline, details=tuple(_constrained_details(facts)))
    endings = {
        "worth it": "worth it",
        "may be noise": "the difference may be noise",
        "not worth it": "not worth using: the model alone is better",
        "no change": f"{'the model is kept as it is, and ' if facts.verdict.fallback else ''}no label changes",
        "best of several": f"the best of {len(facts.rules)} scores on the same rows",
    }
    if kind == "base kept":
        value = f"{facts.metric.name} is {number(facts.metric.own_number(facts.scored.before))}"
        headline = f"The model is kept as it is: no rule is likely enough to be better. {value} {where}."
    else:
        headline = f"{_before_and_after(facts)} {where}: {endings[kind]}."
    return Judgement(kind=kind, headline=headline, details=tuple(_details(facts, kind)))


def kind_of(facts: Facts) -> Kind:
    """Return the kind of verdict: the interval of the gain decides, if there is one.

    A rule with constraints is not compared with the base, which has none.
    """
    limits = facts.scored.gain_interval
    if facts.constraints is not None:
        return "constrained"
    if facts.verdict.fallback and facts.test is None:
        return "base kept"
    if facts.changes.n_changed == 0:
        return "no change"
    return "best of several" if limits is None else verdict_of(limits)


def _on_which_rows(facts: Facts) -> str:
    """Return a phrase that names the rows of the scores."""
    verdict = facts.verdict
    if facts.test is not None:
        return f"on {facts.test.n_rows:,} test row{'' if facts.test.n_rows == 1 else 's'}"
    if verdict.in_fit:
        return f"on {rows(verdict.n_rows)} that were also used for the fit"
    some = rows(verdict.n_rows) if verdict.n_rows == verdict.n_val else f"{verdict.n_rows:,} of {rows(verdict.n_val)}"
    return f"on {some} held out from the fit"


def _before_and_after(facts: Facts) -> str:
    """Return the metric before and after, with the interval."""
    metric, scores = facts.metric, facts.scored
    before, after = metric.own_number(scores.before), metric.own_number(scores.after)
    if number(before) == number(after):
        moves = f"stays at {number(after)}"
    else:
        moves = f"{'rises' if after > before else 'falls'} from {number(before)} to {number(after)}"
    within = ""
    if scores.after_interval is not None:
        within = f" (95{NO_BREAK}% interval {interval(metric.own_interval(scores.after_interval))})"
    return f"{metric.name} {moves}{within}"


def _after(facts: Facts) -> str:
    """Return the score of the result, with the interval."""
    metric, scores = facts.metric, facts.scored
    limits = scores.after_interval
    within = "" if limits is None else f" (95{NO_BREAK}% interval {interval(metric.own_interval(limits))})"
    return f"{number(metric.own_number(scores.after))}{within}"


def _n_constraints(facts: Facts) -> str:
    """Return the number of constraints in words."""
    records = () if facts.constraints is None else facts.constraints.records
    return "one constraint" if len(records) == 1 else f"{len(records)} constraints"


def _constrained_details(facts: Facts) -> list[str]:
    """Return the sentences that qualify the headline of a rule with constraints."""
    metric, found = facts.metric, []
    if facts.test is not None:
        found.append(_NOT_USED)
    found.append(f"The model as it is has {number(metric.own_number(facts.scored.before))} without constraints.")
    found.append(holds_sentence(facts))
    if metric.is_cost:
        found.append(f"Lower {metric.name} is better.")
    return found


def holds_sentence(facts: Facts) -> str:
    """Say whether the constraints hold on the rows that the page is about."""
    records = () if facts.constraints is None else facts.constraints.records
    missed = [f"{each.text} (the value is {number(each.value)})" for each in records if not each.holds]
    if missed:
        return f"On these rows, {_listed(missed)} {'does' if len(missed) == 1 else 'do'} not hold."
    return "The constraint holds on these rows." if len(records) == 1 else "All constraints hold on these rows."


def guarantee_sentence(confidence: float | None, certificate: Certificate | None) -> str:
    """Say what was certified, by which tests and on which rows; or that nothing was.

    Examples
    --------
    >>> guarantee_sentence(None, None)
    'There is no guarantee: on new rows, a constraint may be missed.'
    """
    if confidence is None:
        return "There is no guarantee: on new rows, a constraint may be missed."
    level = f"{100 * confidence:g}{NO_BREAK}%"
    if certificate is None:
        return f"Nothing could be certified at a confidence of {level}: this is the closest rule, without a guarantee."
    tests = "; ".join(dict.fromkeys(test.test for test in certificate.tests))
    on = [f"{certificate.n_rows:,} labelled rows"]
    if certificate.n_unlabelled:
        on.append(f"{certificate.n_unlabelled:,} rows without labels")
    about = "" if certificate.is_exact else "about "
    held = f"{_listed(certificate.constraints)} {'holds' if len(certificate.constraints) == 1 else 'hold'}"
    how = f"{tests}; {_listed(on)}; p = {certificate.p_value:.2g}"
    return f"With a confidence of {about}{level}, {held} for new rows from the same source ({how})."


def _listed(texts: Sequence[str]) -> str:
    """Return texts as a list in a sentence."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _details(facts: Facts, kind: Kind) -> list[str]:
    """Return the sentences that qualify the headline."""
    metric, scores, found = facts.metric, facts.scored, []
    if facts.test is not None:
        found.append(_NOT_USED)
    if scores.gain_interval is not None and kind not in ("base kept", "no change"):
        gain = number(metric.own_number(scores.gain), signed=True)
        limits = interval(metric.own_interval(scores.gain_interval), signed=True)
        found.append(f"The change is {gain}, with a 95{NO_BREAK}% interval of {limits}.")
    if metric.is_cost:
        found.append(f"Lower {metric.name} is better.")
    if facts.test is None and facts.verdict.in_fit and not facts.verdict.fallback:
        found.append("The change on new rows may be smaller.")
    if kind == "best of several":
        found.append(
            "No interval can be computed from scores alone: score the result on other rows before you rely on it."
        )
    return found


def change_sentence(facts: Facts) -> str:
    """Say how many labels change, and how many become right and wrong."""
    changes = facts.changes
    if changes.n_changed == 0:
        return f"None of the {changes.n_rows:,} labels differ from the model's."
    share, verb = percent(changes.n_changed / changes.n_rows), "differs" if changes.n_changed == 1 else "differ"
    said = f"{changes.n_changed:,} of {changes.n_rows:,} labels ({share}) {verb} from the model's"
    if changes.n_right is None or changes.n_wrong is None:
        return f"{said}."
    others = changes.n_changed - changes.n_right - changes.n_wrong
    ending = f", {others:,} change from one wrong label to another" if others else ""
    return f"{said}: {changes.n_right:,} become right, {changes.n_wrong:,} become wrong{ending}."


def choice_sentence(facts: Facts) -> str:
    """Say how the result was chosen; for a cost, scores are left out, because the reason shows them with a minus."""
    verdict = facts.verdict
    if facts.constraints is not None:
        return f"The result maximises the metric subject to {_n_constraints(facts)}; the base has no constraints."
    if facts.metric.is_cost:
        weights = {rule.name: rule.weight for rule in facts.rules}
        return result_sentence(weights, how=verdict.how, fallback=verdict.fallback)
    return f"{verdict.reason[:1].upper()}{verdict.reason[1:]}."


def result_sentence(weights: Mapping[str, float], *, how: str, fallback: bool) -> str:
    """Say which rules the result consists of, by their weights."""
    kept = {name: weight for name, weight in weights.items() if weight > 0}
    first = max(kept, key=kept.__getitem__)
    if fallback:
        return "The base is kept: no rule is likely enough to be better."
    if how == "only":
        return f"You chose {first!r}."
    if len(kept) == 1:
        return f"The result is {first!r}."
    return f"The result is an average of {len(kept)} rules; {first!r} has the largest weight, {percent(kept[first])}."


def weight_sentences(facts: Facts) -> tuple[str, ...]:
    """Say which classes are clearly up- or down-weighted, and the likely reasons."""
    weights = np.array(facts.weights.by_class)
    order = np.argsort(-np.abs(np.log(weights)), kind="stable")
    if len(weights) == 2:  # one sentence describes both
        order = order[weights[order] > 1]
    clear = [int(k) for k in order if not 1 / CLEARLY < _shown_weight(facts, int(k)) < CLEARLY]
    found = [_weight_sentence(facts, k) for k in clear[:MAX_SENTENCES]]
    if len(clear) > MAX_SENTENCES:
        found.append(f"{len(clear) - MAX_SENTENCES:,} more classes are clearly up- or down-weighted: see the table.")
    return (*found, *_swaps(facts))


def _shown_weight(facts: Facts, k: int) -> float:
    """Return the weight of a class; if there are two classes, divided by the other's."""
    weights = facts.weights.by_class
    return weights[k] / weights[1 - k] if len(weights) == 2 else weights[k]


def local_sentences(facts: Facts) -> tuple[str, ...]:
    """Say under which basis functions the weights clearly differ from those over all rows."""
    overall = np.array(facts.weights.by_class)
    found = []
    for function in facts.weights.functions:
        if function.n_rows >= LOCAL_ROWS:
            apart = np.array(function.by_class) / overall
            k = int(np.argmax(np.abs(np.log(apart))))
            if apart[k] >= LOCALLY or apart[k] <= 1 / LOCALLY:
                found.append((float(abs(np.log(apart[k]))), _local(facts, function, k)))
    return tuple(text for _, text in sorted(found, reverse=True)[:MAX_SENTENCES])


def _local(facts: Facts, function: FunctionWeights, k: int) -> str:
    """Say how one class is weighted under one function."""
    here, everywhere = factor(function.by_class[k]), factor(facts.weights.by_class[k])
    return f"In {function.name}, the weight of {facts.name(k)} is {here}; over all rows it is {everywhere}."


def _weight_sentence(facts: Facts, k: int) -> str:
    """Say how a class is weighted, and why."""
    weight = facts.weights.by_class[k]
    up = weight > 1
    against = f" against {facts.name(1 - k)}" if len(facts.classes) == 2 else ""
    said = f"{facts.name(k)} is {'up' if up else 'down'}-weighted ({factor(_shown_weight(facts, k))}{against})"
    reasons = [_from_beliefs(facts, k, up=up), _from_shares(facts, k, up=up), _from_metric(facts, k, up=up)]
    given = [reason for reason in reasons if reason]
    return f"{said}: {'; '.join(given)}." if given else f"{said}."


def _from_beliefs(facts: Facts, k: int, *, up: bool) -> str:
    """Return the reason found in the model's probabilities; none if the model was fitted to these rows."""
    if facts.refitted:
        return ""
    if not up:
        others = [b for b in facts.beliefs if b.other == k and _is_much(b)]
        if not others:
            return ""
        most = max(others, key=lambda b: b.to_other * b.mass)
        return f"{_mean_probability(facts, most)} for {facts.name(k)}"
    for belief in facts.beliefs:
        if belief.true == k and _is_much(belief):
            other = facts.name(belief.other)
            said = f"{_mean_probability(facts, belief)} for {other} and {belief.own:.2f} for {facts.name(k)}"
            mislabelled = is_mislabelled(facts, belief)
            return f"{said}, as if many of them were labelled {other} in training" if mislabelled else said
    return ""


def _mean_probability(facts: Facts, belief: Belief) -> str:
    """Return the beginning of a sentence about the other class."""
    return f"the model gives rows of {facts.name(belief.true)} a mean probability of {belief.to_other:.2f}"


def _is_much(belief: Belief) -> bool:
    """Return whether rows of a class have a high probability of another class."""
    return belief.n_rows >= FEW_ROWS and belief.to_other >= MUCH


def is_mislabelled(facts: Facts, belief: Belief) -> bool:
    """Return whether many rows of a class seem to have the label of the other class in training.

    Between two classes that are hard to separate, a calibrated model gives as much probability one way as the other. If
    the training labels are known, this class must also be too rare among them, and the other class too frequent.
    """
    if belief.mass * belief.to_other < ONE_WAY * belief.other_mass * belief.back:
        return False
    training, validation = facts.shares.training, facts.shares.validation
    if training is None or validation is None:
        return True
    lacking = validation[belief.true] - training[belief.true]
    too_much = training[belief.other] - validation[belief.other]
    return lacking > 0 and too_much >= GOES_THERE * lacking


def _swaps(facts: Facts) -> list[str]:
    """Say which pairs of classes look swapped: rows of each have a higher probability of the other class."""
    if facts.refitted:
        return []
    by_class = {belief.true: belief for belief in facts.beliefs}
    found = []
    for a in facts.beliefs:
        b = by_class.get(a.other)
        if b is None or b.other != a.true or b.true < a.true or min(a.n_rows, b.n_rows) < FEW_ROWS:
            continue
        if a.to_other > a.own and b.to_other > b.own:
            one, two = facts.name(a.true), facts.name(b.true)
            found.append(
                f"{one} and {two} look swapped in many training labels: {_mean_probability(facts, a)} for {two}, and "
                f"rows of {two} a mean probability of {b.to_other:.2f} for {one}."
            )
    return found


def _from_shares(facts: Facts, k: int, *, up: bool) -> str:
    """Return the reason found in the shares of the class."""
    if facts.shares.training is None or facts.shares.validation is None:
        return ""
    here, there = facts.shares.validation[k], facts.shares.training[k]
    differs = here >= OTHER_SHARE * there if up else there >= OTHER_SHARE * here
    if not differs or here == there:
        return ""
    where = f"{percent(here)} of the {facts.sample} rows and {percent(there)} of the training labels"
    return f"{facts.name(k)} makes up {where}"


def _from_metric(facts: Facts, k: int, *, up: bool) -> str:
    """Return the reason found in the metric."""
    if not facts.metric.counts_classes_evenly or facts.shares.validation is None:
        return ""
    share, even = facts.shares.validation[k], 1 / len(facts.classes)
    if up and 0 < share <= RARE * even:
        said = f"it is rare ({percent(share)} of the rows)"
        return f"{said}, and {facts.metric.name} counts rare classes as much as others"
    if not up and share >= COMMON * even:
        return f"it is common ({percent(share)} of the rows), and {facts.metric.name} counts it no more than others"
    return ""
