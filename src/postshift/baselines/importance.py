"""Importance weights: training rows weighted to resemble the validation rows, with the odds of a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from postshift._validation import FloatArray, check_in_range, unknown
from postshift.baselines._baseline import Baseline, BothSides
from postshift.basis._columns import is_frame, names_of, number_table, take_columns, text_columns
from postshift.basis.user import applied, fitted_copy
from postshift.estimators.model import eta_of, is_frozen, positions
from postshift.exceptions import SettingError, ShapeError, WeightError

WEIGHT = "sample_weight"
SIDES = ("xy", "x")


class Reweighted(Baseline):
    """A model fitted to training rows weighted by the ratio of the densities of validation and training rows.

    A subclass defines ``_ratio(rows)`` and has the parameters ``estimator``, ``on``, ``embedding`` and maybe ``clip``.
    """

    estimator: Any
    on: str
    embedding: Any
    clip: float | None = None

    @available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the model (n, m); a class without training rows has probability 0."""
        return self._new_scores(X)

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Find the weights and fit the model with them."""
        if self.on not in SIDES:
            raise SettingError(unknown(self.on, SIDES, what="value of on"))
        parameter = weight_parameter(self.estimator)
        self.density_ratio_ = self._ratio(rows)
        self.sample_weight_ = of_mean_one(np.minimum(self.density_ratio_, np.inf if self.clip is None else self.clip))
        self.estimator_ = self._fitted_to(rows.X, rows.y, **{parameter: self.sample_weight_})

    def _scores(self, X: Any) -> FloatArray:
        """Return the probabilities of the model, or its labels as one-hot rows if it has none."""
        if hasattr(self.estimator_, "predict_proba"):
            return eta_of(self.estimator_, X, self.classes_)
        labels = positions(self.estimator_.predict(X), self.classes_, name="the model's labels")
        return np.eye(len(self.classes_))[labels]

    def _ratio(self, rows: BothSides) -> FloatArray:
        """Return the ratio of the densities at every training row."""
        raise NotImplementedError

    def _tables(self, rows: BothSides) -> tuple[Any, Any]:
        """Return the rows of both sides as numbers."""
        if self.embedding is None:
            return encoded(rows.X, rows.X_val, owner=self)
        transformer = fitted_copy(self.embedding, rows.X, self.classes_[rows.y])
        train, val = (number_table(applied(transformer, side), owner=self) for side in (rows.X, rows.X_val))
        return train, val


@dataclass(eq=False, repr=False)
class ImportanceWeighting(Reweighted):
    r"""The model fitted to training rows weighted by the odds of a classifier of validation against training rows.

    .. math:: w(x, y) = \frac{n_{tr}}{n_{val}} \, \frac{f(x, y)}{1 - f(x, y)}

    estimates the ratio of the two densities, where ``f`` is the probability of being a validation row. The paper
    compares with it in Section 7.2, but does not say how ``f`` reads ``x`` and ``y``. Without products of both, the
    weights are ``g(x) c_y``, which can change the prior of the model but not the meaning of its labels. So ``f`` also
    reads the products of ``x`` with the indicator of each class, unless ``interactions=False``.

    Parameters
    ----------
    estimator : classifier whose ``fit`` takes ``sample_weight``
        The model; or a pipeline that ends in one.
    discriminator : classifier with ``predict_proba``, optional
        Predicts whether a row is a validation row (1) or a training row (0). It predicts the rows it was fitted to, so
        it must not overfit. Default: logistic regression with scikit-learn's penalty, which shrinks the weights
        towards 1.
    on : {"xy", "x"}, default="xy"
        Its input: features and labels, or features alone. The latter is right if labels depend on features in the same
        way on both sides (covariate shift).
    interactions : bool, default=True
        Whether its input includes the products of features and labels, which needs (m + 1) times the columns.
    clip : float, optional, default=20.0
        Ratios above it are set to it. None for no limit.
    embedding : transformer or callable, optional
        Turns the rows into numbers for the discriminator; a copy is fitted to the training rows. Default: categories of
        a data frame are one-hot, numbers are divided by their standard deviation, columns of 0 and 1 are unchanged.
    random_state : int, RandomState or None, default=0
        Seed of the discriminator, if it has the parameter and it is None.

    Attributes
    ----------
    discriminator_ : classifier
        The fitted discriminator.
    density_ratio_ : array of shape (n_train,)
        The estimated ratios, before they are clipped.
    sample_weight_ : array of shape (n_train,)
        The weights of the fit, of mean 1.
    estimator_ : classifier
        The model fitted with them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.importance import ImportanceWeighting
    >>> rng = np.random.default_rng(0)
    >>> X, X_val = rng.normal(size=(1000, 1)), rng.normal(1, size=(200, 1))
    >>> y, y_val = (np.abs(X[:, 0]) > 1).astype(int), (np.abs(X_val[:, 0]) > 1).astype(int)
    >>> model = ImportanceWeighting(LogisticRegression()).fit(X, y, X_val, y_val)
    >>> bool(model.score(X_val, y_val) > LogisticRegression().fit(X, y).score(X_val, y_val))
    True
    """

    estimator: Any
    _: KW_ONLY
    discriminator: Any = None
    on: Literal["xy", "x"] = "xy"
    interactions: bool = True
    clip: float | None = 20.0
    embedding: Any = None
    random_state: Any = 0

    def _ratio(self, rows: BothSides) -> FloatArray:
        """Return the odds of being a validation row, times the ratio of the sample sizes."""
        if self.clip is not None:
            check_in_range(self.clip, name="clip", low=1, high=np.inf, open_high=True)
        train, val = self._tables(rows)
        if self.on == "xy":
            train = self._with_labels(train, np.eye(rows.n_classes)[rows.y])
            val = self._with_labels(val, np.eye(rows.n_classes)[rows.y_val])
        is_val = np.repeat([0, 1], [train.shape[0], val.shape[0]])
        self.discriminator_ = self._unfitted_discriminator().fit(stacked([train, val]), is_val)
        share = eta_of(self.discriminator_, train, np.array([0, 1]))
        with np.errstate(divide="ignore"):  # certainly a validation row: the ratio is infinite, and clipped
            ratio: FloatArray = share[:, 1] / share[:, 0] * (train.shape[0] / val.shape[0])
        return ratio

    def _with_labels(self, table: Any, indicators: FloatArray) -> Any:
        """Return features, indicators of the classes, and their products."""
        parts = [table, indicators]
        if self.interactions:
            parts += [_times(table, column) for column in indicators.T]
        return side_by_side(parts)

    def _unfitted_discriminator(self) -> Any:
        """Return a copy of the discriminator with a seed."""
        given = LogisticRegression(max_iter=1000) if self.discriminator is None else self.discriminator
        model = clone(given)
        if model.get_params().get("random_state", 0) is None:
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            model.set_params(random_state=seed)
        return model


def weight_parameter(estimator: Any) -> str:
    """Return the name of the parameter for sample weights in ``fit``; in a pipeline, that of its last step."""
    if is_frozen(estimator):
        raise SettingError("estimator is frozen, so it cannot be fitted with weights: give the model itself")
    if isinstance(estimator, Pipeline):
        if get_config()["enable_metadata_routing"]:
            return WEIGHT  # the metadata requests of the steps decide
        name, last = estimator.steps[-1]
        return f"{name}__{weight_parameter(last)}"
    if not has_fit_parameter(estimator, WEIGHT):
        raise SettingError(
            f"{type(estimator).__name__} takes no sample_weight in fit, and this method only weights rows: "
            "give a model that takes it, such as LogisticRegression or HistGradientBoostingClassifier"
        )
    return WEIGHT


def of_mean_one(weights: FloatArray) -> FloatArray:
    """Return weights divided by their mean, so that the penalty of a model keeps its strength."""
    mean = float(weights.mean())
    if not 0 < mean < np.inf:
        raise WeightError(
            f"the {len(weights)} weights have mean {mean:g}: no training row resembles the validation rows, or some "
            "have an infinite ratio. Give a smoother discriminator or a finite clip"
        )
    return weights / mean


def encoded(X: Any, X_val: Any, *, owner: Any) -> tuple[Any, Any]:
    """Return both sides as numbers: numbers scaled and categories one-hot, both fitted to the training rows."""
    texts = text_columns(X)
    numbers = [place for place in range(_width(X, owner)) if place not in set(texts)]
    parts = []
    if numbers:
        parts.append(_scaled(*(number_table(take_columns(side, numbers), owner=owner) for side in (X, X_val))))
    if texts:
        encoder = OneHotEncoder(handle_unknown="ignore").set_output(transform="default")
        encoder.fit(take_columns(X, texts))
        parts.append(tuple(encoder.transform(take_columns(side, texts)) for side in (X, X_val)))
    train, val = (side_by_side(list(side)) for side in zip(*parts, strict=True))
    return train, val


def side_by_side(parts: list[Any]) -> Any:
    """Return the columns of all tables in one table, which is sparse if any of them is."""
    return sparse.hstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.hstack(parts)


def stacked(parts: list[Any]) -> Any:
    """Return the rows of all tables in one table, which is sparse if any of them is."""
    return sparse.vstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.vstack(parts)


def _width(X: Any, owner: Any) -> int:
    """Return the number of columns of a table; raise for any other shape."""
    if is_frame(X):
        return len(names_of(X))
    shape = np.shape(X)
    if len(shape) != 2:
        raise ShapeError(
            f"{type(owner).__name__} compares rows of a table. Got shape {shape}: give embedding=..., a transformer "
            "that turns the rows into numbers"
        )
    return int(shape[1])


def _scaled(train: Any, val: Any) -> tuple[Any, Any]:
    """Return numbers divided by the standard deviation of the training rows; columns of 0 and 1 are unchanged."""
    is_sparse = sparse.issparse(train)
    squares = train.multiply(train) if is_sparse else train * train
    off = abs(squares - train).max(axis=0)
    indicators = (off.toarray().ravel() if is_sparse else off) == 0
    scaler = StandardScaler(with_mean=not is_sparse).set_output(transform="default").fit(train)
    scaler.scale_[indicators] = 1
    if scaler.with_mean:
        scaler.mean_[indicators] = 0
    return scaler.transform(train), scaler.transform(val)


def _times(table: Any, column: FloatArray) -> Any:
    """Return the table with every row multiplied by its value."""
    return table.multiply(column[:, None]) if sparse.issparse(table) else table * column[:, None]
