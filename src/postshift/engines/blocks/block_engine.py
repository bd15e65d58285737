"""The block engine: rows in files, more than memory holds, summed block by block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from postshift._validation import check_count
from postshift.engines.blocks.row_block import BlockSource, FileFingerprint, RowBlock
from postshift.engines.memory.memory_engine import Kernels, MemoryEngine, kernel_class, kernels_of_parts
from postshift.engines.pass_engine import PassEngine
from postshift.exceptions import SettingError, ShapeError, WeightError

MIN_ROWS = 64  # for each thread: fewer rows at a time are not worth the calls
_MAX_ROWS = 1 << 16  # for each thread: more rows at a time are not faster
_TABLES = 6  # of sums at a time: the total, those of the block and of its parts, while they are computed and rearranged
_UNITS = {
    "b": 1,
    **{f"{p}b": 1000**k for k, p in enumerate("kmgt", 1)},
    **{f"{p}ib": 1024**k for k, p in enumerate("kmgt", 1)},
}


class BlockEngine(PassEngine):
    """Sums over rows that are read in blocks: every call is one pass over the source, and only sums stay in memory.

    The first pass checks the rows as ``Rows.of`` does, and later passes must read the same rows again; errors name
    the file and the rows. The methods and the sums are those of :class:`MemoryEngine`, counts to the last digit.

    Parameters
    ----------
    source : BlockSource
        Where the rows are: :class:`ArraySource`, :class:`ParquetSource`, :class:`ArrowSource` or your own source.
    memory_limit : int or str
        Bytes, or text such as ``"512 MB"``, that a pass may take: it decides how many rows are read at a time. Pages
        of mapped files do not count, since the system takes them back when it needs them; nor do the libraries.
    block_rows : int, optional
        The maximum number of rows to read at a time, if the limit allows more.
    n_threads : int
        Threads that share a block.
    kernels : {"auto", "numpy", "numba"}
        As in :class:`MemoryEngine`; what "auto" takes depends on all rows, not on those of a block.
    n_categories : int, optional
        As in :class:`MemoryEngine`.

    Examples
    --------
    >>> from postshift.engines import ArraySource
    >>> source = ArraySource(np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]), labels=[0, 1, 1])
    >>> BlockEngine(source, memory_limit="1 MB", block_rows=2).label_sums().single
    array([[1., 2.]])
    """

    def __init__(
        self,
        source: BlockSource,
        *,
        memory_limit: int | str = "1 GB",
        block_rows: int | None = None,
        n_threads: int = 1,
        kernels: Kernels = "auto",
        n_categories: int | None = None,
    ) -> None:
        self._source = source
        self._limit = bytes_of(memory_limit, name="memory_limit")
        self._most_rows = source.n_rows if block_rows is None else check_count(block_rows, name="block_rows", low=1)
        self._n_threads = check_count(n_threads, name="n_threads", low=1)
        self._kernels = kernels_of_parts(kernels, n_cells=source.n_rows * source.n_classes)
        kernel_class(self._kernels)  # raises here, not in the first pass
        n_categories = source.n_classes if n_categories is None else n_categories
        self._n_categories = check_count(n_categories, name="n_categories", low=1)
        self._first: FileFingerprint | None = None  # of the first pass
        self._has_weight = False
        self._rows_at_a_time(*self._sizes("label_sums"))  # raises if the limit is too low for any pass

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return self._source.n_classes

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return self._source.n_bases

    def _summed(self, method: str, *arguments: Any, **options: bool) -> Any:
        """Return the sums over all blocks."""
        most_rows = min(self._rows_at_a_time(*self._sizes(method, **options)), self._most_rows)

        def one(block: RowBlock) -> Any:  # a function, so that a block is freed before the next one is read
            return getattr(self._engine(block), method)(*arguments, **options)

        parts = map(one, self.read(most_rows))
        total = next(parts, None)
        if total is None:
            raise ShapeError("the source must have at least one row. Got none")
        return reduce(add, parts, total)

    @property
    def source(self) -> BlockSource:
        """Where the rows are."""
        return self._source

    def over(self, source: BlockSource) -> BlockEngine:
        """Return an engine with the same settings over another source, such as another basis of the same rows."""
        return BlockEngine(
            source,
            memory_limit=self._limit,
            block_rows=self._most_rows,
            n_threads=self._n_threads,
            kernels=self._kernels,
            n_categories=self._n_categories,
        )

    def read(self, block_rows: int | None = None) -> Iterator[RowBlock]:
        """Yield all rows in blocks, in one pass; the first pass checks them, later ones compare them with the first."""
        if block_rows is None:
            block_rows = min(self._rows_at_a_time(*self._sizes("label_sums")), self._most_rows)
        found = FileFingerprint()
        for block in self._source.blocks(block_rows):
            found.add(block)
            if self._first is None:
                block.check(n_labels=self._n_categories)
                self._has_weight |= block.has_weight
            yield block
            del block
        self._compare(found, block_rows)

    def _compare(self, found: FileFingerprint, block_rows: int) -> None:
        """Raise if a pass did not read the rows that the source announced, or that the first pass read."""
        if self._first is None:
            found.check_rows(self._source.n_rows)
            if not self._has_weight:
                raise WeightError("at least one weight must be above 0. Got weights that are 0 in every row")
            self._first = found
        elif found != self._first:
            for block in self._source.blocks(block_rows):
                block.check(n_labels=self._n_categories)  # its error, if any, says which rows
            found.check_same(self._first)

    def _sizes(self, method: str, *, confusions: bool = False, influence: bool = False, **_: Any) -> tuple[int, int]:
        """Return the size of a table of a pass, and how many numbers it computes of each row beside a few m and L."""
        n_bases, n_classes = self.n_bases, self.n_classes
        n_features = n_bases * n_classes
        if method == "look":
            n_columns = n_features if influence else n_bases
            return (1 + n_columns) * self._n_categories * n_classes, 3 * n_columns
        if method == "gram_sums":
            return n_features * (n_features + n_classes), 3 * n_features
        if method == "influence_sums":
            return (1 + n_features) * n_classes, 3 * n_features
        n_hits = (1 + n_bases) * n_features
        return (n_hits * n_classes, n_features) if confusions else (n_hits, 0)

    def _engine(self, block: RowBlock) -> MemoryEngine:
        """Return an engine over one block."""
        rows = block.converted()
        return MemoryEngine(
            rows,
            block_rows=max(-(-len(rows.eta) // self._n_threads), 1),
            n_threads=self._n_threads,
            kernels=self._kernels,
            n_categories=self._n_categories,
            sort_rows=False,  # a block is summed once
        )

    def _rows_at_a_time(self, cells: int, features: int) -> int:
        """Return how many rows a pass of these sizes may read at a time; raise if they are too few."""
        source, n_classes, n_bases = self._source, self.n_classes, self.n_bases
        fixed = source.fixed_bytes + 8 * cells * (_TABLES + self._n_threads)
        # Sums by ``core.sums`` hold up to eight tables (rows, m) in double precision, labels, weights, clusters and
        # an order of rows.
        row = source.row_bytes + 8 * (8 * n_classes + 4 * n_bases + features) + 64
        fewest = min(MIN_ROWS * self._n_threads, source.n_rows)
        if fixed + fewest * row > self._limit:
            whole = f", {shown(source.fixed_bytes)} of it for the largest row group or record batch of the files"
            raise SettingError(
                f"memory_limit must be at least {shown(fixed + fewest * row)} for {fewest} rows of {n_classes} classes "
                f"and {n_bases} basis functions{whole if source.fixed_bytes else ''}. Got {shown(self._limit)} instead"
            )
        return min((self._limit - fixed) // row, _MAX_ROWS * self._n_threads)


def bytes_of(value: Any, *, name: str) -> int:
    """Return a number of bytes, given as a number or as text.

    Examples
    --------
    >>> bytes_of("1.5 GB", name="memory_limit"), bytes_of("64MiB", name="memory_limit")
    (1500000000, 67108864)
    """
    if not isinstance(value, str):
        return check_count(value, name=name, low=1)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", value)
    if found is None or found[2].lower() not in _UNITS:
        raise SettingError(
            f"{name} must be a number of bytes or text such as '512 MB' or '2 GiB'. Got {value!r} instead"
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])


def shown(size: int) -> str:
    """Return a number of bytes as text, rounded up so that it can be given as a limit.

    Examples
    --------
    >>> shown(1_234_567), shown(999)
    ('1.3 MB', '999 B')
    """
    for unit in ("GB", "MB", "kB"):
        scale = _UNITS[unit.lower()]
        if size >= scale:
            return f"{np.ceil(10 * size / scale) / 10:g} {unit}"
    return f"{size} B"
