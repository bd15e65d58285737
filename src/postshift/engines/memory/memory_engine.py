"""The in-memory engine: compiled loops or NumPy, block by block, on one thread or several.

For a plug-in classifier the kernels return one of four tables. Tables of parts of the rows add up to those of all rows:

===========  ============================  ===============================  ==================================
pass         hard clusters                 other bases                      entries
===========  ============================  ===============================  ==================================
hits         (L, m)                        (L, 1 + L, m)                    sum of w phi_l (1, phi) 1(y=i) h_i
confusions   (L, R, m)                     (L, 1 + L, R, m)                 sum of w phi_l (1, phi) 1(y=i) h_j
influence    (L, 1 + m, m)                 (L, 1 + m, m)                    sum of w phi_l (1, p) h_j p_j
look         (L, 1 + m, R, m)              (1 + L or 1 + L m, R, m)         sum of w columns 1(y=i) h_j
===========  ============================  ===============================  ==================================

In hard clusters, a look at the columns phi is the table of confusions. Any other classifier is summed by the functions
of ``core.sums``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial, reduce
from importlib.util import find_spec
from operator import add
from typing import Any, Literal, TypeVar

import numpy as np

from postshift._installing import install
from postshift._validation import FloatArray, check_count
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.rows import PHI, Rows
from postshift.core.sums import (
    Classifier,
    ClassifierSums,
    GramSums,
    LabelSums,
    PairHits,
    confusion_sums,
    gram_sums,
    hit_sums,
    influence_features,
    influence_sums,
    label_sums,
    pair_hits,
    weighted_confusions,
)
from postshift.engines.memory.kernel_rows import CodeArray, KernelRows, RuleWeights, check_shapes, row_slices
from postshift.engines.memory.numpy_kernels import NumpyKernels
from postshift.engines.memory.sorted_bins import SortedBins
from postshift.engines.memory.sorted_column import SortedColumn
from postshift.exceptions import LabelError, SettingError

Kernels = Literal["auto", "numpy", "numba"]
FEW_CELLS = 1_000_000  # rows times classes below which NumPy alone is used
FEW_SORTED = 100_000  # rows times classes below which a pass is so fast that sorting does not pay
Summed = TypeVar("Summed", LabelSums, ClassifierSums, GramSums, PairHits, FloatArray)


class MemoryEngine:
    """Sums over rows that fit in memory.

    Kernels sum a plug-in classifier without a table of its predictions, and a mixture member by member; any other
    classifier is summed by the functions of ``core.sums``. Two classes in hard clusters are sorted once: a pass is
    then a few binary searches, for any number of rows.

    Parameters
    ----------
    rows : Rows
        The training rows; the paper's method needs their labels, influence regression does not.
    block_rows : int
        Rows summed at a time; bounds the working memory, does not change the sums.
    n_threads : int
        Threads that share the blocks; does not change the sums.
    kernels : {"auto", "numpy", "numba"}
        Compiled loops or NumPy alone; "auto" takes numba where it is installed and there are a million cells or more:
        importing it takes longer than many small fits. Both give the same counts.
    n_categories : int, optional
        Number of categories R of the labels, where they are finer than the classes (groups by class, for example).
        :meth:`look` counts by category; sums that compare labels with classes then raise an error.
    sort_rows : bool
        Whether rows in hard clusters are sorted once, so that a pass reads only the rows that its rule might give to
        another class than the model does. It takes memory for a second copy of eta, pays after a few passes, and does
        not change the counts.

    Examples
    --------
    >>> engine = MemoryEngine(Rows.of([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], labels=[0, 1, 1]))
    >>> engine.label_sums().single
    array([[1., 2.]])
    """

    def __init__(
        self,
        rows: Rows,
        *,
        block_rows: int = 1 << 16,
        n_threads: int = 1,
        kernels: Kernels = "auto",
        n_categories: int | None = None,
        sort_rows: bool = True,
    ) -> None:
        if rows.is_sparse:
            raise SettingError(
                "an engine needs dense rows: with sparse eta, use PostShifter with a rule that reads counts, or give "
                "eta.toarray()"
            )
        self._given, self._sort_rows = rows, sort_rows
        self._block_rows = check_count(block_rows, name="block_rows", low=1)
        self._n_threads = check_count(n_threads, name="n_threads", low=1)
        self._kernel_name: Kernels = "numpy" if kernels == "auto" and rows.eta.size < FEW_CELLS else kernels
        if self._kernel_name != "auto":
            kernel_class(self._kernel_name)  # raises here, not in the first pass
        n_categories = rows.n_classes if n_categories is None else n_categories
        self._rows = KernelRows.of(rows, n_categories=check_count(n_categories, name="n_categories", low=1))
        self._last: tuple[bytes, FloatArray] = b"", np.empty(0)

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return self._rows.n_classes

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return self._rows.n_bases

    def label_sums(self) -> LabelSums:
        """Return A, a and the totals."""
        self._check_labels(of_classes=True)
        clusters = self._rows.clusters
        return self._by_block(label_sums) if clusters is None else _cluster_labels(self._rows, clusters)

    def classifier_sums(self, classifier: Classifier, *, confusions: bool) -> ClassifierSums:
        """Return F, f of the classifier, or B, b if ``confusions`` is false."""
        self._check_labels(of_classes=True)
        table = self._table(classifier, "confusions" if confusions else "hits")
        if table is None:
            return self._by_block(_of(classifier, confusion_sums if confusions else hit_sums))
        if self._rows.clusters is not None:
            return _on_the_diagonal(np.ascontiguousarray(table))
        return _row_by_row(table[:, 1:], table[:, 0])

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'."""
        clusters = self._rows.clusters
        if clusters is None:
            return self._by_block(gram_sums)
        parts = row_slices(0, self._rows.n_rows, self._block_rows)
        return reduce(add, self._each(partial(_cluster_gram, self._rows, clusters), parts))

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier."""
        table = self._table(classifier, "influence")
        if table is None:
            return self._by_block(_of(classifier, influence_sums))
        return _row_by_row(table[:, 1:].reshape(-1, self.n_classes), table[:, 0])

    def look(self, classifier: Classifier, *, influence: bool) -> FloatArray:
        """Return the sums of w (1, columns) 1(category=i) h_j as a tensor (1 + K, R, m).

        The columns are phi (K = L) or, with ``influence``, z = phi (x) p (K = L m). From these sums, a metric of
        confusion matrices computes the score of a classifier and of every probe around it.
        """
        self._check_labels(of_classes=False)
        hard = self._rows.clusters is not None
        if hard and not influence:
            table = self._table(classifier, "confusions")
        else:
            table = self._table(classifier, "look", influence=influence)
        if table is None:
            tensor = partial(_look, n_categories=self._rows.n_categories, influence=influence)
            return self._by_block(_of(classifier, tensor))
        if not hard:
            return np.ascontiguousarray(table)
        ones, columns = (table[:, 0], table[:, 1:]) if influence else (table, table)
        return np.concatenate([ones.sum(axis=0)[None], columns.reshape(-1, *table.shape[-2:])])

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""
        self._check_labels(of_classes=True)
        return self._by_block(partial(pair_hits, ratios=ratios, reference=reference))

    @cached_property
    def _kernels(self) -> Any:
        """The kernels, with the rows as they prepare them."""
        return kernel_class(self._kernel_name)(self._rows, block_rows=self._block_rows)

    @cached_property
    def _sorted(self) -> SortedColumn | SortedBins | None:
        """The rows, sorted once so that a pass over hard clusters reads few of them; None if that is not faster."""
        rows = self._rows
        if rows.clusters is None or not self._sort_rows:
            return None
        if rows.n_classes == 2:
            return SortedColumn(rows, rows.clusters)
        if rows.eta.size < FEW_SORTED:
            return None
        compiled = kernel_class(self._kernel_name) is not NumpyKernels
        return SortedBins(rows, rows.clusters, compiled=compiled, each=self._each)

    def _table(
        self, classifier: Classifier, name: Literal["hits", "confusions", "influence", "look"], **options: bool
    ) -> FloatArray | None:
        """Return a table of a plug-in or of a mixture of plug-ins; None for a classifier that the kernels do not know.

        A table is linear in the classifier: that of a mixture is the mixture of those of its members.
        """
        if not isinstance(classifier, PlugIn | Mixture):
            return None
        check_shapes(classifier, self._rows.eta, self._rows.phi)
        mixture = classifier if isinstance(classifier, Mixture) else Mixture(members=(classifier,), shares=np.ones(1))
        total = None
        for member, share in zip(mixture.members, mixture.shares, strict=True):
            rule = RuleWeights.of(member)
            if rule is None:
                return None
            table = self._sorted_table(rule, name) if name in ("hits", "confusions") else None
            if table is None:
                one_part = partial(getattr(self._kernels, name), rule=rule, **options)
                table = reduce(add, self._each(one_part, self._kernels.parts))
            total = share * table if total is None else total + share * table
        return total

    def _sorted_table(self, rule: RuleWeights, name: str) -> FloatArray | None:
        """Return hits or confusions from the sorted rows; None if they cannot be used.

        The last confusions are kept: a run whose training rows are also its validation rows asks for them twice.
        """
        if rule.full or self._sorted is None:
            return None
        if self._last[0] != rule.key:
            self._last = rule.key, self._sorted.confusions(rule)
        table = self._last[1]
        return table if name == "confusions" else np.diagonal(table, axis1=1, axis2=2)

    def _by_block(self, summed: Callable[[Rows], Summed]) -> Summed:
        """Return sums by the functions of ``core.sums``, block by block, in double precision."""
        return reduce(add, self._each(lambda block: summed(_doubled(block)), self._given.blocks(self._block_rows)))

    def _each(self, function: Callable[[Any], Summed], parts: Iterable[Any]) -> Iterable[Summed]:
        """Return the function of every part, in order, computed on ``n_threads`` threads."""
        if self._n_threads == 1:
            return map(function, parts)
        with ThreadPoolExecutor(self._n_threads) as pool:
            return list(pool.map(function, parts))

    def _check_labels(self, *, of_classes: bool) -> None:
        """Raise if sums over labels are not possible: no labels, or labels that are not classes."""
        if self._given.labels is None:
            raise LabelError("these rows have no labels; sums over training rows need them: pass labels=...")
        n_categories = self._rows.n_categories
        if of_classes and n_categories != self.n_classes:
            raise SettingError(
                f"this engine counts {n_categories} categories, not the {self.n_classes} classes: only look() can be "
                "used; for other sums over labels make an engine without n_categories"
            )


def kernel_class(kernels: Kernels) -> type[Any]:
    """Return the kernels of a name; numba is only imported here."""
    check_kernels(kernels)
    if kernels == "numpy":
        return NumpyKernels
    try:
        from postshift.engines.memory.numba_kernels import NumbaKernels
    except ImportError as error:
        if kernels == "auto":
            return NumpyKernels
        raise SettingError(f"kernels='numba' needs numba: {install('fast')}") from error
    return NumbaKernels


def check_kernels(kernels: Kernels) -> Kernels:
    """Raise if the name of the kernels is unknown."""
    if kernels not in ("auto", "numpy", "numba"):
        raise SettingError(f"kernels must be 'auto', 'numpy' or 'numba'. Got {kernels!r} instead")
    return kernels


def kernels_of_parts(kernels: Kernels, *, n_cells: int) -> Kernels:
    """Return the kernels for partitions with ``n_cells`` cells in total; one partition may be too small to decide."""
    if kernels != "auto":
        return kernels
    return "numba" if n_cells >= FEW_CELLS and find_spec("numba") else "numpy"


def _of(classifier: Classifier, summed: Callable[[Rows, FloatArray], Summed]) -> Callable[[Rows], Summed]:
    """Return the sums of a classifier as a function of a block."""
    return lambda block: summed(block, classifier.distribution(block.eta, block.phi))


def _look(block: Rows, distribution: FloatArray, *, n_categories: int, influence: bool) -> FloatArray:
    """Return the tensor of a look at one block."""
    features = influence_features(block.eta, block.phi) if influence else block.phi
    columns = np.column_stack([np.ones(len(block.eta)), features]) * block.row_weights[:, None]
    return weighted_confusions(columns, np.asarray(block.labels), distribution, n_categories=n_categories)


def _doubled(block: Rows) -> Rows:
    """Return a block in double precision."""
    eta, phi = (table.astype(np.float64, copy=False) for table in (block.eta, block.phi))
    return replace(block, eta=eta, bases={PHI: phi})


def _cluster_labels(rows: KernelRows, clusters: CodeArray) -> LabelSums:
    """Return A, a and the totals of hard clusters: the weight of each (cluster, label)."""
    cells = clusters * np.uint32(rows.n_categories) + rows.labels
    counted = np.bincount(cells, weights=rows.weights, minlength=rows.n_bases * rows.n_categories)
    sums = _on_the_diagonal(counted.astype(np.float64).reshape(rows.n_bases, rows.n_categories))
    classes = sums.single.sum(axis=0)
    return LabelSums(pair=sums.pair, single=sums.single, classes=classes, total=float(classes.sum()), count=rows.n_rows)


def _cluster_gram(rows: KernelRows, clusters: CodeArray, part: slice) -> GramSums:
    """Return the sums of z z' and z p' of some rows in hard clusters: those of p p' in each cluster."""
    n_bases, n_classes = rows.n_bases, rows.n_classes
    gram, cross = np.zeros((n_bases, n_classes, n_bases, n_classes)), np.zeros((n_bases, n_classes, n_classes))
    eta, codes = rows.eta[part], clusters[part]
    weights: FloatArray = np.ones(len(eta)) if rows.weights is None else rows.weights[part]
    for cluster in range(n_bases):
        inside = np.flatnonzero(codes == cluster)
        some = eta[inside].astype(np.float64, copy=False)
        cross[cluster] = (some * weights[inside, None]).T @ some
        gram[cluster, :, cluster] = cross[cluster]
    size = n_bases * n_classes
    return GramSums(gram=gram.reshape(size, size), cross=cross.reshape(size, n_classes), total=float(weights.sum()))


def _on_the_diagonal(single: FloatArray) -> ClassifierSums:
    """Return the sums of hard clusters: two clusters share no row, and each shares all its rows with itself."""
    n_bases = len(single)
    pair = np.zeros((n_bases, *single.shape))
    pair[np.arange(n_bases), np.arange(n_bases)] = single
    return ClassifierSums(pair=pair, single=single)


def _row_by_row(pair: FloatArray, single: FloatArray) -> ClassifierSums:
    """Return sums in one order in memory for all kernels: a run that is saved and resumed has the same bytes."""
    return ClassifierSums(pair=np.ascontiguousarray(pair), single=np.ascontiguousarray(single))
