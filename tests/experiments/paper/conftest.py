"""Made-up photographs, of which every class has a colour, and a cache of their own for every test."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.paper import adience_size, cifar10_noise, cifar10_weights
from experiments.paper.images import adience, older_faces, splits
from experiments.studies import adience_albums
from postshift.datasets import Dataset, Split

SIDE = 8
SIZES = {"train": 200, "validation": 100, "test": 120}


def clear():
    """Forget the splits and tasks of earlier tests."""
    splits.load_split.cache_clear()
    older_faces.older_faces.cache_clear()
    adience_size.halves.cache_clear()
    adience_albums.cut_of.cache_clear()
    for module in (adience, cifar10_noise, cifar10_weights):
        module.load_task.cache_clear()


def photographs(n_rows, *, n_classes, rng):
    """Return noise of a colour that depends on the class, which is learnt with ease."""
    labels = np.arange(n_rows) % n_classes
    colours = np.random.default_rng(0).integers(40, 216, size=(n_classes, 1, 1, 3))
    pixels = colours[labels] + rng.integers(-30, 31, size=(n_rows, SIDE, SIDE, 3))
    return Dataset(
        X=pixels.clip(0, 255).astype(np.uint8),
        y=labels,
        rows=np.arange(n_rows),
        columns={
            "age_bucket": 5 + np.arange(n_rows) // n_classes % 3,
            "user": np.arange(n_rows) // 6 % 10,
            "face_id": np.arange(n_rows) // 6 % 10,
        },
        class_names=tuple(map(str, range(n_classes))),
    )


def loader(n_classes):
    """Return a function of a seed that makes a split."""

    def load(seed):
        rng = np.random.default_rng(seed)
        return Split(**{part: photographs(n, n_classes=n_classes, rng=rng) for part, n in SIZES.items()})

    return load


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("POSTSHIFT_CACHE", str(tmp_path))
    clear()
    yield tmp_path
    clear()


@pytest.fixture
def made_up(cache, monkeypatch):
    """Photographs that are made up, and an empty cache."""
    loaders = {splits.CIFAR10: loader(10), splits.ADIENCE: loader(2), splits.BETTER: loader(2)}
    monkeypatch.setattr(splits, "LOADERS", loaders)
    return cache
