"""Rows as Dask arrays, and the comparison of two engines."""

from __future__ import annotations

import dask.array as da
import numpy as np

from postshift import PlugIn
from postshift.engines import ArrayParts
from tests.contracts.engine import random_classifiers

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def as_arrays(sample, n_blocks, **chunks):
    """Rows as Dask arrays, each in blocks of the given length, by default in ``n_blocks`` blocks of equal length."""
    rows = -(-sample.n_rows // n_blocks)
    arrays = {}
    for name in ("eta", "phi", "labels", "weights"):
        part = getattr(sample, name)
        if part is not None:
            arrays[name] = da.from_array(np.asarray(part), chunks=(chunks.get(name, rows), *part.shape[1:]))
    return ArrayParts(arrays.pop("eta"), **arrays)


def assert_same_sums(found, expected, sample, seed=0):
    """Both engines give the same counts, and the same sums to 1e-12."""
    hard = bool(((sample.phi == 0) | (sample.phi == 1)).all()) and sample.weights is None
    counts = (
        np.testing.assert_array_equal if hard else lambda one, other: np.testing.assert_allclose(one, other, **CLOSE)
    )
    counts(found.label_sums().pair, expected.label_sums().pair)
    np.testing.assert_allclose(found.gram_sums().gram, expected.gram_sums().gram, **CLOSE)
    for classifier in random_classifiers(sample, seed):
        same = counts if isinstance(classifier, PlugIn) else lambda a, b: np.testing.assert_allclose(a, b, **CLOSE)
        for confusions in (False, True):
            one, other = (each.classifier_sums(classifier, confusions=confusions) for each in (found, expected))
            same(one.pair, other.pair)
        same(found.look(classifier, influence=False), expected.look(classifier, influence=False))
        sums = found.influence_sums(classifier).pair
        np.testing.assert_allclose(sums, expected.influence_sums(classifier).pair, **CLOSE)
