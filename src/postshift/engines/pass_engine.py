"""Engines over parts of the rows: each method of the protocol is one pass, whose sums over the parts are added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from postshift._validation import FloatArray
from postshift.core.sums import Classifier, ClassifierSums, GramSums, LabelSums, PairHits


class PassEngine(ABC):
    """An engine over parts of the rows; a part is summed by the method of :class:`MemoryEngine` of the same name.

    A subclass also has ``n_classes`` and ``n_bases``.
    """

    @abstractmethod
    def _summed(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the sums of one pass over all parts."""

    def label_sums(self) -> LabelSums:
        """Return A, a and the totals."""
        found: LabelSums = self._summed("label_sums")
        return found

    def classifier_sums(self, classifier: Classifier, *, confusions: bool) -> ClassifierSums:
        """Return F, f of the classifier, or B, b where ``confusions`` is false."""
        found: ClassifierSums = self._summed("classifier_sums", classifier, confusions=confusions)
        return found

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'."""
        found: GramSums = self._summed("gram_sums")
        return found

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier."""
        found: ClassifierSums = self._summed("influence_sums", classifier)
        return found

    def look(self, classifier: Classifier, *, influence: bool) -> FloatArray:
        """Return the sums of w (1, columns) 1(category=i) h_j as a tensor (1 + K, R, m)."""
        found: FloatArray = self._summed("look", classifier, influence=influence)
        return found

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""
        found: PairHits = self._summed("pair_hits", ratios, reference=reference)
        return found
