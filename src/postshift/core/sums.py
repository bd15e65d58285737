"""Sums over the training rows, and the protocol of the engines that compute them.

The core reads training rows only as sums. Sums of blocks of rows add up to the sums of all rows.

Notation, for a classifier h with distribution h(x) over the m classes:

===========  ==================  =====================================================
symbol       shape               meaning
===========  ==================  =====================================================
pair mass    A (L, L, m)         sum of w phi_l phi_k 1(y=i)
mass         a (L, m)            sum of w phi_k 1(y=i)
classes      (m,)                sum of w 1(y=i)
pair hits    B (L, L, m)         sum of w phi_l phi_k 1(y=i) h_i(x)
hits         b (L, m)            sum of w phi_k 1(y=i) h_i(x); b/n is Phi of Eq. (8)
pair conf.   F (L, L, m, m)      sum of w phi_l phi_k 1(y=i) h_j(x); B is its diagonal
confusions   f (L, m, m)         sum of w phi_k 1(y=i) h_j(x); f/n is Phi of Appendix A
===========  ==================  =====================================================

Influence regression has p in place of the labels and z = phi (x) p, P = L m features, in place of phi:

===========  ==================  =====================================================
gram         (P, P)              sum of w z_q z_r
cross        (P, m)              sum of w z_q p_i
pair hits    (P, m)              sum of w z_q h_i p_i
===========  ==================  =====================================================

B, b, F, f and the pair hits are linear in h: the sums of a mixture are the mixture of the sums, so a Frank-Wolfe
step needs only the sums of the new vertex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from postshift._validation import FloatArray, IntArray, check_labels
from postshift.core.rows import Rows
from postshift.exceptions import LabelError, SettingError


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSums:
    """Sums that do not depend on a classifier: A, a, the weight of each class and of all rows, and their number."""

    pair: FloatArray
    single: FloatArray
    classes: FloatArray
    total: float
    count: int

    def __add__(self, other: LabelSums) -> LabelSums:
        """Return the sums of the rows of both."""
        return LabelSums(
            pair=self.pair + other.pair,
            single=self.single + other.single,
            classes=self.classes + other.classes,
            total=self.total + other.total,
            count=self.count + other.count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierSums:
    """The sums of one classifier: (B, b) with last axis (m,), or (F, f) with last axes (m, m)."""

    pair: FloatArray
    single: FloatArray

    def __add__(self, other: ClassifierSums) -> ClassifierSums:
        """Return the sums of the rows of both."""
        return ClassifierSums(pair=self.pair + other.pair, single=self.single + other.single)

    def mixed(self, other: ClassifierSums, step: float) -> ClassifierSums:
        """Return the sums of the classifier ``(1 - step) self + step other``."""
        return ClassifierSums(
            pair=(1 - step) * self.pair + step * other.pair,
            single=(1 - step) * self.single + step * other.single,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GramSums:
    """Sums that influence regression needs once: z z' (P, P) and z p' (P, m)."""

    gram: FloatArray
    cross: FloatArray
    total: float

    def __add__(self, other: GramSums) -> GramSums:
        """Return the sums of the rows of both."""
        return GramSums(gram=self.gram + other.gram, cross=self.cross + other.cross, total=self.total + other.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairHits:
    """Hits of the two-class classifiers of a pairwise line search, (L, m) each, against a reference class."""

    own: FloatArray
    reference: FloatArray

    def __add__(self, other: PairHits) -> PairHits:
        """Return the sums of the rows of both."""
        return PairHits(own=self.own + other.own, reference=self.reference + other.reference)


class Classifier(Protocol):
    """Anything that turns basis functions and probabilities into class distributions."""

    def distribution(self, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return a class distribution (n, m) for every row."""


class Engine(Protocol):
    """An engine: it holds the training rows, wherever they are, and returns sums over them.

    Every method is one stateless pass; the sums do not depend on how the rows are cut into blocks.
    The conformance suite in ``tests/contracts`` defines what is correct.
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
        """Return F, f of the classifier, or B, b if ``confusions`` is false."""

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'; labels are not needed."""

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier; labels are not needed."""

    def look(self, classifier: Classifier, *, influence: bool) -> FloatArray:
        """Return sums of w (1, columns) 1(y=i) h_j, (1 + K, R, m), the columns phi or, with ``influence``, phi (x) p.

        The labels y may be R categories, finer than the classes, if the engine was made for them.
        """

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""


_IN_MEMORY: list[Callable[[Rows], Engine]] = []


def use_for_rows(make: Callable[[Rows], Engine]) -> None:
    """Set the function that makes engines of rows in memory; ``postshift.engines`` calls it when imported."""
    _IN_MEMORY[:] = [make]


def engine_of(train: Rows | Engine) -> Engine:
    """Return the engine of training rows: a new one for rows in memory; an engine is returned as it is."""
    if not isinstance(train, Rows):
        return train
    if not _IN_MEMORY:
        raise SettingError("no engine for rows in memory is loaded: import postshift, or give an engine")
    return _IN_MEMORY[0](train)


def label_sums(block: Rows) -> LabelSums:
    """Return A, a and the totals of one block."""
    shape = (block.n_bases, block.n_classes)
    pair, single = np.zeros((block.n_bases, *shape)), np.zeros(shape)
    classes = np.zeros(block.n_classes)
    for label, rows in _by_label(block):
        phi, weights = block.phi[rows], block.row_weights[rows]
        classes[label] = weights.sum()
        pair[:, :, label] = (phi * weights[:, None]).T @ phi
        single[:, label] = weights @ phi
    return LabelSums(pair=pair, single=single, classes=classes, total=float(classes.sum()), count=block.n_rows)


def hit_sums(block: Rows, distribution: FloatArray) -> ClassifierSums:
    """Return B and b of a classifier that gives ``distribution`` (n, m) on this block."""
    hit = block.row_weights * np.take_along_axis(distribution, _labels(block)[:, None], axis=1)[:, 0]
    shape = (block.n_bases, block.n_classes)
    pair, single = np.zeros((block.n_bases, *shape)), np.zeros(shape)
    for label, rows in _by_label(block):
        phi = block.phi[rows]
        pair[:, :, label] = (phi * hit[rows, None]).T @ phi
        single[:, label] = hit[rows] @ phi
    return ClassifierSums(pair=pair, single=single)


def confusion_sums(block: Rows, distribution: FloatArray) -> ClassifierSums:
    """Return F and f of a classifier that gives ``distribution`` (n, m) on this block."""
    n_bases, n_classes = block.n_bases, block.n_classes
    pair = np.zeros((n_bases, n_bases, n_classes, n_classes))
    single = np.zeros((n_bases, n_classes, n_classes))
    weighted = block.row_weights[:, None] * distribution
    for label, rows in _by_label(block):
        phi, mass = block.phi[rows], weighted[rows]
        for basis in range(n_bases):
            pair[basis, :, label] = (phi * phi[:, basis, None]).T @ mass
        single[:, label] = phi.T @ mass
    return ClassifierSums(pair=pair, single=single)


def influence_features(eta: FloatArray, phi: FloatArray) -> FloatArray:
    """Return z = phi (x) p of influence regression: column (l, i) is phi_l p_i."""
    n_rows = len(eta)
    return (phi[:, :, None] * eta[:, None, :]).reshape(n_rows, -1)


def gram_sums(block: Rows) -> GramSums:
    """Return the sums of z z' and z p' of one block, p its probabilities; labels are not needed."""
    features = influence_features(block.eta, block.phi)
    weighted = features * block.row_weights[:, None]
    return GramSums(gram=weighted.T @ features, cross=weighted.T @ block.eta, total=float(block.row_weights.sum()))


def influence_sums(block: Rows, distribution: FloatArray) -> ClassifierSums:
    """Return the sums of z (h p)' and phi (h p)' of one block: B and b with p in place of the labels."""
    hits = block.row_weights[:, None] * distribution * block.eta
    features = influence_features(block.eta, block.phi)
    return ClassifierSums(pair=features.T @ hits, single=block.phi.T @ hits)


def weighted_confusions(
    columns: FloatArray, categories: IntArray, distribution: FloatArray, *, n_categories: int
) -> FloatArray:
    """Return sum_n columns[n, k] 1(categories[n]=i) distribution[n, j] as an array (k, i, j)."""
    table = np.zeros((columns.shape[1], n_categories, distribution.shape[1]))
    for category in np.unique(categories):
        rows = categories == category
        table[:, category] = columns[rows].T @ distribution[rows]
    return table


def label_confusions(
    weights: FloatArray, categories: IntArray, labels: IntArray, *, n_categories: int, n_classes: int
) -> FloatArray:
    """Return sum_n weights[b, n] 1(categories[n]=i) 1(labels[n]=j) as an array (b, i, j)."""
    places = categories * n_classes + labels
    rows = np.arange(len(places))
    onto = sparse.csr_array((np.ones(len(rows)), (places, rows)), shape=(n_categories * n_classes, len(rows)))
    return np.asarray((onto @ weights.T).T.reshape(-1, n_categories, n_classes))


def occurring_counts(
    weights: FloatArray, truth: IntArray, labels: IntArray
) -> tuple[IntArray, tuple[FloatArray, FloatArray, FloatArray]]:
    """Return the k classes that occur, and their hits, row sums and column sums (b, k) for weights (b, n)."""
    classes, places = np.unique(np.concatenate([truth, labels]), return_inverse=True)
    true, predicted = np.split(places, 2)
    every, hit = np.arange(len(truth)), np.flatnonzero(truth == labels)

    def summed(by: IntArray, rows: IntArray) -> FloatArray:
        onto = sparse.csr_array((np.ones(len(rows)), (by[rows], rows)), shape=(len(classes), len(by)))
        return np.asarray((onto @ weights.T).T)

    return classes, (summed(true, hit), summed(true, every), summed(predicted, every))


def categories_of(labels: IntArray, groups: Any, *, n_classes: int, n_categories: int) -> IntArray:
    """Return the row of the confusion matrix that each validation row belongs to: its class, or its (group, class)."""
    if groups is None:
        return labels
    found = check_labels(groups, n_rows=len(labels), n_classes=n_categories // n_classes, name="groups")
    return found * n_classes + labels


def missing_categories(categories: IntArray, weights: FloatArray, *, n_classes: int, n_categories: int) -> str:
    """Return a text that names the classes, or (group, class) pairs, without rows; empty if all have rows."""
    counts = np.bincount(categories, weights=weights, minlength=n_categories)
    missing = np.flatnonzero(counts == 0).tolist()
    if not missing:
        return ""
    kind = "class" if n_categories == n_classes else "(group, class) pair"
    return f"no validation row of {kind} {missing if len(missing) > 1 else missing[0]} among {len(categories)}"


def pair_hits(block: Rows, ratios: FloatArray, *, reference: int) -> PairHits:
    """Return the hits of the classifiers "i where ratio_li eta_i <= eta_reference, else reference".

    For every basis function l and class i there is one such classifier (the h^zeta of the appendix on
    Eq. (11), ``ratio = zeta / (1 - zeta)``); ``own`` counts its hits on rows of class i, ``reference``
    those on rows of the reference class.
    """
    own = np.zeros((block.n_bases, block.n_classes))
    missed = np.zeros_like(own)
    for label, rows in _by_label(block):
        eta, weighted = block.eta[rows], block.phi[rows] * block.row_weights[rows, None]
        for basis, ratio in enumerate(ratios):
            if label == reference:
                stays = ratio * eta > eta[:, [reference]]
                missed[basis] = weighted[:, basis] @ stays
            else:
                moves = ratio[label] * eta[:, label] <= eta[:, reference]
                own[basis, label] = weighted[:, basis] @ moves
    return PairHits(own=own, reference=missed)


def _labels(block: Rows) -> IntArray:
    """Return the labels; raise if there are none."""
    if block.labels is None:
        raise LabelError("these rows have no labels, but sums over training rows need them: pass labels=...")
    return block.labels


def _by_label(block: Rows) -> Iterator[tuple[int, IntArray]]:
    """Yield every label that occurs with its rows."""
    labels = _labels(block)
    order = np.argsort(labels, kind="stable")
    found, first = np.unique(labels[order], return_index=True)
    for label, rows in zip(found, np.split(order, first[1:]), strict=True):
        yield int(label), rows
