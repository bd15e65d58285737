"""``--scheduler``: the workers of a Dask cluster read Parquet files, and this process gets a random sample.

Errors name the partition; if several partitions fail, the first one is named.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.basis_option import Bases, FittedBasis
from postshift.cli.errors import FileError, UsageError
from postshift.cli.files.file_rows import FileRows, RowReader
from postshift.cli.files.file_table import FileTable
from postshift.cli.files.folders import MARK, label_folder, partition_name
from postshift.cli.files.parquet_files import ParquetFiles, RowGroups, parquet_files
from postshift.cli.options import LOCAL
from postshift.cli.run.labelled_rows import LabelledRows
from postshift.cli.run.rule_file import LoadedRun
from postshift.core.archive import write_atomically
from postshift.engines.dask.dask_cluster import Cluster
from postshift.engines.dask.partitions import PARTITION_ROWS
from postshift.engines.dask.pass_task import Failed, attempted
from postshift.estimators import dask_rows

Columns = Callable[[FileRows], tuple[Mapping[str, Any], int]]  # new columns, and how many labels changed


@contextmanager
def cluster_table(path: Path, scheduler: str, *, most: int | None = None) -> Iterator[ClusterTable]:
    """Yield the rows of Parquet files, read by the cluster of ``--scheduler``, which is the current cluster meanwhile.

    Raise if there are more rows than ``most``.
    """
    files = parquet_files(path)
    if most is not None and files.n_rows > most:
        raise UsageError(
            f"{path} has {files.n_rows:,} rows, but a score with its interval is computed in memory: give at most "
            f"{most:,}, such as a random sample"
        )
    importlib.import_module("distributed")  # it sets the level of its log
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are shown in one line
    with (
        warnings.catch_warnings(),
        Cluster(None if scheduler == LOCAL else scheduler) as cluster,
        cluster.client.as_current(),
    ):
        warnings.filterwarnings("ignore", message="Sending large graph")  # a model may be large
        yield ClusterTable(files, cluster)


class ClusterTable:
    """The rows of Parquet files that every worker of a cluster can read under the same path."""

    def __init__(self, files: ParquetFiles, cluster: Cluster) -> None:
        self.files, self._cluster = files, cluster
        self.partitions = files.partitions(PARTITION_ROWS)

    def __str__(self) -> str:
        """Return the name and number of rows, and the size of the sample."""
        n_rows = self.files.n_rows
        drawn = f", of which {dask_rows.DRAWN_ROWS:,} were drawn" if n_rows > dask_rows.DRAWN_ROWS else ""
        return f"{self.files.path.name}, {n_rows:,} rows{drawn}"

    def draw(self, *, seed: int) -> FileTable:
        """Return the rows that a PostShifter draws from these partitions; all of them if there are few."""
        import pandas as pd

        counts = dask_rows.shares(np.array([each.n_rows for each in self.partitions]), dask_rows.DRAWN_ROWS)
        frames = self.each(partial(_drawn, seed), counts.tolist())
        return FileTable(path=self.files.path, frame=pd.concat(frames, ignore_index=True), digest=self.digest())

    def digest(self) -> str:
        """Return the digest of all files, which workers read."""
        paths = [str(Path(file).absolute()) for file in self.files.files]
        digests = self._cluster.made(
            self._cluster.each(_digest, paths, name="digest"), [str(file) for file in self.files.files]
        )
        return self.files.digest(digests)

    def each(self, work: Callable[..., Any], *more: Sequence[Any]) -> list[Any]:
        """Return the small results of a function of every partition; ``more`` has its other arguments by partition."""
        return self._cluster.made(self._started(work, *more), [each.place for each in self.partitions])

    def check(self, reader: RowReader) -> None:
        """Read all rows, and raise the first error."""
        self.each(partial(_n_rows, reader))

    def training_side(self, reader: RowReader, bases: Bases, like: FileRows) -> dict[str, Any]:
        """Return the training rows for a fit, as Dask arrays whose blocks stay on the workers.

        The bases are fitted to the sample ``like``, which has the types of all rows.
        """
        held = self._started(partial(_training_arrays, reader, bases.fitted))
        self._cluster.made(self._cluster.each(_fault, held, name="fault"), [each.place for each in self.partitions])
        given = {"eta": like.eta, "labels": like.labels, "weights": like.weights}
        arrays = {name: None if each is None else self._array(held, name, each) for name, each in given.items()}
        return {
            "eta_train": arrays["eta"],
            "y_train": arrays["labels"],
            "phi_train": {name: self._array(held, _basis(name), each) for name, each in bases.train.items()} or None,
            "sample_weight_train": arrays["weights"],
        }

    def _started(self, work: Callable[..., Any], *more: Sequence[Any]) -> list[Any]:
        """Start a function on every partition; return futures of the results or errors."""
        shared = [self._cluster.share(work)] * len(self.partitions)
        return self._cluster.each(_done, self.partitions, shared, *more, name="rows")

    def _array(self, held: Sequence[Any], name: str, like: Any) -> Any:
        """Return one of the arrays that workers hold for every partition."""
        import dask.array as da
        from dask import delayed

        blocks = [
            da.from_delayed(
                delayed(_taken)(future, name), shape=(each.n_rows, *np.shape(like)[1:]), dtype=np.asarray(like).dtype
            )
            for future, each in zip(held, self.partitions, strict=True)
        ]
        return da.concatenate(blocks, axis=0)


def write_labels(reader: RowReader, columns: Columns, data: Path, out: Path, *, keep: bool, scheduler: str) -> Any:
    """Write new columns of all rows to a folder, on the workers; return the number of rows and of changed labels."""
    with cluster_table(data, scheduler) as table:
        with label_folder(out, n_partitions=len(table.partitions)) as folder:
            changed = table.each(partial(_write_partition, reader, columns, keep, str(folder)))
        return table.files.n_rows, sum(changed)


def labelled_rows(
    loaded: LoadedRun, reader: RowReader, data: Path, *, columns: Iterable[str], scheduler: str
) -> LabelledRows:
    """Return rows with known labels, after workers have read and labelled them.

    ``columns`` are those that the metric reads, if they exist.
    """
    with cluster_table(data, scheduler, most=dask_rows.SMALL_ROWS) as table:
        found = table.each(partial(_labelled, loaded, reader, tuple(columns)))
        return LabelledRows.together(found, data, digest=table.digest())


# -- on the workers --------------------------------------------------------------------------------------------


def _done(rows: RowGroups, work: Callable[..., Any], *more: Any) -> Any:
    """Return the result of a function of a partition, or its error."""
    return attempted(rows.place, work, rows, *more)


def _drawn(seed: int, rows: RowGroups, count: int) -> Any:
    """Return a frame of a random sample of the rows, in their order."""
    return rows.table().frame.iloc[dask_rows.drawn_places(rows.n_rows, count, (seed, rows.number))]


def _n_rows(reader: RowReader, rows: RowGroups) -> int:
    """Read the rows, and return their number."""
    return len(reader.rows(rows.table()))


def _training_arrays(reader: RowReader, bases: Mapping[str, FittedBasis], rows: RowGroups) -> dict[str, Any]:
    """Return probabilities, labels, weights and basis functions of a partition."""
    found = reader.rows(rows.table())
    phi = {_basis(name): basis.phi(found.table) for name, basis in bases.items()}
    return {"eta": found.eta, "labels": found.labels, "weights": found.weights, **phi}


def _write_partition(reader: RowReader, columns: Columns, keep: bool, out: str, rows: RowGroups) -> int:  # noqa: FBT001
    """Write the labels of a partition to a file in a folder that all workers see; return how many changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(out)
    if not folder.is_dir():
        raise FileError(f"a worker cannot find the folder {folder.parent}: write to one that all workers share")
    given = rows.arrow()
    new, changed = columns(reader.rows(rows.table(given)))
    table = given if keep else pa.table({"row": rows.places()})
    for name, values in new.items():
        table = table.append_column(name, pa.array(values))
    marked = table.replace_schema_metadata(MARK)
    write_atomically(folder / partition_name(rows.number), lambda stream: pq.write_table(marked, stream))
    return changed


def _labelled(loaded: LoadedRun, reader: RowReader, columns: tuple[str, ...], rows: RowGroups) -> LabelledRows:
    """Return the rows of a partition with these columns only, labelled."""
    return LabelledRows.of(loaded, reader, columns, rows.table())


def _fault(held: Any) -> Failed | None:
    """Return the error of a partition, if there is one."""
    return held if isinstance(held, Failed) else None


def _taken(held: Any, name: str) -> Any:
    """Return one of the arrays of a partition."""
    if isinstance(held, Failed):  # the partition was lost, and reading it again failed
        raise held.error
    return held[name]


def _digest(path: str) -> str | Failed:
    """Return the digest of a file, as :func:`~postshift.cli.files.file_table.digest_of` of its content."""

    def digest() -> str:
        if not Path(path).is_file():
            raise FileError("a worker cannot find the file: put it where all workers can read it under this path")
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

    found: str | Failed = attempted(path, digest)
    return found


def _basis(name: str) -> str:
    """Return the name of a basis among the arrays of a partition."""
    return f"basis {name}"
