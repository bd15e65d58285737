"""PostShiftClassifier: any scikit-learn classifier, any metric, any basis."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_method_params,
    _num_samples,
    check_is_fitted,
    indexable,
    validate_data,
)

from postshift._validation import IntArray, check_weights
from postshift.basis import named_bases
from postshift.core.rows import Rows
from postshift.estimators.dask_lazy import lazily
from postshift.estimators.dask_rows import DaskRows, in_memory, is_dask
from postshift.estimators.model import (
    Split,
    check_folds_have_weight,
    check_target,
    eta_of,
    fitted_clone,
    is_frozen,
    label_values,
    make_splits,
    out_of_fold_eta,
    positions,
)
from postshift.estimators.progress import CallbackSupportMixin, Progress, with_callbacks
from postshift.estimators.records import FIRST, Mark, mark_of
from postshift.estimators.routing import Routed, routed, routed_to_score, router_of
from postshift.estimators.rows_of import FeatureRows, RowsOf, fitted_bases
from postshift.estimators.shifts import Shifts, effective_weights, recorded, seed_of
from postshift.estimators.subject_to import names_read, pos_label_of_metric
from postshift.estimators.task import goal_of, known_groups, value_of
from postshift.exceptions import LabelError, SettingError, ShapeError
from postshift.metrics import OracleMetric, PredictionFunction


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gathered:
    """The data that the rule is fitted to: training rows, validation rows, and their metadata.

    ``labelled`` are the rows whose labels a basis may be fitted to; no validation row is among them.
    """

    train: FeatureRows | None
    val: FeatureRows
    metadata: Mapping[str, Any] = field(default_factory=dict)
    fold_groups: Any = None
    labelled: FeatureRows | None = None


def _estimator_has(method: str) -> Any:
    """Return a check that the model has a method."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), method)


class PostShiftClassifier(Shifts, CallbackSupportMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Make a model optimise a metric, by shifting its probabilities: ``argmax_i W_i(x) eta_i(x)``.

    Give it a model, a metric and, if the training rows are noisy, shifted or lack an attribute, a small clean
    validation sample. Without one, it holds out rows or cross-fits, as
    :class:`~sklearn.model_selection.TunedThresholdClassifierCV` does for two classes.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model. To use a fitted model as it is, wrap it in :class:`sklearn.frozen.FrozenEstimator`.
    metric : str, metric, scorer or callable, default="balanced_accuracy"
        What to maximise; see :func:`postshift.metrics.metric_catalogue` for the names. Your own function can be
        ``f(y_true, y_pred)``, a ``make_scorer`` object, or a function wrapped by
        :func:`postshift.metrics.from_confusion`, :func:`~postshift.metrics.from_labels` or
        :func:`~postshift.metrics.from_predictions`.
    pos_label : label, optional
        The positive class of a named metric that has one ("f1", "precision", "recall", "jaccard", and metrics with a
        penalty for a gap between groups). A name may also include it: ``"f1[spam]"``. By default, with two classes, it
        is the label 1 or True, or the only label called "1", "true", "yes", "y", "positive" or "pos" in any case; if
        that does not decide, ``fit`` raises an error. With more classes, it is one class against the rest. Scorers
        have their own positive class.
    basis : str, transformer, list or dict of them, default="auto"
        Where the weights may differ (:mod:`postshift.basis`). ``"auto"`` uses the leaves of a small tree that is fitted
        to the training labels. ``"constant"`` uses the same weights everywhere; it is always tried too. If there are
        several bases, each is tried.
    method : str, default="auto"
        ``"auto"`` averages the rules of the menu by their cross-validated scores. ``"best"`` takes the best rule.
        The name of a rule takes that rule: ``"paper"``, ``"influence"``, ``"plug-in search"``, ``"smoothed plug-in"``,
        ``"stack"``, ...
    cv : float, int, splitter or iterable, optional
        How out-of-fold probabilities are computed: a number of folds (default 5), a share of the rows to hold out, a
        splitter, or splits. Splitters that use groups get ``groups``.
    refit : bool, default=True
        With a hold-out: whether the model is refitted to all rows.
    budget : int, optional
        For a metric that only returns scores: the maximum number of queries.
    session : path, optional
        For a metric that only returns scores: a journal, a file that keeps every answer. If the metric raises, or the
        process is killed, ``fit`` with the same data resumes and asks no query twice.
    subject_to : str, constraint or list of them, optional
        Constraints to respect while the metric is maximised: ``"recall[fraud] >= 0.9"``, ``"rate[fraud] <= 0.02"``,
        ``"demographic_parity <= 0.05"``, any metric of the catalogue, or objects of :mod:`postshift.constraints`, also
        on your own function: ``Value(profit) >= 0.2``.
    margin : float or dict, default=0
        How many standard errors the fit stays on the safe side of the bounds; a dict maps constraints to their margins.
        Without a margin, expect a constraint to be missed a little on new rows about every second time.
    confidence : float, optional
        The probability with which all constraints must hold for new rows: 0.95, for example. The rule is then certified
        by tests on the validation rows, and ``margin`` is not used.
    if_uncertified : {"raise", "closest"}, default="raise"
        If no rule can be certified: raise ``NotCertifiedError``, or return the closest rule with a warning.
    n_jobs : int, optional
        Number of processes that fit the model's folds and score the rules.
    random_state : int, RandomState or None, default=0
        Seed of the folds and draws.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : array of shape (m,)
        The classes.
    bases_ : dict
        The fitted bases that the rule may read, by name.
    rule_ : AveragedRule
        The fitted rule: one or several plug-in rules with their weights.
    coef_, mixture_
        Coefficients and mixture of the rule with the largest weight.
    history_ : History
        A tuple of records, one for each look at an iterate; ``history_.to_frame()`` returns a pandas data frame.
    diagnostics_ : Diagnostics
        The choice and its reason, intervals, conditioning, warnings.
    held_out_ : HeldOut
        Labels of validation rows that were not used for the fit, by the result and by the model as it is. They are
        positions in ``classes_``. If the metric only returns scores, they are of all validation rows.
    score_, base_score_ : float
        The metric of the result and of the model as it is. Each validation row is labelled by rules that were chosen
        without it. If the metric only returns scores, ``score_`` is the best of several scores on the same rows.
        Greater is better; scores of a cost are negative.
    constraints_ : tuple of ConstraintRecord
        How each constraint of ``subject_to`` holds on validation rows that were not used for the fit.
    certificate_ : Certificate or None
        With ``confidence``: what was certified, by which tests, on how many rows.
    fallback_ : bool
        Whether the model is kept as it is because no rule was better.
    n_queries_ : int
        Number of queries; 0 if the metric is a function of the confusion matrix and the labels are available.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Targets have one label per row, out of two or more classes. Multilabel targets, ranking and regression are out of
    scope.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift import PostShiftClassifier
    >>> X, y = make_classification(2000, n_classes=3, n_informative=6, weights=[0.8, 0.15, 0.05], random_state=0)
    >>> model = PostShiftClassifier(LogisticRegression(), metric="f1_macro", method="smoothed plug-in")
    >>> model = model.fit(X, y)
    >>> bool(model.score_ > model.base_score_)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: Any = "balanced_accuracy",
        pos_label: Any = None,
        basis: Any = "auto",
        method: str = "auto",
        cv: Any = None,
        refit: bool = True,
        budget: int | None = None,
        session: Any = None,
        subject_to: Any = None,
        margin: Any = 0.0,
        confidence: float | None = None,
        if_uncertified: str = "raise",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.pos_label = pos_label
        self.basis = basis
        self.method = method
        self.cv = cv
        self.refit = refit
        self.budget = budget
        self.session = session
        self.subject_to = subject_to
        self.margin = margin
        self.confidence = confidence
        self.if_uncertified = if_uncertified
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- fit --------------------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(  # noqa: PLR0917
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        *,
        X_unlabelled: Any = None,
        groups_unlabelled: Any = None,
        **params: Any,
    ) -> Self:
        """Fit the model, unless it is frozen, and the shift.

        Parameters
        ----------
        X, y : array-likes
            Training rows and their labels. If there is a validation sample, the labels may be noisy and the rows may
            come from another source. Dask collections stay on the workers; they need a frozen model and X_val. Bases
            are then fitted to a random sample of at most 200,000 rows, which is also used to choose rules.
        X_val, y_val : array-likes, optional
            Clean rows, on which the metric is optimised. ``y_val`` is not needed if the metric has its own labels.
            Dask collections are loaded into memory.
        sample_weight, sample_weight_val : array-like of shape (n,), optional
            Sample weights, for the model's fit (if it takes them) and for the metric. The rule does not depend on their
            scale; rows with weight 0 are left out of its fit.
        X_unlabelled, groups_unlabelled : array-likes, optional
            With ``confidence``: rows without labels, and their groups, from the same source as the validation rows.
            They leave all validation rows to the tests, and certify how often classes are predicted.
        **params
            Metadata such as ``groups`` or costs. It is passed to the metric (for the validation rows) if the metric
            reads it, to the splitter, and to the model's fit.

        Returns
        -------
        PostShiftClassifier
            The fitted estimator.
        """
        self._begin()
        named_bases(self.basis)  # raise for an unknown basis before the model is fitted
        with recorded() as caught, ExitStack() as stack:
            X_val, y_val = in_memory(X_val, name="X_val"), in_memory(y_val, name="y_val")
            sample_weight_val = in_memory(sample_weight_val, name="sample_weight_val")
            params = {name: in_memory(values, name=name) for name, values in params.items()}
            rows = None
            if is_dask(X):
                rows = self._dask_rows(X, y, sample_weight, stack, has_val=X_val is not None)
                drawn = rows.draw(seed=seed_of(self.random_state))
                X, y, sample_weight = (drawn.get(name) for name in ("X", "y", "sample_weight"))
            y, sample_weight = in_memory(y, name="y"), in_memory(sample_weight, name="sample_weight")
            given = routed(self, params, sample_weight, has_val=X_val is not None)
            train = self._training_rows(X, y, sample_weight)
            val = self._validation_rows(X_val, y_val, sample_weight_val)
            self.groups_ = known_groups(self.metric, given.metric, names=names_read(self))
            goal = goal_of(
                self.metric,
                classes=self.classes_,
                groups=self.groups_,
                metadata=given.metric,
                pos_label=pos_label_of_metric(self),
            )
            with Progress(self, n_stages=2) as progress:
                gathered = self._gathered(train, val, given, progress)
                _check_rows_are_known(goal, gathered, train, val)
                train_rows, val_rows = self._both_sides(train, gathered)
                if rows is not None and train_rows is not None:
                    train_rows = rows.behind(train_rows, self._rows_of(self.bases_))
                new = None if X_unlabelled is None else self._rows_of(self.bases_)(X_unlabelled)
                self._learn(
                    goal,
                    train=train_rows,
                    val=val_rows,
                    metadata=gathered.metadata,
                    fold_groups=gathered.fold_groups,
                    progress=progress,
                    caught=caught,
                    unlabelled=self._unlabelled(groups_unlabelled, rows=new),
                    marks=self._marks(train, gathered),
                )
        return self

    def _dask_rows(self, X: Any, y: Any, weights: Any, stack: ExitStack, *, has_val: bool) -> DaskRows:
        """Return Dask collections as training rows; raise if the fit would need them in memory."""
        if not is_frozen(self.estimator):
            raise SettingError("Dask collections need a fitted model that is not refitted: pass FrozenEstimator(model)")
        if y is None or not has_val:
            raise SettingError("Dask collections need labels y and validation rows in memory: give y and X_val")
        return stack.enter_context(DaskRows({"X": X, "y": y, "sample_weight": weights}))

    def _training_rows(self, X: Any, y: Any, weights: Any) -> FeatureRows:
        """Check the training rows and learn the classes and the features."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        X, y, weights = indexable(X, y, weights)
        validate_data(self, X, skip_check_array=True)
        y = label_values(y, name="y")
        weights = check_weights(weights, n_rows=len(y), name="sample_weight")
        check_target(y)
        if is_frozen(self.estimator):
            check_is_fitted(self.estimator, msg="a frozen estimator must be fitted: fit the model before freezing it")
        self.classes_ = np.asarray(self.estimator.classes_) if is_frozen(self.estimator) else np.unique(y)
        if len(self.classes_) < 2:
            raise LabelError(f"y must have at least two classes. Got one class only: {self.classes_.tolist()}")
        return FeatureRows(X=X, y=y, codes=positions(y, self.classes_, name="y"), weights=weights)

    def _validation_rows(self, X: Any, y: Any, weights: Any) -> FeatureRows | None:
        """Check the validation rows, if there are any."""
        if X is None:
            if y is not None or weights is not None:
                raise ShapeError("y_val and sample_weight_val belong to X_val: give it too")
            return None
        X, y, weights = indexable(X, y, weights)
        validate_data(self, X, reset=False, skip_check_array=True)
        weights = check_weights(weights, n_rows=_num_samples(X), name="sample_weight_val")
        if y is None:
            return FeatureRows(X=X, weights=weights)
        y = label_values(y, name="y_val")
        return FeatureRows(X=X, y=y, codes=positions(y, self.classes_, name="y_val"), weights=weights)

    def _gathered(self, train: FeatureRows, val: FeatureRows | None, given: Routed, progress: Progress) -> _Gathered:
        """Fit the model, unless it is frozen, and return the rows with its probabilities."""
        if is_frozen(self.estimator):
            self.estimator_ = self.estimator
            scored = self._scored(train)
            if val is not None:
                return _Gathered(train=scored, val=self._scored(val), metadata=given.metric, labelled=train)
            return _Gathered(train=None, val=scored, metadata=given.metric, fold_groups=given.splitter.get("groups"))
        splits = make_splits(self.cv, train.X, train.y, seed=seed_of(self.random_state), params=given.splitter)
        if not self.refit and len(splits) > 1:
            raise SettingError(f"refit=False is for a hold-out (cv=0.2); cv={self.cv!r} makes {len(splits)} folds")
        check_folds_have_weight(train.weights, splits)
        rows, held_out = self._fit_model(train, splits, given.model, progress)
        if val is not None:
            return _Gathered(train=held_out, val=self._scored(val), metadata=given.metric, labelled=train)
        groups = given.splitter.get("groups")
        return _Gathered(
            train=None,
            val=held_out,
            metadata=_check_method_params(train.X, given.metric, indices=rows),
            fold_groups=None if groups is None else np.asarray(groups)[rows],
            labelled=train.take(splits[0][0]) if len(splits) == 1 else None,
        )

    def _fit_model(
        self, train: FeatureRows, splits: list[Split], params: Mapping[str, Any], progress: Progress
    ) -> tuple[IntArray, FeatureRows]:
        """Fit the model, and return the numbers of the rows that were left out, and these rows."""
        with progress.stage("fitting the model", len(splits) + 1) as step:
            rows, eta = out_of_fold_eta(
                self.estimator,
                train.X,
                train.y,
                splits,
                classes=self.classes_,
                params=params,
                n_jobs=self.n_jobs,
                step=step,
            )
            step("all rows")
            kept = np.arange(len(train.y)) if self.refit else splits[0][0]
            self.estimator_ = fitted_clone(
                self.estimator,
                _safe_indexing(train.X, kept),
                _safe_indexing(train.y, kept),
                _check_method_params(train.X, params, indices=kept),
            )
        return rows, train.take(rows, eta)

    def _scored(self, rows: FeatureRows) -> FeatureRows:
        """Return rows with the fitted model's probabilities."""
        return replace(rows, eta=eta_of(self.estimator_, rows.X, self.classes_))

    def _both_sides(self, given: FeatureRows, gathered: _Gathered) -> tuple[Rows | None, Rows]:
        """Fit the bases, and return the training rows and the validation rows."""
        self.bases_, phi = fitted_bases(self.basis, given=given, labelled=gathered.labelled, val=gathered.val)
        val, train = gathered.val, gathered.train
        val_rows = Rows.of(val.eta, bases=phi, labels=val.codes, weights=val.weights)
        if train is None:
            return None, val_rows
        how = {"eta": train.eta, "codes": train.codes, "weights": train.weights}
        return self._rows_of(self.bases_)(train.X, **how), val_rows

    def _rows_of(self, bases: Mapping[str, Any]) -> RowsOf:
        """Return the route from features to rows."""
        return RowsOf(model=self.estimator_, classes=self.classes_, bases=bases)

    def _marks(self, given: FeatureRows, gathered: _Gathered) -> dict[str, Mark | None]:
        """Return the marks of the validation rows and of the training rows, by the fitted model."""

        def mark(rows: FeatureRows) -> Mark:
            n_rows = _num_samples(rows.X)
            some = _safe_indexing(rows.X, np.arange(min(FIRST, n_rows)))
            return mark_of(eta_of(self.estimator_, some, self.classes_), rows.codes, n_rows=n_rows)

        val = gathered.val
        cross_fitted = gathered.train is None and not is_frozen(self.estimator)
        known = None if cross_fitted else val.eta
        return {"val_mark": mark(val) if known is None else mark_of(known, val.codes), "train_mark": mark(given)}

    # -- after the fit ----------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Return the deterministic label of every row; a Dask collection gives a lazy Dask array."""
        if is_dask(X):
            return self._lazily("predict", X, labels=True)
        rows = self._new_rows(X)
        return self.classes_[self.rule_.labels(rows)]

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the base model's probabilities, unchanged: the shift only changes labels."""
        check_is_fitted(self, "rule_")
        if is_dask(X):
            return self._lazily("predict_proba", X)
        return eta_of(self.estimator_, X, self.classes_)

    def predict_distribution(self, X: Any) -> Any:
        """Return the randomised classifier (n, m); if the metric is a minimum, it may score higher than any labels."""
        if is_dask(X):
            return self._lazily("predict_distribution", X)
        rows = self._new_rows(X)
        return self.rule_.distribution(rows)

    def example_weights(self, X: Any) -> Any:
        """Return W(x) (n, m), with mean 1 in each row: ``argmax_i W_i(x) max(eta_i(x), 1e-6)`` is the label."""
        if is_dask(X):
            return self._lazily("example_weights", X)
        rows = self._new_rows(X)
        return effective_weights(self.rule_, rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> float:
        """Return the metric (not the accuracy, unless it is the metric) of the predicted labels; greater is better."""
        X, y, sample_weight = (
            in_memory(X, name="X"),
            in_memory(y, name="y"),
            in_memory(sample_weight, name="sample_weight"),
        )
        codes = positions(label_values(y, name="y"), np.asarray(self.classes_), name="y")
        rows = self._new_rows(X, codes=codes, weights=sample_weight)
        metadata = routed_to_score(self, params)
        known_groups(self.metric, metadata, names=names_read(self))
        how: dict[str, Any] = {"classes": self.classes_, "groups": self.groups_, "metadata": metadata}
        goal = goal_of(self.metric, pos_label=pos_label_of_metric(self), **how)
        return value_of(goal, labels=self.rule_.labels(rows), val=rows, **how)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how ``fit(..., **params)`` routes its parameters."""
        return router_of(self)

    def _lazily(self, method: str, X: Any, *, labels: bool = False) -> Any:
        """Return the result of a method for a Dask collection, as a Dask array."""
        check_is_fitted(self, "rule_")
        dtype = self.classes_.dtype if labels else np.float64
        return lazily(self, method, n_columns=None if labels else len(self.classes_), dtype=dtype, X=X)

    def _new_rows(self, X: Any, *, codes: Any = None, weights: Any = None) -> Rows:
        """Return rows with the bases that the rule reads."""
        check_is_fitted(self, "rule_")
        eta = eta_of(self.estimator_, X, self.classes_)  # the model's own errors about X come first
        validate_data(self, X, reset=False, skip_check_array=True)
        needed = {name: self.bases_[name] for name in {rule.basis for rule in self.rule_.rules} if name in self.bases_}
        return self._rows_of(needed)(X, eta=eta, codes=codes, weights=weights)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags; sparse input is supported if the model supports it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags


def _check_rows_are_known(goal: Any, gathered: _Gathered, train: FeatureRows, val: FeatureRows | None) -> None:
    """Raise if a metric with its own labels would get other rows than those its labels belong to."""
    has_labels = isinstance(goal, PredictionFunction | OracleMetric)
    if has_labels and val is None and len(gathered.val.y) != len(train.y):
        raise SettingError(
            f"metric {goal.name!r} would get {len(gathered.val.y)} of the {len(train.y)} rows, but it has its own "
            "labels and cannot know which rows these are: give X_val, the rows that its labels belong to"
        )
