"""The Dask engine: rows stay on the workers of a cluster; a pass is one call per worker (``pass_task``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from postshift._validation import check_count
from postshift.engines.dask.dask_cluster import Cluster
from postshift.engines.dask.partitions import LazyPartition, PartitionSource
from postshift.engines.dask.pass_task import PartitionFacts, PassCall, facts_of, hold, sum_held, sum_partition
from postshift.engines.memory.memory_engine import Kernels, check_kernels
from postshift.engines.pass_engine import PassEngine
from postshift.exceptions import LabelError, SettingError, ShapeError, WeightError

SPLIT_EVERY = 8
MOST_BYTES = 1 << 23  # of unadded sums that the client takes in a pass; workers add larger ones


class DaskEngine(PassEngine, AbstractContextManager["DaskEngine"]):
    """Sums over rows that stay on the workers of a Dask cluster; only small sums come to the client.

    The methods are those of :class:`MemoryEngine`. When the engine is made, the workers compute, check and keep the
    partitions; an error names the partition. A pass is one call per worker, which returns the sums of its partitions,
    with the kernels and the sorted rows of :class:`MemoryEngine`. A tree adds the sums; its shape depends on the number
    of partitions only. If a worker is lost during a fit, other workers compute its partitions again, and the sums are
    the same to the last digit.

    Parameters
    ----------
    source : PartitionSource
        Where the rows are: :class:`ArrayParts`, :class:`FrameParts`, :class:`ParquetParts`, :class:`ModelParts` or your
        own source.
    client : distributed.Client or str, optional
        The cluster, or the address of its scheduler; by default the current client. If there is none, a
        ``LocalCluster`` is started, which ends with :meth:`close` or at the end of a ``with`` block. (A program that
        starts one needs ``if __name__ == "__main__":``, because the processes of the cluster import it.)
    n_categories : int, optional
        As in :class:`MemoryEngine`.
    kernels : {"auto", "numpy", "numba"}
        As in :class:`MemoryEngine`; what "auto" takes depends on all rows, not on those of a partition.
    sort_rows : bool
        As in :class:`MemoryEngine`: whether workers keep a second, sorted copy of eta in hard clusters.
    split_every : int
        How many sums a step of the tree adds.
    connect_timeout, worker_timeout : float
        Seconds to wait for the scheduler to answer, and for a worker to work, before an
        :class:`~postshift.exceptions.EngineError` is raised.
    pass_timeout : float, optional
        Seconds that a pass may take; no limit by default.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from postshift.engines import ArrayParts, DaskEngine
    >>> eta = da.from_array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], chunks=(2, 2))
    >>> labels = da.from_array([0, 1, 1], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:  # doctest: +SKIP
    ...     with DaskEngine(ArrayParts(eta, labels=labels), client=client) as engine:
    ...         engine.label_sums().single
    array([[1., 2.]])
    """

    def __init__(
        self,
        source: PartitionSource,
        *,
        client: Any = None,
        n_categories: int | None = None,
        kernels: Kernels = "auto",
        sort_rows: bool = True,
        split_every: int = SPLIT_EVERY,
        connect_timeout: float = 10.0,
        worker_timeout: float = 60.0,
        pass_timeout: float | None = None,
    ) -> None:
        self._kernels, self._sort_rows = check_kernels(kernels), bool(sort_rows)  # a worker checks whether it has numba
        self._n_categories = None if n_categories is None else check_count(n_categories, name="n_categories", low=1)
        self._split_every = check_count(split_every, name="split_every", low=2)
        partitions = source.partitions()
        if not partitions:
            raise ShapeError("the source must have at least one partition. Got none")
        self._cluster = Cluster(
            client, connect_timeout=connect_timeout, worker_timeout=worker_timeout, pass_timeout=pass_timeout
        )
        self._held: list[Any] = []
        self._large: set[tuple[Any, ...]] = set()  # the kinds of passes whose sums the workers add
        try:
            self._held = self._cluster.compute([self._holding(partition) for partition in partitions])
            self._facts = self._checked_facts([partition.place for partition in partitions])
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the rows on the workers, and close the cluster if the engine started it."""
        self._held = []
        self._cluster.close()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(facts.n_rows for facts in self._facts)

    @property
    def n_partitions(self) -> int:
        """Number of partitions, empty ones included."""
        return len(self._facts)

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return self._first.n_classes

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return self._first.n_bases

    @property
    def _first(self) -> PartitionFacts:
        """The facts of the first partition that has rows."""
        return next(facts for facts in self._facts if facts.n_rows)

    def _holding(self, partition: LazyPartition) -> Any:
        """Return the task that reads and keeps a partition."""
        from dask import delayed

        return delayed(hold, pure=False)(partition.place, self._n_categories, partition.make, *partition.given)

    def _checked_facts(self, places: Sequence[str]) -> list[PartitionFacts]:
        """Return the facts of all partitions; raise if one is wrong or not like the others."""
        known: list[PartitionFacts] = self._cluster.made(self._cluster.each(facts_of, self._held, name="facts"), places)
        full = [facts for facts in known if facts.n_rows]
        if not full:
            raise ShapeError(f"the partitions must have at least one row in total. Got none in {len(known)}")
        for facts in full[1:]:
            _check_alike(full[0], facts)
        if not any(facts.has_weight for facts in full):
            raise WeightError("at least one weight must be above 0. Got weights that are 0 in every row")
        return known

    def _summed(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the sums of one pass over all partitions."""
        if not self._held:
            raise SettingError("this engine is closed: make a new one")
        if method in ("label_sums", "classifier_sums", "pair_hits", "look") and not self._first.has_labels:
            raise LabelError("these rows have no labels; sums over training rows need them: pass labels=...")
        call = PassCall(
            method=method,
            arguments=arguments,
            options=options,
            n_cells=self.n_rows * self.n_classes,
            kernels=self._kernels,
            n_categories=self._n_categories,
            sort_rows=self._sort_rows,
        )
        found = self._returned(call)
        missing = [number for number in range(self.n_partitions) if number not in found]
        if missing:
            held = [self._held[number] for number in missing]
            shared = [self._cluster.share(call)] * len(held)
            tasks = self._cluster.each(sum_partition, held, shared, name=method.replace("_", "-"))
            found |= dict(zip(missing, tasks, strict=True))
        parts = [found[number] for number in range(self.n_partitions)]
        return self._cluster.total(parts, split_every=self._split_every)

    def _returned(self, call: PassCall) -> dict[int, Any]:
        """Return the sums that the workers return when called, by the number of the partition.

        A partition is missing if its worker was lost or has just given it away. All are missing if their sums are so
        large that the workers should add them.
        """
        kind = (call.method, *sorted(call.options.items()))
        if kind in self._large:
            return {}
        answers = self._cluster.answers(
            sum_held, self._cluster.holders(self._held), call, MOST_BYTES / self.n_partitions
        )
        if None in answers:
            self._large.add(kind)
            return {}
        return {number: sums for answer in answers for number, sums in answer.items()}


def _check_alike(first: PartitionFacts, other: PartitionFacts) -> None:
    """Raise if a partition is not like the first."""
    for what, wanted, found in (
        ("classes", first.n_classes, other.n_classes),
        ("basis functions", first.n_bases, other.n_bases),
    ):
        if wanted != found:
            raise ShapeError(f"{other.place}: must have {wanted} {what}, as {first.place} has. Got {found} instead")
    for column, kind in first.types.items():
        if other.types.get(column, kind) != kind:
            raise ShapeError(
                f"{other.place}: column {column!r} must be of type {kind}, as in {first.place}. "
                f"Got {other.types[column]} instead"
            )
