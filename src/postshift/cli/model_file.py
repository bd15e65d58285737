"""The user's model in a file: read without running code of it, unless its source is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from postshift._validation import FloatArray
from postshift.cli._skops import import_skops
from postshift.cli.columns import canonical, listed, pick
from postshift.cli.errors import FileError, UsageError, first_line
from postshift.cli.remedies import OF_FIT
from postshift.cli.tables import FileTable, read_bytes
from postshift.exceptions import UntrustedError

SUFFIXES = (".skops", ".joblib")


def read_model(path: Path, *, trust: bool) -> Any:
    """Return the model in a file.

    Parameters
    ----------
    path : Path
        A .skops or a .joblib file.
    trust : bool
        Whether its source is trusted: a .joblib file runs code when it is read, a .skops file makes objects of the
        types that it names.
    """
    from postshift.persistence import load

    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} must be a .skops or a .joblib file: save the model as one of them")
    read_bytes(path)
    if path.suffix == ".joblib":
        if not trust:
            raise UsageError(
                f"{path} is a pickle, and to read it runs whatever code it holds: add --trust-model if you know where "
                "it comes from, or save the model as .skops"
            )
        model = load(path, trust=True)
    else:
        import_skops()
        model = _read_skops(path, trust=trust)
    for name in ("predict_proba", "classes_"):
        if not hasattr(model, name):
            raise UsageError(
                f"the model in {path} ({type(model).__name__}) has no {name}: give a fitted classifier with "
                "probabilities; sklearn.calibration.CalibratedClassifierCV gives them to one without"
            )
    if np.ndim(model.classes_) != 1:
        raise UsageError(f"the model in {path} has no list of classes: give a fitted classifier of one label for a row")
    return model


def model_classes(model: Any) -> list[str]:
    """Return the classes of a model as texts, in the order of its probabilities."""
    return [canonical(value) for value in model.classes_]


def model_eta(model: Any, table: FileTable, features: list[str], *, remedy: str = OF_FIT.features) -> FloatArray:
    """Return the model's probabilities of the rows of a file.

    The model is shown the columns whose names it knows, else all features as an array.
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
                f"the model takes {n_wanted} features without names, and {table.path} has {len(features)} columns left "
                f"for them ({listed(features)}): {remedy}"
            )
        rows = table.frame[features].to_numpy()
    try:
        eta = np.asarray(model.predict_proba(rows), dtype=np.float64)
    except MemoryError:
        raise
    except Exception as error:  # a model of the user's may raise anything
        why = first_line(error) if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"the model cannot predict the rows of {table.path}: {why}: {remedy}") from error
    wanted = (len(rows), len(model.classes_))
    if eta.shape != wanted or not np.isfinite(eta).all():
        raise UsageError(
            f"the probabilities of the model must be finite, for {wanted[0]} rows of {table.path} and {wanted[1]} "
            f"classes. Got an array of shape {eta.shape}: fit the model again"
        )
    return eta


def _read_skops(path: Path, *, trust: bool) -> Any:
    """Return the model in a skops file; where its source is trusted, all types that it names are."""
    from postshift.persistence import load

    try:
        return load(path)
    except UntrustedError as error:
        if trust:
            return load(path, trusted=error.names)
        if any(name.startswith("postshift.") for name in error.names):
            raise
        raise FileError(
            f"{path} holds types that are not trusted: {', '.join(error.names)}. Add --trust-model if you know them "
            "and where the file comes from"
        ) from error
