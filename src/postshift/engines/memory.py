"""The in-memory engine: compiled loops or NumPy, block by block, on one thread or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial, reduce
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
from postshift.engines.once import cluster_gram, cluster_labels
from postshift.engines.passes import Passes, classifier_table, influence_table, look_table
from postshift.engines.plain import PlainPasses
from postshift.engines.rows import KernelRows, RuleWeights, row_slices
from postshift.engines.settled import SettledBins
from postshift.engines.two_classes import SortedColumn
from postshift.exceptions import LabelError, SettingError

Kernels = Literal["auto", "numpy", "numba"]
FEW_CELLS = 1_000_000  # rows times classes below which NumPy alone is used
FEW_SORTED = 100_000  # rows times classes below which a pass is cheap and sorting does not pay
Summed = TypeVar("Summed", LabelSums, ClassifierSums, GramSums, PairHits, FloatArray)


class MemoryEngine:
    """Sums over a sample that fits in memory.

    A plug-in classifier is summed by kernels that never make a table of its predictions, a mixture member by member;
    any other classifier goes the plain way of ``core.sums``. Two classes in hard clusters are sorted once: a pass
    is then a few binary searches, however many rows there are.

    Parameters
    ----------
    sample : Rows
        The training rows; the paper's method needs their labels, influence regression does not.
    block_rows : int
        Rows summed at a time; bounds the working memory, does not change the sums.
    n_threads : int
        Threads that share the blocks; does not change the sums.
    kernels : {"auto", "numpy", "numba"}
        Compiled loops or NumPy alone; "auto" takes numba where it is installed, for samples of a million cells or
        more: importing it takes longer than many small fits. Both give the same counts.
    n_categories : int, optional
        Number of categories R that the labels run over, where they are finer than the classes (groups by class, say).
        :meth:`look` counts by category; sums that compare labels with classes are then refused.
    sort_rows : bool
        Whether rows in hard clusters are sorted once, so that a pass reads only those that its rule might decide
        otherwise than the model. It takes memory for a second copy of eta, pays after a few passes, and does not change
        the counts.

    Examples
    --------
    >>> engine = MemoryEngine(Rows.of([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], labels=[0, 1, 1]))
    >>> engine.label_sums().single
    array([[1., 2.]])
    """

    def __init__(
        self,
        sample: Rows,
        *,
        block_rows: int = 1 << 16,
        n_threads: int = 1,
        kernels: Kernels = "auto",
        n_categories: int | None = None,
        sort_rows: bool = True,
    ) -> None:
        self._sample, self._sort_rows = sample, sort_rows
        self._block_rows = check_count(block_rows, name="block_rows", low=1)
        self._n_threads = check_count(n_threads, name="n_threads", low=1)
        small = sample.eta.size < FEW_CELLS
        self._kernels: Kernels = "numpy" if kernels == "auto" and small else kernels
        if self._kernels != "auto":
            _passes_named(self._kernels)  # refused here, not in the first pass
        n_categories = sample.n_classes if n_categories is None else n_categories
        self._n_categories = check_count(n_categories, name="n_categories", low=1)
        self._last: tuple[bytes, FloatArray | None] | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return self._sample.n_classes

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return self._sample.n_bases

    def label_sums(self) -> LabelSums:
        """Return A, a and the totals."""
        self._check_labels(of_classes=True)
        clusters = self._rows.clusters
        return self._by_block(label_sums) if clusters is None else cluster_labels(self._rows, clusters)

    def classifier_sums(self, classifier: Classifier, *, confusions: bool) -> ClassifierSums:
        """Return F, f of the classifier, or B, b where ``confusions`` is false."""
        self._check_labels(of_classes=True)
        table = self._table(classifier, self._confusions if confusions else self._hits)
        if table is None:
            return self._by_block(_of(classifier, confusion_sums if confusions else hit_sums))
        return classifier_table(self._rows, table)

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'."""
        clusters = self._rows.clusters
        if clusters is None:
            return self._by_block(gram_sums)
        parts = row_slices(0, self._sample.n_rows, self._block_rows)
        return reduce(add, self._each(partial(cluster_gram, self._rows, clusters), parts))

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier."""
        table = self._table(classifier, lambda rule: self._passed(self._passes.influence, rule))
        return self._by_block(_of(classifier, influence_sums)) if table is None else influence_table(table)

    def look(self, classifier: Classifier, *, influence: bool) -> FloatArray:
        """Return the sums of w (1, columns) 1(category=i) h_j as a tensor (1 + K, R, m).

        The columns are phi (K = L) or, with ``influence``, z = phi (x) p (K = L m): all that a metric of confusion
        matrices needs of its rows to tell the value of a classifier and of every probe around it.
        """
        self._check_labels(of_classes=False)
        table = self._table(classifier, partial(self._looked, influence=influence))
        if table is None:
            seen = partial(_look, n_categories=self._n_categories, influence=influence)
            return self._by_block(_of(classifier, seen))
        return look_table(self._rows, table, influence=influence)

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""
        self._check_labels(of_classes=True)
        return self._by_block(partial(pair_hits, ratios=ratios, reference=reference))

    @cached_property
    def _rows(self) -> KernelRows:
        """The rows as the kernels want them."""
        return KernelRows.of(self._sample, n_categories=self._n_categories)

    @cached_property
    def _passes(self) -> Passes:
        """The kernels, with what they prepare of the rows."""
        return _passes_named(self._kernels)(self._rows, block_rows=self._block_rows)

    @cached_property
    def _sorted(self) -> SortedColumn | SettledBins | None:
        """The rows sorted once so that a pass over hard clusters reads few of them; None where that does not pay."""
        rows = self._rows
        if rows.clusters is None or not self._sort_rows:
            return None
        if rows.n_classes == 2:
            return SortedColumn(rows, rows.clusters)
        if rows.eta.size < FEW_SORTED:
            return None
        return SettledBins(rows, rows.clusters, compiled=_is_compiled(self._kernels), each=self._each)

    def _hits(self, rule: RuleWeights) -> FloatArray:
        """Return the table of hits of a rule."""
        found = self._cells(rule)
        return self._passed(self._passes.hits, rule) if found is None else np.diagonal(found, axis1=1, axis2=2)

    def _confusions(self, rule: RuleWeights) -> FloatArray:
        """Return the table of confusions of a rule."""
        found = self._cells(rule)
        return self._passed(self._passes.confusions, rule) if found is None else found

    def _cells(self, rule: RuleWeights) -> FloatArray | None:
        """Return the table of confusions in hard clusters by sorted rows; None where they are of no use.

        The last table is kept: a run whose rows are training and validation rows in one asks for it twice.
        """
        if self._sorted is None:
            return None
        if self._last is None or self._last[0] != rule.key:
            self._last = rule.key, self._sorted.cells(rule)
        return self._last[1]

    def _looked(self, rule: RuleWeights, *, influence: bool) -> FloatArray:
        """Return the table of a look at a rule."""
        if not influence and self._rows.clusters is not None:
            return self._confusions(rule)[:, None]
        return self._passed(partial(self._passes.look, influence=influence), rule)

    def _table(self, classifier: Classifier, summed: Callable[[RuleWeights], FloatArray]) -> FloatArray | None:
        """Return a table of a plug-in or of a mixture of them, which is linear in it; None for any other classifier."""
        members: tuple[Classifier, ...] = (classifier,)
        shares = np.ones(1)
        if isinstance(classifier, Mixture):
            members, shares = classifier.members, classifier.shares
        table = None
        for member, share in zip(members, shares, strict=True):
            rule = self._rule(member)
            if rule is None:
                return None
            found = share * summed(rule)
            table = found if table is None else table + found
        return table

    def _rule(self, classifier: Classifier) -> RuleWeights | None:
        """Return the weights of a plug-in that fits the rows; None for any other classifier."""
        if not isinstance(classifier, PlugIn):
            return None
        classifier.scores(self._sample.eta[:1], self._sample.phi[:1])  # refuses other shapes, and says so
        return RuleWeights.of(classifier)

    def _passed(self, over: Callable[[Any, RuleWeights], FloatArray], rule: RuleWeights) -> FloatArray:
        """Return the table of a pass over all parts."""
        return reduce(add, self._each(lambda part: over(part, rule), self._passes.parts))

    def _by_block(self, summed: Callable[[Rows], Summed]) -> Summed:
        """Return plain sums, block by block."""
        blocks = self._sample.blocks(self._block_rows)
        return reduce(add, self._each(lambda block: summed(_doubled(block)), blocks))

    def _each(self, function: Callable[[Any], Summed], parts: Iterable[Any]) -> Iterable[Summed]:
        """Yield the function of every part, in order, on as many threads as wanted."""
        if self._n_threads == 1:
            return map(function, parts)
        with ThreadPoolExecutor(self._n_threads) as pool:
            return list(pool.map(function, parts))

    def _check_labels(self, *, of_classes: bool) -> None:
        """Refuse sums over labels where there are none, or where they are not those of the classes."""
        if self._sample.labels is None:
            raise LabelError("this sample has no labels; the sums of the training side need them: pass labels=...")
        n_categories = self._rows.n_categories  # whoever prepares the rows has looked at the range of the labels
        if of_classes and n_categories != self.n_classes:
            raise SettingError(
                f"this engine counts {n_categories} categories, not the {self.n_classes} classes: it can be "
                "looked at; for other sums over labels make one without n_categories"
            )


def _is_compiled(kernels: Kernels) -> bool:
    """Return whether numba is to be used."""
    return _passes_named(kernels) is not PlainPasses


def _passes_named(kernels: Kernels) -> Callable[..., Passes]:
    """Return the kernels asked for; numba is imported here and not before."""
    if kernels not in ("auto", "numpy", "numba"):
        raise SettingError(f"kernels must be 'auto', 'numpy' or 'numba'. Got {kernels!r} instead")
    if kernels == "numpy":
        return PlainPasses
    try:
        from postshift.engines.fused import fused_passes
    except ImportError as error:
        if kernels == "auto":
            return PlainPasses
        raise SettingError(f"kernels='numba' needs numba: {install('fast')}") from error
    return fused_passes


def _of(classifier: Classifier, summed: Callable[[Rows, FloatArray], Summed]) -> Callable[[Rows], Summed]:
    """Return the sums of a classifier as a function of a block."""
    return lambda block: summed(block, classifier.distribution(block.eta, block.phi))


def _look(block: Rows, distribution: FloatArray, *, n_categories: int, influence: bool) -> FloatArray:
    """Return the tensor of a look at one block."""
    features = influence_features(block.eta, block.phi) if influence else block.phi
    columns = np.column_stack([np.ones(block.n_rows), features]) * block.row_weights[:, None]
    labels = np.zeros(block.n_rows, np.intp) if block.labels is None else block.labels
    return weighted_confusions(columns, labels, distribution, n_categories=n_categories)


def _doubled(block: Rows) -> Rows:
    """Return a block in double precision, as the plain sums want it."""
    return replace(
        block, eta=block.eta.astype(np.float64, copy=False), bases={PHI: block.phi.astype(np.float64, copy=False)}
    )
