"""What confusion matrices say of an iterate: its value, and the gain of every probe around it.

A *view* is an array (1 or 2, parts, 1 + L, R, m): base and, if any, anchor; on each part of the validation rows;
without and with each basis function. Part 0 serves the elicitation. Part 1, if the rows were split in two
(Algorithm 3*), is where the gradient is taken. Confusion matrices are linear in h, so a view of the newest vertex
suffices for all probes around the new iterate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np

from postshift._validation import FloatArray
from postshift.core.elicitation import ProbePlan
from postshift.core.probing import ProbeFamily
from postshift.core.psi import (
    ConfusionMetric,
    DifferentiableMetric,
    check_classes,
    check_is_maximised,
    gradient_of,
    value_of,
)
from postshift.core.queries import Query
from postshift.core.rows import Rows
from postshift.core.statistics import Classifier, Engine
from postshift.exceptions import MetricError

ROUNDING = 1e-14  # of a metric, relative
_CHUNK = 1 << 21  # numbers held at once when all probes' confusion matrices are built


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """Where the run stands: h^t, and its newest part, which is the start or a vertex."""

    iteration: int
    last: bool
    newest: Classifier
    on_val: Callable[[Classifier | None], FloatArray]  # a classifier's table on the validation rows; None: of h^t

    @property
    def distribution(self) -> FloatArray:
        """h^t on the validation rows."""
        return self.on_val(None)


class Inquiry(Protocol):
    """One way of looking at an iterate."""

    def n_queries(self, *, first: bool, last: bool) -> int:
        """Return the number of queries of a look, before any is found to be known already."""

    def queries(self, standing: Standing) -> list[Query]:
        """Return the queries of a look."""

    def check(self, query: Query, answer: Any) -> FloatArray | float:
        """Return the answer in its proper type, or refuse it."""

    def view(
        self, previous: FloatArray | None, answers: Sequence[Any], *, standing: Standing, step: float
    ) -> FloatArray:
        """Return what is known of h^t from what was known of h^(t-1) and the new answers."""

    def value(self, view: FloatArray) -> float:
        """Return the metric of h^t."""

    def gains(self, view: FloatArray) -> FloatArray:
        """Return the gain of every probe (L R,) per unit of reach."""

    def rounding(self, view: FloatArray) -> float:
        """Return the size of gains that are nothing but rounding."""


class Matrices:
    """psi of the confusion matrices of a view, at the probes or by its gradient."""

    def __init__(
        self,
        metric: ConfusionMetric,
        *,
        n_classes: int,
        linearise: Literal["probes", "gradient"],
        family: ProbeFamily,
        plan: ProbePlan,
    ) -> None:
        check_is_maximised(metric)
        check_classes(metric, n_classes=n_classes)
        if linearise == "gradient" and not isinstance(metric, DifferentiableMetric):
            raise MetricError(f"metric {metric.name!r} has no gradient: use linearise='probes'")
        self._metric, self._family, self._plan, self._linearise = metric, family, plan, linearise
        self._n_probes = family.n_probes(n_classes)

    def value(self, view: FloatArray) -> float:
        """Return psi of h^t on the rows that serve the elicitation."""
        return float(self._psi(view[0, 0, 0]))

    def gains(self, view: FloatArray) -> FloatArray:
        """Return psi at each probe less psi at the centre, or the gradient's estimate of it."""
        base, anchor = view[0, 0], view[-1, 0]
        if self._linearise == "gradient":
            gains = self._family.slopes(anchor[1:], self._gradient(view[0, -1, 0]))
        else:
            centre = (1 - self._plan.share) * base[0] + self._plan.share * anchor[0]
            # Rounding may leave an emptied entry just below 0, where a root or a logarithm is not defined.
            chunks = [self._psi(np.maximum(centre + self._plan.reach * moved, 0)) for moved in self._moves(anchor)]
            gains = (np.concatenate(chunks, axis=1) - self._psi(centre)) / self._plan.reach
        return gains.reshape(-1)

    def rounding(self, view: FloatArray) -> float:
        """Return what differences of psi lose; a gradient is no difference."""
        return 0.0 if self._linearise == "gradient" else ROUNDING * abs(self.value(view)) / self._plan.reach

    def _moves(self, anchor: FloatArray) -> Iterator[FloatArray]:
        """Yield the displacements of the confusion matrix per unit of reach, (L, some probes, R, m)."""
        size = max(1, _CHUNK // anchor[1:].size)
        for first in range(0, self._n_probes, size):
            probes = np.arange(first, min(first + size, self._n_probes))
            yield np.swapaxes(self._family.displace(anchor[1:], probes), 0, 1)

    def _psi(self, confusion: FloatArray) -> FloatArray:
        """Return the metric of a stack of matrices, its failures mapped to ours."""
        return value_of(self._metric, confusion)

    def _gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the metric's gradient, its failures mapped to ours."""
        return gradient_of(cast("DifferentiableMetric", self._metric), confusion)


class LocalInquiry(Matrices):
    """Looks at validation rows that are at hand, labels and all: it asks nothing.

    Parameters
    ----------
    rows : Engine
        The engine that holds the validation rows, labels and all.
    val : Rows
        Their probabilities.
    influence : bool
        Whether the probes stand on the features of influence regression, z, and not on phi.
    anchor : Classifier, optional
        What the probes are built around, where it is not the iterate.
    """

    def __init__(
        self,
        rows: Engine,
        metric: ConfusionMetric,
        *,
        val: Rows,
        influence: bool,
        linearise: Literal["probes", "gradient"],
        family: ProbeFamily,
        plan: ProbePlan,
        anchor: Classifier | None = None,
    ) -> None:
        super().__init__(metric, n_classes=val.n_classes, linearise=linearise, family=family, plan=plan)
        self._rows, self._influence, self._anchor = rows, influence, anchor

    def n_queries(self, *, first: bool, last: bool) -> int:  # noqa: ARG002
        """None."""
        return 0

    def queries(self, standing: Standing) -> list[Query]:  # noqa: ARG002
        """None."""
        return []

    def check(self, query: Query, answer: Any) -> FloatArray:
        """Refuse: nothing was asked."""
        raise NotImplementedError(f"nothing was asked here, not even {query.key!r}: {answer!r}")

    def view(
        self,
        previous: FloatArray | None,
        answers: Sequence[Any],  # noqa: ARG002
        *,
        standing: Standing,
        step: float,
    ) -> FloatArray:
        """Look at the newest vertex and mix it in; the anchor's part stays."""
        found = self._seen(standing.newest)
        if previous is None:
            return np.stack([found] if self._anchor is None else [found, self._seen(self._anchor)])
        mixed = previous.copy()
        mixed[0] = (1 - step) * previous[0] + step * found
        return mixed

    def _seen(self, classifier: Classifier) -> FloatArray:
        """Return the matrices (1, 1 + K, R, m) of a classifier, as shares of the weight."""
        seen = self._rows.look(classifier, influence=self._influence)
        return np.asarray(seen[None] / seen[0].sum())
