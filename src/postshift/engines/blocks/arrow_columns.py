"""The columns of Arrow tables: which of them are eta, phi, labels and weights, and how a record batch is read.

pyarrow is only imported where a table is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from postshift.engines.blocks.row_block import PARTS, RowBlock, Table, in_file
from postshift.engines.memory.kernel_rows import row_slices
from postshift.exceptions import BasisError, LabelError, SettingError, ShapeError

_COPY_ROWS = 512  # of a transposed copy: what is read and written stays in the first-level cache
Names = str | Sequence[str]


class ArrowColumns:
    """Which columns hold what, by the schema of the first file; all other files must have the same columns.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns of the first file.
    eta, phi, group, groups, labels, classes, weights
        Names and patterns of columns, as in :class:`ParquetSource`.
    """

    def __init__(
        self,
        schema: Any,
        *,
        eta: Names,
        phi: Names | None = None,
        group: str | None = None,
        groups: Sequence[Any] | None = None,
        labels: str | None = None,
        classes: Sequence[Any] | None = None,
        weights: str | None = None,
    ) -> None:
        names = tuple(schema.names)
        self.eta = _matching(eta, names, order=classes)
        self.phi = () if phi is None else _matching(phi, names, order=None)
        self.group, self.groups = group, tuple(groups or ())
        self.labels, self.classes = labels, tuple(classes or ())
        self.weights = weights
        wanted = [*self.eta, *self.phi, *(name for name in (group, labels, weights) if name is not None)]
        missing = [name for name in wanted if names.count(name) != 1]
        if missing:
            raise ShapeError(
                f"must have one column {missing[0]!r}. Got {names.count(missing[0])}; the columns are {_few(names)}"
            )
        self.types = {name: schema.field(name).type for name in wanted}  # of every column that is read
        self._patterns = [given for given in (eta, phi) if isinstance(given, str) and "*" in given]
        self.n_bases = len(self.groups) or len(self.phi) or 1
        self.row_bytes = sum(_width(kind) for kind in self.types.values())  # in Arrow's memory
        self._check_settings()
        self._check_types()

    def check(self, schema: Any) -> None:
        """Raise if another file has other columns than the first."""
        names = tuple(schema.names)
        for name, kind in self.types.items():
            if names.count(name) != 1:
                raise ShapeError(f"must have one column {name!r}, as the first file has. Got {names.count(name)}")
            found = schema.field(name).type
            if found != kind:
                raise ShapeError(f"column {name!r} must be of type {kind}, as in the first file. Got {found} instead")
        for pattern in self._patterns:
            more = sorted({*_stars(pattern, names)} - {*self.types})
            if more:
                raise ShapeError(f"has columns {_few(more)} for {pattern!r} that the first file does not have")

    def block(self, batch: Any, *, file: str, first: int) -> RowBlock:
        """Return the rows of a record batch."""
        parts = {"eta": _table(batch, self.eta)}
        with in_file(file, first=first, n_rows=batch.num_rows):
            if self.labels is not None:
                parts["labels"] = self._label_codes(batch.column(self.labels))
            phi = self._basis(batch)
        if phi is not None:
            parts["phi"] = phi
        if self.weights is not None:
            parts["weights"] = _numbers(batch.column(self.weights))
        return RowBlock.of(parts, dict.fromkeys(PARTS, file), first=first)

    def _label_codes(self, column: Any) -> Table:
        """Return labels as numbers."""
        if not self.classes:
            return np.asarray(column.to_numpy(zero_copy_only=False))
        codes, odd = _codes(column, self.classes)
        if odd:
            raise LabelError(f"labels has values that are not among classes: {_few(odd)}")
        return codes

    def _basis(self, batch: Any) -> Table | None:
        """Return the basis functions, or None for the constant one."""
        if self.group is None:
            return _table(batch, self.phi) if self.phi else None
        codes, odd = _codes(batch.column(self.group), self.groups)
        if odd:
            raise BasisError(f"column {self.group!r} has values that are not among groups: {_few(odd)}")
        phi = np.zeros((len(codes), len(self.groups)), dtype=np.float32)
        phi[np.arange(len(codes)), codes] = 1
        return phi

    def _check_settings(self) -> None:
        """Raise if settings contradict each other."""
        if self.group is not None and self.phi:
            raise SettingError("phi and group must not both be given: a basis is made of columns or of groups")
        if (self.group is None) != (not self.groups):
            raise SettingError(
                f"group and groups must be given together. Got group={self.group!r}, groups={self.groups!r}"
            )
        if self.classes and len(self.classes) != len(self.eta):
            raise SettingError(f"classes must name the {len(self.eta)} columns of eta. Got {len(self.classes)} instead")
        for name, values in (("classes", self.classes), ("groups", self.groups)):
            if len(set(values)) != len(values):
                raise SettingError(f"{name} must be distinct. Got {_few(values)}")

    def _check_types(self) -> None:
        """Raise if columns do not hold numbers, or if classes and groups cannot be values of their columns."""
        for name in (*self.eta, *self.phi, *([] if self.weights is None else [self.weights])):
            if not _is_number(self.types[name]):
                raise ShapeError(f"column {name!r} must hold numbers. Got type {self.types[name]} instead")
        if self.labels is not None and not self.classes and not _is_number(self.types[self.labels]):
            raise LabelError(
                f"column {self.labels!r} must hold whole numbers. Got type {self.types[self.labels]} instead; "
                "give classes=[...], the class of each column of eta, in their order"
            )
        for setting, values, column in (("classes", self.classes, self.labels), ("groups", self.groups, self.group)):
            if column is not None and values:
                _check_values(values, self.types[column], setting=setting, column=column)


def _matching(given: Names, names: Sequence[str], *, order: Sequence[Any] | None) -> tuple[str, ...]:
    """Return the columns of a pattern, in the order of the classes or numbers at the star, else as in the file."""
    if not isinstance(given, str):
        return tuple(given)
    if "*" not in given:
        return (given,)
    found = _stars(given, names)
    if not found:
        raise ShapeError(f"must have columns like {given!r}. Got {_few(names)}")
    stars = list(found.values())
    wanted = [] if order is None else [str(value) for value in order]
    if sorted(wanted) == sorted(stars):
        return tuple(sorted(found, key=lambda name: wanted.index(found[name])))
    if all(star.isdecimal() for star in stars):
        return tuple(sorted(found, key=lambda name: int(found[name])))
    return tuple(found)


def _stars(pattern: str, names: Sequence[str]) -> dict[str, str]:
    """Return the columns that match a pattern with one star, and what the star stands for in each."""
    if pattern.count("*") != 1:
        raise SettingError(f"a pattern of columns must have one star, as in 'p_*'. Got {pattern!r} instead")
    head, tail = pattern.split("*")
    size = len(head) + len(tail)
    fits = [name for name in names if len(name) > size and name.startswith(head) and name.endswith(tail)]
    return {name: name[len(head) : len(name) - len(tail)] for name in fits}


def _table(batch: Any, names: Sequence[str]) -> Table:
    """Return columns as a table, row by row in memory; float32 if all of them are."""
    columns = np.stack([_numbers(batch.column(name)) for name in names])
    table = np.empty(columns.shape[::-1], dtype=columns.dtype)
    for some in row_slices(0, len(table), _COPY_ROWS):
        table[some] = columns[:, some].T
    return table


def _numbers(column: Any) -> Table:
    """Return a column as an array of floats, NaN where a value is missing."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _codes(column: Any, values: Sequence[Any]) -> tuple[Table, list[Any]]:
    """Return the position of each value of a column among ``values``, and values that are not among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    decoded = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    codes = pc.index_in(decoded, value_set=pa.array(values, type=decoded.type))
    odd = pc.unique(decoded.filter(codes.is_null())).to_pylist() if codes.null_count else []
    return np.asarray(codes.fill_null(0).to_numpy(zero_copy_only=False)), odd


def _check_values(values: Sequence[Any], kind: Any, *, setting: str, column: str) -> None:
    """Raise if a column of this type cannot have these values."""
    import pyarrow as pa

    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        pa.array(values, type=value_type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SettingError(f"{setting} must be values of column {column!r}, of type {value_type}: {error}") from error


def _is_number(kind: Any) -> bool:
    """Return whether a type holds real numbers."""
    import pyarrow as pa

    kinds = pa.types
    return bool(kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind))


def _width(kind: Any) -> int:
    """Return the size of a value in bytes; 32 for text."""
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return 32


def _few(values: Sequence[Any]) -> str:
    """Return the first few values as text."""
    return ", ".join(repr(value) for value in values[:5]) + (", ..." if len(values) > 5 else "")
