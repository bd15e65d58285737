"""The three kinds of answer: exact for a trusted learner, with noise for any other.

===========  ==========================================  ===============================================
kind         the learner sends                           and gets
===========  ==========================================  ===============================================
table        a partition of the rows into cells          how many rows of each category are in each cell
confusion    predictions, and columns or a partition     confusion matrices
value        predictions                                 the metric, one number
===========  ==========================================  ===============================================

In private mode all three are made from whole numbers: counts of rows, to which noise of an exact discrete Gaussian is
added (:mod:`postshift.oracle.privacy`). Two data sets are neighbours if one row has another category. Such a row moves
its prediction h, with ``|h| <= 1``, from one category to another in one cell: the answer changes by sqrt(2) at most,
whatever the predictions are. Everything that follows the noise depends on the noisy counts only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postshift._validation import FloatArray, IntArray
from postshift.core.oracles import ConfusionOracle
from postshift.core.plugin import onehot
from postshift.core.psi import value_of
from postshift.core.queries import Query
from postshift.exceptions import BadQueryError
from postshift.metrics import LabelFunction, LabelOracle
from postshift.oracle.holdings import Holdings, KindOfAnswer, Mode
from postshift.oracle.privacy import discrete_gaussian, variance_of
from postshift.oracle.wire import GRID

MOST_COUNTS = 20_000  # noisy counts of an answer: each takes a tenth of a millisecond
MOST_COLUMNS = 1000  # of a confusion query
MOST_PRODUCTS = 50_000_000  # of columns and categories: what a confusion query may need in memory
_ROUNDING = 1e-6  # what sums of probabilities may differ from 1
_LEAST = 1e-6  # of a row: what noise leaves of a count at least
_MOVED = 2  # the squared change of the counts if one row has another category


@dataclass(frozen=True, kw_only=True, eq=False)
class ServiceQuery:
    """What a learner asks.

    Attributes
    ----------
    kind : {"table", "confusion", "value"}
        The kind of the answer.
    cost : int
        In private mode, micro-rho: more of it means less noise. In trusted mode 1.
    predictions : array, optional
        Labels (n,) as positions of the classes, or distributions (n, m): probabilities in trusted mode, whole numbers
        of ``1 / GRID`` in private mode.
    cells : array of int (n,), optional
        A partition: the cell ``0..K-1`` of each row.
    columns : array (n, 1 + L), optional
        For confusion matrices in trusted mode: ones, then the basis functions.
    """

    kind: KindOfAnswer
    cost: int
    predictions: NDArray[Any] | None = None
    cells: NDArray[Any] | None = None
    columns: NDArray[Any] | None = None

    def key(self, about: str) -> str:
        """Return a digest of the query and of the data set ``about``: queries with equal digests are the same."""
        found = hashlib.blake2b(f"{about}/{self.kind}/{self.cost}".encode(), digest_size=20)
        for name in ("predictions", "cells", "columns"):
            array = getattr(self, name)
            if array is not None:
                plain = np.ascontiguousarray(array if array.dtype.kind == "f" else _narrowed(array))
                found.update(f"{name}/{plain.dtype.str}/{plain.shape}".encode())
                found.update(plain.reshape(-1).data)
        return found.hexdigest()


class Answers:
    """Answers queries about the owner's rows; it keeps no record and charges nothing.

    Parameters
    ----------
    holdings : Holdings
        What the owner holds.
    mode : {"private", "trusted"}
        Whether answers have noise.
    """

    def __init__(self, holdings: Holdings, mode: Mode) -> None:
        self.holdings, self.mode = holdings, mode
        # In private mode it is not needed, and whether a class has rows must not decide if there is a service.
        self._oracle = _oracle_of(holdings) if mode == "trusted" else None
        if mode == "private" and holdings.psi is None:
            raise BadQueryError(
                f"metric {getattr(holdings.goal, 'name', '')!r} reads single rows, and private mode answers counts "
                "only: choose a metric of the confusion matrix, or trusted mode"
            )

    def check(self, query: ServiceQuery) -> None:
        """Raise if a query cannot be answered; this depends on the query, never on the labels."""
        kind, shown = query.kind, query.predictions
        if kind == "table":
            self._check_given(query, needed=("cells",))
            self._check_cells(query.cells, width=1)
            return
        parts = () if kind == "value" else ("columns",) if self.mode == "trusted" else ("cells",)
        self._check_given(query, needed=("predictions", *parts))
        self._check_predictions(shown)
        if query.cells is not None:
            self._check_cells(query.cells, width=self.holdings.n_classes)
        if query.columns is not None:
            self._check_columns(query.columns)

    def answer(self, query: ServiceQuery) -> NDArray[Any]:
        """Return the answer: counts, confusion matrices, or one number as an array without axes."""
        answers = {"table": self._table, "confusion": self._confusion, "value": self._value}
        return answers[query.kind](query)

    # -- the three kinds ----------------------------------------------------------------------------------

    def _table(self, query: ServiceQuery) -> NDArray[Any]:
        """Return the counts (K, R) of the categories in each cell."""
        assert query.cells is not None  # noqa: S101
        n_categories = self.holdings.n_categories
        n_cells = int(query.cells.max()) + 1
        places = query.cells.astype(np.intp) * n_categories + self.holdings.categories
        counts = np.bincount(places, minlength=n_cells * n_categories).reshape(n_cells, n_categories)
        return self._with_noise(counts, query.cost, unit=1)

    def _confusion(self, query: ServiceQuery) -> NDArray[Any]:
        """Return confusion matrices: (1 + L, R, m) of columns, or counts (K, R, m) of cells."""
        if self.mode == "trusted":
            assert self._oracle is not None  # noqa: S101
            return self._oracle.answer(_as_query(query, self.holdings))
        assert query.cells is not None  # noqa: S101
        return self._noisy_confusions(query, query.cells)

    def _value(self, query: ServiceQuery) -> NDArray[Any]:
        """Return the metric of the predictions."""
        holdings = self.holdings
        if isinstance(holdings.goal, LabelFunction):
            classes = np.asarray(holdings.classes)
            oracle = LabelOracle(holdings.goal, holdings.labels, classes=classes, metadata=holdings.metadata)
            return _or_nan(lambda: oracle.answer(_as_query(query, holdings)))
        psi = holdings.psi
        assert psi is not None  # noqa: S101
        if self.mode == "trusted":
            shares = self._exact_confusion(query)
        else:
            shares = _as_shares(self._noisy_confusions(query, np.zeros(holdings.n_rows, dtype=np.intp))[0])
        return _or_nan(lambda: value_of(psi, shares))

    def _exact_confusion(self, query: ServiceQuery) -> FloatArray:
        """Return the confusion matrix (R, m) of the predictions, as shares of the rows."""
        holdings = self.holdings
        shown = self._distributions(query)
        found = np.zeros((holdings.n_categories, holdings.n_classes))
        for column in range(holdings.n_classes):
            found[:, column] = np.bincount(holdings.categories, shown[:, column], minlength=len(found))
        return found / holdings.n_rows

    def _noisy_confusions(self, query: ServiceQuery, cells: IntArray) -> NDArray[Any]:
        """Return noisy counts (K, R, m), in units of ``1 / GRID``."""
        holdings = self.holdings
        n_cells, n_categories = int(cells.max()) + 1, holdings.n_categories
        places = cells.astype(np.intp) * n_categories + holdings.categories
        shown = self._distributions(query)
        counts = np.zeros((n_cells * n_categories, holdings.n_classes), dtype=np.int64)
        np.add.at(counts, places, shown.astype(np.int64))
        noisy = self._with_noise(counts, query.cost, unit=GRID)
        return noisy.reshape(n_cells, n_categories, holdings.n_classes)

    def _distributions(self, query: ServiceQuery) -> NDArray[Any]:
        """Return the predictions as distributions (n, m): shares in trusted mode, whole numbers in private mode."""
        shown = query.predictions
        assert shown is not None  # noqa: S101
        if shown.ndim == 2:
            return shown
        whole = np.zeros((self.holdings.n_rows, self.holdings.n_classes), dtype=np.int64)
        whole[np.arange(len(whole)), shown.astype(np.intp)] = 1 if self.mode == "trusted" else GRID
        return whole

    def _with_noise(self, counts: NDArray[Any], cost: int, *, unit: int) -> NDArray[Any]:
        """Return whole numbers, with noise in private mode; ``unit`` is what one row counts as."""
        if self.mode == "trusted":
            return counts
        variance = variance_of(cost, sensitivity2=Fraction(_MOVED * unit**2))
        return counts + discrete_gaussian(variance, size=counts.size).reshape(counts.shape)

    # -- what may be asked --------------------------------------------------------------------------------

    def _check_given(self, query: ServiceQuery, *, needed: tuple[str, ...]) -> None:
        """Raise unless the query has exactly the arrays that its kind needs."""
        given = {name for name in ("predictions", "cells", "columns") if getattr(query, name) is not None}
        if given != set(needed):
            raise BadQueryError(
                f"a query of kind {query.kind!r} has {' and '.join(needed)} in {self.mode} mode. "
                f"Got {' and '.join(sorted(given)) or 'none'}",
                code="wrong_arrays",
            )

    def _check_cells(self, cells: Any, *, width: int) -> None:
        """Raise unless cells are numbers 0..K-1, one a row, and the answer is not too large."""
        self._check_rows(cells, name="cells")
        if cells.ndim != 1 or cells.dtype.kind not in "iu" or cells.min() < 0:
            raise BadQueryError(
                f"cells must be whole numbers from 0, one a row. Got {cells.dtype} of shape {cells.shape}",
                code="bad_cells",
            )
        n_cells = int(cells.max()) + 1
        n_counts = n_cells * self.holdings.n_categories * width
        if n_counts > MOST_COUNTS:
            raise BadQueryError(
                f"an answer has at most {MOST_COUNTS} counts. Got {n_cells} cells, which are {n_counts} counts: use "
                "fewer cells",
                code="too_many_cells",
            )

    def _check_predictions(self, shown: Any) -> None:
        """Raise unless predictions are labels, or distributions in the form of the mode."""
        self._check_rows(shown, name="predictions")
        m = self.holdings.n_classes
        if shown.ndim == 1:
            if shown.dtype.kind not in "iu" or shown.min() < 0 or shown.max() >= m:
                raise BadQueryError(f"labels must be whole numbers in 0..{m - 1}", code="bad_labels")
            return
        if shown.ndim != 2 or shown.shape[1] != m:
            raise BadQueryError(
                f"distributions must have a column for each of the {m} classes. Got {shown.shape}",
                code="bad_distributions",
            )
        if not self.holdings.takes_distributions:
            raise BadQueryError(
                f"metric {getattr(self.holdings.goal, 'name', '')!r} scores whole rows: send labels",
                code="bad_distributions",
            )
        if self.mode == "private":
            # each number is bounded first: the sum of larger ones could overflow, and such a row would escape the noise
            whole = shown.dtype.kind in "iu" and shown.min() >= 0 and shown.max() <= GRID
            if not whole or (shown.astype(np.int64).sum(axis=1) != GRID).any():
                raise BadQueryError(
                    f"in private mode, distributions are whole numbers from 0 whose rows sum to {GRID}",
                    code="bad_distributions",
                )
        elif (shown < 0).any() or (shown > 1 + _ROUNDING).any() or (np.abs(shown.sum(axis=1) - 1) > _ROUNDING).any():
            raise BadQueryError("distributions must not be negative, and their rows sum to 1", code="bad_distributions")

    def _check_columns(self, columns: Any) -> None:
        """Raise unless columns are ones, then basis functions in [0, 1]."""
        self._check_rows(columns, name="columns")
        if columns.ndim != 2 or not 1 <= columns.shape[1] <= MOST_COLUMNS:
            raise BadQueryError(
                f"columns must have a row for each row, and 1 to {MOST_COLUMNS} columns. Got {columns.shape}",
                code="bad_columns",
            )
        if columns.size * self.holdings.n_categories > MOST_PRODUCTS:
            raise BadQueryError(
                f"{columns.shape[1]} columns are too many for {len(columns)} rows: use fewer", code="bad_columns"
            )
        if (columns[:, 0] != 1).any() or columns.min() < 0 or columns.max() > 1:
            raise BadQueryError("columns must be ones, then basis functions between 0 and 1", code="bad_columns")

    def _check_rows(self, array: Any, *, name: str) -> None:
        """Raise unless an array has one entry for each row, all of them finite."""
        if array.ndim == 0 or len(array) != self.holdings.n_rows:
            raise BadQueryError(
                f"{name} must have one entry for each of the {self.holdings.n_rows} rows, in the order of the "
                f"identifiers. Got shape {array.shape}",
                code="wrong_length",
            )
        if not np.isfinite(array).all():
            raise BadQueryError(f"{name} must be finite numbers. Got NaN or infinite ones", code="not_finite")


def _narrowed(whole: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the narrowest type that holds them: equal numbers are equal bytes."""
    low, high = int(whole.min(initial=0)), int(whole.max(initial=0))
    fits = (kind for kind in ("|u1", "<u2", "<u4") if low >= 0 and high <= np.iinfo(kind).max)
    return whole.astype(next(fits, "<i8"), copy=False)


def _oracle_of(holdings: Holdings) -> ConfusionOracle | None:
    """Return the oracle of exact confusion matrices; it raises if a class that the metric needs has no rows."""
    if holdings.psi is None:
        return None
    groups = holdings.groups if holdings.n_categories != holdings.n_classes else None
    return ConfusionOracle(holdings.labels, n_classes=holdings.n_classes, groups=groups, metric=holdings.psi)


def _as_shares(counts: NDArray[Any]) -> FloatArray:
    """Return noisy counts as shares that sum to 1; all are above 0, so that every metric has a value."""
    kept = np.maximum(counts, _LEAST)
    return np.asarray(kept / kept.sum())


def _or_nan(compute: Callable[[], Any]) -> NDArray[Any]:
    """Return a number, or NaN if the metric raises: an error would be free, and would tell about the labels."""
    try:
        return np.asarray(float(compute()))
    except (Exception, SystemExit):  # noqa: BLE001 -- whatever the owner's metric raises
        return np.asarray(np.nan)


def _as_query(query: ServiceQuery, holdings: Holdings) -> Query:
    """Return a query in the form that the oracles of the core take."""
    shown = query.predictions
    assert shown is not None  # noqa: S101
    kind: Any = "confusion" if query.kind == "confusion" else "soft" if shown.ndim == 2 else "hard"
    if shown.ndim == 1:
        shown = shown.astype(np.intp) if kind == "hard" else onehot(shown.astype(np.intp), n_classes=holdings.n_classes)
    return Query(
        key="",
        kind=kind,
        text="a remote query",
        n_rows=holdings.n_rows,
        columns=query.columns,
        _predict=lambda: shown,
    )
