"""How an iterate is looked at: which questions, and what their answers say.

A *look* at the iterate h^t gives its value and, unless it is the last, the gain of every probe around it. There
are two ways: confusion matrices, which are linear in h, so one question about the newest vertex suffices for
all probes; and plain values, one question per probe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np

from postshift._validation import FloatArray, IntArray, read_only
from postshift.core.draws import Draws, drawn_labels, even_order, shared_draws
from postshift.core.elicitation import ProbePlan
from postshift.core.plugin import onehot
from postshift.core.probing import ProbeFamily
from postshift.core.questions import Question, check_confusions, check_number
from postshift.core.sample import Sample
from postshift.core.statistics import Classifier
from postshift.exceptions import MetricError

Probe = tuple[()] | tuple[int, int]  # no probe: their centre; else basis function and number
_ROUNDING = 1e-14  # of a metric, relative
_CHUNK = 1 << 21  # numbers held at once when all probes' confusion matrices are built


@runtime_checkable
class ConfusionMetric(Protocol):
    """A metric psi of the confusion matrix, rows true categories, entries shares of weight.

    A metric whose rows are not the m classes says so by an attribute ``n_categories``.
    """

    @property
    def name(self) -> str:
        """What the metric is called."""

    @property
    def weighting(self) -> str:
        """What it depends on: ``"diagonal"``, ``"columns"`` or ``"full"``."""

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return psi of each matrix of a stack (..., R, m)."""


@runtime_checkable
class DifferentiableMetric(ConfusionMetric, Protocol):
    """A metric whose gradient is known."""

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C of one matrix, up to a constant per row (the row sums do not move)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """Where the run stands on the validation rows: h^t and, after the start, its newest vertex."""

    iteration: int
    last: bool
    distribution: FloatArray
    vertex: IntArray | None


class Inquiry(Protocol):
    """One way of looking at an iterate."""

    def n_questions(self, *, first: bool, last: bool) -> int:
        """Return the number of questions of a look, before any is found to be known already."""

    def questions(self, standing: Standing) -> list[Question]:
        """Return the questions of a look."""

    def check(self, question: Question, answer: Any) -> FloatArray | float:
        """Return the answer in its proper type, or refuse it."""

    def view(self, previous: FloatArray | None, answers: Sequence[Any], *, step: float) -> FloatArray:
        """Return what is known of h^t from what was known of h^(t-1) and the new answers."""

    def value(self, view: FloatArray) -> float:
        """Return the metric of h^t."""

    def gains(self, view: FloatArray) -> FloatArray:
        """Return the gain of every probe (L R,) per unit of reach."""

    def rounding(self, view: FloatArray) -> float:
        """Return the size of gains that are nothing but rounding."""


class ConfusionInquiry:
    """Looks through confusion matrices; psi is evaluated here, at the probes or by its gradient.

    The view has shape (1 or 2, parts, 1 + L, R, m): base and, if any, anchor; on each part of the validation
    rows; without and with each basis function. Part 0 serves the elicitation. Part 1, if the rows
    were split in two (Algorithm 3*), is where the gradient is taken.
    """

    def __init__(
        self,
        val: Sample,
        metric: ConfusionMetric,
        *,
        linearise: Literal["probes", "gradient"],
        family: ProbeFamily,
        plan: ProbePlan,
        parts: Sequence[IntArray | None],
        anchor: Classifier | None,
    ) -> None:
        if linearise == "gradient" and not isinstance(metric, DifferentiableMetric):
            raise MetricError(f"metric {metric.name!r} has no gradient: use linearise='probes'")
        self._val, self._metric, self._family, self._plan = val, metric, family, plan
        self._linearise, self._parts, self._anchor = linearise, parts, anchor
        self._n_probes = family.n_probes(val.n_classes)
        self._columns = np.column_stack([np.ones(val.n_samples), val.phi])

    def n_questions(self, *, first: bool, last: bool) -> int:
        """One per part (of the last iterate: the first part alone), at the start as many for the anchor."""
        n_parts = 1 if last else len(self._parts)
        return n_parts * (2 if first and self._anchor is not None else 1)

    def questions(self, standing: Standing) -> list[Question]:
        """Ask about the start, later about the newest vertex only."""
        if standing.vertex is None:
            tables = [("the start", standing.distribution)]
            if self._anchor is not None:
                tables.append(("the anchor", self._anchor.distribution(self._val.eta, self._val.phi)))
        else:
            vertex = onehot(standing.vertex, n_classes=self._val.n_classes)
            tables = [(f"plug-in number {standing.iteration}", vertex)]
        return [
            self._question(f"{standing.iteration}:{place}.{part}", f"confusion matrices of {text}", table, rows)
            for place, (text, table) in enumerate(tables)
            for part, rows in enumerate(self._parts[:1] if standing.last else self._parts)
        ]

    def check(self, question: Question, answer: Any) -> FloatArray:
        """Refuse anything but (1 + L, R, m) shares."""
        n_categories = getattr(self._metric, "n_categories", self._val.n_classes)
        return check_confusions(question, answer, shape=(1 + self._val.n_bases, n_categories, self._val.n_classes))

    def view(self, previous: FloatArray | None, answers: Sequence[Any], *, step: float) -> FloatArray:
        """Mix the new vertex's matrices in; the anchor's stay."""
        if previous is None:
            return np.stack(answers).reshape(-1, len(self._parts), *answers[0].shape)
        mixed = previous.copy()
        for part, found in enumerate(answers):
            mixed[0, part] = (1 - step) * previous[0, part] + step * found
        return mixed

    def value(self, view: FloatArray) -> float:
        """Return psi of h^t on the rows that serve the elicitation."""
        return float(self._psi(view[0, 0, 0]))

    def gains(self, view: FloatArray) -> FloatArray:
        """Return psi at each probe less psi at the centre, or the gradient's estimate of it."""
        base, anchor = view[0, 0], view[-1, 0]
        if self._linearise == "gradient":
            gains = self._slopes(self._gradient(view[0, -1, 0]), anchor)
        else:
            centre = (1 - self._plan.share) * base[0] + self._plan.share * anchor[0]
            # Rounding may leave an emptied entry just below 0, where a root or a logarithm is not defined.
            chunks = [self._psi(np.maximum(centre + self._plan.reach * moved, 0)) for moved in self._moves(anchor)]
            gains = (np.concatenate(chunks, axis=1) - self._psi(centre)) / self._plan.reach
        return gains.reshape(-1)

    def rounding(self, view: FloatArray) -> float:
        """Return what differences of psi lose; a gradient is no difference."""
        return 0.0 if self._linearise == "gradient" else _ROUNDING * abs(self.value(view)) / self._plan.reach

    def _moves(self, anchor: FloatArray) -> Iterator[FloatArray]:
        """Yield the displacements of the confusion matrix per unit of reach, (L, some probes, R, m)."""
        size = max(1, _CHUNK // anchor[1:].size)
        for first in range(0, self._n_probes, size):
            probes = np.arange(first, min(first + size, self._n_probes))
            yield np.swapaxes(self._family.displace(anchor[1:], probes), 0, 1)

    def _slopes(self, beta: FloatArray, anchor: FloatArray) -> FloatArray:
        """Return <beta, displacement> for every probe (L, R)."""
        chunks = [np.einsum("lrij,ij->lr", moved, beta) for moved in self._moves(anchor)]
        return np.concatenate(chunks, axis=1)

    def _psi(self, confusion: FloatArray) -> FloatArray:
        """Return the metric of a stack of matrices, its failures mapped to ours."""
        shown = read_only(confusion)
        return guarded(lambda: self._metric.value(shown), self._metric, "value", confusion.shape[:-2])

    def _gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the metric's gradient, its failures mapped to ours."""
        metric, shown = cast("DifferentiableMetric", self._metric), read_only(confusion)
        return guarded(lambda: metric.gradient(shown), metric, "gradient", confusion.shape)

    def _question(self, key: str, text: str, table: FloatArray, rows: IntArray | None) -> Question:
        """Return a question about one table on some rows."""
        every = slice(None) if rows is None else rows
        return Question(
            key=key,
            kind="confusion",
            text=text,
            n_rows=self._val.n_samples,
            rows=rows,
            columns=read_only(self._columns[every]),
            _predict=lambda: table[every],
        )


class ValueInquiry:
    """Looks through the metric's value of the iterate and of each probe, by soft or by hard predictions."""

    def __init__(
        self,
        val: Sample,
        *,
        kind: Literal["soft", "hard"],
        family: ProbeFamily,
        plan: ProbePlan,
        rows: IntArray | None,
        anchor: Classifier | None,
        seed: int,
    ) -> None:
        self._val, self._kind, self._family, self._plan = val, kind, family, plan
        self._rows, self._seed = rows, seed
        self._n_probes = family.n_probes(val.n_classes)
        self._anchor = None if anchor is None else anchor.distribution(val.eta, val.phi)
        self._n_before = 1 if anchor is None else 2  # the iterate and, where it is another, the centre
        self._ranks = even_order(val.eta)

    def n_questions(self, *, first: bool, last: bool) -> int:  # noqa: ARG002
        """One for the iterate and, unless it is the last, one per probe (and one for their centre)."""
        return 1 if last else self._n_before + self._val.n_bases * self._n_probes

    def questions(self, standing: Standing) -> list[Question]:
        """Ask for the value of the iterate and of every probe."""
        table, t = standing.distribution, standing.iteration
        predict = partial(self._soft, table) if self._kind == "soft" else self._hard(table, t)
        asked = [self._question(f"{t}:base", f"the value of iterate {t}", partial(predict, None))]
        if standing.last:
            return asked
        if self._anchor is not None:
            asked.append(self._question(f"{t}:centre", f"the centre of the probes {t}", partial(predict, ())))
        for basis in range(self._val.n_bases):
            for probe in range(self._n_probes):
                move = self._family.describe(probe, n_classes=self._val.n_classes)
                text = f"the value of iterate {t} with {move} in basis function {basis}"
                key = f"{t}:{basis}.{probe}"
                asked.append(self._question(key, text, partial(predict, (basis, probe))))
        return asked

    def check(self, question: Question, answer: Any) -> float:
        """Refuse anything but one finite number."""
        return check_number(question, answer)

    def view(self, previous: FloatArray | None, answers: Sequence[Any], *, step: float) -> FloatArray:  # noqa: ARG002
        """Keep the values of this look."""
        return np.array(answers, dtype=np.float64)

    def value(self, view: FloatArray) -> float:
        """Return the iterate's value."""
        return float(view[0])

    def gains(self, view: FloatArray) -> FloatArray:
        """Return each probe's value less that of their centre."""
        return np.asarray((view[self._n_before :] - view[self._n_before - 1]) / self._plan.reach)

    def rounding(self, view: FloatArray) -> float:
        """Return what differences of the values lose."""
        return _ROUNDING * float(np.abs(view).max()) / self._plan.reach

    def _soft(self, table: FloatArray, probe: Probe | None) -> FloatArray:
        """Return the distribution of the iterate (None), of the centre (no probe) or of a probe."""
        if probe is None:
            return table
        around = moved = table if self._anchor is None else self._anchor
        if probe:
            basis, number = probe
            direction = self._family.displace(around, np.array([number]))[0]
            moved = around + self._plan.radius * self._val.phi[:, [basis]] * direction
        return np.asarray((1 - self._plan.share) * table + self._plan.share * moved)

    def _hard(self, table: FloatArray, iteration: int) -> Callable[[Probe | None], IntArray]:
        """Return the function that gives labels of the iterate and its probes, with this iteration's draws."""
        draws = shared_draws(self._ranks, seed=self._seed, iteration=iteration)
        return partial(self._moved, draws, drawn_labels(table, draws.take))

    def _moved(self, draws: Draws, labels: IntArray, probe: Probe | None) -> IntArray:
        """Return labels of the iterate, the centre or a probe; all take the same draws row by row."""
        if probe is None:
            return labels
        around = moved = labels if self._anchor is None else np.argmax(self._anchor, axis=1)
        if probe:
            basis, number = probe
            landed = self._family.redraw(around, number, draws.land, n_classes=self._val.n_classes)
            # move is uniform: below share the anchor is taken, below share * radius * phi the probe moves it.
            moved = np.where(draws.move < self._plan.reach * self._val.phi[:, basis], landed, around)
        return np.where(draws.move < self._plan.share, moved, labels)

    def _question(self, key: str, text: str, predict: Callable[[], Any]) -> Question:
        """Return a question about one classifier, on the rows that are asked about."""
        rows = slice(None) if self._rows is None else self._rows
        return Question(
            key=key,
            kind=self._kind,
            text=text,
            n_rows=self._val.n_samples,
            rows=self._rows,
            _predict=lambda: predict()[rows],
        )


def guarded(call: Callable[[], FloatArray], metric: ConfusionMetric, what: str, shape: tuple[int, ...]) -> FloatArray:
    """Return a metric's array, with anything it raises or gets wrong mapped to MetricError."""
    try:
        found = np.asarray(call(), dtype=np.float64)
    except Exception as error:
        raise MetricError(f"the {what} of metric {metric.name!r} raised {type(error).__name__}: {error}") from error
    if found.shape != shape or not np.isfinite(found).all():
        shown = f"shape {found.shape}" if found.shape != shape else "NaN or infinite values"
        raise MetricError(
            f"the {what} of metric {metric.name!r} must give finite numbers of shape {shape}. Got {shown} instead"
        )
    return found
