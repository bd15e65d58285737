"""Models to files and back: ``.skops`` (read without running code), ``.joblib`` (pickle) and ``.onnx`` (one way)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from postshift._installing import needed
from postshift._validation import unknown
from postshift.core.archive import write_atomically
from postshift.exceptions import ArchiveError, SettingError, UntrustedError
from postshift.persistence._reachable import check_reachable, not_saved
from postshift.persistence.data_classes import NAMES, class_name
from postshift.persistence.onnx_model import to_onnx
from postshift.persistence.places import check_places


def dump(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to one file; an interrupted write leaves the old file as it was.

    The suffix says how: ``.skops`` holds data only and can be read without running code of the file, ``.joblib`` is a
    pickle, ``.onnx`` is a graph for other runtimes (:func:`~postshift.persistence.to_onnx`) and cannot be loaded back.

    Parameters
    ----------
    model : object
        A fitted estimator, or any part of one.
    path : str or path
        Where to, with one of these suffixes.

    Raises
    ------
    ExportError
        Where a part of the model cannot be saved, such as a metric that is a lambda; it is named.

    Examples
    --------
    >>> import tempfile
    >>> from postshift import GMean
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dump(GMean(), f"{folder}/metric.skops")
    ...     load(f"{folder}/metric.skops")
    GMean()
    """
    writers = {".skops": _skops_bytes, ".joblib": _joblib_bytes, ".onnx": _onnx_bytes}
    content = _by_suffix(writers, path)(model)
    write_atomically(path, lambda stream: stream.write(content))


def load(path: str | os.PathLike[str], *, trusted: Sequence[Any] = (), trust: bool = False) -> Any:
    """Read a model written by :func:`dump`.

    Parameters
    ----------
    path : str or path
        A ``.skops`` or a ``.joblib`` file.
    trusted : sequence of str or type
        For ``.skops``: types and functions, or their full names, that the file may hold besides the classes of
        postshift that hold data only, each in its place, and what skops trusts (scikit-learn, NumPy, SciPy). The error
        names those that are missing.
    trust : bool, default=False
        For ``.joblib``, which runs code of the file: whether its source is trusted.

    Returns
    -------
    object
        The model.

    Raises
    ------
    UntrustedError
        Where the file holds types or functions that are not trusted; ``error.names`` are their names.
    ArchiveError
        Where the file is damaged, or a class of postshift stands in it where it does not belong.

    Examples
    --------
    See :func:`dump`.
    """
    readers: dict[str, Callable[[], Any]] = {
        ".skops": lambda: _read_skops(path, trusted=trusted),
        ".joblib": lambda: _read_joblib(path, trust=trust),
        ".onnx": lambda: _refuse_onnx(path),
    }
    return _by_suffix(readers, path)()


def _by_suffix(table: dict[str, Any], path: str | os.PathLike[str]) -> Any:
    """Return what belongs to the suffix of a path."""
    suffix = Path(path).suffix
    if suffix not in table:
        raise SettingError(unknown(suffix, table, what="file format"))
    return table[suffix]


# -- to bytes ----------------------------------------------------------------------------------------------


def _skops_bytes(model: Any) -> bytes:
    """Return a skops file that was read once for trial: skops writes some things that it cannot read."""
    skops = needed("skops.io")
    check_reachable(model)
    try:
        content: bytes = skops.dumps(model)
        _read_in_place(skops, content, _not_trusted(skops, content))
    except Exception as error:
        raise not_saved(error, ".skops") from error
    return content


def _joblib_bytes(model: Any) -> bytes:
    """Return a joblib file."""
    joblib = needed("joblib")
    check_reachable(model)
    stream = io.BytesIO()
    try:
        joblib.dump(model, stream)
    except Exception as error:
        raise not_saved(error, ".joblib") from error
    return stream.getvalue()


def _onnx_bytes(model: Any) -> bytes:
    """Return an ONNX file."""
    content: bytes = to_onnx(model).SerializeToString()
    return content


# -- and back ----------------------------------------------------------------------------------------------


def _read_skops(path: str | os.PathLike[str], *, trusted: Sequence[Any]) -> Any:
    """Read a skops file after a look at the types it names, and look at what was read before anyone uses it."""
    skops = needed("skops.io")
    content = Path(path).read_bytes()
    given = [trusted] if isinstance(trusted, str | type) else list(trusted)
    names = {each if isinstance(each, str) else class_name(each) for each in given}
    try:
        left = [name for name in _not_trusted(skops, content) if name not in names]
        if not left:
            return _read_in_place(skops, content, names)
    except Exception as error:  # whatever a damaged file makes zipfile, json or skops say
        raise ArchiveError(
            f"{path} is not a skops file of this version, or it was damaged or tampered with: {error}"
        ) from error
    raise UntrustedError(f"{path} {_why_not_trusted(left)}", names=left)


def _not_trusted(skops: Any, content: bytes) -> list[str]:
    """Return the types and functions in a skops file that are trusted neither by skops nor as data of postshift."""
    return [name for name in skops.get_untrusted_types(data=content) if name not in NAMES]


def _read_in_place(skops: Any, content: bytes, names: Collection[str]) -> Any:
    """Read a skops file of trusted types; every class of postshift in it must stand where it belongs."""
    model = skops.loads(content, trusted=sorted({*NAMES, *names}))
    check_places(model, trusted=names)
    return model


def _why_not_trusted(names: Sequence[str]) -> str:
    """Say which types in a file are not trusted, and what to do."""
    if ours := [name for name in names if name.startswith("postshift.")]:
        return (
            f"holds what is not data: {', '.join(ours)}. No rule and no metric of postshift holds that: do not load "
            "the file, unless you know where it comes from and name all of these in trusted=[...]"
        )
    return (
        f"holds types that are not trusted: {', '.join(names)}. Load it with trusted=[...] naming them, if you know "
        "them and where the file comes from"
    )


def _read_joblib(path: str | os.PathLike[str], *, trust: bool) -> Any:
    """Read a joblib file, if its source is trusted."""
    joblib = needed("joblib")
    if trust is not True:
        raise ArchiveError(
            f"{path} is a pickle: to read it runs whatever code it holds. If you know where it comes from, load it "
            "with trust=True; a .skops file needs no such trust"
        )
    content = Path(path).read_bytes()
    try:
        return joblib.load(io.BytesIO(content))
    except Exception as error:  # whatever a damaged file makes pickle say
        raise ArchiveError(f"{path} is not a joblib file that can be read here: {error!r}") from error


def _refuse_onnx(path: str | os.PathLike[str]) -> Any:
    """Say how an ONNX file is used."""
    raise SettingError(
        f"{path} is a graph, not a model to load back: run it with onnxruntime.InferenceSession, and keep the model "
        "itself as .skops"
    )
