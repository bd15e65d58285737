"""The block engine: rows on disk, more of them than memory holds, summed block by block."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from importlib.util import find_spec
from operator import add
from typing import TypeVar

import numpy as np

from postshift._validation import FloatArray, check_count
from postshift.core.rows import PHI, Rows
from postshift.core.sums import Classifier, ClassifierSums, GramSums, LabelSums, PairHits
from postshift.engines.budget import Need, bytes_of, rows_within
from postshift.engines.contents import Contents
from postshift.engines.memory import FEW_CELLS, Kernels, MemoryEngine
from postshift.engines.sources import Block, Source
from postshift.exceptions import ShapeError, WeightError

Summed = TypeVar("Summed", LabelSums, ClassifierSums, GramSums, PairHits, FloatArray)


class BlockEngine:
    """Sums over rows that are read in blocks: every call is one pass over the source, and nothing of it stays.

    The first pass checks the rows as ``Rows.of`` does, and later passes must read the same rows again; errors name
    the file and the rows. The sums are those of :class:`MemoryEngine`, counts to the last digit.

    Parameters
    ----------
    source : Source
        Where the rows are: :class:`ArraySource`, :class:`ParquetSource`, :class:`ArrowSource` or one of your own.
    memory_limit : int or str
        Bytes, or text such as ``"512 MB"``, that a pass may take: it decides how many rows are read at a time. Pages
        of mapped files do not count, since the system takes them back when it needs them; nor do the libraries.
    block_rows : int, optional
        The most rows to read at a time, where the limit would allow more.
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
        source: Source,
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
        self._kernels, self._n_categories = _chosen(kernels, source), n_categories
        self._summing(_no_rows(source))  # refuses kernels and categories that cannot be
        self._contents: Contents | None = None  # of the first pass
        self._has_weight = False
        rows_within(self._limit, source, self._need_of_hits, n_threads=n_threads)

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return self._source.n_classes

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return self._source.n_bases

    def label_sums(self) -> LabelSums:
        """Return A, a and the totals."""
        return self._summed(lambda block: block.label_sums(), self._need_of_hits)

    def classifier_sums(self, classifier: Classifier, *, confusions: bool) -> ClassifierSums:
        """Return F, f of the classifier, or B, b where ``confusions`` is false."""
        need = self._need_of_hits
        if confusions:
            need = Need(cells=need.cells * self.n_classes, features=self.n_bases * self.n_classes)
        return self._summed(lambda block: block.classifier_sums(classifier, confusions=confusions), need)

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'."""
        n_features = self.n_bases * self.n_classes
        need = Need(cells=n_features * (n_features + self.n_classes), features=3 * n_features)
        return self._summed(lambda block: block.gram_sums(), need)

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier."""
        n_features = self.n_bases * self.n_classes
        need = Need(cells=(1 + n_features) * self.n_classes, features=3 * n_features)
        return self._summed(lambda block: block.influence_sums(classifier), need)

    def look(self, classifier: Classifier, *, influence: bool) -> FloatArray:
        """Return the sums of w (1, columns) 1(category=i) h_j as a tensor (1 + K, R, m)."""
        n_columns = self.n_bases * (self.n_classes if influence else 1)
        need = Need(cells=(1 + n_columns) * self._n_labels * self.n_classes, features=3 * n_columns)
        return self._summed(lambda block: block.look(classifier, influence=influence), need)

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""
        return self._summed(lambda block: block.pair_hits(ratios, reference=reference), self._need_of_hits)

    @cached_property
    def _need_of_hits(self) -> Need:
        """What the smallest passes need."""
        return Need(cells=(1 + self.n_bases) * self.n_bases * self.n_classes)

    @property
    def _n_labels(self) -> int:
        """Number of values that labels may have."""
        return self.n_classes if self._n_categories is None else self._n_categories

    def _summed(self, summed: Callable[[MemoryEngine], Summed], need: Need) -> Summed:
        """Return the sums over all blocks; the first pass checks them."""
        allowed = rows_within(self._limit, self._source, need, n_threads=self._n_threads)
        most_rows, contents = min(allowed, self._most_rows), Contents()

        def one(block: Block) -> Summed:  # a function, so that a block is gone before the next one is read
            contents.add(block)
            return summed(self._read(block))

        parts = map(one, self._source.blocks(most_rows))
        total = next(parts, None)
        if total is not None:
            total = reduce(add, parts, total)
        self._compare(contents, most_rows)
        if total is None:
            raise ShapeError("the source must have rows. Got none")
        return total

    def _compare(self, contents: Contents, most_rows: int) -> None:
        """Keep what the first pass has read; refuse a later one that has read something else."""
        if self._contents is not None:
            if contents != self._contents:
                self._check(most_rows)  # says which rows, where they cannot be used
            contents.check_same(self._contents)
            return
        contents.check_rows(self._source.n_rows)
        if not self._has_weight:
            raise WeightError("weights must have a sum that is positive. Got weights that are 0 in every row")
        self._contents = contents

    def _check(self, most_rows: int) -> None:
        """Look at all rows once more."""
        for block in self._source.blocks(most_rows):
            block.check(n_labels=self._n_labels)

    def _read(self, block: Block) -> MemoryEngine:
        """Return an engine over one block, checked if no pass has checked it before."""
        if self._contents is None:
            block.check(n_labels=self._n_labels)
            self._has_weight |= block.weights is None or bool(np.any(block.weights))
        return self._summing(block.sample())

    def _summing(self, rows: Rows) -> MemoryEngine:
        """Return the engine that sums rows that are in memory."""
        return MemoryEngine(
            rows,
            block_rows=max(-(-rows.n_rows // self._n_threads), 1),
            n_threads=self._n_threads,
            kernels=self._kernels,
            n_categories=self._n_categories,
            sort_rows=False,  # a block is summed once
        )


def _chosen(kernels: Kernels, source: Source) -> Kernels:
    """Return the kernels of every block; an engine over one block would judge by its few rows."""
    if kernels != "auto":
        return kernels
    return "numba" if source.n_rows * source.n_classes >= FEW_CELLS and find_spec("numba") else "numpy"


def _no_rows(source: Source) -> Rows:
    """Return a sample of the right shape without rows."""
    return Rows(eta=np.empty((0, source.n_classes)), bases={PHI: np.empty((0, source.n_bases))})
