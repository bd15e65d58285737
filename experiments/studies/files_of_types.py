"""Short pieces of files that come with installed packages, and the file types that Magika finds in them.

The type of a piece is that of its file's name. A piece is a few lines from somewhere in the file, far less than Magika
was made for, as in a paste service or a forensic search; so it errs. Files are only read. The packages are those of the
extras ``dev`` and ``rivals``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackagePath
from typing import Any

import numpy as np

from experiments.studies.menu_tasks import Floats, Ints, Source
from experiments.studies.texts_of_wheels import package, package_files

PACKAGES = {
    "numpy": "dev", "scipy": "dev", "scikit-learn": "dev", "matplotlib": "dev", "mypy": "dev", "onnx": "dev",
    "numba": "dev", "pyarrow": "dev", "distributed": "dev", "Django": "rivals",
}  # fmt: skip
TYPES = {  # Magika's name of a type: endings of file names, and how many pieces there are at most
    "python": ((".py",), 500),
    "c": ((".c",), 300),
    "cpp": ((".cc", ".cpp", ".hpp"), 300),
    "html": ((".html",), 250),
    "javascript": ((".js",), 250),
    "po": ((".po",), 200),
    "fortran": ((".f90", ".f"), 150),
    "css": ((".css",), 150),
    "markdown": ((".md",), 150),
    "rst": ((".rst",), 150),
    "svg": ((".svg",), 100),
    "json": ((".json",), 100),
    "csv": ((".csv",), 100),
}
PIECE = 160  # bytes, at most
SHORTEST = 40
READ = 60_000  # bytes of a file, at most
MOST_OF_A_FILE = 40
BATCH = 8


@cache
def pieces_of_files() -> Source:
    """Return what is known of the form of every piece, and its type."""
    pieces, labels = _pieces()
    return Source(X=np.array([_form(piece) for piece in pieces]), y=np.array(labels, dtype=np.intp))


def types_found(rows: Ints) -> Floats:
    """Return Magika's probabilities of our types, in our order, as if there were no others.

    A piece takes some ten milliseconds, so only these rows are looked at, and none twice.
    """
    pieces, known = _pieces()[0], _known()
    new = [int(row) for row in rows if int(row) not in known]
    for start in range(0, len(new), BATCH):
        batch = new[start : start + BATCH]
        known.update(zip(batch, _identified([pieces[row] for row in batch]), strict=True))
    return np.stack([known[int(row)] for row in rows])


@cache
def _known() -> dict[int, Floats]:
    """Return the probabilities of the pieces that were looked at in this process."""
    return {}


@cache
def _pieces() -> tuple[list[bytes], list[int]]:
    """Return all pieces and the numbers of their types."""
    of_type = [chosen_pieces(kind) for kind in TYPES]
    labels = [place for place, pieces in enumerate(of_type) for _ in pieces]
    return [piece for pieces in of_type for piece in pieces], labels


def chosen_pieces(kind: str) -> list[bytes]:
    """Return different pieces of files of one type, the first ones by checksum."""
    endings, size = TYPES[kind]
    paths = sorted(
        (path for path in _files() if path.suffix in endings), key=lambda path: zlib.crc32(str(path).encode())
    )
    most = max(1, min(MOST_OF_A_FILE, 2 * size // max(len(paths), 1)))
    found: dict[bytes, None] = {}
    for path in paths:
        if len(found) >= size:
            break
        for piece in pieces_of(path.read_binary()[:READ], most=most):
            found[piece] = None
    return list(found)[:size]


def pieces_of(content: bytes, *, most: int) -> list[bytes]:
    """Return pieces of a file that begin with a line, the first ones by checksum.

    Examples
    --------
    >>> pieces_of(b"a = 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11" + bytes([10]), most=1)
    [b'a = 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11']
    """
    return sorted(set(_cut(content)), key=zlib.crc32)[:most]


def _cut(content: bytes) -> Iterator[bytes]:
    """Yield the file in pieces of whole lines; the end of a longer line is left out."""
    piece = b""
    for line in content.splitlines(keepends=True):
        if piece and len(piece) + len(line) > PIECE:
            if len(piece.strip()) >= SHORTEST:
                yield piece.strip()
            piece = b""
        piece = (piece + line)[:PIECE]
    if len(piece.strip()) >= SHORTEST:
        yield piece.strip()


@cache
def _files() -> list[PackagePath]:
    """Return the files of the packages."""
    return [path for name, extra in PACKAGES.items() for path in package_files(name, extra=extra)]


def _form(piece: bytes) -> list[float]:
    """Return the number of bytes and of lines, and the shares of letters, digits and spaces."""
    kinds = [sum(test(piece[at : at + 1]) for at in range(len(piece))) for test in (bytes.isalpha, bytes.isdigit)]
    return [len(piece), piece.count(b"\n") + 1, *(count / len(piece) for count in (*kinds, piece.count(b" ")))]


def _identified(pieces: list[bytes]) -> Floats:
    """Return Magika's probabilities of our types for some pieces."""
    model, settings = _magika()
    codes = [settings["target_labels_space"].index(kind) for kind in TYPES]
    tokens = np.stack([_tokens(piece, settings) for piece in pieces])
    eta = model.run(["target_label"], {"bytes": tokens})[0][:, codes].astype(np.float64) + 1e-9  # all can be 0
    return np.asarray(eta / eta.sum(axis=1, keepdims=True))


@cache
def _magika() -> tuple[Any, dict[str, Any]]:
    """Return Magika's network, to be run by ONNX Runtime, and its settings; its own functions give one type only."""
    runtime = package("onnxruntime")
    found = {path.name: path for path in package_files("magika") if "models" in path.parts}
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    model = found["model.onnx"].read_binary()
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session, json.loads(found["config.min.json"].read_binary())


def _tokens(piece: bytes, settings: dict[str, Any]) -> Ints:
    """Return what the network reads of a piece: its first bytes and its last bytes, filled up."""
    content = np.frombuffer(piece, dtype=np.uint8)
    tokens = np.full(settings["beg_size"] + settings["end_size"], settings["padding_token"], dtype=np.int32)
    tokens[: len(content)] = content
    tokens[len(tokens) - len(content) :] = content
    return tokens
