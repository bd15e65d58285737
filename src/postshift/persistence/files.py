"""Models to files and back: ``.skops`` (read without running code), ``.joblib`` (pickle) and ``.onnx`` (one way)."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from postshift._installing import needed
from postshift._validation import unknown
from postshift.core.archive import write_atomically
from postshift.exceptions import ArchiveError, SettingError, UntrustedError
from postshift.persistence.checks import check_places, check_savable, not_saved
from postshift.persistence.data_classes import NAMES, class_name

_SUFFIXES = (".skops", ".joblib", ".onnx")


def dump(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to one file; an interrupted write does not change an existing file.

    The suffix gives the format. ``.skops`` only holds data and is read without running code of the file. ``.joblib`` is
    a pickle. ``.onnx`` is a graph for other runtimes (:func:`~postshift.persistence.to_onnx`), which cannot be loaded.

    Parameters
    ----------
    model : object
        A fitted estimator, or any part of one.
    path : str or path
        The file, with one of these suffixes.

    Raises
    ------
    ExportError
        If a part of the model cannot be saved, such as a metric that is a lambda; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from postshift.metrics import GMean
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dump(GMean(), f"{folder}/metric.skops")
    ...     load(f"{folder}/metric.skops")
    GMean()
    """
    suffix = _suffix_of(path)
    if suffix == ".onnx":
        from postshift.persistence.onnx_model import to_onnx

        content: bytes = to_onnx(model).SerializeToString()
    else:
        content = skops_bytes(model) if suffix == ".skops" else _joblib_bytes(model)
    write_atomically(path, lambda stream: stream.write(content))


def load(path: str | os.PathLike[str], *, trusted: Sequence[Any] = (), trust: bool = False) -> Any:
    """Read a model written by :func:`dump`.

    Parameters
    ----------
    path : str or path
        A ``.skops`` or a ``.joblib`` file.
    trusted : sequence of str or type
        For ``.skops``: types and functions, or their full names, that the file may also hold. The classes of postshift
        that only hold data, and what skops trusts (scikit-learn, NumPy, SciPy), need not be named. The error names
        those that are missing.
    trust : bool, default=False
        For ``.joblib``, which runs code of the file: whether you trust its source.

    Returns
    -------
    object
        The model.

    Raises
    ------
    UntrustedError
        If the file holds types or functions that are not trusted; ``error.names`` are their names.
    ArchiveError
        If the file is damaged, or an object of postshift is in a wrong place.

    Examples
    --------
    See :func:`dump`.
    """
    suffix = _suffix_of(path)
    if suffix == ".onnx":
        raise SettingError(
            f"{path} is a graph, which cannot be loaded as a model: run it with onnxruntime.InferenceSession, and save "
            "the model itself as .skops"
        )
    return _read_skops(path, trusted=trusted) if suffix == ".skops" else _read_joblib(path, trust=trust)


def _suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a path; raise if there is no such format."""
    suffix = Path(path).suffix
    if suffix not in _SUFFIXES:
        raise SettingError(unknown(suffix, _SUFFIXES, what="file format"))
    return suffix


def skops_bytes(model: Any) -> bytes:
    """Return the bytes of a skops file, after loading it once: skops writes some objects that it cannot load."""
    check_savable(model)
    skops = needed("skops.io")
    try:
        content: bytes = skops.dumps(model)
        _loaded(skops, content, _not_trusted(skops, content))
    except Exception as error:
        raise not_saved(error, ".skops") from error
    return content


def _joblib_bytes(model: Any) -> bytes:
    """Return the bytes of a joblib file."""
    check_savable(model)
    joblib, stream = needed("joblib"), io.BytesIO()
    try:
        joblib.dump(model, stream)
    except Exception as error:
        raise not_saved(error, ".joblib") from error
    return stream.getvalue()


def _read_skops(path: str | os.PathLike[str], *, trusted: Sequence[Any]) -> Any:
    """Read a skops file: check the types that it names, load it, and check what was loaded."""
    skops = needed("skops.io")
    content = Path(path).read_bytes()
    given = [trusted] if isinstance(trusted, str | type) else list(trusted)
    names = {each if isinstance(each, str) else class_name(each) for each in given}
    try:
        left = [name for name in _not_trusted(skops, content) if name not in names]
        if not left:
            return _loaded(skops, content, names)
    except Exception as error:  # a damaged file can make zipfile, json or skops raise anything
        raise ArchiveError(
            f"{path} is not a skops file of this version, or it was damaged or tampered with: {error}"
        ) from error
    raise UntrustedError(f"{path} {_why_not_trusted(left)}", names=left)


def _not_trusted(skops: Any, content: bytes) -> list[str]:
    """Return the types and functions in a skops file that neither skops nor postshift trusts."""
    return [name for name in skops.get_untrusted_types(data=content) if name not in NAMES]


def _loaded(skops: Any, content: bytes, names: Collection[str]) -> Any:
    """Load a skops file of trusted types, and check that every object of postshift is where it belongs."""
    model = skops.loads(content, trusted=sorted({*NAMES, *names}))
    check_places(model, trusted=names)
    return model


def _why_not_trusted(names: Sequence[str]) -> str:
    """Say which types in a file are not trusted, and what to do."""
    if ours := [name for name in names if name.startswith("postshift.")]:
        return (
            f"holds more than data: {', '.join(ours)}. No rule or metric of postshift contains them: do not load the "
            "file, unless you know its source and name all of them in trusted=[...]"
        )
    return (
        f"holds types that are not trusted: {', '.join(names)}. If you know them and the source of the file, load it "
        "with trusted=[...] and name them there"
    )


def _read_joblib(path: str | os.PathLike[str], *, trust: bool) -> Any:
    """Read a joblib file, if its source is trusted."""
    joblib = needed("joblib")
    if trust is not True:
        raise ArchiveError(
            f"{path} is a pickle, and loading it runs any code that it holds. If you trust its source, load it with "
            "trust=True; a .skops file runs no code"
        )
    content = Path(path).read_bytes()
    try:
        return joblib.load(io.BytesIO(content))
    except Exception as error:  # a damaged file can make pickle raise anything
        raise ArchiveError(f"{path} is not a joblib file that can be read here: {error!r}") from error
