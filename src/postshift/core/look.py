"""Looks: the three ways to get the score of an iterate h^t and the gain of every probe around it.

==============  =======================================================  ======================================
look            sees                                                     asks, in iteration t
==============  =======================================================  ======================================
LocalLook       confusion matrices, counted by an engine that has the    nothing
                validation rows with their labels
ConfusionLook   confusion matrices, answered by an oracle                one query: the newest vertex's matrices
ScoreLook       scores of predictions, soft or hard                      one query for h^t and one for each probe
==============  =======================================================  ======================================

``ScoreLook`` is in :mod:`postshift.core.score_look`.

Confusion matrices are linear in h, so a view of the newest vertex is enough for all probes around the new iterate. A
*view* of matrices is an array (1 + known, parts, 1 + L, R, m). Its axes are: the iterate, then the known classifiers of
the probes (:mod:`postshift.core.probing`); the parts of the validation rows; all rows, then the rows weighted with each
basis function; the R categories; the classes. Weights are elicited on part 0. If the rows were split in two (Algorithm
3*), the gradient is taken on part 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np

from postshift._validation import FloatArray, IntArray, read_only
from postshift.core.frank_wolfe import Look, Newest
from postshift.core.probing import Probing
from postshift.core.psi import (
    ConfusionMetric,
    DifferentiableMetric,
    check_classes,
    check_is_maximised,
    depends_on_counts,
    gradient_of,
    value_of,
    value_of_counts,
)
from postshift.core.queries import Fit, Kind, Query
from postshift.core.rows import Rows
from postshift.core.score_look import ROUNDING, ScoreLook
from postshift.core.sums import Classifier, Engine, influence_features
from postshift.exceptions import MetricError, SettingError, ShapeError

Linearise = Literal["probes", "gradient"]


class _MatrixLook:
    """The common part of both looks at confusion matrices: psi at the probes, or its gradient."""

    def __init__(
        self,
        metric: ConfusionMetric,
        *,
        n_classes: int,
        linearise: Linearise,
        probes: Probing,
    ) -> None:
        check_is_maximised(metric)
        check_classes(metric, n_classes=n_classes)
        if linearise == "gradient" and not isinstance(metric, DifferentiableMetric):
            raise MetricError(f"metric {metric.name!r} has no gradient: use linearise='probes'")
        self._metric, self._probes, self._linearise = metric, probes, linearise
        self.asked: set[str] = set()

    def score(self, view: FloatArray) -> float:
        """Return psi of h^t on the rows of the elicitation."""
        return float(value_of(self._metric, view[0, 0, 0]))

    def gains(self, view: FloatArray) -> FloatArray:
        """Return psi at each probe minus psi at the centre, or its estimate from the gradient."""
        seen, probes = view[:, 0], self._probes
        if self._linearise == "gradient":
            slope = gradient_of(cast("DifferentiableMetric", self._metric), view[0, -1, 0])
            return probes.slopes(seen, slope)
        anchor = seen[1] if probes.known else seen[0]
        centre = (1 - probes.share) * seen[0, 0] + probes.share * anchor[0]
        values = np.concatenate(list(self._around(centre, seen)), axis=1)
        return ((values - value_of(self._metric, centre)) / probes.reach).reshape(-1)

    def _around(self, centre: FloatArray, seen: FloatArray) -> Iterator[FloatArray]:
        """Yield psi (L, some probes) at each probe.

        Rounding may leave an emptied entry just below 0, where a root or a logarithm is not defined.
        """
        probes, metric = self._probes, self._metric
        if centre.shape[0] != centre.shape[1] or not depends_on_counts(metric):
            for moved in probes.moves(seen):
                yield value_of(metric, np.maximum(centre + probes.reach * moved, 0))
            return
        hits, true, predicted = np.diagonal(centre), centre.sum(axis=1), centre.sum(axis=0)
        for found, guessed in probes.count_moves(seen):
            yield value_of_counts(
                metric,
                np.maximum(hits + probes.reach * found, 0),
                np.broadcast_to(true, found.shape),
                np.maximum(predicted + probes.reach * guessed, 0),
            )

    def rounding(self, view: FloatArray) -> float:
        """Return the rounding error of differences of psi; a gradient has none."""
        return 0.0 if self._linearise == "gradient" else ROUNDING * abs(self.score(view)) / self._probes.reach


class LocalLook(_MatrixLook):
    """Looks at validation rows whose labels are available: it asks nothing.

    Parameters
    ----------
    held : Engine
        The engine that holds the validation rows with their labels.
    metric : ConfusionMetric
        psi.
    influence : bool
        Whether the probes use the features z of influence regression instead of phi.
    **how
        Number of classes, linearisation and probes.
    """

    def __init__(self, held: Engine, metric: ConfusionMetric, *, influence: bool, **how: Any) -> None:
        super().__init__(metric, **how)
        self._held, self._influence = held, influence

    def n_queries(self, *, first: bool, last: bool) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def at(self, newest: Newest, previous: FloatArray | None) -> Fit[FloatArray]:
        """Look at the newest vertex and mix it in; the known classifiers are looked at once."""
        yield from ()
        found = self._seen(newest.classifier)
        if previous is None:
            return np.stack([found, *(self._seen(classifier) for classifier in self._probes.known)])
        mixed = previous.copy()
        mixed[0] = (1 - newest.step) * previous[0] + newest.step * found
        return mixed

    def _seen(self, classifier: Classifier) -> FloatArray:
        """Return the matrices (1, 1 + K, R, m) of a classifier, as shares of the weight."""
        seen = self._held.look(classifier, influence=self._influence)
        return np.asarray(seen[None] / seen[0].sum())


class ConfusionLook(_MatrixLook):
    """Looks at confusion matrices that an oracle returns; psi is evaluated here.

    Parameters
    ----------
    val : Rows
        eta and phi of the validation rows.
    metric : ConfusionMetric
        psi.
    functions : array of shape (n, K)
        The functions of the probes: phi, or the features of influence regression.
    linearise : {"probes", "gradient"}
        Whether psi is evaluated at the probes or differentiated.
    halves : pair of row arrays, optional
        Algorithm 3*: elicit on the first rows, take the gradient on the second; None asks about all rows.
    **how
        The probes.
    """

    def __init__(
        self,
        val: Rows,
        metric: ConfusionMetric,
        *,
        functions: FloatArray,
        linearise: Linearise,
        halves: tuple[IntArray, IntArray] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(metric, n_classes=val.n_classes, linearise=linearise, **how)
        self._val = val
        self._parts: Sequence[IntArray | None] = [None]
        if halves is not None:
            self._parts = halves if linearise == "gradient" else halves[:1]
        self._columns = np.column_stack([np.ones(val.n_rows), functions])

    def n_queries(self, *, first: bool, last: bool) -> int:
        """Return one query per part (last iterate: the first); at the start, also one for each known classifier."""
        n_parts = 1 if last else len(self._parts)
        return n_parts * (1 + len(self._probes.known) if first else 1)

    def at(self, newest: Newest, previous: FloatArray | None) -> Fit[FloatArray]:
        """Ask about the newest vertex only, and mix its matrices in; the others do not change."""
        queries = self._queries(newest)
        self.asked = set() if previous is None else self.asked
        self.asked |= {query.fingerprint() for query in queries}
        answers = yield queries
        if previous is None:
            return np.stack(answers).reshape(-1, len(self._parts), *answers[0].shape)
        mixed = previous.copy()
        for part, found in enumerate(answers):
            mixed[0, part] = (1 - newest.step) * previous[0, part] + newest.step * found
        return mixed

    def _queries(self, newest: Newest) -> list[Query]:
        """Return the queries of a look."""
        t, val = newest.iteration, self._val
        shown = [("the start" if t == 0 else f"plug-in number {t}", newest.classifier)]
        if t == 0:
            names = ("the anchor", *(f"constrained probe {place}" for place in range(len(self._probes.known) - 1)))
            shown += zip(names, self._probes.known, strict=False)
        return [
            self._query(f"{t}:{place}.{part}", name, classifier.distribution(val.eta, val.phi), rows)
            for place, (name, classifier) in enumerate(shown)
            for part, rows in enumerate(self._parts[:1] if newest.last else self._parts)
        ]

    def _query(self, key: str, name: str, table: FloatArray, rows: IntArray | None) -> Query:
        """Return a query about one table on some rows."""
        every = slice(None) if rows is None else rows
        columns = self._columns[every]
        n_categories = getattr(self._metric, "n_categories", self._val.n_classes)
        return Query(
            key=key,
            kind="confusion",
            text=f"confusion matrices of {name}",
            n_rows=self._val.n_rows,
            rows=rows,
            columns=read_only(columns),
            shape=(columns.shape[1], n_categories, self._val.n_classes),
            _predict=lambda: table[every],
        )


def make_look(
    val: Rows,
    kind: Kind,
    *,
    metric: ConfusionMetric | None,
    held: Engine | None,
    influence: bool = False,
    probes: Probing,
    linearise: Linearise = "probes",
    halves: tuple[IntArray, IntArray] | None = None,
    seed: int = 0,
) -> Look:
    """Return the look of a run: how it gets scores and gains of its iterates.

    Parameters
    ----------
    val : Rows
        The validation rows.
    kind : Kind
        Which queries the oracle answers.
    metric : ConfusionMetric, optional
        psi, needed for confusion matrices.
    held : Engine, optional
        An engine that holds the validation rows with their labels; if given, no queries are asked.
    influence : bool
        Whether the probes use the features of influence regression instead of phi.
    probes, linearise, seed
        The probes, and how psi is linearised at them.
    halves : pair of row arrays, optional
        Algorithm 3*: elicit on the first rows, take the gradient on the second.
    """
    halves = None if halves is None else _checked_halves(halves, val.n_rows)
    if kind.name == "table":
        raise SettingError(
            "the loop asks for confusion matrices or scores, and this oracle counts the rows in the cells of a table: "
            "give PostShifter the metric from_oracle(oracle, metric=...), which needs one query"
        )
    if not kind.matrices and linearise == "gradient":
        raise SettingError("linearise='gradient' needs queries of kind 'confusion' and a metric with a gradient")
    if kind.matrices and metric is None:
        raise MetricError("queries of kind 'confusion' need metric=..., the function psi of the matrix")
    if kind.matrices and metric is not None and held is not None and halves is None:
        return LocalLook(held, metric, influence=influence, n_classes=val.n_classes, linearise=linearise, probes=probes)
    functions = influence_features(val.eta, val.phi) if influence else val.phi
    if metric is None or not kind.matrices:
        rows = None if halves is None else halves[0]
        return ScoreLook(val, kind=kind, functions=functions, rows=rows, seed=seed, probes=probes)
    return ConfusionLook(val, metric, functions=functions, linearise=linearise, halves=halves, probes=probes)


def _checked_halves(halves: Any, n_rows: int) -> tuple[IntArray, IntArray]:
    """Return two sorted, disjoint, non-empty arrays of row numbers."""
    problem = f"halves must be two arrays of distinct row numbers in 0..{n_rows - 1}, none in both"
    try:
        first, second = (np.sort(np.asarray(half)) for half in halves)
        together = np.sort(np.concatenate([first, second]))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{problem}. Got {type(halves).__name__}: {error}") from error
    whole = together.dtype.kind in "iu" and first.ndim == 1 and first.size > 0 and second.size > 0
    if not whole or together[0] < 0 or together[-1] >= n_rows or (np.diff(together) == 0).any():
        raise ShapeError(f"{problem}. Got {first.size} and {second.size} values")
    return first.astype(np.intp), second.astype(np.intp)
