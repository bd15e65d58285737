"""The user's model in a file: reading it runs no code, unless its source is trusted."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from postshift._validation import FloatArray
from postshift.cli.errors import FileError, UsageError, first_line, listed
from postshift.cli.files.file_table import FileTable, check_file
from postshift.cli.files.table_columns import canonical, pick
from postshift.exceptions import UntrustedError

SUFFIXES = (".skops", ".joblib")
_OTHER_ARRAYS = ("torch", "dask", "cupy", "jax", "sparse")
_REMEDY = "give the columns of the fit (--features of the fit chooses them)"


def read_model(path: Path, *, trust: bool) -> Any:
    """Return the model in a .skops or a .joblib file.

    Reading a .joblib file runs code, and a .skops file creates objects of the types that it names: only if ``trust``.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} must be a .skops or a .joblib file: save the model as one of them")
    check_file(path)
    model = _loaded(path, trust=trust)
    for name in ("predict_proba", "classes_"):
        if not hasattr(model, name):
            raise UsageError(
                f"the model in {path} ({type(model).__name__}) has no {name}: give a fitted classifier with "
                "probabilities; sklearn.calibration.CalibratedClassifierCV adds them"
            )
    if np.ndim(model.classes_) != 1:
        raise UsageError(f"the model in {path} has several outputs: give a fitted classifier with one label per row")
    return model


def _loaded(path: Path, *, trust: bool) -> Any:
    """Return the object in the file of a model."""
    from postshift.persistence import load

    if path.suffix == ".joblib":
        if not trust:
            raise UsageError(
                f"{path} is a pickle, and reading it runs the code in it: add --trust-model if you trust its source, "
                "or save the model as .skops"
            )
        return load(path, trust=True)
    import_skops()
    try:
        return load(path)
    except UntrustedError as error:
        if trust:
            return load(path, trusted=error.names)
        if any(name.startswith("postshift.") for name in error.names):
            raise
        raise FileError(
            f"{path} holds types that are not trusted: {', '.join(error.names)}. Add --trust-model if you know them "
            "and trust the source of the file"
        ) from error


def import_skops() -> Any:
    """Return ``skops.io``, imported without packages for other kinds of arrays.

    skops imports every module of scikit-learn, and some of those import torch, dask or cupy if they are installed: that
    takes seconds.
    """
    importlib.import_module("scipy.stats")  # it cannot be imported while they are hidden
    hidden = [name for name in _OTHER_ARRAYS if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # imports of this name fail
    try:
        return importlib.import_module("skops.io")
    finally:
        for name in hidden:
            del sys.modules[name]


def model_classes(model: Any) -> list[str]:
    """Return the classes of a model as strings, in the order of its probabilities."""
    return [canonical(value) for value in model.classes_]


def model_eta(model: Any, table: FileTable, features: list[str]) -> FloatArray:
    """Return the model's probabilities of the rows of a file.

    The model gets the columns it was fitted to, by name or, if it has no names, all features as an array.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        for name in names:
            pick(table, str(name), option="a column that the model was fitted to")
        rows: Any = table.frame[[str(name) for name in names]]
    else:
        n_wanted = getattr(model, "n_features_in_", len(features))
        if n_wanted != len(features):
            raise UsageError(
                f"the model takes {n_wanted} features without names, but {table.path} has {len(features)} feature "
                f"columns ({listed(features)}): {_REMEDY}"
            )
        rows = table.frame[features].to_numpy()
    try:
        eta = np.asarray(model.predict_proba(rows), dtype=np.float64)
    except MemoryError:
        raise
    except Exception as error:  # a user's model may raise anything
        why = first_line(error) if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"the model cannot predict the rows of {table.path}: {why}: {_REMEDY}") from error
    wanted = (len(rows), len(model.classes_))
    if eta.shape != wanted or not np.isfinite(eta).all():
        raise UsageError(
            f"the probabilities of the model must be finite, for {wanted[0]} rows of {table.path} and {wanted[1]} "
            f"classes. Got an array of shape {eta.shape}: fit the model again"
        )
    return eta
