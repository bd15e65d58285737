"""What the loaders of images return: pixels, labels, and what else is known of every image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from postshift._validation import IntArray

PixelArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Images:
    """Labelled colour images of one size.

    Attributes
    ----------
    X : ndarray of uint8 of shape (n, height, width, 3)
        Pixels: red, green, blue.
    y : ndarray of shape (n,)
        Labels, as positions in `class_names`; those of the task, wrong ones where its training labels are noisy.
    rows : ndarray of shape (n,)
        Row numbers in the data set as published, ascending.
    columns : mapping of str to ndarray of shape (n,)
        What else is known of every image, e.g. ``"clean"``, the labels before noise, or ``"age_bucket"``.
    class_names : tuple of str
        Names of the classes.

    Examples
    --------
    >>> from postshift.datasets import load_cifar10
    >>> images = load_cifar10().test  # doctest: +SKIP
    >>> images.X.shape, images.class_names[images.y[0]]  # doctest: +SKIP
    ((10000, 32, 32, 3), 'cat')
    """

    X: PixelArray
    y: IntArray
    rows: IntArray
    columns: Mapping[str, IntArray]
    class_names: tuple[str, ...]

    def take(self, places: IntArray) -> Images:
        """Return the images at some places.

        Parameters
        ----------
        places : ndarray of shape (k,)
            Positions in this sample, not the numbers in `rows`.

        Returns
        -------
        Images
        """
        return replace(
            self,
            X=self.X[places],
            y=self.y[places],
            rows=self.rows[places],
            columns={name: column[places] for name, column in self.columns.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageSplit:
    """Training, validation and test images of one experiment.

    Attributes
    ----------
    train, validation, test : Images
        The samples, without a common row of the same file.

    Examples
    --------
    >>> from postshift.datasets import cifar10_noise
    >>> split = cifar10_noise(0)  # doctest: +SKIP
    >>> len(split.train.y), len(split.validation.y), len(split.test.y)  # doctest: +SKIP
    (49000, 1000, 10000)
    """

    train: Images
    validation: Images
    test: Images
