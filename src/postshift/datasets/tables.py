"""What the tabular loaders return, and how they encode categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.exceptions import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """One table of features, labels and groups.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Features: numbers as they are, categories one-hot.
    y : ndarray of shape (n,)
        Labels: whole numbers from 0.
    groups : mapping of str to ndarray of shape (n,)
        Group of every row, as a position in `group_names`.
    feature_names : tuple of str
        Names of the columns of `X`, such as ``"age"`` or ``"age_cat=25 - 45"``.
    group_names : mapping of str to tuple of str
        Names of the groups, under the keys of `groups`.
    class_names : tuple of str
        Names of the classes; empty where the labels say no (0) or yes (1).

    Examples
    --------
    >>> from postshift.datasets import load_compas
    >>> table = load_compas()  # doctest: +SKIP
    >>> table.X.shape, table.group_names["sex"]  # doctest: +SKIP
    ((6172, 12), ('Female', 'Male'))
    """

    X: FloatArray
    y: IntArray
    groups: Mapping[str, IntArray]
    feature_names: tuple[str, ...]
    group_names: Mapping[str, tuple[str, ...]]
    class_names: tuple[str, ...] = ()


def one_hot(values: Sequence[str], *, name: str) -> tuple[tuple[str, ...], FloatArray]:
    """Return column names ``name=value`` and the indicators of a column's sorted values."""
    labels, codes = np.unique(values, return_inverse=True)
    return tuple(f"{name}={label}" for label in labels.tolist()), np.eye(len(labels))[codes]


def check_columns(header: Sequence[str], needed: Sequence[str], *, path: Path) -> None:
    """Refuse a file without all the columns that are read."""
    missing = sorted(set(needed) - set(header))
    if missing:
        raise InputError(
            f"{path} must have the columns {', '.join(sorted(set(needed)))}. Got {len(header)} columns without "
            f"{', '.join(missing)} instead; it is another edition: replace it by the original"
        )
