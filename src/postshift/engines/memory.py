"""The in-memory engine: NumPy, block by block."""

from __future__ import annotations

from functools import reduce
from operator import add

from postshift._validation import FloatArray, check_count
from postshift.core.moments import (
    ClassifierSums,
    GramSums,
    LabelSums,
    PairHits,
    confusion_sums,
    gram_sums,
    hit_sums,
    influence_sums,
    label_sums,
    pair_hits,
)
from postshift.core.sample import Sample
from postshift.core.statistics import Classifier


class MemoryEngine:
    """Sums over a sample that fits in memory.

    Parameters
    ----------
    sample : Sample
        The training rows; the paper's method needs their labels, influence regression does not.
    block_rows : int
        Rows summed at a time; bounds the working memory, does not change the sums.

    Examples
    --------
    >>> engine = MemoryEngine(Sample.of([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], labels=[0, 1, 1]))
    >>> engine.label_sums().single
    array([[1., 2.]])
    """

    def __init__(self, sample: Sample, *, block_rows: int = 1 << 16) -> None:
        self._sample = sample
        self._block_rows = check_count(block_rows, name="block_rows", low=1)

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
        return reduce(add, (label_sums(block) for block in self._sample.blocks(self._block_rows)))

    def classifier_sums(self, classifier: Classifier, *, confusions: bool) -> ClassifierSums:
        """Return F, f of the classifier, or B, b where ``confusions`` is false."""
        summed = confusion_sums if confusions else hit_sums
        blocks = self._sample.blocks(self._block_rows)
        return reduce(add, (summed(block, classifier.distribution(block.eta, block.phi)) for block in blocks))

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'."""
        return reduce(add, (gram_sums(block) for block in self._sample.blocks(self._block_rows)))

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier."""
        blocks = self._sample.blocks(self._block_rows)
        return reduce(add, (influence_sums(block, classifier.distribution(block.eta, block.phi)) for block in blocks))

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""
        blocks = self._sample.blocks(self._block_rows)
        return reduce(add, (pair_hits(block, ratios, reference=reference) for block in blocks))
