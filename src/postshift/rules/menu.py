"""The menu: which rules are tried, by what the problem offers."""

from __future__ import annotations

from postshift.exceptions import SettingError
from postshift.rules.fitted import Rule
from postshift.rules.influence import Influence
from postshift.rules.paper import Paper
from postshift.rules.problem import Problem
from postshift.rules.search import PluginSearch
from postshift.rules.simple import Base, InversePrior
from postshift.rules.soft_weights import ExpectedUtility, SmoothedPlugin
from postshift.rules.stacked import Stacked

QUERY_ITERATIONS = 10
QUERY_PROBES = 500  # more probes an iteration than this are too dear where each is a question


def menu(problem: Problem) -> tuple[Rule, ...]:
    """Return the entries that the problem has the means for, the base first.

    With labels: the model as it is, the inverse prior, the smoothed plug-in, the stack alone and with the smoothed
    plug-in and expected utility, and influence regression on eta and on the stack over every basis. Where only values
    are told: the label-free ones, with influence regression over one basis and few iterations, or, where it would take
    too many probes, the paper's method with diagonal weights.
    """
    if problem.is_labelled:
        bases = list(problem.val.bases)
        every: list[Rule] = [Base(), InversePrior(), SmoothedPlugin()]
        every += [Stacked(), Stacked(SmoothedPlugin()), Stacked(ExpectedUtility())]
        every += [rule for basis in bases for rule in (Influence(basis), Stacked(Influence(basis)))]
    else:
        basis = list(problem.val.bases)[-1]  # the user's, if there is one
        n_probes = problem.val.bases[basis].shape[1] * problem.n_classes**2
        dear = n_probes > QUERY_PROBES
        main: Rule = Paper(basis, max_iter=QUERY_ITERATIONS) if dear else Influence(basis, QUERY_ITERATIONS)
        every = [Base(), InversePrior(), SmoothedPlugin(), main]
    return tuple(rule for rule in every if rule.usable(problem))


def rule_named(name: str, problem: Problem) -> Rule:
    """Return any rule by its name, whether on the problem's menu or not."""
    bases = list(problem.val.bases)
    extra: list[Rule] = [PluginSearch(), Stacked(PluginSearch()), SmoothedPlugin()]
    extra += [rule for basis in bases for rule in (Influence(basis), Paper(basis), Paper(basis, max_iter=1))]
    known = {rule.name: rule for rule in (*extra, *menu(problem))}
    if name not in known:
        raise SettingError(f"there is no rule {name!r}; there are {sorted(known)}")
    return known[name]
