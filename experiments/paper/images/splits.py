"""Splits of the two sets of photographs: few rows for a quick look, pixels scaled for a network."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from postshift.datasets import Dataset, Split, adience_shift, cifar10_noise

CIFAR10, ADIENCE, BETTER = "cifar10-noise", "adience-shift", "adience-better"  # the last two differ in their networks
LOADERS = {CIFAR10: cifar10_noise, ADIENCE: adience_shift, BETTER: adience_shift}
PARTS = ("train", "validation", "test")
QUICK = {"train": 300, "validation": 100, "test": 200}  # rows of a quick look at the most


@lru_cache(maxsize=1)
def load_split(task: str, seed: int, *, quick: bool = False) -> Split:
    """Return the split of a seed; a quick look has few rows of each part."""
    split = LOADERS[task](seed)
    if not quick:
        return split
    return Split(**{part: shortened(getattr(split, part), QUICK[part]) for part in PARTS})


def shortened(images: Dataset, most: int) -> Dataset:
    """Return at most so many images, evenly spread over the labels (and the age buckets, where there are any)."""
    strata = images.columns.get("age_bucket", np.zeros_like(images.y))
    order = np.lexsort([strata, images.y])
    places = np.linspace(0, len(order) - 1, min(most, len(order))).astype(np.intp)
    return images.take(np.sort(order[places]))


def scaled(split: Split) -> dict[str, NDArray[np.float32]]:
    """Return the pixels of each part (n, 3, height, width), every colour of mean 0 and variance 1 in training."""
    colours = split.train.X.reshape(-1, 3)
    mean, spread = (getattr(colours, name)(axis=0, dtype=np.float64).astype(np.float32) for name in ("mean", "std"))
    return {part: _planes((getattr(split, part).X - mean) / spread) for part in PARTS}


def flattened(split: Split) -> dict[str, NDArray[np.float32]]:
    """Return the pixels of each part as rows of numbers in [0, 1]."""
    return {part: (getattr(split, part).X.reshape(len(getattr(split, part).y), -1) / np.float32(255)) for part in PARTS}


def _planes(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return images plane by plane, as networks take them."""
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
