"""How somebody else is asked about an iterate: which queries, and what their answers say.

A *look* at the iterate h^t gives its value and, unless it is the last, the gain of every probe around it. There
are two ways: confusion matrices, which are linear in h, so one query about the newest vertex suffices for
all probes; and plain values, one query per probe. Rows that are at hand need no query: see ``looking``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from postshift._validation import FloatArray, IntArray, read_only
from postshift.core.draws import Draws, drawn_labels, even_order, shared_draws
from postshift.core.elicitation import ProbePlan
from postshift.core.looking import ROUNDING, Matrices, Standing
from postshift.core.probing import ProbeFamily
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Query, check_confusions, check_number
from postshift.core.rows import Rows
from postshift.core.statistics import Classifier

Probe = tuple[()] | tuple[int, int]  # no probe: their centre; else basis function and number


class ConfusionInquiry(Matrices):
    """Looks through confusion matrices that somebody answers with; psi is evaluated here."""

    def __init__(
        self,
        val: Rows,
        metric: ConfusionMetric,
        *,
        linearise: Literal["probes", "gradient"],
        family: ProbeFamily,
        plan: ProbePlan,
        parts: Sequence[IntArray | None],
        anchor: Classifier | None,
    ) -> None:
        super().__init__(metric, n_classes=val.n_classes, linearise=linearise, family=family, plan=plan)
        self._val, self._parts, self._anchor = val, parts, anchor
        self._columns = np.column_stack([np.ones(val.n_samples), val.phi])

    def n_queries(self, *, first: bool, last: bool) -> int:
        """One per part (of the last iterate: the first part alone), at the start as many for the anchor."""
        n_parts = 1 if last else len(self._parts)
        return n_parts * (2 if first and self._anchor is not None else 1)

    def queries(self, standing: Standing) -> list[Query]:
        """Ask about the start, later about the newest vertex only."""
        name = "the start" if standing.iteration == 0 else f"plug-in number {standing.iteration}"
        tables = [(name, standing.on_val(standing.newest))]
        if standing.iteration == 0 and self._anchor is not None:
            tables.append(("the anchor", standing.on_val(self._anchor)))
        return [
            self._query(f"{standing.iteration}:{place}.{part}", f"confusion matrices of {text}", table, rows)
            for place, (text, table) in enumerate(tables)
            for part, rows in enumerate(self._parts[:1] if standing.last else self._parts)
        ]

    def check(self, query: Query, answer: Any) -> FloatArray:
        """Refuse anything but (1 + L, R, m) shares."""
        n_categories = getattr(self._metric, "n_categories", self._val.n_classes)
        return check_confusions(query, answer, shape=(1 + self._val.n_bases, n_categories, self._val.n_classes))

    def view(
        self,
        previous: FloatArray | None,
        answers: Sequence[Any],
        *,
        standing: Standing,  # noqa: ARG002
        step: float,
    ) -> FloatArray:
        """Mix the new vertex's matrices in; the anchor's stay."""
        if previous is None:
            return np.stack(answers).reshape(-1, len(self._parts), *answers[0].shape)
        mixed = previous.copy()
        for part, found in enumerate(answers):
            mixed[0, part] = (1 - step) * previous[0, part] + step * found
        return mixed

    def _query(self, key: str, text: str, table: FloatArray, rows: IntArray | None) -> Query:
        """Return a query about one table on some rows."""
        every = slice(None) if rows is None else rows
        return Query(
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
        val: Rows,
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

    def n_queries(self, *, first: bool, last: bool) -> int:  # noqa: ARG002
        """One for the iterate and, unless it is the last, one per probe (and one for their centre)."""
        return 1 if last else self._n_before + self._val.n_bases * self._n_probes

    def queries(self, standing: Standing) -> list[Query]:
        """Ask for the value of the iterate and of every probe."""
        table, t = standing.distribution, standing.iteration
        predict = partial(self._soft, table) if self._kind == "soft" else self._hard(table, t)
        asked = [self._query(f"{t}:base", f"the value of iterate {t}", partial(predict, None))]
        if standing.last:
            return asked
        if self._anchor is not None:
            asked.append(self._query(f"{t}:centre", f"the centre of the probes {t}", partial(predict, ())))
        for basis in range(self._val.n_bases):
            for probe in range(self._n_probes):
                move = self._family.describe(probe, n_classes=self._val.n_classes)
                text = f"the value of iterate {t} with {move} in basis function {basis}"
                key = f"{t}:{basis}.{probe}"
                asked.append(self._query(key, text, partial(predict, (basis, probe))))
        return asked

    def check(self, query: Query, answer: Any) -> float:
        """Refuse anything but one finite number."""
        return check_number(query, answer)

    def view(
        self,
        previous: FloatArray | None,  # noqa: ARG002
        answers: Sequence[Any],
        *,
        standing: Standing,  # noqa: ARG002
        step: float,  # noqa: ARG002
    ) -> FloatArray:
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
        return ROUNDING * float(np.abs(view).max()) / self._plan.reach

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

    def _query(self, key: str, text: str, predict: Callable[[], Any]) -> Query:
        """Return a query about one classifier, on the rows that are asked about."""
        rows = slice(None) if self._rows is None else self._rows
        return Query(
            key=key,
            kind=self._kind,
            text=text,
            n_rows=self._val.n_samples,
            rows=self._rows,
            _predict=lambda: predict()[rows],
        )
