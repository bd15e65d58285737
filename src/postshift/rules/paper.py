"""The paper's method as a rule of the menu: FW-EG (Algorithm 3) or, with one iteration, PI-EW (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

from postshift.core.fw_eg import Settings, fw_eg_fit
from postshift.core.queries import Fit
from postshift.core.rows import CONSTANT, Rows
from postshift.core.sums import Engine
from postshift.core.weighting import weighting_named
from postshift.exceptions import LabelError
from postshift.rules.fitted import LABELLING_QUERIES, FittedRule, loop_rule
from postshift.rules.problem import Problem, engine_over

ENOUGH_CELLS = 2_000_000  # rows times classes: with labels, more of them change what is found by noise only
PER_COEFFICIENT = 10_000  # rows that are never too many
MANY_ROWS = 20_000  # validation rows from which the bias of distant probes counts for more than their smoothing


@dataclass(frozen=True, slots=True)
class Paper:
    """FW-EG (or, with one iteration, PI-EW) over one basis as an entry of the menu.

    It needs labels of training rows; where there are no training rows, the validation rows serve as both.

    Parameters
    ----------
    basis : str
        The name of a basis of the rows.
    weighting : str, optional
        What the weights stand on; by default what the metric depends on ("diagonal" where only scores are known).
    max_iter : int
        Frank-Wolfe iterations; 1 is PI-EW.
    """

    basis: str = CONSTANT
    weighting: str | None = None
    max_iter: int = 30

    @property
    def name(self) -> str:
        """What the entry is called."""
        return f"{'PI-EW' if self.max_iter == 1 else 'FW-EG'} [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether there are training labels and the basis."""
        return _training(problem).labels is not None and self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:
        """Return one query per probe and iteration, and a few for the labels."""
        if problem.is_labelled:
            return 0
        n_probes = weighting_named(self._weighting(problem)).probes.n_probes(problem.n_classes)
        n_bases: int = problem.val.functions(self.basis).shape[1]
        return self.max_iter * (1 + n_bases * n_probes) + 1 + LABELLING_QUERIES

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Run the loop, then choose the way to deterministic labels; of very many rows a fixed draw is enough."""
        problem = problem.few_rows(self._n_enough(problem))
        train = _training(problem)
        if train.labels is None:
            raise LabelError(
                "the paper's method needs training rows with labels: give them, or use influence regression"
            )
        run = fw_eg_fit(
            self._engine(problem, train),
            problem.val.over(self.basis),
            kind=problem.kind,
            metric=problem.fitting_metric if problem.is_labelled else None,
            settings=Settings(weighting=self._weighting(problem), max_iter=self.max_iter, radius=self._radius(problem)),
            held=problem.held(self.basis),
        )
        return (yield from loop_rule(self.name, run, problem, basis=self.basis))

    @staticmethod
    def _radius(problem: Problem) -> float:
        """Return how far the probes stand: nearer where exact answers about many rows allow it."""
        return 0.01 if problem.is_labelled and problem.val.n_rows >= MANY_ROWS else 0.1

    def _engine(self, problem: Problem, train: Rows) -> Engine:
        """Return the engine of the training rows; where they are the validation rows, the one that holds these."""
        held = problem.held(self.basis)
        same = train is problem.val and problem.n_categories == problem.n_classes
        return held if held is not None and same else engine_over(train, self.basis)

    def _n_enough(self, problem: Problem) -> int:
        """Return how many rows of each sample tell all there is to tell about the coefficients."""
        n_bases: int = problem.val.functions(self.basis).shape[1]
        n_coefficients = n_bases * weighting_named(self._weighting(problem)).n_terms(problem.n_classes)
        return max(ENOUGH_CELLS // problem.n_classes, PER_COEFFICIENT * n_coefficients)

    def _weighting(self, problem: Problem) -> str:
        """Return what the weights stand on."""
        return self.weighting or ("diagonal" if problem.metric is None else problem.metric.weighting)


def _training(problem: Problem) -> Rows:
    """Return the rows whose labels weigh the probes."""
    return problem.val if problem.train is None else problem.train
