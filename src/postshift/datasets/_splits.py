"""Random rows in the proportions of their strata."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from postshift._validation import IntArray


def stratified(strata: IntArray, *, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return the row numbers of the rest and of a share, rounded up, both in the strata's proportions."""
    rows = np.arange(len(strata))
    rest, drawn = train_test_split(rows, test_size=share, stratify=strata, random_state=seed)
    return np.sort(rest), np.sort(drawn)
