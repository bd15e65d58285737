"""The menu: which rules are tried for a problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from postshift._validation import unknown
from postshift.core.rows import CONSTANT
from postshift.exceptions import SettingError
from postshift.rules.fitted import Rule
from postshift.rules.influence import Influence
from postshift.rules.paper import Paper
from postshift.rules.problem import Problem
from postshift.rules.search import PluginSearch
from postshift.rules.selection import How
from postshift.rules.simple import Base, InversePrior
from postshift.rules.soft_weights import ExpectedUtility, SmoothedPlugin
from postshift.rules.stacked import Stacked

AUTOMATIC: dict[str, How] = {"auto": "average", "best": "best"}  # methods that use the whole menu, and how
QUERY_ITERATIONS = 10
QUERY_PROBES = 500  # per iteration; with more, influence regression needs too many queries


def menu(problem: Problem) -> tuple[Rule, ...]:
    """Return the rules that can be used for a problem, the base first.

    With labels: the model as it is, the inverse prior, the smoothed plug-in, the stack alone and with the smoothed
    plug-in and expected utility, and influence regression on eta and on the stack over every basis. If the metric
    only returns scores: the rules that need no labels, with influence regression over one basis and few iterations. If
    that would need too many probes, the paper's method with diagonal weights takes its place. If there are labels, the
    stack is tried too.
    """
    if problem.is_labelled:
        bases = list(problem.val.bases)
        every: list[Rule] = [Base(), InversePrior(), SmoothedPlugin()]
        every += [Stacked(), Stacked(SmoothedPlugin()), Stacked(ExpectedUtility())]
        every += [rule for basis in bases for rule in (Influence(basis), Stacked(Influence(basis)))]
    else:
        basis = _main_basis(problem)
        n_probes = problem.val.bases[basis].shape[1] * problem.n_classes**2
        too_many = n_probes > QUERY_PROBES
        main: Rule = Paper(basis, max_iter=QUERY_ITERATIONS) if too_many else Influence(basis, QUERY_ITERATIONS)
        every = [Base(), InversePrior(), SmoothedPlugin(), main]
        every += [Stacked(), Stacked(SmoothedPlugin()), Stacked(main)]
    return tuple(rule for rule in every if rule.usable(problem))


def rule_named(name: str, problem: Problem) -> Rule:
    """Return a rule by its name, whether it is on the problem's menu or not.

    ``"paper"``, ``"influence"`` and ``"stack + influence"`` are these rules over the last basis, which is the user's.
    """
    known = _named(list(problem.val.bases))
    if name not in known:
        raise SettingError(unknown(name, [*AUTOMATIC, *known], what="method"))
    if not known[name].usable(problem):
        raise SettingError(
            f"rule {name!r} cannot be used here (available: {_offered(problem)}): give validation labels, and a metric "
            "of the confusion matrix (a name, from_confusion, or a function that takes sample_weight); or choose "
            "another rule, or 'auto' for all rules that can be used"
        )
    return known[name]


def check_method(method: Any) -> None:
    """Raise if ``method`` is unknown; a name in brackets may be that of any basis."""
    if not isinstance(method, str):
        raise SettingError(f"method must be a name. Got {method!r} instead")
    basis = method.partition(" [")[2].removesuffix("]") or CONSTANT
    known = [*AUTOMATIC, *_named([basis])]
    if method not in known:
        raise SettingError(unknown(method, [*AUTOMATIC, *_named([CONSTANT])], what="method"))


def _named(bases: Sequence[str]) -> dict[str, Rule]:
    """Return every rule under its names; the last basis is the user's."""
    main = bases[-1]
    rules: list[Rule] = [Base(), InversePrior(), SmoothedPlugin(), ExpectedUtility(), PluginSearch()]
    rules += [Stacked(rule) for rule in rules if rule.name != "inverse prior"]
    for basis in bases:
        rules += [Influence(basis), Stacked(Influence(basis)), Paper(basis), Paper(basis, max_iter=1)]
    short: dict[str, Rule] = {
        "paper": Paper(main),
        "influence": Influence(main),
        "stack + influence": Stacked(Influence(main)),
    }
    return {**{rule.name: rule for rule in rules}, **short}


def _main_basis(problem: Problem) -> str:
    """Return the user's basis, or the constant basis if there is none."""
    return list(problem.val.bases)[-1]


def _offered(problem: Problem) -> str:
    """Describe what the problem has."""
    labels = [
        f"{name} labels"
        for name, part in (("training", problem.train), ("validation", problem.val))
        if part is not None and part.labels is not None
    ]
    shown = "a metric of soft predictions" if problem.kind.soft else "a metric of labels without weights"
    return f"{' and '.join(labels) or 'no labels'}, {'the metric itself' if problem.is_labelled else shown}"
