"""``postshift.frontier``: the frontier of a model, or of arrays of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from postshift._validation import as_table, check_count
from postshift.core.rows import Rows
from postshift.estimators.classifier import PostShiftClassifier
from postshift.estimators.model import is_frozen, label_values, one_a_row, positions
from postshift.estimators.records import compared, mark_of
from postshift.estimators.rows_of import RowsOf, RowsOfArrays
from postshift.estimators.shifter import PostShifter, named_phi, read_classes
from postshift.estimators.shifts import seed_of
from postshift.estimators.subject_to import SubjectTo, basis_of, constraints_of, guarantee_of, names_read
from postshift.estimators.task import goal_of, known_groups, make_task
from postshift.exceptions import InfeasibleError, InputError, SettingError
from postshift.rules.certified import Unlabelled
from postshift.rules.frontier import Frontier, Tracer

N_POINTS = 21


def frontier(
    model: Any,
    X: Any,
    y: Any,
    *,
    metric: Any = None,
    subject_to: Any = None,
    bounds: Any = N_POINTS,
    confidence: float | None = None,
    phi: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    sample_weight: Any = None,
    X_unlabelled: Any = None,
    phi_unlabelled: Any = None,
    groups_unlabelled: Any = None,
    random_state: Any = None,
    **metadata: Any,
) -> Frontier:
    """Trace the best metric against the bound of a constraint.

    Parameters
    ----------
    model : estimator or None
        A fitted :class:`~postshift.PostShiftClassifier`, or any fitted model with ``predict_proba``; it is used as it
        is. None, or a :class:`~postshift.PostShifter`: ``X`` has the probabilities of a model that runs elsewhere.
    X, y : array-likes
        Clean rows that the model was not fitted to, and their labels.
    metric, subject_to, pos_label, confidence
        As in :class:`~postshift.PostShifter`; by default those of a fitted estimator. The bound of the first constraint
        moves, and the other constraints are held.
    bounds : int or array-like of float, default=21
        How many bounds to try, from the one that costs nothing to the strictest; or the bounds themselves. Bounds that
        no classifier meets are left out.
    phi, classes
        Basis functions of the rows, and the labels of the columns of X, if X has probabilities.
    sample_weight : array-like of shape (n,), optional
        Sample weights.
    X_unlabelled, phi_unlabelled, groups_unlabelled : array-likes, optional
        With ``confidence``: rows without labels. They make the rules, so that all rows with labels test.
    random_state : int or RandomState, optional
        With ``confidence``: the seed of the split into rows that make and rows that test. By default that of a fitted
        estimator, so that the frontier is made from the same rows as its certificate; otherwise 0.
    **metadata : array-likes of shape (n,)
        ``groups`` for constraints and metrics over groups.

    Returns
    -------
    Frontier
        One point per bound. With ``confidence``, the certified ones are marked, and all of them hold together with this
        probability.

    See Also
    --------
    power : How many rows it takes to certify a bound.

    Examples
    --------
    >>> import numpy as np, postshift
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> eta = np.column_stack([1 - p, p])
    >>> found = postshift.frontier(None, eta, y, metric="precision", subject_to="recall >= 0.5", bounds=[0.3, 0.5, 0.7])
    >>> [point.bound for point in found.points]
    [0.3, 0.5, 0.7]
    >>> found.points[0].expected_metric > found.points[-1].expected_metric
    True
    """
    asked = _Asked.of(model, metric=metric, subject_to=subject_to, confidence=confidence, pos_label=pos_label)
    make = _rows_maker(model, X, classes)
    rows = make(X, phi, y=y, weights=sample_weight)
    if is_fitted_to(model, rows):
        raise InputError(
            f"X has the {rows.n_rows} training rows of the fit, on which the model is too sure of itself: give rows "
            "that it was not fitted to"
        )
    groups = _groups(model, asked, metadata)
    unlabelled = None
    if X_unlabelled is not None:
        unlabelled = Unlabelled(
            rows=make(X_unlabelled, phi_unlabelled), groups=_group_codes(groups_unlabelled, groups=groups)
        )
    tracer = _tracer(asked, rows, classes=make.classes, groups=groups, metadata=metadata)
    if random_state is None:
        random_state = model.random_state if is_own(model) else 0
    points, n_rows = _points(tracer, asked, bounds, unlabelled=unlabelled, seed=seed_of(random_state))
    first, *others = (each.constraint for each in tracer.constraints)
    return Frontier(
        metric=str(getattr(asked.metric, "name", asked.metric)),
        constraint=str(first.term),
        sense=first.sense,
        others=tuple(str(each) for each in others),
        points=points,
        classes=tuple(make.classes.tolist()),
        n_rows=n_rows,
        confidence=asked.confidence,
    )


def is_own(model: Any) -> bool:
    """Return whether a model is an estimator of this library."""
    return isinstance(model, PostShifter | PostShiftClassifier)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a frontier is asked for, with the names of an estimator's parameters."""

    metric: Any
    subject_to: Any
    pos_label: Any
    confidence: float | None
    margin: Any = 0.0
    basis: Any = None
    method: str = "auto"
    if_uncertified: str = "raise"

    @classmethod
    def of(cls, model: Any, **given: Any) -> _Asked:
        """Return what was given; what was not is taken from an estimator of postshift."""
        own = is_own(model)
        if not own and (given["metric"] is None or given["subject_to"] is None):
            raise SettingError(
                "a frontier needs metric=... and subject_to='recall[CLASS] >= 0.9' or another constraint"
            )
        parts = {name: getattr(model, name) if own and value is None else value for name, value in given.items()}
        if given["metric"] is not None:
            parts["pos_label"] = given["pos_label"]
        if parts["subject_to"] is None:
            raise SettingError("the estimator was fitted without subject_to: give subject_to='recall[CLASS] >= 0.9'")
        margin = model.margin if own and given["subject_to"] is None else 0.0
        found = cls(**parts, margin=margin, basis=getattr(model, "basis", None) if own else None)
        guarantee_of(found)
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _RowsMaker:
    """Makes rows from features by a model, or from arrays of probabilities if there is none."""

    classes: Any
    features: RowsOf | None = None

    def __call__(self, X: Any, phi: Any = None, *, y: Any = None, weights: Any = None) -> Rows:
        """Return the rows."""
        if self.features is None:
            return RowsOfArrays(classes=self.classes, name="rows")(X, named_phi(phi), y=y, weights=weights)
        if phi is not None:
            raise SettingError("phi is for arrays of probabilities: the model has its own bases")
        codes = None if y is None else positions(label_values(y, name="y"), self.classes, name="y")
        return self.features(X, codes=codes, weights=weights)


def _rows_maker(model: Any, X: Any, classes: Any) -> _RowsMaker:
    """Return how rows are made from X."""
    if isinstance(model, PostShifter) or model is None:
        known = getattr(model, "classes_", None) if classes is None else classes
        known = getattr(model, "classes", None) if known is None else known
        return _RowsMaker(classes=read_classes(known, as_table(X, name="X").shape[1]))
    if classes is not None:
        raise SettingError("classes are for arrays of probabilities: the model knows its own")
    check_is_fitted(model)
    bases = {}
    if isinstance(model, PostShiftClassifier):
        bases, model = model.bases_, model.estimator_
    known = np.asarray(model.classes_)
    return _RowsMaker(classes=known, features=RowsOf(model=model, classes=known, bases=bases))


def is_fitted_to(model: Any, rows: Rows) -> bool:
    """Return whether the rows are those that a classifier's model was fitted to."""
    if not isinstance(model, PostShiftClassifier) or is_frozen(model.estimator):
        return False
    kept = getattr(model.diagnostics_, "train_mark", None)
    return kept is not None and compared(kept, mark_of(rows.eta, rows.labels)) != "other rows"


def _points(tracer: Tracer, asked: _Asked, bounds: Any, *, unlabelled: Unlabelled | None, seed: int) -> Any:
    """Return the points, and the number of labelled rows that they are measured on."""
    many = check_count(bounds, name="bounds", low=2) if np.ndim(bounds) == 0 else np.asarray(bounds, dtype=np.float64)
    if asked.confidence is not None:
        how: Any = {"confidence": asked.confidence, "unlabelled": unlabelled, "seed": seed}
        points, n_rows = tracer.certified_points(many, **how)
    elif unlabelled is not None:
        raise SettingError("rows without labels serve a guarantee: give confidence=... too")
    else:
        points, n_rows = tracer.points(many), tracer.problem.val.n_rows
    if not points:
        raise InfeasibleError("no classifier meets any of the bounds on these rows: give looser ones")
    return points, n_rows


def _tracer(asked: _Asked, rows: Rows, *, classes: Any, groups: Any, metadata: Mapping[str, Any]) -> Tracer:
    """Return the metric and the constraints, looked up for these rows."""
    limits = SubjectTo.of(constraints_of(asked), classes=classes, groups=groups, pos_label=asked.pos_label)
    about: dict[str, Any] = {"classes": classes, "groups": groups, "metadata": metadata}
    goal = goal_of(asked.metric, pos_label=asked.pos_label, **about)
    limits.check_matrices(goal, "a frontier")
    goal = limits.pooled(goal, len(classes))
    problem = make_task(goal, train=None, val=rows, **about).problem
    return Tracer(
        problem=problem,
        constraints=limits.constraints,
        basis=basis_of(asked, problem.val, groups=groups),
        n_groups=limits.n_groups,
    )


def _groups(model: Any, asked: _Asked, metadata: Mapping[str, Any]) -> Any:
    """Return all groups: those of the fit, or those of the rows."""
    found = known_groups(asked.metric, metadata, names=names_read(asked))
    fitted = getattr(model, "groups_", None)
    return found if found is None or fitted is None else fitted


def _group_codes(values: Any, *, groups: Any) -> Any:
    """Return the groups of rows without labels as positions, if there are any."""
    if values is None or groups is None:
        return None
    return positions(one_a_row(values, name="groups_unlabelled"), groups, name="groups_unlabelled", what="groups")
