"""How much memory a fit on a file takes: the peak of anonymous memory (RssAnon) against the limit that was set.

``python -m benchmarks.memory`` writes 3 GB of probabilities (float32, 100 classes) to a temporary folder, fits by
FW-EG with a limit of 256 MB and prints the figures as JSON; ``--help`` lists what can be changed. It needs Linux, which
alone tells anonymous memory from pages of mapped files. The peak is looked up every two milliseconds; what Python, the
libraries and the compiled loops take is there before, from a fit on few rows; another process writes the files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

import numpy as np

from postshift import Rows, fw_eg
from postshift.engines import ArraySource, ArrowSource, BlockEngine, ParquetSource
from postshift.metrics import GMean

N_CLASSES = 100
CHUNK = 10_000
FEW_ROWS = 20_000  # enough for an engine to take the kernels that it takes for many
FORMATS = ("npy", "parquet", "arrow")


def anonymous_bytes() -> int:
    """Return the anonymous memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


class PeakMemory:
    """The most anonymous memory that this process had inside a ``with`` block, and what it had before."""

    def __enter__(self) -> Self:
        """Begin to look."""
        self.before = self.peak = anonymous_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look once more, and end."""
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        """Look until the block ends."""
        while not self._done.wait(0.002):
            self.peak = max(self.peak, anonymous_bytes())


def some_rows(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and labels drawn from them."""
    eta = rng.standard_exponential((n_rows, N_CLASSES), dtype=np.float32) ** 3
    eta /= eta.sum(axis=1, keepdims=True)
    drawn = (np.cumsum(eta, axis=1) < rng.random((n_rows, 1), dtype=np.float32)).sum(axis=1)
    return eta, np.minimum(drawn, N_CLASSES - 1)


def write_arrays(folder: Path, n_rows: int) -> None:
    """Write ``.npy`` files, a chunk at a time."""
    rng = np.random.default_rng(0)
    make = np.lib.format.open_memmap
    eta = make(folder / "eta.npy", mode="w+", dtype=np.float32, shape=(n_rows, N_CLASSES))
    labels = make(folder / "labels.npy", mode="w+", dtype=np.uint8, shape=(n_rows,))
    for first in range(0, n_rows, CHUNK):
        size = min(CHUNK, n_rows - first)
        eta[first : first + size], labels[first : first + size] = some_rows(rng, size)


def write_columns(folder: Path, n_rows: int, kind: str) -> None:
    """Write a Parquet or an Arrow file, a row group or a record batch at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"p_{place}" for place in range(N_CLASSES)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int64())])
    path = folder / f"rows.{kind}"
    with pq.ParquetWriter(path, schema) if kind == "parquet" else pa.ipc.new_file(path, schema) as writer:
        for first in range(0, n_rows, CHUNK):
            eta, labels = some_rows(rng, min(CHUNK, n_rows - first))
            writer.write_table(pa.table([*eta.T, labels], schema=schema))


def written(folder: Path, n_rows: int, kind: str) -> ArraySource | ParquetSource | ArrowSource:
    """Write rows in another process, which takes along what it held, and return the source that reads them."""
    folder.mkdir()
    worker = get_context("spawn").Process(target=write, args=(folder, n_rows, kind))
    worker.start()
    worker.join()
    if kind == "npy":
        return ArraySource(folder / "eta.npy", labels=folder / "labels.npy")
    return (ParquetSource if kind == "parquet" else ArrowSource)(folder / f"rows.{kind}", eta="p_*", labels="y")


def write(folder: Path, n_rows: int, kind: str) -> None:
    """Write the files of a source."""
    if kind == "npy":
        write_arrays(folder, n_rows)
    else:
        write_columns(folder, n_rows, kind)


def measure(folder: Path, *, n_rows: int, memory_limit: str, kind: str, kernels: Any) -> dict[str, Any]:
    """Return the figures of one fit."""
    eta, labels = some_rows(np.random.default_rng(1), 2000)
    val = Rows.of(eta, labels=labels)
    settings = {"memory_limit": memory_limit, "kernels": kernels}
    few = BlockEngine(written(folder / "few", FEW_ROWS, kind), block_rows=500, **settings)
    fw_eg(few, val, GMean(), max_iter=2)
    source = written(folder / "many", n_rows, kind)
    start = time.perf_counter()
    with PeakMemory() as memory:
        fit = fw_eg(BlockEngine(source, **settings), val, GMean(), max_iter=5)
    return {
        "file_mb": round(sum(path.stat().st_size for path in (folder / "many").iterdir()) / 1e6),
        "memory_limit": memory_limit,
        "anonymous_before_mb": round(memory.before / 1e6, 1),
        "anonymous_peak_mb": round(memory.peak / 1e6, 1),
        "growth_mb": round((memory.peak - memory.before) / 1e6, 1),
        "seconds": round(time.perf_counter() - start, 2),
        "value": round(float(fit.score), 6),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=7_500_000, help="rows of 100 classes: 400 bytes each")
    parser.add_argument("--memory-limit", default="256 MB")
    parser.add_argument("--format", choices=FORMATS, default="npy")
    parser.add_argument("--kernels", choices=("auto", "numpy", "numba"), default="auto")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(
            Path(folder),
            n_rows=given.rows,
            memory_limit=given.memory_limit,
            kind=given.format,
            kernels=given.kernels,
        )
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
