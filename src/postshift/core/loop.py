"""The Frank-Wolfe loop as a conversation, whatever the way from the gains of the probes to the next vertex.

Each iteration looks at the current mixture h^t through queries, finds a plug-in classifier that a local linear metric
favours, and moves h^t towards it. The state is a frozen record of small arrays: it can be saved after any answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from postshift._validation import FloatArray
from postshift.core.archive import CONTENT_ERRORS, contradicting, contradiction
from postshift.core.elicitation import Elicitation
from postshift.core.looking import Inquiry, Standing
from postshift.core.mixture import Mixture
from postshift.core.moments import ClassifierSums
from postshift.core.plugin import PlugIn, onehot
from postshift.core.queries import Query
from postshift.core.records import FitResult, Iteration, RunSettings, State
from postshift.core.rows import Rows
from postshift.core.runfile import write_run
from postshift.core.statistics import Classifier
from postshift.core.weighting import Weighting
from postshift.exceptions import ArchiveError, BudgetError, NotFinishedError, PostshiftError, UnknownQueryError


class VertexFinder(Protocol):
    """A way from the gains of the probes to the coefficients of the next plug-in classifier."""

    weighting: Weighting

    def sums_of(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of a classifier that :meth:`find` needs; they are linear in the classifier."""

    def find(self, sums: ClassifierSums, gains: FloatArray) -> Elicitation:
        """Return the vertex's coefficients, from the sums of h^t and the gains of the probes around it."""


class Loop:
    """Ask, tell, ask, tell: the part that every run shares.

    Parameters
    ----------
    val : Rows
        eta and phi of the validation rows, as the plug-in classifiers read them.
    settings : RunSettings
        Number of iterations, budget.
    inquiry : Inquiry
        How an iterate is looked at.
    finder : VertexFinder
        The way to the next vertex.
    start : Classifier
        The first iterate.
    step : callable
        The step rule.
    fallback : Mixture, optional
        What stands for the start in the result; by default the start itself, which then must be a mixture. If given,
        the start's share is dropped from the result as soon as there is a vertex.
    """

    def __init__(
        self,
        val: Rows,
        *,
        settings: RunSettings,
        inquiry: Inquiry,
        finder: VertexFinder,
        start: Classifier,
        step: Callable[[int], float],
        fallback: Mixture | None = None,
    ) -> None:
        self.settings: RunSettings = settings
        self._val, self._inquiry, self._finder, self._start, self._rule = val, inquiry, finder, start, step
        self._fallback = fallback
        self.n_iter = self._affordable()
        self._open: dict[str, tuple[Query, str]] = {}
        self._looked: tuple[int, list[str]] | None = None
        self._on_val: tuple[int, FloatArray] | None = None
        self._state: State | None = None
        self._file: str | os.PathLike[str] | None = None  # that the state was read from

    @property
    def max_queries(self) -> int:
        """The most queries this run can ask; known before the first, never above the budget."""
        return self._bound(self.n_iter)

    @property
    def n_queries(self) -> int:
        """Queries answered so far."""
        return len(self.state.known)

    @property
    def state(self) -> State:
        """What the run knows; the first access makes the first pass over the training rows."""
        if self._state is None:
            self._state = State(
                iteration=0,
                vertices=(),
                steps=(),
                sums=self._start_sums,
                view=None,
                known={},
                trace=(),
                status="running",
            )
        return self._state

    def ask(self) -> tuple[Query, ...]:
        """Return the open queries; none when the run is finished."""
        self._advance()
        return tuple(query for query, _ in self._open.values())

    def tell(self, key: str, answer: Any) -> None:
        """Give the answer to an open query.

        An answer that is refused (:class:`~postshift.exceptions.AnswerError`) leaves the run as it was.
        """
        self._advance()
        if key not in self._open:
            raise UnknownQueryError(
                f"there is no open query {key!r}; open are {sorted(self._open)[:10]}: answer what ask() gave"
            )
        query, digest = self._open[key]
        known = {**self.state.known, digest: self._inquiry.check(query, answer)}
        self._state = replace(self.state, known=known)
        del self._open[key]

    def result(self) -> FitResult:
        """Return the mixture and the trace of a finished run."""
        if self.ask():
            raise NotFinishedError(
                f"the run has {len(self._open)} open query(s) in iteration {self.state.iteration} of "
                f"{self.n_iter}: answer them (ask, tell) before taking the result"
            )
        iterate = self._chosen()
        return FitResult(
            mixture=self._mixture(iterate),
            iterate=iterate,
            trace=self.state.trace,
            status=self.state.status,
            n_queries=self.n_queries,
            max_queries=self.max_queries,
        )

    # -- the loop ---------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Step on; what a state from a file makes fail, and our own checks do not name, is said of the file."""
        try:
            self._step_on()
        except PostshiftError:
            raise
        except CONTENT_ERRORS as error:
            if self._file is None:
                raise
            raise contradiction(self._file, error) from error

    def _step_on(self) -> None:
        """Step as long as every query of the current look is answered."""
        while self.state.status == "running":
            digests = self._look()
            if any(digest not in self.state.known for digest in digests):
                return
            self._state = self._step(self.state, [self.state.known[digest] for digest in digests])

    def _look(self) -> list[str]:
        """Return the digests of this look's queries, opening those that were never answered."""
        if self._looked is None or self._looked[0] != self.state.iteration:
            digests: list[str] = []
            self._open = {}
            for query in self._inquiry.queries(self._standing()):
                digest = query.fingerprint()
                if digest not in self.state.known and digest not in digests:
                    self._open[query.key] = (query, digest)
                digests.append(digest)
            self._looked = (self.state.iteration, digests)
        return self._looked[1]

    def _step(self, state: State, answers: list[Any]) -> State:
        """Return the state after a look: the next vertex mixed in, or the end of the run."""
        step = state.steps[-1] if state.steps else 1.0
        view = self._inquiry.view(state.view, answers, standing=self._standing(), step=step)
        seen = Iteration(index=state.iteration, value=self._inquiry.value(view), n_queries=len(state.known))
        if state.iteration >= self.n_iter:
            return replace(state, view=view, trace=(*state.trace, seen), status="finished")
        gains = self._inquiry.gains(view)
        if not np.isfinite(gains).all() or np.abs(gains).max() <= self._inquiry.rounding(view):
            return replace(state, view=view, trace=(*state.trace, seen), status="flat")
        found = self._finder.find(state.sums, gains)
        step = self._rule(state.iteration)
        return replace(
            state,
            iteration=state.iteration + 1,
            vertices=(*state.vertices, found.alpha),
            steps=(*state.steps, step),
            sums=state.sums.mixed(self._finder.sums_of(self._plugin(found.alpha)), step),
            view=view,
            trace=(*state.trace, _with_diagnostics(seen, found, step)),
        )

    # -- what the loop stands on ------------------------------------------------------------------------

    def _standing(self) -> Standing:
        """Return h^t and its newest part."""
        state = self.state
        return Standing(
            iteration=state.iteration,
            last=state.iteration >= self.n_iter,
            newest=self._plugin(state.vertices[-1]) if state.vertices else self._start,
            on_val=self._on_validation,
        )

    def _on_validation(self, classifier: Classifier | None) -> FloatArray:
        """Return the table of a classifier, or of h^t, on the validation rows."""
        return self._distribution() if classifier is None else classifier.distribution(self._val.eta, self._val.phi)

    def _distribution(self) -> FloatArray:
        """Return h^t on the validation rows, by the same steps whether computed at once or after loading."""
        state, val = self.state, self._val
        reached, table = self._on_val or (0, self._start.distribution(val.eta, val.phi))
        for alpha, step in zip(state.vertices[reached:], state.steps[reached:], strict=True):
            labels = self._plugin(alpha).labels(val.eta, val.phi)
            table = (1 - step) * table + step * onehot(labels, n_classes=val.n_classes)
        self._on_val = (state.iteration, table)
        return table

    def _chosen(self) -> int:
        """Return the number of the resulting iterate: the last, or the best one where the run went flat.

        Choosing the best of all on a small validation sample costs more than it brings; but an iterate that
        no probe can improve may be a trap (a G-mean of 0 has gradient 0), and then an earlier one is better.
        """
        if self.state.status == "finished":
            return self.state.iteration
        return int(np.argmax([line.value for line in self.state.trace]))

    def _mixture(self, iterate: int) -> Mixture:
        """Return an iterate as a mixture of plug-ins, the start included where it has a share."""
        shares = np.ones(1)
        for step in self.state.steps[:iterate]:
            shares = np.append((1 - step) * shares, step)
        vertices = [self._plugin(alpha) for alpha in self.state.vertices[:iterate]]
        if self._fallback is None:
            assert isinstance(self._start, Mixture)  # noqa: S101
            first = self._start
        elif iterate > 0:
            return Mixture.of(vertices, shares[1:] / shares[1:].sum())
        else:
            first = self._fallback
        return Mixture.of([*first.members, *vertices], np.concatenate([shares[0] * first.shares, shares[1:]]))

    def _plugin(self, alpha: FloatArray) -> PlugIn:
        """Return the plug-in classifier of some coefficients."""
        return PlugIn(weighting=self._finder.weighting, alpha=alpha, n_classes=self._val.n_classes)

    def _bound(self, n_iter: int) -> int:
        """Return the most queries that ``n_iter`` iterations can ask."""
        count = self._inquiry.n_queries
        middle = (n_iter - 1) * count(first=False, last=False)
        return count(first=True, last=False) + middle + count(first=False, last=True)

    def _affordable(self) -> int:
        """Return the number of iterations that the budget pays for."""
        budget = self.settings.budget
        if budget is None:
            return self.settings.max_iter
        if self._bound(1) > budget:
            raise BudgetError(
                f"a budget of {budget} queries does not pay for one iteration, which asks up to {self._bound(1)}: "
                "raise the budget, or use fewer basis functions"
            )
        more = self._inquiry.n_queries(first=False, last=False)
        return min(self.settings.max_iter, 1 + (budget - self._bound(1)) // more)

    # -- saving -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to one npz file (no pickle); a write that fails leaves an older file as it was.

        A file with answers that this run does not know is refused: another process has saved them.
        """
        write_run(path, settings=self.settings, data=self._data_digest, state=self.state)

    def take_up(self, state: State, data: str, path: str | os.PathLike[str]) -> None:
        """Go on from a saved state, refused where it was begun with other data."""
        if data != self._data_digest:
            raise ArchiveError(
                f"{path} was begun with other data, another method, kind of query, metric or start: load it with "
                "those it was begun with"
            )
        shapes = [(sums.pair.shape, sums.single.shape) for sums in (state.sums, self._start_sums)]
        with contradicting(path):
            if shapes[0] != shapes[1] or state.iteration > self.n_iter:
                raise ValueError(f"sums of shapes {shapes[0]} in iteration {state.iteration} of {self.n_iter}")
            for alpha in state.vertices:
                self._plugin(alpha)
        self._state, self._file = state, path

    @cached_property
    def _start_sums(self) -> ClassifierSums:
        """The start's sums over the training rows."""
        return self._finder.sums_of(self._start)

    @cached_property
    def _data_digest(self) -> str:
        """A digest of what the run stands on."""
        raise NotImplementedError("a run says what it stands on")


def _with_diagnostics(seen: Iteration, found: Elicitation, step: float) -> Iteration:
    """Return a line of the trace with the elicitation's diagnostics."""
    return replace(
        seen,
        step=step,
        rank=found.rank,
        condition=found.condition,
        smallest=found.smallest,
        largest=found.largest,
        residual=found.residual,
    )
