"""FW-EG (Algorithm 3): the loop with elicited weights; with one iteration it is PI-EW (Algorithm 2)."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import Any

from postshift._validation import IntArray
from postshift.core.constrained import ConstrainedProbes, constrained_probes
from postshift.core.elicitation import ElicitedWeights, ProbePlan
from postshift.core.inquiry import ConfusionInquiry, ValueInquiry
from postshift.core.looking import Inquiry, LocalInquiry
from postshift.core.loop import Loop
from postshift.core.mixture import Mixture
from postshift.core.plugin import inverse_prior
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Kind
from postshift.core.records import FitResult, Settings
from postshift.core.rows import Rows
from postshift.core.runfile import data_digest, read_run
from postshift.core.sides import check_sides, check_training_labels, checked_halves, without_evidence
from postshift.core.statistics import Engine
from postshift.core.stepsize import harmonic
from postshift.core.weighting import weighting_named
from postshift.exceptions import ArchiveError, MetricError, SettingError


class FrankWolfe(Loop):
    """A run of FW-EG: ask, tell, ask, tell.

    Parameters
    ----------
    train : Engine
        The engine that holds the training rows.
    val : Rows
        eta and phi of the validation rows; labels stay with the oracle.
    kind : {"confusion", "soft", "hard"}
        Which queries the oracle can serve.
    metric : ConfusionMetric, optional
        psi, needed for kind "confusion".
    settings : Settings
        What defines the run.
    start : Mixture, optional
        The first iterate; by default ``argmax eta_i / prior_i`` with the training prior.
    halves : pair of row arrays, optional
        Algorithm 3*: elicit on the first rows, take the gradient on the second.
    held : Engine, optional
        An engine that holds the validation rows with their labels: then nothing is asked (kind "confusion", no halves).
    """

    def __init__(
        self,
        train: Engine,
        val: Rows,
        *,
        kind: Kind,
        metric: ConfusionMetric | None = None,
        settings: Settings | None = None,
        start: Mixture | None = None,
        halves: tuple[IntArray, IntArray] | None = None,
        held: Engine | None = None,
    ) -> None:
        settings = settings or Settings()
        check_sides(train, val, start)
        self._kind, self._metric, self._held = kind, metric, held
        self._halves = None if halves is None else checked_halves(halves, val.n_samples)
        self._labels = train.label_sums()
        check_training_labels(self._labels)
        self.probes = _constrained(train, settings)
        super().__init__(
            val,
            settings=settings,
            inquiry=self._make_inquiry(val, settings),
            finder=ElicitedWeights(
                train,
                weighting=weighting_named(settings.weighting),
                labels=self._labels,
                anchor=None if self.probes is None else self.probes.anchor,
                unknown=without_evidence(self._labels, val),
                rcond=settings.rcond,
                ridge=settings.ridge,
            ),
            start=start or Mixture.of([inverse_prior(self._labels.classes, n_bases=val.n_bases)], [1.0]),
            step=harmonic,
        )

    def result(self) -> FitResult:
        """Return the mixture, the trace and, if any, what the constrained probes came to."""
        return replace(super().result(), probes=self.probes)

    def _make_inquiry(self, val: Rows, settings: Settings) -> Inquiry:
        """Decide once how iterates are looked at."""
        anchor = None if self.probes is None else self.probes.anchor
        family, plan = weighting_named(settings.weighting).probes, _plan(settings)
        if self._kind == "confusion":
            if self._metric is None:
                raise MetricError("queries of kind 'confusion' need metric=..., the function psi of the matrix")
            how: Any = {"linearise": settings.linearise, "family": family, "plan": plan, "anchor": anchor}
            if self._held is not None and self._halves is None:
                return LocalInquiry(self._held, self._metric, val=val, influence=False, **how)
            parts = self._parts(with_second=settings.linearise == "gradient")
            return ConfusionInquiry(val, self._metric, parts=parts, **how)
        if self._kind not in ("soft", "hard"):
            raise SettingError(f"kind must be 'confusion', 'soft' or 'hard'. Got {self._kind!r} instead")
        if settings.linearise == "gradient":
            raise SettingError("linearise='gradient' needs queries of kind 'confusion' and a metric with a gradient")
        return ValueInquiry(
            val,
            kind=self._kind,
            family=family,
            plan=plan,
            rows=self._parts(with_second=False)[0],
            anchor=anchor,
            seed=settings.random_state,
        )

    def _parts(self, *, with_second: bool) -> list[IntArray | None]:
        """Return the rows of each part of the validation sample that is asked about."""
        if self._halves is None:
            return [None]
        return list(self._halves) if with_second else [self._halves[0]]

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        train: Engine,
        val: Rows,
        *,
        kind: Kind,
        metric: ConfusionMetric | None = None,
        start: Mixture | None = None,
        halves: tuple[IntArray, IntArray] | None = None,
    ) -> FrankWolfe:
        """Read a run written by :meth:`save` and go on with it, on the data it was begun with.

        The parameters are the constructor's; the settings come from the file.
        """
        fields, data, state = read_run(path, kind=kind)
        try:
            settings = Settings(**fields)
        except (TypeError, SettingError) as error:
            raise ArchiveError(f"{path} holds a run of another method: {error}") from error
        run = cls(train, val, kind=kind, metric=metric, settings=settings, start=start, halves=halves)
        run.take_up(state, data, path)
        return run

    @cached_property
    def _data_digest(self) -> str:
        """A digest of what the run stands on; the start's sums stand for the training rows."""
        sums = (self._labels.pair, self._start_sums.pair, self._start_sums.single)
        return data_digest(self._kind, self._metric, self._val, self._mixture(0), self._halves, *sums)


def _plan(settings: Settings) -> ProbePlan:
    """Return where the probes stand: around the base, or around the anchor and mixed into the base."""
    if settings.min_hit is None:
        return ProbePlan(radius=settings.radius)
    return ProbePlan(radius=1.0, share=settings.radius)


def _constrained(train: Engine, settings: Settings) -> ConstrainedProbes | None:
    """Return the constrained probes where they were asked for."""
    if settings.min_hit is None or settings.max_leak is None:
        return None
    return constrained_probes(train, min_hit=settings.min_hit, max_leak=settings.max_leak)
