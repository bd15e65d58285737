"""What the scores of test rows mean, in sentences."""

from __future__ import annotations

from postshift.report.facts import Facts, Scores
from postshift.report.text import NO_BREAK, interval, number
from postshift.report.words import Judgement, Kind, own_interval, own_number


def unseen_judgement(facts: Facts, scores: Scores) -> Judgement:
    """Return what came of the test rows in a sentence, with what qualifies it."""
    kind = _kind(facts, scores)
    value = number(own_number(facts, scores.after))
    if kind == "no change":
        why = "the model is left as it is, and " if facts.verdict.fallback else ""
        headline = f"{facts.metric.name} is {value} on {_test_rows(scores)}: {why}no label changes."
    else:
        headline = f"{_moves(facts, scores)} on {_test_rows(scores)}: {_ENDINGS[kind]}."
    return Judgement(kind=kind, headline=headline, details=tuple(_details(facts, scores, kind)))


_ENDINGS = {
    "worth it": "worth it",
    "may be noise": "the difference may be noise",
    "not worth it": "not worth it, the model as it is does better",
}


def _test_rows(scores: Scores) -> str:
    """Return how many rows there are."""
    return f"{scores.n_rows:,} test row{'' if scores.n_rows == 1 else 's'}"


def _kind(facts: Facts, scores: Scores) -> Kind:
    """Return the kind of verdict: the interval of the gain decides."""
    low, high = scores.gain_interval
    if facts.changes.n_changed == 0:
        return "no change"
    if low > 0:
        return "worth it"
    return "not worth it" if high < 0 else "may be noise"


def _moves(facts: Facts, scores: Scores) -> str:
    """Return the metric before and after, with the interval."""
    before, after = (own_number(facts, each) for each in (scores.before, scores.after))
    limits = interval(own_interval(facts, scores.after_interval))
    if number(before) == number(after):
        moves = f"stays at {number(after)}"
    else:
        moves = f"{'rises' if after > before else 'falls'} from {number(before)} to {number(after)}"
    return f"{facts.metric.name} {moves} (95{NO_BREAK}% interval {limits})"


def _details(facts: Facts, scores: Scores, kind: Kind) -> list[str]:
    """Return what qualifies the headline."""
    found = ["These rows were not used for the fit: neither the rule nor its weights were chosen on them."]
    if kind != "no change":
        gain = number(own_number(facts, scores.gain), signed=True)
        limits = interval(own_interval(facts, scores.gain_interval), signed=True)
        found.append(f"The change is {gain}, with a 95{NO_BREAK}% interval of {limits}.")
    if facts.metric.is_cost:
        found.append(f"Less of {facts.metric.name} is better.")
    return found
