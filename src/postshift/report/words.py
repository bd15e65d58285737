"""What the numbers mean, in sentences; none is said that the numbers do not support.

The thresholds are named constants: what counts as clearly weighted, as much probability, as another share, as rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from postshift.report.facts import Belief, Facts, FunctionWeights
from postshift.report.text import NO_BREAK, factor, interval, number, percent, rows
from postshift.rules.verdict import verdict_of

Kind = Literal["worth it", "may be noise", "no change", "left as it is", "not worth it", "best of several"]

CLEARLY = 1.25  # a weight this many times above or below 1 is worth a sentence
MUCH = 0.2  # a mean probability of a wrong class that is worth a sentence
FEW_ROWS = 10  # of a class with fewer rows nothing is said about causes
ONE_WAY = 2.0  # so much more goes from A to B than back: a calibrated model would give both the same
GOES_THERE = 0.5  # of what a class lacks in the training labels, the other class must have this share too much
OTHER_SHARE = 1.5  # shares that differ by this factor are different
RARE, COMMON = 0.5, 1.5  # times 1 / m
LOCALLY = 1.5  # a weight in a basis function that differs from the overall one by this factor is worth a sentence
LOCAL_ROWS = 30  # in functions with fewer rows, weights are not talked about
MAX_SENTENCES = 8


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict: what kind it is, the headline, and sentences that qualify it."""

    kind: Kind
    headline: str
    details: tuple[str, ...]


def judgement(facts: Facts) -> Judgement:
    """Return the verdict in a sentence, with what qualifies it."""
    kind = kind_of(facts)
    endings = {
        "worth it": "worth it",
        "may be noise": f"the {'gain' if facts.verdict.gain >= 0 else 'difference'} may be noise",
        "not worth it": "not worth it, the model as it is does better",
        "no change": "no label changes",
        "best of several": f"the best of {len(facts.rivals)} scores on the same rows",
    }
    if kind == "left as it is":
        headline = f"The model is left as it is: {_because(facts)}."
    else:
        headline = f"{_before_and_after(facts)}: {endings[kind]}."
    return Judgement(kind=kind, headline=headline, details=tuple(_details(facts, kind)))


def kind_of(facts: Facts) -> Kind:
    """Return the kind of verdict: the interval of the gain decides, where there is one."""
    limits = facts.verdict.gain_interval
    if facts.verdict.fallback:
        return "left as it is"
    if facts.changes.n_changed == 0:
        return "no change"
    return "best of several" if limits is None else verdict_of(limits)


def own_number(facts: Facts, score: float) -> float:
    """Return a score as the user's own number: a cost without its minus."""
    return -score if facts.metric.is_cost else score


def own_interval(facts: Facts, limits: tuple[float, float]) -> tuple[float, float]:
    """Return an interval of the user's own number."""
    return (-limits[1], -limits[0]) if facts.metric.is_cost else limits


def on_what(facts: Facts) -> str:
    """Say on what rows the scores are."""
    verdict = facts.verdict
    if verdict.in_fit:
        return f"on {rows(verdict.n_rows)} that the fit has seen too"
    some = "" if verdict.n_rows == verdict.n_val else f" of {verdict.n_val:,}"
    return f"on {rows(verdict.n_rows)}{some} held out of the fit"


def _before_and_after(facts: Facts) -> str:
    """Return the metric before and after, with the interval, and on what rows."""
    verdict = facts.verdict
    before, after = (own_number(facts, each) for each in (verdict.before, verdict.after))
    if number(before) == number(after):
        moves = f"stays at {number(after)}"
    else:
        moves = f"{'rises' if after > before else 'falls'} from {number(before)} to {number(after)}"
    within = ""
    if verdict.after_interval is not None:
        within = f" (95{NO_BREAK}% interval {interval(own_interval(facts, verdict.after_interval))})"
    return f"{facts.metric.name} {moves}{within} {on_what(facts)}"


def _because(facts: Facts) -> str:
    """Say why the model is left as it is."""
    value = number(own_number(facts, facts.verdict.before))
    return f"no rule is likely enough to be better. {facts.metric.name} is {value} {on_what(facts)}"


def _details(facts: Facts, kind: Kind) -> list[str]:
    """Return what qualifies the verdict."""
    verdict, found = facts.verdict, []
    if verdict.gain_interval is not None and kind not in ("left as it is", "no change"):
        limits = interval(own_interval(facts, verdict.gain_interval), signed=True)
        gain = number(own_number(facts, verdict.gain), signed=True)
        found.append(f"The change is {gain}, with a 95{NO_BREAK}% interval of {limits}.")
    if facts.metric.is_cost:
        found.append(f"Less of {facts.metric.name} is better.")
    if verdict.in_fit and not verdict.fallback:
        found.append("The same rows were used for the fit, so that the change on new rows may be smaller.")
    if kind == "best of several":
        found.append("Scores alone give no honest interval: score the rule on other rows before you rely on it.")
    return found


def change_sentence(facts: Facts) -> str:
    """Say how many rows changed their label, and to what end."""
    changes = facts.changes
    if changes.n_changed == 0:
        return f"None of {rows(changes.n_rows)} changes its label."
    said = f"{changes.n_changed:,} of {rows(changes.n_rows)} ({percent(changes.n_changed / changes.n_rows)}) change"
    said += f"{'s' if changes.n_changed == 1 else ''} the label"
    if changes.n_right is None or changes.n_wrong is None:
        return f"{said}."
    others = changes.n_changed - changes.n_right - changes.n_wrong
    ending = f", {others:,} go from one wrong label to another" if others else ""
    return f"{said}: {changes.n_right:,} become right, {changes.n_wrong:,} become wrong{ending}."


def choice_sentence(facts: Facts) -> str:
    """Say why the result is what it is; of a cost without the scores, which have a minus in the reason."""
    verdict = facts.verdict
    if facts.metric.is_cost:
        weights = {rival.name: rival.weight for rival in facts.rivals}
        return result_sentence(weights, how=verdict.how, fallback=verdict.fallback)
    return f"{verdict.reason[:1].upper()}{verdict.reason[1:]}."


def result_sentence(weights: Mapping[str, float], *, how: str, fallback: bool) -> str:
    """Say what the result is made of, by the weights of the rules."""
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
    """Say which classes are clearly up- or down-weighted, and the likely reason."""
    weights = np.array(facts.weights.by_class)
    order = np.argsort(-np.abs(np.log(weights)), kind="stable")
    if len(weights) == 2:  # one sentence says it of both
        order = order[weights[order] > 1]
    clear = [int(k) for k in order if is_clear(_told(facts, int(k)))]
    found = [_weight_sentence(facts, k) for k in clear[:MAX_SENTENCES]]
    if len(clear) > MAX_SENTENCES:
        found.append(f"{len(clear) - MAX_SENTENCES:,} more classes are clearly weighted: see the table.")
    return (*found, *_swaps(facts))


def _told(facts: Facts, k: int) -> float:
    """Return the weight of a class as it is told: of two classes, the ratio to the other's."""
    weights = facts.weights.by_class
    return weights[k] / weights[1 - k] if len(weights) == 2 else weights[k]


def is_clear(weight: float) -> bool:
    """Return whether a weight is clearly not 1."""
    return bool(weight >= CLEARLY or weight <= 1 / CLEARLY)


def local_sentences(facts: Facts) -> tuple[str, ...]:
    """Say where the weights clearly differ from those over all rows."""
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
    """Say how one class is weighted in one function."""
    here, everywhere = factor(function.by_class[k]), factor(facts.weights.by_class[k])
    return f"In {function.name}: {facts.name(k)} has {here}, over all rows {everywhere}."


def _weight_sentence(facts: Facts, k: int) -> str:
    """Say how a class is weighted, and why."""
    weight = facts.weights.by_class[k]
    up = weight > 1
    against = f" against {facts.name(1 - k)}" if len(facts.classes) == 2 else ""
    said = f"{facts.name(k)} is {'up' if up else 'down'}-weighted ({factor(_told(facts, k))}{against})"
    reasons = [_from_beliefs(facts, k, up=up), _from_shares(facts, k, up=up), _from_metric(facts, k, up=up)]
    given = [reason for reason in reasons if reason]
    return f"{said}: {'; '.join(given)}." if given else f"{said}."


def _from_beliefs(facts: Facts, k: int, *, up: bool) -> str:
    """Return the reason read off what the model gives to rows of a class; nothing of rows it was fitted to."""
    if facts.refitted:
        return ""
    if not up:
        others = [b for b in facts.beliefs if b.other == k and _is_much(b)]
        if not others:
            return ""
        most = max(others, key=lambda b: b.to_other * b.mass)
        return f"rows of {facts.name(most.true)} get {most.to_other:.2f} for {facts.name(k)} from the model"
    for belief in facts.beliefs:
        if belief.true == k and _is_much(belief):
            own, other = facts.name(k), facts.name(belief.other)
            said = f"rows of {own} get {belief.to_other:.2f} for {other} from the model, {belief.own:.2f} for {own}"
            return (
                f"{said}, as where training labels call many of them {other}" if is_mislabelled(facts, belief) else said
            )
    return ""


def _is_much(belief: Belief) -> bool:
    """Return whether rows of a class get much probability of another."""
    return belief.n_rows >= FEW_ROWS and belief.to_other >= MUCH


def is_mislabelled(facts: Facts, belief: Belief) -> bool:
    """Return whether training labels seem to call many rows of a class by the other one's name.

    Between two classes that are hard to tell apart, a calibrated model gives as much one way as the other; and what a
    class lacks in the training labels, where these are known, must be found at the other.
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
    """Say which pairs of classes look swapped: rows of each get more for the other. No calibrated model does that."""
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
                f"{one} and {two} look swapped in many training labels: rows of {one} get {a.to_other:.2f} for {two} "
                f"from the model, rows of {two} get {b.to_other:.2f} for {one}."
            )
    return found


def _from_shares(facts: Facts, k: int, *, up: bool) -> str:
    """Return the reason read off the shares of the class."""
    if facts.shares.training is None or facts.shares.validation is None:
        return ""
    here, there = facts.shares.validation[k], facts.shares.training[k]
    differs = here >= OTHER_SHARE * there if up else there >= OTHER_SHARE * here
    if not differs or here == there:
        return ""
    return f"it is {percent(here)} of the {facts.sample} rows and {percent(there)} of the training labels"


def _from_metric(facts: Facts, k: int, *, up: bool) -> str:
    """Return the reason that lies in the metric."""
    if not facts.metric.counts_classes_evenly or facts.shares.validation is None:
        return ""
    share, even = facts.shares.validation[k], 1 / len(facts.classes)
    if up and 0 < share <= RARE * even:
        return (
            f"it is rare ({percent(share)} of the rows), and {facts.metric.name} counts rare classes as much as others"
        )
    if not up and share >= COMMON * even:
        return f"it is common ({percent(share)} of the rows), and {facts.metric.name} counts it no more than others"
    return ""
