"""The Dask engine: rows on the workers of a cluster, one task for each partition and pass, small sums back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from postshift._validation import FloatArray, check_count
from postshift.core.sums import Classifier, ClassifierSums, GramSums, LabelSums, PairHits
from postshift.engines.dask_cluster import Cluster, Patience
from postshift.engines.dask_parts import PartedSource, Piece
from postshift.engines.dask_worker import Call, Facts, facts_of, hold, summed
from postshift.engines.memory import FEW_CELLS, Kernels
from postshift.exceptions import LabelError, SettingError, ShapeError, WeightError

SPLIT_EVERY = 8


class DaskEngine:
    """Sums over rows that the workers of a Dask cluster hold; nothing of their size ever comes to the client.

    Every partition is computed, checked and kept by a worker when the engine is made; an error names the partition. A
    pass is one task for each of them, by the kernels and with the sorted rows of :class:`MemoryEngine`, and its sums
    come back by a tree whose shape depends on the number of partitions alone. So a worker that is lost in the middle
    of a fit changes nothing: its partitions are computed again elsewhere, and the sums are the same to the last digit.

    Parameters
    ----------
    source : PartedSource
        Where the rows are: :class:`ArrayParts`, :class:`FrameParts`, :class:`ParquetParts`, :class:`ModelParts` or one
        of your own.
    client : distributed.Client or str, optional
        The cluster, or the address of its scheduler. By default the current client; where there is none, a
        ``LocalCluster`` is started, which ends with :meth:`close` or at the end of a ``with`` block. (Programs that
        start one keep to ``if __name__ == "__main__":``, as its processes import them.)
    n_categories : int, optional
        As in :class:`MemoryEngine`.
    kernels : {"auto", "numpy", "numba"}
        As in :class:`MemoryEngine`; what "auto" takes depends on all rows, not on those of a partition.
    sort_rows : bool
        As in :class:`MemoryEngine`: whether workers keep a second, sorted copy of eta in hard clusters.
    split_every : int
        How many sums a task of the tree adds.
    connect_timeout, worker_timeout : float
        Seconds that a scheduler may take to answer, and that there may be no worker at work, before the engine gives up
        with an :class:`~postshift.exceptions.EngineError`.
    pass_timeout : float, optional
        Seconds that a pass may take; by default as long as there are workers.

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
        source: PartedSource,
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
        self._kernels, self._sort_rows = _known(kernels), bool(sort_rows)
        self._n_categories = None if n_categories is None else check_count(n_categories, name="n_categories", low=1)
        self._split_every = check_count(split_every, name="split_every", low=2)
        patience = Patience(connect=connect_timeout, workers=worker_timeout, one_pass=pass_timeout)
        pieces = source.pieces()
        if not pieces:
            raise ShapeError("there must be at least one partition. Got none")
        self._cluster = Cluster(client, patience=patience)
        self._held: list[Any] = []
        self._last_parts: list[Any] = []
        try:
            self._held = self._cluster.compute([self._holding(piece) for piece in pieces])
            self._facts = self._looked_at([piece.place for piece in pieces])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers forget the rows, and end the cluster if it was started here."""
        self._held, self._last_parts = [], []
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

    def label_sums(self) -> LabelSums:
        """Return A, a and the totals."""
        found: LabelSums = self._summed("label_sums")
        return found

    def classifier_sums(self, classifier: Classifier, *, confusions: bool) -> ClassifierSums:
        """Return F, f of the classifier, or B, b where ``confusions`` is false."""
        found: ClassifierSums = self._summed("classifier_sums", classifier, confusions=confusions)
        return found

    def gram_sums(self) -> GramSums:
        """Return the sums of z z' and z p'."""
        found: GramSums = self._summed("gram_sums")
        return found

    def influence_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of z (h p)' of the classifier."""
        found: ClassifierSums = self._summed("influence_sums", classifier)
        return found

    def look(self, classifier: Classifier, *, influence: bool) -> FloatArray:
        """Return the sums of w (1, columns) 1(category=i) h_j as a tensor (1 + K, R, m)."""
        found: FloatArray = self._summed("look", classifier, influence=influence)
        return found

    def pair_hits(self, ratios: FloatArray, *, reference: int) -> PairHits:
        """Return the hits of the pairwise classifiers of the appendix on Eq. (11)."""
        found: PairHits = self._summed("pair_hits", ratios, reference=reference)
        return found

    @property
    def _first(self) -> Facts:
        """What is known of the first partition that has rows."""
        return next(facts for facts in self._facts if facts.n_rows)

    def _holding(self, piece: Piece) -> Any:
        """Return the task that holds a partition."""
        from dask import delayed

        return delayed(hold, pure=False)(piece.place, self._n_categories, piece.make, *piece.given)

    def _looked_at(self, places: Sequence[str]) -> list[Facts]:
        """Return what is to be known of all partitions, refused where one is wrong or not like the others."""
        known: list[Facts] = self._cluster.made(self._cluster.each(facts_of, self._held, name="facts"), places)
        full = [facts for facts in known if facts.n_rows]
        if not full:
            raise ShapeError(f"there must be at least one row in all partitions together. Got none in {len(known)}")
        for facts in full[1:]:
            _check_alike(full[0], facts)
        if not any(facts.weighs for facts in full):
            raise WeightError("weights must have a sum that is positive. Got weights that are 0 in every row")
        return known

    def _summed(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the sums of one pass over all partitions."""
        if not self._held:
            raise SettingError("this engine is closed: make another one")
        if method in ("label_sums", "classifier_sums", "pair_hits", "look") and not self._first.has_labels:
            raise LabelError("this sample has no labels; the sums of the training side need them: pass labels=...")
        call = Call(
            method=method,
            arguments=arguments,
            options=options,
            many=self.n_rows * self.n_classes >= FEW_CELLS,
            kernels=self._kernels,
            n_categories=self._n_categories,
            sort_rows=self._sort_rows,
        )
        shared = self._cluster.share(call)
        parts = self._cluster.each(summed, self._held, [shared] * len(self._held), name=method.replace("_", "-"))
        # Dask's client sends at most every ten milliseconds: what the last pass left is released once this one is sent.
        self._last_parts = parts
        return self._cluster.total(parts, split_every=self._split_every)


def _known(kernels: Kernels) -> Kernels:
    """Refuse kernels that there are not; whether numba is there is for the workers to say."""
    if kernels not in ("auto", "numpy", "numba"):
        raise SettingError(f"kernels must be 'auto', 'numpy' or 'numba'. Got {kernels!r} instead")
    return kernels


def _check_alike(first: Facts, other: Facts) -> None:
    """Refuse a partition that is not like the first."""
    names = {"n_classes": "classes", "n_bases": "basis functions"}
    for name, what in names.items():
        wanted, found = getattr(first, name), getattr(other, name)
        if wanted != found:
            raise ShapeError(f"{other.place}: must have {wanted} {what}, as {first.place} has. Got {found} instead")
    for column, kind in first.types.items():
        if other.types.get(column, kind) != kind:
            raise ShapeError(
                f"{other.place}: column {column!r} must be of type {kind}, as in {first.place}. "
                f"Got {other.types[column]} instead"
            )
