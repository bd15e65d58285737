"""``--scheduler``: Parquet files that the workers of a Dask cluster read, and of which no more than a draw comes here.

What a worker does with the rows of a partition is an object with a method ``__call__``: it is sent to each worker once.
Errors name the partition, and of several the first in the order of the rows.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.errors import FileError, UsageError
from postshift.cli.inputs import Part, Reading, concatenated
from postshift.cli.parquet_files import ParquetFiles, RowGroups, parquet_files
from postshift.cli.parts_folder import MARK, part_name, written_folder
from postshift.cli.predicting import Labelling
from postshift.cli.request import LOCAL, check_scheduler
from postshift.cli.rule_file import FittedBasis, RuleFile
from postshift.cli.tables import FileTable
from postshift.core.archive import write_atomically
from postshift.engines.dask.dask_cluster import Cluster
from postshift.engines.dask.partitions import PARTITION_ROWS
from postshift.engines.dask.pass_task import Failed, attempted
from postshift.estimators import dask_rows


@contextmanager
def connected(scheduler: str) -> Iterator[Cluster]:
    """Give the cluster of ``--scheduler``, which estimators find as the current one."""
    importlib.import_module("distributed")  # which sets the level of its log
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is wrong is said in one line
    with (
        warnings.catch_warnings(),
        Cluster(None if scheduler == LOCAL else scheduler) as cluster,
        cluster.client.as_current(),
    ):
        warnings.filterwarnings("ignore", message="Sending large graph")  # a model may be large
        yield cluster


class ClusterTable:
    """The rows of Parquet files that every worker can read under the same path.

    Parameters
    ----------
    files : ParquetFiles
        The files.
    cluster : Cluster
        Who reads them.
    """

    def __init__(self, files: ParquetFiles, cluster: Cluster) -> None:
        self.files, self._cluster = files, cluster
        self.partitions = files.partitions(PARTITION_ROWS)

    def __str__(self) -> str:
        """Return the name and number of rows, and how many of them were drawn."""
        drawn = f", of which {dask_rows.DRAWN_ROWS:,} were drawn" if self.n_rows > dask_rows.DRAWN_ROWS else ""
        return f"{self.files.path.name}, {self.n_rows:,} rows{drawn}"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.files.n_rows

    def draw(self, *, seed: int) -> FileTable:
        """Return the rows that a PostShifter draws of these partitions; all of them, if they are few."""
        import pandas as pd

        counts = dask_rows.shares(np.array([each.n_rows for each in self.partitions]), dask_rows.DRAWN_ROWS)
        frames = self.each(_Drawn(seed), counts.tolist())
        return FileTable(path=self.files.path, frame=pd.concat(frames, ignore_index=True), digest=self.digest())

    def digest(self) -> str:
        """Return the digest of all files, which workers read."""
        paths = [str(Path(file).absolute()) for file in self.files.files]
        digests = self._cluster.made(
            self._cluster.each(_digest, paths, name="digest"), [str(file) for file in self.files.files]
        )
        return self.files.digest(digests)

    def each(self, work: Callable[..., Any], *more: Sequence[Any]) -> list[Any]:
        """Return what workers make of every partition, small things; ``more`` are arguments, one a partition."""
        return self._cluster.made(self._started(work, *more), [each.place for each in self.partitions])

    def training_side(self, rows: TrainingRows, like: Part, phi: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a fit takes of training rows, as Dask arrays whose blocks stay on the workers.

        Parameters
        ----------
        rows : TrainingRows
            How rows are read.
        like : Part
            The draw, which says what there is.
        phi : mapping
            The basis functions of the draw, by basis.
        """
        held = self._started(rows)
        self._cluster.made(self._cluster.each(_fault, held, name="fault"), [each.place for each in self.partitions])
        given = {"eta": like.eta, "labels": like.labels(rows.layout.classes), "weights": like.weights}
        arrays = {name: None if each is None else self._array(held, name, each) for name, each in given.items()}
        return {
            "eta_train": arrays["eta"],
            "y_train": arrays["labels"],
            "phi_train": {name: self._array(held, _basis(name), each) for name, each in phi.items()} or None,
            "sample_weight_train": arrays["weights"],
        }

    def _started(self, work: Callable[..., Any], *more: Sequence[Any]) -> list[Any]:
        """Begin some work on every partition, and return futures of the results or of why there is none."""
        shared = [self._cluster.share(work)] * len(self.partitions)
        return self._cluster.each(_done, self.partitions, shared, *more, name=type(work).__name__.strip("_").lower())

    def _array(self, held: Sequence[Any], name: str, like: Any) -> Any:
        """Return one of the arrays that workers hold of every partition."""
        import dask.array as da
        from dask import delayed

        blocks = [
            da.from_delayed(
                delayed(_taken)(future, name), shape=(each.n_rows, *np.shape(like)[1:]), dtype=np.asarray(like).dtype
            )
            for future, each in zip(held, self.partitions, strict=True)
        ]
        return da.concatenate(blocks, axis=0)


def write_labels(labelling: Labelling, data: Path, out: Path, *, scheduler: str) -> tuple[int, int]:
    """Let workers write the labels of all rows to a folder; return the number of rows, and of labels that changed."""
    check_scheduler(scheduler)
    files = parquet_files(data)
    with connected(scheduler) as cluster:
        table = ClusterTable(files, cluster)
        with written_folder(out, n_parts=len(table.partitions)) as folder:
            changed = table.each(WrittenLabels(labelling=labelling, folder=str(folder)))
    return files.n_rows, sum(changed)


def labelled_rows(
    rule: RuleFile, reading: Reading, data: Path, *, columns: Iterable[str], scheduler: str
) -> tuple[Part, Any]:
    """Return rows with known labels, and their labels by the rule: read and labelled by workers, scored here."""
    check_scheduler(scheduler)
    files = parquet_files(data)
    if files.n_rows > dask_rows.SMALL_ROWS:
        raise UsageError(
            f"{data} has {files.n_rows:,} rows, and a score with its interval is made in memory: give at most "
            f"{dask_rows.SMALL_ROWS:,}, a draw of them"
        )
    with connected(scheduler) as cluster:
        table = ClusterTable(files, cluster)
        found = table.each(LabelledRows(rule=rule, reading=reading, columns=tuple(columns)))
        digest = table.digest()
    parts, labels = zip(*found, strict=True)
    return concatenated(parts, data, digest=digest), np.concatenate(labels)


# -- on the workers --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Checked(Reading):
    """Reads the rows for their errors alone."""

    def __call__(self, rows: RowGroups) -> int:
        """Return the number of rows."""
        return len(self.part(rows.table()))


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingRows(Reading):
    """Reads what a fit takes of training rows."""

    bases: Mapping[str, FittedBasis]

    def __call__(self, rows: RowGroups) -> dict[str, Any]:
        """Return probabilities, labels, weights and basis functions of a partition."""
        table = rows.table()
        part = self.part(table)
        phi = {_basis(name): basis.phi(table) for name, basis in self.bases.items()}
        return {"eta": part.eta, "labels": part.labels(self.layout.classes), "weights": part.weights, **phi}


@dataclass(frozen=True, kw_only=True, eq=False)
class WrittenLabels:
    """Writes the labels of a partition to a file in a folder that all workers see."""

    labelling: Labelling
    folder: str

    def __call__(self, rows: RowGroups) -> int:
        """Return how many labels differ from the model's own."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder = Path(self.folder)
        if not folder.is_dir():
            raise FileError(f"a worker sees no folder {folder.parent}: write to one that all workers share")
        given = rows.arrow()
        columns, changed = self.labelling.columns(self.labelling.reading.part(rows.table(given)))
        table = given if self.labelling.keep else pa.table({"row": rows.places()})
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
        marked = table.replace_schema_metadata(MARK)
        write_atomically(folder / part_name(rows.number), lambda stream: pq.write_table(marked, stream))
        return changed


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledRows:
    """Labels rows of which the labels are known, for a score."""

    rule: RuleFile
    reading: Reading
    columns: tuple[str, ...]  # that the metric reads, where they are there

    def __call__(self, rows: RowGroups) -> tuple[Part, Any]:
        """Return the rows of a partition, no other columns than those, and their labels by the rule."""
        part = self.reading.part(rows.table())
        labels = self.rule.labels(part.eta, part.table)
        kept = [name for name in part.table.frame.columns if name in self.columns]
        return replace(part, table=replace(part.table, frame=part.table.frame[kept])), labels


@dataclass(frozen=True)
class _Drawn:
    """Draws rows of a partition."""

    seed: int

    def __call__(self, rows: RowGroups, count: int) -> Any:
        """Return a frame of so many rows, in their order."""
        return rows.table().frame.iloc[dask_rows.drawn_places(rows.n_rows, count, (self.seed, rows.number))]


def _done(rows: RowGroups, work: Callable[..., Any], *more: Any) -> Any:
    """Return what some work makes of a partition, or why it cannot."""
    return attempted(rows.place, work, rows, *more)


def _fault(held: Any) -> Failed | None:
    """Return why there are no rows, if there are none."""
    return held if isinstance(held, Failed) else None


def _taken(held: Any, name: str) -> Any:
    """Return one of the arrays of a partition."""
    if isinstance(held, Failed):  # a partition that was lost, and could not be had again
        raise held.error
    return held[name]


def _digest(path: str) -> str | Failed:
    """Return the digest of a file, as :func:`digest_of` that of its content."""

    def digest() -> str:
        if not Path(path).is_file():
            raise FileError("a worker sees no such file: put it where every worker reads it under this path")
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

    found: str | Failed = attempted(path, digest)
    return found


def _basis(name: str) -> str:
    """Return what the functions of a basis are called among the arrays of a partition."""
    return f"basis {name}"
