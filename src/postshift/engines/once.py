"""The sums that a run takes once, for hard clusters: two clusters share no row, so most of the products are 0."""

from __future__ import annotations

import numpy as np

from postshift._validation import FloatArray
from postshift.core.sums import GramSums, LabelSums
from postshift.engines.rows import CodeArray, KernelRows, on_the_diagonal


def cluster_labels(rows: KernelRows, clusters: CodeArray) -> LabelSums:
    """Return A, a and the totals: the weight of each (cluster, label)."""
    cells = clusters * np.uint32(rows.n_categories) + rows.labels
    counted = np.bincount(cells, weights=rows.weights, minlength=rows.n_bases * rows.n_categories)
    sums = on_the_diagonal(counted.astype(np.float64).reshape(rows.n_bases, rows.n_categories))
    classes = sums.single.sum(axis=0)
    return LabelSums(pair=sums.pair, single=sums.single, classes=classes, total=float(classes.sum()), count=rows.n_rows)


def cluster_gram(rows: KernelRows, clusters: CodeArray, part: slice) -> GramSums:
    """Return the sums of z z' and z p' of some rows: those of p p' in each cluster."""
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
