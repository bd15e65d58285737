"""PostShifter: the estimator for arrays of probabilities, of a model that runs elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from postshift.core.rows import PHI, Rows
from postshift.engines.blocks import BlockEngine
from postshift.estimators.block_rows import drawn_rows
from postshift.estimators.dask_lazy import lazily
from postshift.estimators.dask_rows import DaskRows, in_memory, is_dask
from postshift.estimators.model import DROP_ROWS, label_values
from postshift.estimators.progress import CallbackSupportMixin, Progress, with_callbacks
from postshift.estimators.records import Mark, mark_of
from postshift.estimators.rows_of import RowsOfArrays, n_columns_of
from postshift.estimators.shifts import Shifts, effective_weights, recorded, seed_of
from postshift.estimators.subject_to import names_read, pos_label_of_metric
from postshift.estimators.task import goal_of, known_groups, value_of
from postshift.exceptions import BasisError, LabelError, SettingError, ShapeError
from postshift.rules.choice import Chosen


class PostShifter(Shifts, CallbackSupportMixin, BaseEstimator):
    """Post-shift the probabilities of a model that runs elsewhere, to optimise a metric.

    It takes only probabilities, and never normalises them: a row that does not sum to 1 is an error. For very many
    classes, the probabilities may be a SciPy sparse matrix of the top few of each row.

    Parameters
    ----------
    metric : str, metric, scorer or callable, default="balanced_accuracy"
        What to maximise; see :func:`postshift.metrics.metric_catalogue` for the names. Your own function can be
        ``f(y_true, y_pred)``, or a function wrapped by :func:`postshift.metrics.from_confusion`,
        :func:`~postshift.metrics.from_labels` or :func:`~postshift.metrics.from_predictions`.
    pos_label : label, optional
        The positive class of a named metric that has one ("f1", "precision", "recall", "jaccard", and metrics with a
        penalty for a gap between groups). A name may also include it: ``"f1[spam]"``. By default, with two classes, it
        is the label 1 or True, or the only label called "1", "true", "yes", "y", "positive" or "pos" in any case; if
        that does not decide, ``fit`` raises an error. With more classes, it is one class against the rest. Scorers
        have their own positive class.
    method : str, default="auto"
        ``"auto"`` averages the rules of the menu by their cross-validated scores. ``"best"`` takes the best rule.
        The name of a rule takes that rule: ``"paper"``, ``"influence"``, ``"plug-in search"``, ``"smoothed plug-in"``,
        ``"stack"``, ...
    classes : array-like of shape (m,), optional
        The labels of the columns of eta; by default 0 to m - 1.
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
        Number of processes that score the rules.
    random_state : int, RandomState or None, default=0
        Seed of the folds and draws.

    Attributes
    ----------
    classes_ : array of shape (m,)
        The labels of the columns of eta.
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

    See Also
    --------
    PostShiftClassifier : The same for a scikit-learn model.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import PostShifter
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 6, size=1000)
    >>> y = rng.random(1000) < p
    >>> eta = np.column_stack([1 - p, p])
    >>> shifter = PostShifter(metric="g_mean", method="smoothed plug-in").fit(eta, y.astype(int))
    >>> shifter.predict([[0.7, 0.3], [0.95, 0.05]])
    array([1, 0])
    >>> bool(shifter.score_ > shifter.base_score_)
    True
    """

    def __init__(
        self,
        metric: Any = "balanced_accuracy",
        *,
        pos_label: Any = None,
        method: str = "auto",
        classes: Any = None,
        budget: int | None = None,
        session: Any = None,
        subject_to: Any = None,
        margin: Any = 0.0,
        confidence: float | None = None,
        if_uncertified: str = "raise",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.metric = metric
        self.pos_label = pos_label
        self.method = method
        self.classes = classes
        self.budget = budget
        self.session = session
        self.subject_to = subject_to
        self.margin = margin
        self.confidence = confidence
        self.if_uncertified = if_uncertified
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(  # noqa: PLR0917
        self,
        eta_val: Any,
        y_val: Any = None,
        eta_train: Any = None,
        y_train: Any = None,
        phi_val: Any = None,
        phi_train: Any = None,
        *,
        sample_weight_val: Any = None,
        sample_weight_train: Any = None,
        eta_unlabelled: Any = None,
        phi_unlabelled: Any = None,
        groups_unlabelled: Any = None,
        **metadata: Any,
    ) -> Self:
        """Fit the shift to validation rows.

        Parameters
        ----------
        eta_val : array-like or sparse matrix of shape (n_val, m)
            The model's probabilities of the validation rows. In a sparse one, an entry that is not stored is 0, and a
            row may sum to less than 1; ``method="auto"`` takes the best of four rules. Bases, constraints and most
            other rules need dense arrays.
        y_val : array-like of shape (n_val,), optional
            Their labels; not needed if the metric has its own labels (``from_predictions``).
        eta_train, y_train : array-like, optional
            Probabilities and (noisy, shifted) labels of training rows. If the model was fitted to these rows, give
            out-of-fold probabilities. They must be sparse if eta_val is. If eta_train is a Dask collection, all
            arguments about the training rows must be Dask collections. They stay on the workers, and rules are chosen
            on a random sample of at most 200,000 rows. Dask collections of the validation rows are loaded into memory.
            If eta_train is a :class:`~postshift.engines.BlockEngine`, its source also has the labels, as positions of
            the classes, basis functions and weights. All rows stay in their files, and rules are chosen on such a
            sample.
        phi_val, phi_train : array-like of shape (n, L), or mapping of names to such, optional
            Basis functions: where the weights may differ. If there are several bases, each is tried.
        sample_weight_val, sample_weight_train : array-like of shape (n,), optional
            Sample weights. Their scale does not matter; rows with weight 0 are left out.
        eta_unlabelled, phi_unlabelled, groups_unlabelled : array-like, optional
            With ``confidence``: probabilities, basis functions and groups of rows without labels, from the same source
            as the validation rows. They leave all validation rows to the tests, and certify how often classes are
            predicted.
        **metadata : array-likes of shape (n_val,)
            ``groups`` for metrics over groups, and what your own metric takes.

        Returns
        -------
        PostShifter
            The fitted estimator.
        """
        self._begin()
        val_side = {"eta_val": eta_val, "y_val": y_val, "phi_val": phi_val, "sample_weight_val": sample_weight_val}
        with recorded() as caught, ExitStack() as stack:
            eta_val, y_val, phi_val, sample_weight_val = (in_memory(val_side[name], name=name) for name in val_side)
            metadata = {name: in_memory(values, name=name) for name, values in metadata.items()}
            self.classes_ = read_classes(self.classes, n_columns_of(eta_val, name="eta_val"))
            val = self._rows_of("val")(eta_val, named_phi(phi_val), y=y_val, weights=sample_weight_val)
            train = None
            if isinstance(eta_train, BlockEngine):
                _check_in_source(y_train=y_train, phi_train=phi_train, sample_weight_train=sample_weight_train)
                train = drawn_rows(eta_train, n_classes=len(self.classes_), seed=seed_of(self.random_state))
            elif is_dask(eta_train):
                train = self._drawn_rows(eta_train, phi_train, y_train, sample_weight_train, stack)
            elif eta_train is not None:
                given = {"y": y_train, "weights": sample_weight_train}
                train = self._rows_of("train")(eta_train, named_phi(phi_train), **given)
            elif y_train is not None or phi_train is not None or sample_weight_train is not None:
                raise ShapeError("y_train, phi_train and sample_weight_train belong to eta_train: give it too")
            if val.is_sparse:
                self._check_sparse(train, eta_unlabelled)
            self.groups_ = known_groups(self.metric, metadata, names=names_read(self))
            unlabelled = self._unlabelled(
                groups_unlabelled,
                rows=None
                if eta_unlabelled is None
                else self._rows_of("unlabelled")(eta_unlabelled, named_phi(phi_unlabelled)),
            )
            goal = goal_of(
                self.metric,
                classes=self.classes_,
                groups=self.groups_,
                metadata=metadata,
                pos_label=pos_label_of_metric(self),
            )
            with Progress(self, n_stages=1) as progress:
                self._learn(
                    goal,
                    train=train,
                    val=val,
                    metadata=metadata,
                    fold_groups=None,
                    progress=progress,
                    caught=caught,
                    unlabelled=unlabelled,
                    marks={"val_mark": _mark(val), "train_mark": _mark(train)},
                )
        return self

    def _fitted_by(self, chosen: Chosen, *, val: Rows, train: Rows | None, n_queries: int) -> Self:
        """Set the attributes from what a session of queries chose, in place of :meth:`fit`."""
        self.classes_, self.groups_ = read_classes(self.classes, val.n_classes), None
        self._set_chosen(chosen, n_queries=n_queries)
        marks = {"val_mark": _mark(val), "train_mark": _mark(train)}
        self._set_diagnostics(chosen, train=train, val=val, caught=(), marks=marks)
        return self

    def predict(self, eta: Any, phi: Any = None) -> Any:
        """Return the deterministic label of every row; a Dask collection gives a lazy Dask array."""
        if is_dask(eta):
            return self._lazily("predict", eta, phi, labels=True)
        rows = self._new_rows(eta, phi)
        return self.classes_[self.rule_.labels(rows)]

    def predict_distribution(self, eta: Any, phi: Any = None) -> Any:
        """Return the randomised classifier (n, m); if the metric is a minimum, it may score higher than any labels."""
        if is_dask(eta):
            return self._lazily("predict_distribution", eta, phi)
        rows = self._new_rows(eta, phi, dense="predict_distribution")
        return self.rule_.distribution(rows)

    def example_weights(self, eta: Any, phi: Any = None) -> Any:
        """Return W(x) (n, m), with mean 1 in each row: ``argmax_i W_i(x) max(eta_i(x), 1e-6)`` is the label."""
        if is_dask(eta):
            return self._lazily("example_weights", eta, phi)
        rows = self._new_rows(eta, phi, dense="example_weights")
        return effective_weights(self.rule_, rows)

    def score(self, eta: Any, y: Any, phi: Any = None, *, sample_weight: Any = None, **metadata: Any) -> float:
        """Return the metric of the predicted labels; greater is better."""
        eta, y, phi = in_memory(eta, name="eta"), in_memory(y, name="y"), in_memory(phi, name="phi")
        rows = self._new_rows(eta, phi, labels=y, weights=in_memory(sample_weight, name="sample_weight"))
        labels = self.rule_.labels(rows)
        known_groups(self.metric, metadata, names=names_read(self))
        how: dict[str, Any] = {"classes": self.classes_, "groups": self.groups_, "metadata": metadata}
        return value_of(
            goal_of(self.metric, pos_label=pos_label_of_metric(self), **how), labels=labels, val=rows, **how
        )

    def _rows_of(self, name: str) -> RowsOfArrays:
        """Return the object that makes rows from the arguments ``eta_NAME``, ``y_NAME`` and so on."""
        remedy = DROP_ROWS if self.classes is not None else "give classes=[...], a label for each column"
        return RowsOfArrays(classes=self.classes_, name=name, remedy=remedy)

    def _drawn_rows(self, eta: Any, phi: Any, y: Any, weights: Any, stack: ExitStack) -> Rows:
        """Return a random sample of Dask collections, with all rows attached until the stack is closed."""
        parts = {"eta_train": eta, "y_train": y, "sample_weight_train": weights}
        parts |= {f"phi_train[{name}]": part for name, part in named_phi(phi).items()}
        rows, make = stack.enter_context(DaskRows(parts)), self._rows_of("train")
        return rows.behind(make.of_parts(rows.draw(seed=seed_of(self.random_state))), make)

    def _lazily(self, method: str, eta: Any, phi: Any, *, labels: bool = False) -> Any:
        """Return the result of a method for Dask collections, as a Dask array."""
        check_is_fitted(self, "rule_")
        dtype = self.classes_.dtype if labels else np.float64
        return lazily(self, method, n_columns=None if labels else len(self.classes_), dtype=dtype, eta=eta, phi=phi)

    def _check_sparse(self, train: Rows | None, eta_unlabelled: Any) -> None:
        """Raise if something was given that sparse probabilities do not support."""
        given = {
            "subject_to": self.subject_to is not None,
            "session": self.session is not None,
            "budget": self.budget is not None,
            "eta_unlabelled": eta_unlabelled is not None,
            "a dense eta_train": train is not None and not train.is_sparse,
        }
        refused = [name for name, is_given in given.items() if is_given]
        if refused:
            raise SettingError(
                f"{' and '.join(refused)} cannot be used with a sparse eta_val: leave it out, or give dense arrays "
                "(eta.toarray()) if memory allows"
            )

    def _new_rows(
        self, eta: Any, phi: Any, *, labels: Any = None, weights: Any = None, dense: str | None = None
    ) -> Rows:
        """Return rows to predict, with the bases of the fit; ``dense`` names what needs dense rows, if anything."""
        check_is_fitted(self, "rule_")
        rows = self._rows_of("new rows")(eta, named_phi(phi), y=labels, weights=weights)
        if rows.is_sparse and (dense is not None or not self.rule_.reads_sparse):
            raise SettingError(
                f"{dense or 'a rule that was fitted to dense rows'} needs dense rows: give eta[rows].toarray(), a few "
                "rows at a time" + ("; predict takes sparse ones" if self.rule_.reads_sparse else "")
            )
        for rule in self.rule_.rules:
            given, n_bases = rows.bases.get(rule.basis), rule.mixture.n_bases
            if given is None:
                raise BasisError(f"the rule uses basis {rule.basis!r}: give phi, as in fit")
            if given.shape[1] != n_bases:
                raise ShapeError(f"phi must have {n_bases} columns, as in fit. Got {given.shape[1]} instead")
        return rows


def shifter_of(chosen: Chosen, *, val: Rows, train: Rows | None, n_queries: int, **parameters: Any) -> PostShifter:
    """Return a fitted PostShifter with the result of a session of queries.

    Parameters
    ----------
    chosen : Chosen
        What the session found, with all queries answered or so far.
    val, train : Rows
        The rows of the session.
    n_queries : int
        Number of answered queries.
    **parameters
        The parameters of the shifter.
    """
    return PostShifter(**parameters)._fitted_by(chosen, val=val, train=train, n_queries=n_queries)  # noqa: SLF001


def _mark(rows: Rows | None) -> Mark | None:
    """Return the mark of rows; sparse ones have none, because it has two numbers of each class."""
    return None if rows is None or rows.is_sparse else mark_of(rows.eta, rows.labels)


def named_phi(phi: Any) -> dict[str, Any]:
    """Return bases by name."""
    if phi is None:
        return {}
    return dict(phi) if isinstance(phi, Mapping) else {PHI: phi}


def _check_in_source(**given: Any) -> None:
    """Raise if labels, weights or basis functions are given beside a BlockEngine."""
    for name, value in given.items():
        if value is not None:
            raise SettingError(f"{name} must be in the source of the BlockEngine, as eta_train is: leave it out here")


def read_classes(classes: Any, n_classes: int) -> Any:
    """Return the labels of the columns; raise if they are not distinct, or not one per column."""
    if classes is None:
        return np.arange(n_classes)
    found = label_values(classes, name="classes")
    if found.shape != (n_classes,) or len(np.unique(found)) != n_classes:
        raise LabelError(
            f"classes must be {n_classes} distinct labels, one for each column of eta_val. Got {classes!r} instead"
        )
    return found
