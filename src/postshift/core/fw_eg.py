"""The paper's three algorithms as calls: ElicitWeights, PI-EW and FW-EG.

===============  ====================================  ==========================================================
call             is                                    asks
===============  ====================================  ==========================================================
elicit_weights   Algorithm 1, around any classifier    one look: the classifier and every probe around it
pi_ew            Algorithm 2: one plug-in classifier   one look, and the score of the result
fw_eg            Algorithm 3: Frank-Wolfe              a look in every iteration
===============  ====================================  ==========================================================

``fw_eg_session`` is ``fw_eg`` as a session: ask, tell, and the result at the end.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postshift._validation import IntArray, check_in_range, check_rows
from postshift.core.constrained import constrained_probes
from postshift.core.elicit import RCOND, Elicitation, ElicitedVertex
from postshift.core.frank_wolfe import (
    FitResult,
    Newest,
    RunSettings,
    affordable,
    check_sides,
    frank_wolfe,
    harmonic,
    max_queries,
)
from postshift.core.look import Linearise, make_look
from postshift.core.mixture import Mixture
from postshift.core.oracles import metric_and_oracle
from postshift.core.plugin import inverse_prior
from postshift.core.probes import ProbePlan
from postshift.core.probing import DisplacedProbes, Probing
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Fit, Kind, Oracle, Query, kind_named
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.core.sums import Engine, LabelSums, engine_of
from postshift.core.weighting import Entries, weighting_named
from postshift.exceptions import (
    EmptyBasisWarning,
    LabelError,
    MetricError,
    MissingClassWarning,
    SettingError,
)


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """The settings of the paper's method.

    Attributes
    ----------
    weighting : {"diagonal", "columns", "full"} or sequence of pairs
        Which confusion entries get weights; usually those that the metric depends on. A sequence names them as pairs
        (true class, predicted class).
    radius : float in (0, 1]
        How far the probes are from the current classifier (the paper's epsilon).
    max_iter : int
        Number of Frank-Wolfe iterations T; 1 is PI-EW.
    linearise : {"probes", "gradient"}
        Whether a known psi is evaluated at the probes or differentiated (confusion queries only).
    tol : float
        The run ends early if the scores of the last five iterates differ by less than this; with 0, as in the paper,
        it never does.
    rcond, ridge : float
        Options of the least-squares solution; see :func:`postshift.core.elicit.solve`.
    min_hit, max_leak : float, optional
        gamma and omega of Eq. (11): if both are given, the constrained probes are used.
    budget : int, optional
        The maximum number of queries; iterations that it does not pay for are not started.
    random_state : int
        Seed of the draws of hard labels.
    """

    weighting: str | Sequence[tuple[int, int]] = "diagonal"
    radius: float = 0.1
    linearise: Linearise = "probes"
    tol: float = 0.0
    rcond: float = RCOND
    ridge: float = 0.0
    min_hit: float | None = None
    max_leak: float | None = None

    def __post_init__(self) -> None:
        """Raise if a value is out of range."""
        super().__post_init__()
        above_0 = {"high": 1, "open_low": True}
        limits: dict[str, dict[str, Any]] = {
            "radius": above_0,
            "rcond": {"high": 1, "open_high": True},
            "tol": {"high": np.inf, "open_high": True},
            "ridge": {"high": np.inf, "open_high": True},
            "min_hit": above_0,
            "max_leak": above_0,
        }
        for name, limit in limits.items():  # plain numbers
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_in_range(value, name=name, low=0, **limit))
        found = weighting_named(self.weighting)
        object.__setattr__(self, "weighting", found.pairs if isinstance(found, Entries) else found.name)
        if self.linearise not in ("probes", "gradient"):
            raise SettingError(f"linearise must be 'probes' or 'gradient'. Got {self.linearise!r} instead")
        if (self.min_hit is None) != (self.max_leak is None):
            raise SettingError("min_hit and max_leak must be given together, or neither (the fixed probes)")


# -- the calls ------------------------------------------------------------------------------------------------


def fw_eg(
    train: Rows | Engine,
    val: Rows,
    metric: ConfusionMetric | Oracle,
    *,
    oracle: Oracle | None = None,
    start: Mixture | None = None,
    halves: tuple[IntArray, IntArray] | None = None,
    journal: str | os.PathLike[str] | None = None,
    on_answer: Callable[[Query, Any], None] | None = None,
    **settings: Any,
) -> FitResult:
    """Fit a mixture of plug-in classifiers by Frank-Wolfe with elicited gradients (Algorithm 3).

    Parameters
    ----------
    train : Rows or Engine
        Training rows with labels, or an engine that holds them.
    val : Rows
        Validation rows; with labels if ``metric`` is a function of the confusion matrix.
    metric : ConfusionMetric or Oracle
        What to maximise: psi(C), or an oracle that answers queries about predictions. A cost is minimised: its scores
        are negative. An oracle has its own labels and weights; those of ``val`` are only used for psi(C).
    oracle : Oracle, optional
        For a psi(C), if ``val`` has no labels: answers with confusion matrices.
    start : Mixture, optional
        The first iterate; by default the inverse-prior plug-in.
    halves : pair of row arrays, optional
        Algorithm 3*: elicit on the first rows, take the gradient on the second.
    journal : path, optional
        A file that keeps every answer; the same call resumes it.
    on_answer : callable, optional
        Called with every query and its answer.
    **settings
        Fields of :class:`Settings`; by default, ``weighting`` is what the metric depends on.

    Returns
    -------
    FitResult
        The mixture, the trace and the number of queries.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import Rows, fw_eg
    >>> from postshift.metrics import GMean
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> rows = Rows.of(np.column_stack([1 - p, p]), labels=y)
    >>> fit = fw_eg(rows, rows, GMean(), max_iter=10)
    >>> bool(fit.score > GMean().value(np.array([[(1 - y).sum(), 0], [y.sum(), 0]]) / 2000))
    True
    """
    psi, asked = metric_and_oracle(metric, oracle, val)
    if halves is not None and not asked.takes_subsets:
        raise MetricError(
            "this oracle only scores all validation rows at once: leave halves out, or use a ConfusionOracle"
        )
    how: dict[str, Any] = {"metric": psi, "start": start, "halves": halves}
    with fw_eg_session(train, val, kind=asked.kind, journal=journal, **how, **settings) as session:
        return session.run(asked, on_answer=on_answer)


def pi_ew(train: Rows | Engine, val: Rows, metric: ConfusionMetric | Oracle, **options: Any) -> FitResult:
    """Fit one plug-in classifier with elicited weights (Algorithm 2), for linear metrics.

    It is the first iteration of :func:`fw_eg`, with a step of size 1, and takes the same parameters.
    """
    if "max_iter" in options:
        raise SettingError("pi_ew makes one iteration and takes no max_iter: use fw_eg")
    return fw_eg(train, val, metric, **options, max_iter=1)


def elicit_weights(
    train: Rows | Engine,
    val: Rows,
    metric: ConfusionMetric | Oracle,
    *,
    base: Mixture | None = None,
    oracle: Oracle | None = None,
    **settings: Any,
) -> Elicitation:
    """Return example weights with which training rows reproduce the metric around a classifier (Algorithm 1).

    Parameters
    ----------
    train : Rows or Engine
        Training rows with labels, or an engine that holds them.
    val : Rows
        Validation rows; with labels if ``metric`` is a function of the confusion matrix.
    metric : ConfusionMetric or Oracle
        The metric, as in :func:`fw_eg`.
    base : Mixture, optional
        The classifier that is probed; by default the inverse-prior plug-in.
    oracle : Oracle, optional
        For a psi(C), if ``val`` has no labels: answers with confusion matrices.
    **settings
        ``weighting``, ``radius``, ``linearise``, ``rcond``, ``ridge``, ``min_hit``, ``max_leak`` and ``random_state``
        of :class:`Settings`.

    Returns
    -------
    Elicitation
        ``alpha`` (L, P), with rank, condition and residual. ``PlugIn(weighting=..., alpha=found.alpha, ...)`` is the
        plug-in classifier of Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import Rows, elicit_weights
    >>> from postshift.metrics import Accuracy
    >>> eta = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]])
    >>> rows = Rows.of(eta, labels=[0, 1, 1, 1])
    >>> elicit_weights(rows, rows, Accuracy()).alpha.round(6)
    array([[1., 1.]])
    """
    psi, asked = metric_and_oracle(metric, oracle, val)
    how: dict[str, Any] = {"kind": kind_named(asked.kind), "metric": psi, "start": base}
    run = FwEgRun(engine_of(train), val, settings=_settings(psi, settings), **how)

    def fit() -> Fit[Elicitation]:
        newest = Newest(iteration=0, classifier=run.start, step=1.0, last=False)
        view = yield from run.look.at(newest, None)
        return run.finder.find(run.finder.sums_of(run.start), run.look.gains(view))

    return Session(fit).run(asked)


def fw_eg_session(
    train: Rows | Engine,
    val: Rows,
    *,
    kind: str,
    metric: ConfusionMetric | None = None,
    start: Mixture | None = None,
    halves: tuple[IntArray, IntArray] | None = None,
    journal: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Session[FitResult]:
    """Return FW-EG as a session: ``ask()`` for the open queries, ``tell()`` the answers, ``result()`` at the end.

    Parameters
    ----------
    train, val, start, halves, journal, **settings
        As in :func:`fw_eg`; the labels of ``val`` are not read.
    kind : {"confusion", "soft", "hard"}
        Which queries will be answered.
    metric : ConfusionMetric, optional
        psi, needed for kind "confusion".
    """
    how: dict[str, Any] = {"kind": kind_named(kind), "metric": metric, "start": start, "halves": halves}
    run = FwEgRun(engine_of(train), val, settings=_settings(metric, settings), **how)
    about = "" if journal is None else run.digest()
    limit = max_queries(run.look, run.n_iter)
    return Session(run.fit, budget=run.settings.budget, journal=journal, about=about, max_queries=limit)


class FwEgRun:
    """A run of FW-EG: the look, the vertex finder and the start that the loop needs.

    Parameters
    ----------
    train : Engine
        The engine that holds the training rows with labels.
    val : Rows
        The validation rows.
    kind : Kind
        Which queries are answered.
    metric, start, halves
        As in :func:`fw_eg_session`.
    settings : Settings, optional
        The settings.
    held : Engine, optional
        An engine that holds the validation rows with their labels; if given, no queries are asked.
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
        if start is not None and not isinstance(start, Mixture):
            raise SettingError(f"start must be a Mixture: Mixture.of([plug_in], [1.0]). Got {type(start).__name__}")
        check_sides(train, val, start)
        self.settings = settings = settings or Settings()
        self._train, self._val, self._labels = train, val, train.label_sums()
        self._kind, self._metric, self._given, self._halves = kind, metric, start, halves
        _check_training_labels(self._labels)
        weighting, found = weighting_named(settings.weighting), None
        weighting.n_terms(train.n_classes)  # raises if an entry has no such class
        probing: Probing = DisplacedProbes(family=weighting.probes, plan=ProbePlan(radius=settings.radius))
        if settings.min_hit is not None and settings.max_leak is not None:
            limits = {"min_hit": settings.min_hit, "max_leak": settings.max_leak}
            found = constrained_probes(train, weighting=weighting, **limits)
            probing = found.mixed_in(settings.radius, family=weighting.probes)
        self.probes = found
        self.look = make_look(
            val,
            kind,
            metric=metric,
            held=held,
            probes=probing,
            linearise=settings.linearise,
            halves=halves,
            seed=settings.random_state,
        )
        self.finder = ElicitedVertex(
            train,
            weighting=weighting,
            labels=self._labels,
            anchor=None if found is None else found.anchor,
            sigma=None if found is None else found.sigma,
            unknown=_without_rows(self._labels, val),
            rcond=settings.rcond,
            ridge=settings.ridge,
        )
        self.start = start or Mixture.of([inverse_prior(self._labels.classes, n_bases=val.n_bases)], [1.0])
        self.n_iter = affordable(self.look, max_iter=settings.max_iter, budget=settings.budget)

    def fit(self) -> Fit[FitResult]:
        """Return the loop, a generator of queries."""
        how: dict[str, Any] = {"max_iter": self.n_iter, "tol": self.settings.tol, "probes": self.probes}
        return frank_wolfe(self.look, self.finder, self.start, step=harmonic, **how)

    def digest(self) -> str:
        """Return a digest of what the queries depend on; label sums stand for the training rows."""
        val, about = self._val, f"{self._kind.name}/{_identity(self._metric)}/{asdict(self.settings)}"
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        # Sums in single precision: their last digits depend on how the rows are cut into blocks.
        arrays: list[NDArray[Any]] = [val.eta, val.phi, self._labels.pair.astype(np.float32)]
        arrays += [array for array in (val.labels, val.weights) if array is not None]
        arrays += [np.asarray(half) for half in self._halves or ()]
        if self._given is not None:
            arrays += [self.start.shares, *(member.alpha for member in self.start.members)]
        arrays.append(self._train.classifier_sums(self.start, confusions=False).single.astype(np.float32))
        for array in arrays:
            digest.update(f"{array.dtype.str}/{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def _settings(metric: ConfusionMetric | None, given: dict[str, Any]) -> Settings:
    """Return the settings of a run; by default, the weighting covers the entries that the metric depends on."""
    return Settings(**{"weighting": "diagonal" if metric is None else metric.weighting, **given})


def _check_training_labels(labels: LabelSums) -> None:
    """Raise if the training rows are of one class, and warn about classes without rows."""
    check_rows(labels.count, name="training")
    missing = np.flatnonzero(labels.classes == 0).tolist()
    if len(missing) >= len(labels.classes) - 1:
        raise LabelError("all training rows have the same class: give rows of at least two classes")
    if missing:
        warnings.warn(
            f"no training row of class {missing if len(missing) > 1 else missing[0]}: no weight can be elicited for it",
            MissingClassWarning,
            stacklevel=5,
        )


def _without_rows(labels: LabelSums, val: Rows) -> NDArray[np.bool_]:
    """Return which basis functions have no training or no validation rows, with a warning if any."""
    unknown: NDArray[np.bool_] = (labels.single.sum(axis=1) == 0) | (val.phi.sum(axis=0) == 0)
    if unknown.any():
        warnings.warn(
            f"basis functions {np.flatnonzero(unknown).tolist()} have no training or no validation rows: "
            "they take the average weights of the others",
            EmptyBasisWarning,
            stacklevel=5,
        )
    return unknown


def _identity(metric: ConfusionMetric | None) -> str:
    """Return a text that identifies a metric: its repr, or its name if the repr is an address."""
    if metric is None:
        return ""
    if type(metric).__repr__ is object.__repr__:
        return metric.name
    with np.printoptions(threshold=2**31, precision=17, floatmode="unique"):
        return f"{metric.name}/{metric!r}"
