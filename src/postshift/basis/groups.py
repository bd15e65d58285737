"""The constant basis and disjoint groups, Eq. (6), as scikit-learn transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from postshift._validation import FloatArray, IntArray, copied
from postshift.basis._columns import distinct, names_of, one_per_row, places_of, take_columns
from postshift.basis.base import Basis
from postshift.exceptions import BasisError, SettingError

VALUES = "group values"


class ConstantBasis(Basis):
    """One basis function that is 1 everywhere: the same class weights for every row.

    Examples
    --------
    >>> ConstantBasis().fit_transform([[5.0], [7.0]])
    array([[1.],
           [1.]])
    """

    short_name = "constant"

    def _learn(self, rows: Any, y: Any) -> list[str]:  # noqa: ARG002
        """Return the name; nothing is learnt."""
        return ["constant"]

    def _functions(self, rows: Any) -> FloatArray:
        """Return a column of ones."""
        return np.ones((_num_samples(rows), 1))

    def __sklearn_tags__(self) -> Any:
        """Declare that the values are never read."""
        tags = super().__sklearn_tags__()
        tags.no_validation = tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags


@dataclass(eq=False, repr=False)
class GroupBasis(Basis):
    """One basis function per group: 1 on the rows of the group, 0 elsewhere; disjoint and covering.

    The groups are the values of columns, the values of a function of the rows, or by default the input itself, if it is
    one value per row (strings, numbers, booleans).

    Parameters
    ----------
    columns : str, int or sequence of them, optional
        Columns of a data frame by name, or of any table by position. With several columns, the groups are the
        combinations that occur.
    by : callable, optional
        ``by(X)`` returns one value per row.
    values : sequence, optional
        Only these values get a function; all others share the complement. Tuples if there are several columns.
    unseen : bool or "average", default=False
        How to treat a value that did not occur in ``fit``: raise an error (``False``); use the complement, which is
        then always appended (``True``); or set every function to its share of the rows of ``fit``, so that the row gets
        the average weights (``"average"``). If other values already share the complement, unseen ones do too.

    Attributes
    ----------
    groups_ : list
        The groups that have a function; tuples if there are several columns.

    Examples
    --------
    >>> GroupBasis().fit_transform(["north", "south", "north"])
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])

    >>> import pandas as pd
    >>> people = pd.DataFrame({"region": ["north", "south", "east"], "age": [50, 30, 20]})
    >>> GroupBasis("region", values=["north"]).set_output(transform="pandas").fit_transform(people)
       region=north  rest
    0           1.0   0.0
    1           0.0   1.0
    2           0.0   1.0
    """

    short_name = "groups"

    columns: str | int | Sequence[str | int] | None = None
    _: KW_ONLY
    by: Callable[[Any], Any] | None = None
    values: Sequence[Any] | None = None
    unseen: bool | Literal["average"] = False

    def _learn(self, rows: Any, y: Any) -> list[str]:  # noqa: ARG002
        """Find the groups in the rows."""
        self._check_settings()
        self.places_ = places_of(self.columns, rows)
        parts = self._parts(rows)
        if self.values is None:
            found = [distinct(part, what=VALUES) for part in parts]
            occurring = np.unique(np.column_stack([places for _, places in found]), axis=0)
            keys = [tuple(levels[place] for (levels, _), place in zip(found, row, strict=True)) for row in occurring]
        else:
            keys = [value if len(parts) > 1 else (value,) for value in self.values]
        self.groups_ = keys if len(parts) > 1 else [key[0] for key in keys]
        self._number(keys, n_parts=len(parts))
        return self._names(rows, keys)

    @property
    def _always_rest(self) -> bool:
        """Whether unseen values use the complement."""
        return self.unseen is True

    def _check_settings(self) -> None:
        """Raise if a setting is invalid."""
        if self.columns is not None and self.by is not None:
            raise SettingError("give GroupBasis columns or by, not both")
        if self.by is not None and not callable(self.by):
            raise SettingError(f"by must be a callable that returns one value per row. Got {self.by!r} instead")
        if self.unseen not in (True, False, "average"):
            raise SettingError(f"unseen must be True, False or 'average'. Got {self.unseen!r} instead")

    def _parts(self, rows: Any) -> list[NDArray[Any]]:
        """Return the values that define the groups: one array per column."""
        if self.by is not None:
            given: list[Any] = [self.by(copied(rows))]
        elif self.places_ is None:
            given = [rows]
        else:
            given = [take_columns(rows, place) for place in self.places_]
        return [one_per_row(values, what=VALUES) for values in given]

    def _number(self, keys: Sequence[tuple[Any, ...]], *, n_parts: int) -> None:
        """Assign numbers to the values of every column, and from them to the groups."""
        wrong = [key for key in keys if not isinstance(key, tuple) or len(key) != n_parts]
        if wrong or not keys:
            raise SettingError(f"values must be tuples of {n_parts} values, one or more. Got {wrong or keys!r} instead")
        columns = list(zip(*keys, strict=True))
        self.levels_ = [{value: place for place, value in enumerate(dict.fromkeys(column))} for column in columns]
        self.codes_: IntArray = np.zeros(len(keys), dtype=np.intp)
        for column, numbers in zip(columns, self.levels_, strict=True):
            self.codes_ = self.codes_ * len(numbers) + np.array([numbers[value] for value in column])

    def _codes(self, parts: Sequence[NDArray[Any]]) -> IntArray:
        """Return one number per row, equal for equal combinations; -1 if a value is unknown."""
        codes: IntArray = np.zeros(len(parts[0]), dtype=np.intp)
        known = np.ones(len(codes), dtype=bool)
        for part, numbers in zip(parts, self.levels_, strict=True):
            levels, places = distinct(part, what=VALUES)
            found = np.array([numbers.get(level, -1) for level in levels])[places]
            known &= found >= 0
            codes = codes * len(numbers) + found
        return np.where(known, codes, -1)

    def _names(self, rows: Any, keys: Sequence[tuple[Any, ...]]) -> list[str]:
        """Return the names of the functions, such as ``region=north``."""
        names = names_of(rows)
        if self.places_ is not None:
            labels = [names[place] if names else f"x{place}" for place in self.places_]
        elif self.by is not None:
            name = getattr(self.by, "__name__", "<lambda>")
            labels = ["group" if name == "<lambda>" else name]
        else:
            labels = [names[0] if names else getattr(rows, "name", None) or "group"]
        return [", ".join(f"{label}={value}" for label, value in zip(labels, key, strict=True)) for key in keys]

    def _functions(self, rows: Any) -> FloatArray:
        """Return the indicators of the groups."""
        table: FloatArray = (self._codes(self._parts(rows))[:, None] == self.codes_).astype(np.float64)
        return table

    def _covered(self, table: FloatArray, short: NDArray[np.bool_], rows: Any) -> FloatArray:
        """Set unseen groups to the average, or raise."""
        if self.unseen == "average":
            return np.where(short[:, None], self.shares_, table)
        strange = [part[short][0] for part in self._parts(rows)]
        example = strange[0] if len(strange) == 1 else tuple(strange)
        raise BasisError(
            f"{int(short.sum())} rows have a group that did not occur in fit (e.g. {example!r}; known groups: "
            f"{self.groups_[:5]}): use GroupBasis(unseen='average') to give them the average weights, or unseen=True "
            "to give them a separate function"
        )

    def __sklearn_tags__(self) -> Any:
        """Declare that values of any kind are supported."""
        tags = super().__sklearn_tags__()
        tags.no_validation = tags.input_tags.string = True
        return tags
