"""The small data sets that come with scikit-learn, as the same kind of data set; no file is searched or downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from postshift._validation import unknown
from postshift.datasets.dataset import Dataset
from postshift.exceptions import SettingError

LOADERS: dict[str, Any] = {
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}


def load_embedded(name: str) -> Dataset:
    """Return one of scikit-learn's own data sets: digits, wine, breast cancer or iris.

    Parameters
    ----------
    name : {"breast_cancer", "digits", "iris", "wine"}
        The data set.

    Returns
    -------
    Dataset
        Without groups.

    Raises
    ------
    SettingError
        If the name is unknown.

    Examples
    --------
    >>> data = load_embedded("wine")
    >>> data.X.shape, data.class_names
    ((178, 13), ('class_0', 'class_1', 'class_2'))
    """
    if name not in LOADERS:
        raise SettingError(unknown(name, LOADERS, what="embedded data set"))
    bunch = LOADERS[name]()
    return Dataset(
        X=np.asarray(bunch.data, dtype=np.float64),
        y=np.asarray(bunch.target, dtype=np.intp),
        rows=np.arange(len(bunch.target)),
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
        class_names=tuple(str(label) for label in bunch.target_names),
    )
