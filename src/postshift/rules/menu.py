"""The menu: which rules are tried for a problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from postshift._validation import unknown
from postshift.core.rows import CONSTANT
from postshift.exceptions import SettingError
from postshift.metrics.penalised import Penalised
from postshift.rules.by_counts import ByCounts
from postshift.rules.constrained import Constrained
from postshift.rules.fitted import Rule
from postshift.rules.loops import Influence, Paper
from postshift.rules.problem import Problem
from postshift.rules.scoring import How
from postshift.rules.search import PluginSearch
from postshift.rules.simple import Base, InversePrior, Stacked
from postshift.rules.soft_weights import ExpectedUtility, SmoothedPlugin

AUTOMATIC: dict[str, How] = {"auto": "average", "best": "best"}  # methods that use the whole menu, and how
_WITHOUT_A_BASIS: dict[str, Rule] = {
    "base": Base(),
    "inverse prior": InversePrior(),
    "smoothed plug-in": SmoothedPlugin(),
    "expected utility": ExpectedUtility(),
    "plug-in search": PluginSearch(),
    "expected counts": ByCounts("eta"),
    "label counts": ByCounts("labels"),
    "stack": Stacked(),
    "stack + smoothed plug-in": Stacked(SmoothedPlugin()),
    "stack + expected utility": Stacked(ExpectedUtility()),
    "stack + plug-in search": Stacked(PluginSearch()),
}
_OVER_A_BASIS: dict[str, Callable[[str], Rule]] = {  # the name of the basis follows in brackets
    "influence": Influence,
    "stack + influence": lambda basis: Stacked(Influence(basis)),
    "FW-EG": Paper,
    "PI-EW": partial(Paper, max_iter=1),
    "rate program": lambda basis: Constrained(basis=basis),
}
_SHORT = {  # over the user's basis
    "paper": "FW-EG",
    "influence": "influence",
    "stack + influence": "stack + influence",
    "rate program": "rate program",
}
_SPARSE = ("base", "inverse prior", "expected counts", "label counts")  # the rules that read sparse eta
QUERY_ITERATIONS = 10
NOISY_RADIUS = 0.4  # of probes, if answers have noise
TABLE_ITERATIONS = 5  # if a table with noise was the only answer
QUERY_PROBES = 500  # per iteration; with more, influence regression needs too many queries


def menu(problem: Problem) -> tuple[Rule, ...]:
    """Return the rules that can be used for a problem, the base first.

    With labels: the model as it is, the inverse prior, the smoothed plug-in, the stack alone and with the smoothed
    plug-in and expected utility, and influence regression on eta and on the stack over every basis. If the metric has
    a penalty for a gap between groups, which has a kink, the rate program over every basis is tried too. If the metric
    only returns scores: the rules that need no labels, with influence regression over one basis and few iterations. If
    that would need too many probes, the paper's method with diagonal weights takes its place. If there are labels, the
    stack is tried too. If eta is sparse: the base, the inverse prior, and the rules by counts.
    """
    every: list[Rule]
    if problem.val.is_sparse:
        every = [_WITHOUT_A_BASIS[name] for name in _SPARSE]
    elif problem.is_labelled:
        bases = list(problem.val.bases)
        every = [Base(), InversePrior(), SmoothedPlugin()]
        every += [Stacked(), Stacked(SmoothedPlugin()), Stacked(ExpectedUtility())]
        every += [rule for basis in bases for rule in (Influence(basis), Stacked(Influence(basis)))]
        if isinstance(problem.metric, Penalised):
            every += [Constrained(basis=basis) for basis in bases]
    else:
        basis = _main_basis(problem)
        n_probes = problem.val.bases[basis].shape[1] * problem.n_classes**2
        too_many = n_probes > QUERY_PROBES
        main: Rule = Paper(basis, max_iter=QUERY_ITERATIONS) if too_many else Influence(basis, QUERY_ITERATIONS)
        every = [Base(), InversePrior(), SmoothedPlugin(), main]
        every += [Stacked(), Stacked(SmoothedPlugin()), Stacked(main)]
    return tuple(rule for rule in every if rule.usable(problem))


def noisy_menu(problem: Problem, *, max_iter: int = 1, radius: float = NOISY_RADIUS) -> tuple[Rule, ...]:
    """Return the rules for answers with noise: two that ask nothing, and one that asks as little as possible.

    It is influence regression with few iterations for a table, of which everything else is computed; otherwise the
    paper's method, by default with one iteration, of probes that are far apart.
    """
    basis = _main_basis(problem)
    main: Rule = Paper(basis, max_iter=max_iter, radius=radius)
    if problem.kind.name == "table":
        main = Influence(basis, TABLE_ITERATIONS)
    return tuple(rule for rule in (Base(), InversePrior(), main) if rule.usable(problem))


def rule_named(name: str, problem: Problem) -> Rule:
    """Return a rule by its name, whether it is on the problem's menu or not.

    ``"paper"``, ``"influence"`` and ``"stack + influence"`` are these rules over the last basis, which is the user's.
    """
    rule = _rule_over(list(problem.val.bases), name)
    if problem.val.is_sparse and name not in _SPARSE:
        raise SettingError(
            f"rule {name!r} needs dense rows, but eta is sparse: choose from {', '.join(map(repr, _SPARSE))}, or "
            "'auto' for the best of them; or give eta.toarray() if memory allows"
        )
    if not rule.usable(problem):
        raise SettingError(
            f"rule {name!r} cannot be used here (available: {_offered(problem)}): give validation labels, and a metric "
            "of the confusion matrix (a name, from_confusion, or a function that takes sample_weight); or choose "
            "another rule, or 'auto' for all rules that can be used"
        )
    return rule


def check_method(method: Any) -> None:
    """Raise if ``method`` is unknown; a name in brackets may be that of any basis."""
    if not isinstance(method, str):
        raise SettingError(f"method must be a name. Got {method!r} instead")
    if method not in AUTOMATIC:
        _rule_over([method.partition(" [")[2].removesuffix("]") or CONSTANT], method)


def _rule_over(bases: Sequence[str], name: str) -> Rule:
    """Return a rule by its name; the last basis is the user's."""
    if name in _WITHOUT_A_BASIS:
        return _WITHOUT_A_BASIS[name]
    if name in _SHORT:
        return _OVER_A_BASIS[_SHORT[name]](bases[-1])
    head, _, rest = name.partition(" [")
    basis = rest.removesuffix("]")
    if head in _OVER_A_BASIS and basis in bases and name == f"{head} [{basis}]":
        return _OVER_A_BASIS[head](basis)
    over = [f"{each} [{basis}]" for basis in bases for each in _OVER_A_BASIS]
    raise SettingError(unknown(name, [*AUTOMATIC, *_WITHOUT_A_BASIS, *over, *_SHORT], what="method"))


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
