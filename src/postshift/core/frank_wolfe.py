"""FW-EG (Algorithm 3) as a conversation; with one iteration it is PI-EW (Algorithm 2).

Each iteration looks at the current mixture h^t through questions, elicits the weights of a local linear metric,
makes their plug-in classifier the next vertex, and moves h^t towards it. The state is a frozen record of
small arrays: it can be saved after any answer, and a run that is loaded elsewhere ends in the same bytes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.constrained import ConstrainedProbes, constrained_probes
from postshift.core.elicitation import Elicitation, ProbePlan, elicit, probe_matrix
from postshift.core.inquiry import ConfusionInquiry, ConfusionMetric, Inquiry, Standing, ValueInquiry
from postshift.core.mixture import Mixture
from postshift.core.moments import ClassifierSums
from postshift.core.plugin import PlugIn, inverse_prior, onehot
from postshift.core.questions import Kind, Question
from postshift.core.records import FitResult, Iteration, Settings, State
from postshift.core.runfile import data_digest, read_run, write_run
from postshift.core.sample import Sample
from postshift.core.sides import check_sides, check_training_labels, checked_halves, without_evidence
from postshift.core.statistics import Statistics
from postshift.core.stepsize import harmonic
from postshift.core.weighting import weighting_named
from postshift.exceptions import (
    ArchiveError,
    BudgetError,
    MetricError,
    NotFinishedError,
    SettingError,
    UnknownQuestionError,
)


class FrankWolfe:
    """A run of FW-EG: ask, tell, ask, tell.

    Parameters
    ----------
    train : Statistics
        The engine that holds the training rows.
    val : Sample
        eta and phi of the validation rows; labels stay with the driver.
    kind : {"confusion", "soft", "hard"}
        Which questions the driver can serve.
    metric : ConfusionMetric, optional
        psi, needed for kind "confusion".
    settings : Settings
        What defines the run.
    start : Mixture, optional
        The first iterate; by default ``argmax eta_i / prior_i`` with the training prior.
    halves : pair of row arrays, optional
        Algorithm 3*: elicit on the first rows, take the gradient on the second.
    """

    def __init__(
        self,
        train: Statistics,
        val: Sample,
        *,
        kind: Kind,
        metric: ConfusionMetric | None = None,
        settings: Settings | None = None,
        start: Mixture | None = None,
        halves: tuple[IntArray, IntArray] | None = None,
    ) -> None:
        self.settings = settings = settings or Settings()
        check_sides(train, val, start)
        self._train, self._val, self._kind, self._metric = train, val, kind, metric
        self._halves = None if halves is None else checked_halves(halves, val.n_samples)
        self._weighting = weighting_named(settings.weighting)
        self._labels = train.label_sums()
        check_training_labels(self._labels)
        self._unknown = without_evidence(self._labels, val)
        self.probes = _constrained(train, settings)
        self._plan = _plan(settings)
        self._anchor_sums = None if self.probes is None else self._sums_of(self.probes.anchor)
        self._inquiry = self._make_inquiry(metric)
        self._start = start or Mixture.of([inverse_prior(self._labels.classes, n_bases=val.n_bases)], [1.0])
        self.n_iter = self._affordable()
        self._open: dict[str, tuple[Question, str]] = {}
        self._looked: tuple[int, list[str]] | None = None
        self._on_val: tuple[int, FloatArray] | None = None
        self._state: State | None = None

    @property
    def max_questions(self) -> int:
        """The most questions this run can ask; known before the first, never above the budget."""
        return self._bound(self.n_iter)

    @property
    def n_questions(self) -> int:
        """Questions answered so far."""
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

    def ask(self) -> tuple[Question, ...]:
        """Return the open questions; none when the run is finished."""
        self._advance()
        return tuple(question for question, _ in self._open.values())

    def tell(self, key: str, answer: Any) -> None:
        """Give the answer to an open question.

        An answer that is refused (:class:`~postshift.exceptions.AnswerError`) leaves the run as it was.
        """
        self._advance()
        if key not in self._open:
            raise UnknownQuestionError(
                f"there is no open question {key!r}; open are {sorted(self._open)[:10]}: answer what ask() gave"
            )
        question, digest = self._open[key]
        known = {**self.state.known, digest: self._inquiry.check(question, answer)}
        self._state = replace(self.state, known=known)
        del self._open[key]

    def result(self) -> FitResult:
        """Return the mixture and the trace of a finished run."""
        if self.ask():
            raise NotFinishedError(
                f"the run has {len(self._open)} open question(s) in iteration {self.state.iteration} of "
                f"{self.n_iter}: answer them (ask, tell) before taking the result"
            )
        iterate = self._chosen()
        return FitResult(
            mixture=self._mixture(iterate),
            iterate=iterate,
            trace=self.state.trace,
            status=self.state.status,
            n_questions=self.n_questions,
            max_questions=self.max_questions,
            probes=self.probes,
        )

    # -- the loop ---------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Step as long as every question of the current look is answered."""
        while self.state.status == "running":
            digests = self._look()
            if any(digest not in self.state.known for digest in digests):
                return
            self._state = self._step(self.state, [self.state.known[digest] for digest in digests])

    def _look(self) -> list[str]:
        """Return the digests of this look's questions, opening those that were never answered."""
        if self._looked is None or self._looked[0] != self.state.iteration:
            digests: list[str] = []
            self._open = {}
            for question in self._inquiry.questions(self._standing()):
                digest = question.fingerprint()
                if digest not in self.state.known and digest not in digests:
                    self._open[question.key] = (question, digest)
                digests.append(digest)
            self._looked = (self.state.iteration, digests)
        return self._looked[1]

    def _step(self, state: State, answers: list[Any]) -> State:
        """Return the state after a look: the next vertex mixed in, or the end of the run."""
        view = self._inquiry.view(state.view, answers, step=state.steps[-1] if state.steps else 1.0)
        seen = Iteration(index=state.iteration, value=self._inquiry.value(view), n_questions=len(state.known))
        if state.iteration >= self.n_iter:
            return replace(state, view=view, trace=(*state.trace, seen), status="finished")
        gains = self._inquiry.gains(view)
        if np.abs(gains).max() <= self._inquiry.rounding(view):
            return replace(state, view=view, trace=(*state.trace, seen), status="flat")
        found = self._elicit(state.sums, gains)
        step = harmonic(state.iteration)
        return replace(
            state,
            iteration=state.iteration + 1,
            vertices=(*state.vertices, found.alpha),
            steps=(*state.steps, step),
            sums=state.sums.mixed(self._sums_of(self._plugin(found.alpha)), step),
            view=view,
            trace=(*state.trace, _with_diagnostics(seen, found, step)),
        )

    def _elicit(self, sums: ClassifierSums, gains: FloatArray) -> Elicitation:
        """Solve the equations of differences around the current iterate (Algorithm 1)."""
        anchor = sums if self._anchor_sums is None else self._anchor_sums
        sigma = probe_matrix(self._weighting, labels=self._labels, anchor=anchor)
        found = elicit(sigma, gains, n_bases=self._val.n_bases, rcond=self.settings.rcond, ridge=self.settings.ridge)
        if not self._unknown.any():
            return found
        # Nothing was learnt where there are no rows: such a function takes the others' average, not weight 0.
        mass = np.where(self._unknown, 0, self._labels.single.sum(axis=1))
        alpha = np.where(self._unknown[:, None], mass @ found.alpha / mass.sum(), found.alpha)
        return replace(found, alpha=alpha)

    # -- what the loop stands on ------------------------------------------------------------------------

    def _standing(self) -> Standing:
        """Return h^t and its newest vertex on the validation rows."""
        state, val = self.state, self._val
        vertex = self._plugin(state.vertices[-1]).labels(val.eta, val.phi) if state.vertices else None
        return Standing(
            iteration=state.iteration,
            last=state.iteration >= self.n_iter,
            distribution=self._distribution(),
            vertex=vertex,
        )

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
        members = (*self._start.members, *(self._plugin(alpha) for alpha in self.state.vertices[:iterate]))
        return Mixture.of(members, np.concatenate([shares[0] * self._start.shares, shares[1:]]))

    def _plugin(self, alpha: FloatArray) -> PlugIn:
        """Return the plug-in classifier of some coefficients."""
        return PlugIn(weighting=self._weighting, alpha=alpha, n_classes=self._val.n_classes)

    def _sums_of(self, classifier: PlugIn | Mixture) -> ClassifierSums:
        """Return a classifier's sums over the training rows."""
        return self._train.classifier_sums(classifier, confusions=self._weighting.needs_confusions)

    def _make_inquiry(self, metric: ConfusionMetric | None) -> Inquiry:
        """Decide once how iterates are looked at."""
        anchor = None if self.probes is None else self.probes.anchor
        if self._kind == "confusion":
            if metric is None:
                raise MetricError("questions of kind 'confusion' need metric=..., the function psi of the matrix")
            return ConfusionInquiry(
                self._val,
                metric,
                linearise=self.settings.linearise,
                family=self._weighting.probes,
                plan=self._plan,
                parts=self._parts(self.settings.linearise == "gradient"),
                anchor=anchor,
            )
        if self._kind not in ("soft", "hard"):
            raise SettingError(f"kind must be 'confusion', 'soft' or 'hard'. Got {self._kind!r} instead")
        if self.settings.linearise == "gradient":
            raise SettingError("linearise='gradient' needs questions of kind 'confusion' and a metric with a gradient")
        return ValueInquiry(
            self._val,
            kind=self._kind,
            family=self._weighting.probes,
            plan=self._plan,
            rows=self._parts(with_second=False)[0],
            anchor=anchor,
            seed=self.settings.random_state,
        )

    def _parts(self, with_second: bool) -> list[IntArray | None]:  # noqa: FBT001
        """Return the rows of each part of the validation sample that is asked about."""
        if self._halves is None:
            return [None]
        return list(self._halves) if with_second else [self._halves[0]]

    def _bound(self, n_iter: int) -> int:
        """Return the most questions that ``n_iter`` iterations can ask."""
        count = self._inquiry.n_questions
        middle = (n_iter - 1) * count(first=False, last=False)
        return count(first=True, last=False) + middle + count(first=False, last=True)

    def _affordable(self) -> int:
        """Return the number of iterations that the budget pays for."""
        budget = self.settings.budget
        if budget is None:
            return self.settings.max_iter
        if self._bound(1) > budget:
            raise BudgetError(
                f"a budget of {budget} questions does not pay for one iteration, which asks up to {self._bound(1)}: "
                "raise the budget, or use fewer basis functions"
            )
        more = self._inquiry.n_questions(first=False, last=False)
        return min(self.settings.max_iter, 1 + (budget - self._bound(1)) // more)

    # -- saving and loading -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to one npz file (no pickle); a write that fails leaves an older file as it was."""
        write_run(path, settings=self.settings, data=self._data_digest, state=self.state)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        train: Statistics,
        val: Sample,
        *,
        kind: Kind,
        metric: ConfusionMetric | None = None,
        start: Mixture | None = None,
        halves: tuple[IntArray, IntArray] | None = None,
    ) -> FrankWolfe:
        """Read a run written by :meth:`save` and go on with it, on the data it was begun with.

        The parameters are the constructor's; the settings come from the file.
        """
        settings, data, state = read_run(path, kind=kind)
        run = cls(train, val, kind=kind, metric=metric, settings=settings, start=start, halves=halves)
        if data != run._data_digest:
            raise ArchiveError(
                f"{path} was begun with other data, another kind of question, metric or start: load it with those it "
                "was begun with"
            )
        run._state = state
        return run

    @cached_property
    def _start_sums(self) -> ClassifierSums:
        """The start's sums over the training rows."""
        return self._sums_of(self._start)

    @cached_property
    def _data_digest(self) -> str:
        """A digest of what the run stands on; the start's sums stand for the training rows."""
        sums = (self._labels.pair, self._start_sums.pair, self._start_sums.single)
        return data_digest(self._kind, self._metric, self._val, self._start, self._halves, *sums)


def _plan(settings: Settings) -> ProbePlan:
    """Return where the probes stand: around the base, or around the anchor and mixed into the base."""
    if settings.min_hit is None:
        return ProbePlan(radius=settings.radius)
    return ProbePlan(radius=1.0, share=settings.radius)


def _constrained(train: Statistics, settings: Settings) -> ConstrainedProbes | None:
    """Return the constrained probes where they were asked for."""
    if settings.min_hit is None or settings.max_leak is None:
        return None
    return constrained_probes(train, min_hit=settings.min_hit, max_leak=settings.max_leak)


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
