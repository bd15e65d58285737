"""FW-EG (Algorithm 3) as a conversation; with one iteration it is PI-EW (Algorithm 2).

Each iteration looks at the current mixture h^t through questions, elicits the weights of a local linear metric,
makes their plug-in classifier the next vertex, and moves h^t towards it. The state is a frozen record of
small arrays: it can be saved after any answer, and a run that is loaded elsewhere ends in the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_rows
from postshift.core.archive import read_archive, write_archive
from postshift.core.constrained import ConstrainedProbes, constrained_probes
from postshift.core.elicitation import Elicitation, ProbePlan, elicit, probe_matrix
from postshift.core.inquiry import ConfusionInquiry, ConfusionMetric, Inquiry, Standing, ValueInquiry
from postshift.core.mixture import Mixture
from postshift.core.moments import ClassifierSums
from postshift.core.plugin import PlugIn, inverse_prior, onehot
from postshift.core.questions import Kind, Question
from postshift.core.records import FitResult, Iteration, Settings, State
from postshift.core.sample import Sample
from postshift.core.statistics import Statistics
from postshift.core.stepsize import harmonic
from postshift.core.weighting import weighting_named
from postshift.exceptions import (
    ArchiveError,
    BudgetError,
    MetricError,
    NotFinishedError,
    SettingError,
    ShapeError,
    UnknownQuestionError,
)

_FLAT = 1e-14  # gains of the metric below this are rounding


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
        _check_sides(train, val, start)
        self._train, self._val, self._kind, self._halves = train, val, kind, halves
        self._weighting = weighting_named(settings.weighting)
        self._labels = train.label_sums()
        check_rows(self._labels.count, name="training")
        self.probes = _constrained(train, settings)
        self._plan = _plan(settings)
        self._anchor_sums = None if self.probes is None else self._sums_of(self.probes.anchor)
        self._inquiry = self._make_inquiry(metric)
        self._metric_name = None if metric is None else metric.name
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
    def done(self) -> bool:
        """Whether no question is left."""
        return not self.ask()

    @property
    def state(self) -> State:
        """What the run knows; the first access makes the first pass over the training rows."""
        if self._state is None:
            self._state = State(
                iteration=0,
                vertices=(),
                steps=(),
                sums=self._sums_of(self._start),
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
        earlier = next(iter(self.state.known.values()), None)
        known = {**self.state.known, digest: self._inquiry.check(question, answer, earlier=earlier)}
        self._state = replace(self.state, known=known)
        del self._open[key]

    def result(self) -> FitResult:
        """Return the mixture and the trace of a finished run."""
        if not self.done:
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
        if state.iteration == self.n_iter:
            return replace(state, view=view, trace=(*state.trace, seen), status="finished")
        gains = self._inquiry.gains(view)
        if np.abs(gains).max() * self._plan.reach <= _FLAT:
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
        return elicit(sigma, gains, n_bases=self._val.n_bases, rcond=self.settings.rcond, ridge=self.settings.ridge)

    # -- what the loop stands on ------------------------------------------------------------------------

    def _standing(self) -> Standing:
        """Return h^t and its newest vertex on the validation rows."""
        state, val = self.state, self._val
        vertex = self._plugin(state.vertices[-1]).labels(val.phi, val.eta) if state.vertices else None
        return Standing(
            iteration=state.iteration,
            last=state.iteration == self.n_iter,
            distribution=self._distribution(),
            vertex=vertex,
        )

    def _distribution(self) -> FloatArray:
        """Return h^t on the validation rows, by the same steps whether computed at once or after loading."""
        state, val = self.state, self._val
        reached, table = self._on_val or (0, self._start.distribution(val.phi, val.eta))
        for alpha, step in zip(state.vertices[reached:], state.steps[reached:], strict=True):
            labels = self._plugin(alpha).labels(val.phi, val.eta)
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
        state, digests = self.state, list(self.state.known)
        arrays: dict[str, Any] = {
            "sums_pair": state.sums.pair,
            "sums_single": state.sums.single,
            "known": np.array([state.known[digest] for digest in digests]),
            "vertices": np.array(state.vertices),
        }
        if state.view is not None:
            arrays["view"] = state.view
        header = {
            "settings": asdict(self.settings),
            "data": self._data_digest(),
            "iteration": state.iteration,
            "steps": list(state.steps),
            "status": state.status,
            "digests": digests,
            "trace": [asdict(line) for line in state.trace],
        }
        write_archive(path, kind="run", header=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], train: Statistics, val: Sample, **given: Any) -> FrankWolfe:
        """Read a run written by :meth:`save` and go on with it, on the same data.

        ``given`` are the constructor's ``kind``, ``metric``, ``start`` and ``halves``; the settings come from
        the file.
        """
        header, arrays = read_archive(path, kind="run")
        try:
            run = cls(train, val, settings=Settings(**header["settings"]), **given)
            run._check_same(header["data"], path)
            run._state = State(
                iteration=header["iteration"],
                vertices=tuple(arrays["vertices"]),
                steps=tuple(header["steps"]),
                sums=ClassifierSums(pair=arrays["sums_pair"], single=arrays["sums_single"]),
                view=arrays.get("view"),
                known=dict(zip(header["digests"], run._known(arrays["known"]), strict=True)),
                trace=tuple(Iteration(**line) for line in header["trace"]),
                status=header["status"],
            )
        except (KeyError, TypeError) as error:
            raise ArchiveError(f"{path} lacks a part of a run: {error}") from error
        return run

    def _known(self, values: FloatArray) -> list[Any]:
        """Return saved answers in their proper type."""
        return list(values) if self._kind == "confusion" else [float(value) for value in values]

    def _check_same(self, digest: str, path: str | os.PathLike[str]) -> None:
        """Refuse a saved run that belongs to other data."""
        if digest != self._data_digest():
            raise ArchiveError(
                f"{path} was saved with other data, another metric or another start: load it with the eta, phi and "
                "labels it was begun with"
            )

    def _data_digest(self) -> str:
        """Return a digest of what the run stands on."""
        digest = hashlib.blake2b(f"{self._kind}/{self._metric_name}".encode(), digest_size=16)
        arrays = [self._val.eta, self._val.phi, self._labels.pair, self._labels.single, self._start.shares]
        arrays += [member.alpha for member in self._start.members]
        arrays += [] if self._halves is None else [np.asarray(half, dtype=np.float64) for half in self._halves]
        for array in arrays:
            digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


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


def _check_sides(train: Statistics, val: Sample, start: Mixture | None) -> None:
    """Refuse training and validation sides that do not fit each other."""
    check_rows(val.n_samples, name="validation")
    sides = {"training rows": (train.n_classes, train.n_bases)}
    if start is not None:
        sides["start"] = (start.n_classes, start.n_bases)
    for name, found in sides.items():
        if found != (val.n_classes, val.n_bases):
            raise ShapeError(
                f"the validation rows have {val.n_classes} classes and {val.n_bases} basis functions, the {name} "
                f"{found[0]} and {found[1]}: both sides need the same model and the same basis"
            )
