"""What the loaders return: rows of a data set, and their split into three samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split

from postshift._validation import FloatArray, IntArray

PixelArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """Labelled rows of a data set, tabular or images.

    Attributes
    ----------
    X : ndarray of shape (n, d) or (n, height, width, 3)
        Features as floats, with one-hot categories; or pixels as ``uint8``: red, green, blue.
    y : ndarray of shape (n,)
        Labels: whole numbers from 0. Training labels may be noisy.
    rows : ndarray of shape (n,)
        Row numbers in the published data set, in ascending order.
    columns : mapping of str to ndarray of shape (n,)
        Other columns, e.g. the paper's basis functions on Adult, ``"age_bucket"``, or ``"clean"``, the labels without
        noise.
    groups : mapping of str to ndarray of shape (n,)
        Groups of the rows, as positions in `group_names`.
    feature_names : tuple of str
        Names of the columns of `X`, such as ``"age"`` or ``"age_cat=25 - 45"``; empty for images.
    group_names : mapping of str to tuple of str
        Names of the groups, with the keys of `groups`.
    class_names : tuple of str
        Names of the classes; empty if the labels are no (0) or yes (1).

    Examples
    --------
    >>> from postshift.datasets import load_compas
    >>> data = load_compas()  # doctest: +SKIP
    >>> data.X.shape, data.group_names["sex"]  # doctest: +SKIP
    ((6172, 12), ('Female', 'Male'))
    """

    X: npt.NDArray[Any]
    y: IntArray
    rows: IntArray
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    groups: Mapping[str, IntArray] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    group_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()

    def take(self, places: IntArray) -> Dataset:
        """Return some of the rows.

        Parameters
        ----------
        places : ndarray of shape (k,)
            Positions in this data set, not the numbers in `rows`.

        Returns
        -------
        Dataset
        """
        return replace(
            self,
            X=self.X[places],
            y=self.y[places],
            rows=self.rows[places],
            columns={name: column[places] for name, column in self.columns.items()},
            groups={name: codes[places] for name, codes in self.groups.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Training, validation and test rows of one experiment.

    Attributes
    ----------
    train, validation, test : Dataset
        The samples. No row is in two of them.

    Examples
    --------
    >>> from postshift.datasets import adult_proxy
    >>> split = adult_proxy(seed=0)  # doctest: +SKIP
    >>> split.train.X.shape, split.validation.X.shape, split.test.X.shape  # doctest: +SKIP
    ((32561, 101), (163, 101), (16118, 101))
    """

    train: Dataset
    validation: Dataset
    test: Dataset


def stratified(strata: IntArray, *, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return the row numbers of the rest and of a random share, rounded up; both have the proportions of the strata."""
    rows = np.arange(len(strata))
    rest, drawn = train_test_split(rows, test_size=share, stratify=strata, random_state=seed)
    return np.sort(rest), np.sort(drawn)


def one_hot(values: Sequence[str], *, name: str) -> tuple[tuple[str, ...], FloatArray]:
    """Return column names ``name=value`` and the indicators of the sorted values of a column."""
    labels, codes = np.unique(values, return_inverse=True)
    return tuple(f"{name}={label}" for label in labels.tolist()), np.eye(len(labels))[codes]
