"""The protocol by which the training side enters the core: a classifier in, small sums out."""

from __future__ import annotations

from typing import Protocol

from postshift._validation import FloatArray
from postshift.core.moments import ClassifierSums, GramSums, LabelSums, PairHits


class Classifier(Protocol):
    """Anything that turns basis functions and probabilities into class distributions."""

    def distribution(self, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return a class distribution (n, m) for every row."""


class Engine(Protocol):
    """An engine: it holds the training rows wherever they are and gives back sums over them.

    Every method is one stateless pass; the sums do not depend on how the rows are cut into blocks.
    The conformance suite in ``tests/contracts`` is the definition of correct.
    """

    @property
    def n_classes(self) -> int:
        """Number of classes m."""

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""

    def label_sums(self) -> LabelSums:
        """Return A, a and the totals."""

    def classifier_sums(self, classifier: Classifier, *, confusions: bool) -> ClassifierSums:
        """Return F, f of the classifier, or B, b where ``confusions`` is false."""

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'; labels are not needed."""

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier; labels are not needed."""

    def look(self, classifier: Classifier, *, influence: bool) -> FloatArray:
        """Return sums of w (1, columns) 1(y=i) h_j, (1 + K, R, m), the columns phi or, with ``influence``, phi (x) p.

        The labels y may be categories finer than the classes, R of them, if the engine was made so.
        """

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""
