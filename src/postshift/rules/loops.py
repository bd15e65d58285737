"""The rules with a Frank-Wolfe loop: the paper's method, and influence regression.

With one iteration, the paper's method is PI-EW (Algorithm 2), else FW-EG (Algorithm 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from postshift.core.frank_wolfe import FitResult
from postshift.core.fw_eg import FwEgRun, Settings
from postshift.core.influence import InfluenceSettings, influence_fit
from postshift.core.mixture import Mixture
from postshift.core.psi import DifferentiableMetric
from postshift.core.queries import Fit
from postshift.core.rows import CONSTANT, Rows
from postshift.core.sums import Engine
from postshift.core.weighting import weighting_named
from postshift.exceptions import LabelError
from postshift.rules.fitted import LABELLING_QUERIES, FittedRule, with_best_labels
from postshift.rules.problem import Problem, engine_over

ENOUGH_CELLS = 2_000_000  # rows times classes; with labels, more of them change the result by noise only
PER_COEFFICIENT = 10_000  # at least this many rows per coefficient are kept
MANY_CLASSES = 20  # a probe of radius 0.1 gives a class more than twice its rows; with fewer, that only smooths
SETTLED = 0.05  # times the largest standard error of a share of the rows, 0.5 / sqrt(n): more iterations change nothing
MANY_ROWS = 20_000  # with this many validation rows, the bias of distant probes outweighs their smoothing


@dataclass(frozen=True, slots=True)
class Paper:
    """FW-EG (or, with one iteration, PI-EW) over one basis, as a rule of the menu.

    It needs labels of training rows. Without training rows, the validation rows serve as both.

    Parameters
    ----------
    basis : str
        The name of a basis of the rows.
    weighting : {"diagonal", "columns", "full"} or tuple of pairs, optional
        Which confusion entries get weights, as in :func:`postshift.core.weighting.weighting_named`; by default those
        that the metric depends on ("diagonal" if it is unknown).
    max_iter : int
        Frank-Wolfe iterations; 1 is PI-EW.
    radius : float, optional
        How far the probes are from the current classifier; by default .1, or less with very many labelled rows.
    """

    basis: str = CONSTANT
    weighting: str | tuple[tuple[int, int], ...] | None = None
    max_iter: int = 30
    radius: float | None = None

    @property
    def name(self) -> str:
        """The name of the rule."""
        return f"{'PI-EW' if self.max_iter == 1 else 'FW-EG'} [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether there are training labels and this basis."""
        return problem.train_or_val.labels is not None and self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:
        """Return the maximum number of queries: one per probe and iteration, and a few for the labels."""
        if problem.is_labelled:
            return 0
        if problem.kind.matrices:
            return self.max_iter + 1 + LABELLING_QUERIES
        n_probes = weighting_named(self._weighting(problem)).probes.n_probes(problem.n_classes)
        n_bases: int = problem.val.functions(self.basis).shape[1]
        return self.max_iter * (1 + n_bases * n_probes) + 1 + LABELLING_QUERIES

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Run the loop, then choose the way to deterministic labels; of very many rows, a random sample is used."""
        problem = problem.few_rows(self._n_enough(problem))
        train = problem.train_or_val
        if train.labels is None:
            raise LabelError(
                "the paper's method needs training rows with labels: give them, or use influence regression"
            )
        run = FwEgRun(
            self._engine(problem, train),
            problem.val.over(self.basis),
            kind=problem.kind,
            metric=problem.looked_at,
            settings=self._settings(problem),
            held=problem.held(self.basis),
        )
        return (yield from _loop_rule(self.name, run.fit(), problem, basis=self.basis))

    def _settings(self, problem: Problem) -> Settings:
        """Return the settings of the run. With labels it sees psi itself, and can tell when it has settled."""
        how: dict[str, Any] = {"weighting": self._weighting(problem), "max_iter": self.max_iter}
        if self.radius is not None:
            how["radius"] = self.radius
        if not problem.is_labelled:
            return Settings(**how)
        n_rows, smooth = problem.val.n_rows, isinstance(problem.fitting_metric, DifferentiableMetric)
        return Settings(
            **{"radius": 0.01 if n_rows >= MANY_ROWS else 0.1, **how},
            linearise="gradient" if smooth and problem.n_classes >= MANY_CLASSES else "probes",
            tol=SETTLED * 0.5 / np.sqrt(n_rows),
        )

    def _engine(self, problem: Problem, train: Rows) -> Engine:
        """Return the engine of the training rows; if they are the validation rows, the one that already holds these."""
        held = problem.held(self.basis)
        same = train is problem.val and problem.n_categories == problem.n_classes
        return held if held is not None and same else engine_over(train, self.basis)

    def _n_enough(self, problem: Problem) -> int:
        """Return how many rows of each sample are enough to determine the coefficients."""
        n_bases: int = problem.val.functions(self.basis).shape[1]
        n_coefficients = n_bases * weighting_named(self._weighting(problem)).n_terms(problem.n_classes)
        return max(ENOUGH_CELLS // problem.n_classes, PER_COEFFICIENT * n_coefficients)

    def _weighting(self, problem: Problem) -> str | tuple[tuple[int, int], ...]:
        """Return which confusion entries get weights."""
        return self.weighting or ("diagonal" if problem.metric is None else problem.metric.weighting)


@dataclass(frozen=True, slots=True)
class Influence:
    """Influence regression over one basis (:mod:`postshift.core.influence`), with full weights.

    Parameters
    ----------
    basis : str
        The name of a basis of the rows.
    max_iter : int
        Frank-Wolfe iterations.
    """

    basis: str = CONSTANT
    max_iter: int = 30

    @property
    def name(self) -> str:
        """The name of the rule."""
        return f"influence [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether the rows have this basis."""
        return self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:
        """Return the maximum number of queries: one per probe and iteration, and a few for the labels."""
        if problem.is_labelled:
            return 0
        if problem.kind.matrices:
            return self.max_iter + 1 + LABELLING_QUERIES
        n_features: int = problem.val.functions(self.basis).shape[1] * problem.n_classes
        return self.max_iter * (1 + n_features * problem.n_classes) + 1 + LABELLING_QUERIES

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Run the loop, then choose the way to deterministic labels."""
        run = influence_fit(
            None if problem.train is None else engine_over(problem.train, self.basis),
            problem.val.over(self.basis),
            kind=problem.kind,
            metric=problem.looked_at,
            settings=InfluenceSettings(max_iter=self.max_iter),
            held=problem.held(self.basis),
        )
        return (yield from _loop_rule(self.name, run, problem, basis=self.basis))


def _loop_rule(name: str, run: Fit[FitResult], problem: Problem, *, basis: str) -> Fit[FittedRule]:
    """Return the rule that a run of the Frank-Wolfe loop finds, with the best way to deterministic labels."""

    def as_rule(mixture: Mixture) -> FittedRule:
        return FittedRule(name=name, mixture=mixture, basis=basis)

    found = yield from problem.asking(run, as_rule=as_rule)
    return (yield from with_best_labels(replace(as_rule(found.mixture), trace=found.trace), problem))
