"""The columns of Arrow tables: which of them are eta, phi, labels and weights, and how a batch of them is read.

Nothing here imports pyarrow before a table is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift.engines.rows import row_slices
from postshift.engines.sources import PARTS, Block, Table
from postshift.exceptions import BasisError, LabelError, SettingError, ShapeError

_COPY_ROWS = 512  # of a transposed copy: what is read and what is written stay in the first-level cache
Names = str | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Which columns hold what, found in the schema of the first file; all other files must have the same."""

    eta: tuple[str, ...]
    phi: tuple[str, ...]
    group: str | None
    groups: tuple[Any, ...]
    labels: str | None
    classes: tuple[Any, ...]
    weights: str | None
    types: dict[str, Any]  # of every column that is read
    patterns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        schema: Any,
        *,
        eta: Names,
        phi: Names | None,
        group: str | None,
        groups: Sequence[Any] | None,
        labels: str | None,
        classes: Sequence[Any] | None,
        weights: str | None,
    ) -> Columns:
        """Return the columns that these names and patterns mean in a schema."""
        names = tuple(schema.names)
        found_eta = _matching(eta, names, order=classes)
        found_phi = () if phi is None else _matching(phi, names, order=None)
        wanted = [*found_eta, *found_phi, *(name for name in (group, labels, weights) if name is not None)]
        missing = [name for name in wanted if names.count(name) != 1]
        if missing:
            raise ShapeError(
                f"must have one column {missing[0]!r}. Got {names.count(missing[0])}; there are {_few(names)}"
            )
        found = cls(
            eta=found_eta,
            phi=found_phi,
            group=group,
            groups=tuple(groups or ()),
            labels=labels,
            classes=tuple(classes or ()),
            weights=weights,
            types={name: schema.field(name).type for name in wanted},
            patterns=tuple(given for given in (eta, phi) if isinstance(given, str) and "*" in given),
        )
        found._check_settings()
        found._check_types()
        return found

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return len(self.groups) or len(self.phi) or 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the columns that are read, as Arrow holds it."""
        return sum(_width(kind) for kind in self.types.values())

    def check(self, schema: Any) -> None:
        """Refuse another file whose columns are not those of the first."""
        names = tuple(schema.names)
        for name, kind in self.types.items():
            if names.count(name) != 1:
                raise ShapeError(f"must have one column {name!r}, as the first file has. Got {names.count(name)}")
            found = schema.field(name).type
            if found != kind:
                raise ShapeError(f"column {name!r} must be of type {kind}, as in the first file. Got {found} instead")
        for pattern in self.patterns:
            more = sorted({*_stars(pattern, names)} - {*self.types})
            if more:
                raise ShapeError(f"has columns {_few(more)} for {pattern!r} that the first file does not have")

    def block(self, batch: Any, *, file: str, first: int) -> Block:
        """Return the rows of a record batch."""
        bare = Block(eta=_table(batch, self.eta), files=dict.fromkeys(PARTS, file), first=first)
        with bare.named("labels"):
            labels = None if self.labels is None else self._label_codes(batch.column(self.labels))
        with bare.named("phi"):
            phi = self._basis(batch)
        weights = None if self.weights is None else _numbers(batch.column(self.weights))
        return Block(eta=bare.eta, phi=phi, labels=labels, weights=weights, files=bare.files, first=first)

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
        """Refuse settings that do not fit each other."""
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
        """Refuse columns that hold no numbers, and values that cannot be in a column."""
        plain = [*self.eta, *self.phi, *([self.weights] if self.weights is not None else [])]
        for name in plain:
            if not _is_number(self.types[name]):
                raise ShapeError(f"column {name!r} must hold numbers. Got type {self.types[name]} instead")
        if self.labels is not None and not self.classes and not _is_number(self.types[self.labels]):
            raise LabelError(
                f"column {self.labels!r} must hold whole numbers. Got type {self.types[self.labels]} instead; "
                "give classes=[...], the class of each column of eta, in their order"
            )
        for setting, column in (("classes", self.labels), ("groups", self.group)):
            values = getattr(self, setting)
            if column is not None and values:
                _check_values(values, self.types[column], setting=setting, column=column)


def _matching(given: Names, names: Sequence[str], *, order: Sequence[Any] | None) -> tuple[str, ...]:
    """Return the columns of a pattern, by number where its star stands for numbers and else as in the file."""
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
    """Return the columns that a pattern with one star fits, and what its star stands for in each."""
    if pattern.count("*") != 1:
        raise SettingError(f"a pattern of columns must have one star, as in 'p_*'. Got {pattern!r} instead")
    head, tail = pattern.split("*")
    size = len(head) + len(tail)
    fits = [name for name in names if len(name) > size and name.startswith(head) and name.endswith(tail)]
    return {name: name[len(head) : len(name) - len(tail)] for name in fits}


def _table(batch: Any, names: Sequence[str]) -> Table:
    """Return columns as a table, row by row in memory; float32 where all of them are."""
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

    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    codes = pc.index_in(plain, value_set=pa.array(values, type=plain.type))
    odd = pc.unique(plain.filter(codes.is_null())).to_pylist() if codes.null_count else []
    return np.asarray(codes.fill_null(0).to_numpy(zero_copy_only=False)), odd


def _check_values(values: Sequence[Any], kind: Any, *, setting: str, column: str) -> None:
    """Refuse values that a column of this type cannot have."""
    import pyarrow as pa

    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        pa.array(values, type=plain)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SettingError(f"{setting} must be values of column {column!r}, of type {plain}: {error}") from error


def _is_number(kind: Any) -> bool:
    """Say whether a type holds real numbers."""
    import pyarrow as pa

    kinds = pa.types
    return bool(kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind))


def _width(kind: Any) -> int:
    """Return the bytes of a value; text is taken for 32 bytes."""
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return 32


def _few(values: Sequence[Any]) -> str:
    """Return the first few values as text."""
    return ", ".join(repr(value) for value in values[:5]) + (", ..." if len(values) > 5 else "")
