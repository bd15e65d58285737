"""Clusters of the rows: hard ones with k-means, soft ones by nearness to given points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_consistent_length, check_random_state, gen_batches
from sklearn.utils.validation import _num_samples, validate_data

from postshift._validation import FloatArray, IntArray, check_count, check_positive, copied
from postshift.basis._columns import distinct, number_table, one_per_row, place_of, places_of, take_columns
from postshift.basis.base import Basis
from postshift.basis.user import applied, fitted_copy
from postshift.exceptions import BasisError, SettingError

BLOCK = 4_000_000  # distances in memory at a time: 32 MB
BY = ("class", "all")


@dataclass(eq=False, repr=False)
class KMeansBasis(Basis):
    """One basis function per cluster of the rows, found by k-means; disjoint and covering.

    Parameters
    ----------
    n_clusters : int, default=5
        Number of clusters.
    columns : sequence of str or int, optional
        Columns by name or by position, all by default. They must hold numbers.
    scale : bool, default=True
        Whether to standardise every column first (sparse columns are not centred).
    random_state : int, optional, default=0
        Seed of k-means.

    Examples
    --------
    >>> KMeansBasis(2).fit_transform([[0.0], [1.0], [10.0], [11.0]]).sum(axis=0)
    array([2., 2.])
    """

    short_name = "kmeans"

    n_clusters: int = 5
    _: KW_ONLY
    columns: Sequence[str | int] | None = None
    scale: bool = True
    random_state: int | None = 0

    def _learn(self, rows: Any, y: Any) -> list[str]:  # noqa: ARG002
        """Find the clusters."""
        check_count(self.n_clusters, name="n_clusters", low=1)
        self.places_ = places_of(self.columns, rows)
        numbers = self._numbers(rows)
        with_mean = isinstance(numbers, np.ndarray)
        self.scaler_ = StandardScaler(with_mean=with_mean).set_output(transform="default") if self.scale else None
        scaled = self.scaler_.fit_transform(numbers) if self.scaler_ is not None else numbers
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # fewer distinct rows than clusters: EmptyBasisWarning follows
            self.kmeans_ = KMeans(self.n_clusters, random_state=self.random_state).fit(scaled)
        return [f"cluster {place + 1}" for place in range(self.n_clusters)]

    def _numbers(self, rows: Any) -> Any:
        """Return the columns as numbers."""
        return number_table(rows if self.places_ is None else take_columns(rows, self.places_), owner=self)

    def _functions(self, rows: Any) -> FloatArray:
        """Return the indicators of the clusters."""
        numbers = self._numbers(rows)
        scaled = numbers if self.scaler_ is None else self.scaler_.transform(numbers)
        table: FloatArray = (self.kmeans_.predict(scaled)[:, None] == np.arange(self.n_clusters)).astype(np.float64)
        return table


@dataclass(kw_only=True, eq=False, repr=False)
class RBFBasis(Basis):
    r"""One basis function per group of points: the mean nearness of a row to the points, as in the paper.

    .. math:: \phi_g(x) = \frac{1}{n_g} \sum_{c \in g} \mathrm{clip}\bigl(\exp(-\|x - c\|^2 / (2 \, width^2))\bigr)

    The points are the rows given to ``fit``, which should be *validation* rows (``fitted_on`` is ``"val"``), grouped by
    class. Eq. (7) of the paper omits the square. The complement is always the last function, because later rows may be
    far from every point.

    Parameters
    ----------
    by : {"class", "all"}, callable or str, default="class"
        How the points are grouped: by ``y``; all together; by the values of ``by(X)``, one per row; or by the column of
        that name. ``fit(X, y, groups=...)`` overrides it.
    width : float, default=2.0
        Width of the kernel.
    clip : (float, float), default=(0.01, 0.99)
        Range to which the values of the kernel are clipped.
    embedding : transformer or callable, optional
        Applied to the rows first; a copy is fitted to the rows (and ``y``) of ``fit``. Pass a fitted one in
        scikit-learn's ``FrozenEstimator``.
    max_points : int, optional
        Maximum number of points per group, drawn at random.
    random_state : int, optional, default=0
        Seed of the draw.

    Examples
    --------
    >>> basis = RBFBasis(width=1.0).fit([[0.0], [2.0]], ["a", "b"])
    >>> basis.get_feature_names_out().tolist()
    ['near class a', 'near class b', 'rest']
    >>> basis.transform([[1.0]]).round(3)
    array([[0.607, 0.607, 0.   ]])
    """

    short_name = "rbf"

    by: str | Callable[[Any], Any] = "class"
    width: float = 2.0
    clip: tuple[float, float] = (0.01, 0.99)
    embedding: Any = None
    max_points: int | None = None
    random_state: int | None = 0

    @property
    def fitted_on(self) -> Literal["train", "val"]:
        """Validation rows: they are the points."""
        return "val"

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Store the rows as points.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Validation rows: numbers, or the input of ``embedding``.
        y : array of shape (n_rows,), optional
            Their classes; needed if ``by="class"`` and no groups are given.
        groups : array of shape (n_rows,), optional
            Their groups, instead of ``by``.

        Returns
        -------
        RBFBasis
            The fitted basis.
        """
        self._check_settings()
        needs_y = groups is None and isinstance(self.by, str) and self.by == "class"
        rows = validate_data(self, X, y if needs_y else "no_validation", reset=True, skip_check_array=True)
        rows = rows[0] if needs_y else rows
        self.embedding_ = None if self.embedding is None else fitted_copy(self.embedding, rows, y)
        points = self._numbers(rows)
        label, values = self._grouping(rows, y, groups)
        check_consistent_length(points, values)
        levels, places = distinct(values, what="groups of points")
        kept, places = self._drawn(places)
        self.points_, self.rows_ = points[kept], kept
        self.assignment_ = (places[:, None] == np.arange(len(levels))) / np.bincount(places)
        return self._settled(rows, [f"near {label}{level}" for level in levels])

    @property
    def _always_rest(self) -> bool:
        """Later rows may be far from every point."""
        return True

    def on_fit_rows(self, X: Any) -> FloatArray:
        """Return the functions of the rows of ``fit``, without the nearness of each row to itself."""
        rows = self._input(X)
        table = self._checked(rows)
        groups = np.argmax(self.assignment_, axis=1)
        sizes = np.bincount(groups)[groups]
        own = table[self.rows_, groups]
        others = (own * sizes - self.clip[1]) / np.maximum(sizes - 1, 1)
        table[self.rows_, groups] = np.clip(np.where(sizes > 1, others, self.clip[0]), *self.clip)
        return self._finished(table, rows)

    def _check_settings(self) -> None:
        """Raise if a setting is out of range."""
        check_positive(self.width, name="width")
        if self.max_points is not None:
            check_count(self.max_points, name="max_points", low=1)
        if len(np.atleast_1d(self.clip)) != 2 or not 0 <= self.clip[0] < self.clip[1] <= 1:
            raise SettingError(f"clip must be two numbers with 0 <= low < high <= 1. Got {self.clip!r} instead")

    def _grouping(self, rows: Any, y: Any, groups: Any) -> tuple[str, Any]:
        """Return the prefix of the names of the groups, and the group of each row."""
        what = "groups of points"
        if groups is not None:
            return "group ", one_per_row(groups, what=what)
        if callable(self.by):
            return "group ", one_per_row(self.by(copied(rows)), what=what)
        if self.by == "class":
            return "class ", one_per_row(y, what="y")
        if self.by == "all":
            return "", np.full(_num_samples(rows), "all")
        try:
            place = place_of(self.by, rows)
        except BasisError as error:
            raise BasisError(f"by must be one of {BY}, a callable or a column: {error}") from error
        return f"{self.by}=", one_per_row(take_columns(rows, place), what=what)

    def _drawn(self, places: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows that become points, at most ``max_points`` of a group, and their groups."""
        kept = np.arange(len(places))
        if self.max_points is not None:
            order = check_random_state(self.random_state).permutation(len(places))
            parts = [order[places[order] == place][: self.max_points] for place in range(places.max() + 1)]
            kept = np.sort(np.concatenate(parts))
        return kept, places[kept]

    def _numbers(self, rows: Any) -> Any:
        """Return the rows in the space of the distances."""
        return number_table(rows if self.embedding_ is None else applied(self.embedding_, rows), owner=self)

    def _functions(self, rows: Any) -> FloatArray:
        """Return the mean nearness to the points of each group, a block of rows at a time."""
        numbers = self._numbers(rows)
        table = np.empty((numbers.shape[0], self.assignment_.shape[1]))
        for block in gen_batches(numbers.shape[0], max(1, BLOCK // self.points_.shape[0])):
            squares = euclidean_distances(numbers[block], self.points_, squared=True)
            kernel = np.clip(np.exp(-squares / (2 * self.width**2)), *self.clip)
            table[block] = kernel @ self.assignment_
        return table

    def __sklearn_tags__(self) -> Any:
        """Declare that ``y`` is required if it defines the groups."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = isinstance(self.by, str) and self.by == "class"
        return tags
