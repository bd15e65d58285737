"""Rows in files as the training rows of a PostShifter: a random sample in memory, all rows read block by block.

As for Dask collections (:mod:`postshift.estimators.dask_rows`), rules are chosen on the sample. If the choice is a
single rule, this rule reads sums over all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from postshift._validation import FloatArray
from postshift.core.rows import CONSTANT, PHI, Posterior, Rows, unit_rows
from postshift.core.sums import Engine
from postshift.engines.blocks import BlockEngine, RowBlock
from postshift.estimators import dask_rows
from postshift.estimators.dask_rows import drawn_places
from postshift.exceptions import ShapeError


def drawn_rows(engine: BlockEngine, *, n_classes: int, seed: int) -> Rows:
    """Return a random sample of the rows of an engine, with all rows attached if there are more."""
    source = engine.source
    if source.n_classes != n_classes:
        raise ShapeError(f"eta_train must have {n_classes} columns. Got {source.n_classes} instead")
    places = drawn_places(source.n_rows, dask_rows.DRAWN_ROWS, (seed,))
    found, before = [], 0
    for block in engine.read():
        n_rows = len(block.rows.eta)
        first, last = np.searchsorted(places, [before, before + n_rows])
        found.append(replace(block.rows, bases=_given_bases(block)).take(places[first:last] - before))
        before += n_rows
    drawn = _together(found)
    return (
        drawn
        if drawn.n_rows >= source.n_rows
        else replace(drawn, whole=RemoteBlockRows(engine_of_file=engine, like=drawn))
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class RemoteBlockRows:
    """All rows, read again in every pass; see :class:`postshift.core.rows.RemoteRows`."""

    engine_of_file: BlockEngine
    like: Rows  # the sample, for shapes
    posteriors: tuple[Posterior, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.engine_of_file.source.n_rows

    def engine(self, basis: str) -> Engine:
        """Return the engine over one basis."""
        return self.engine_of_file.over(_FileRowsOfBasis(self, basis))

    def through(self, posterior: Posterior) -> RemoteBlockRows:
        """Return the rows with eta replaced by a posterior."""
        return replace(self, posteriors=(*self.posteriors, posterior))


class _FileRowsOfBasis:
    """The rows of a file over one basis, as an engine takes them."""

    def __init__(self, rows: RemoteBlockRows, basis: str) -> None:
        self._rows, self._basis, source = rows, basis, rows.engine_of_file.source
        self.n_rows, self.n_classes, self.fixed_bytes = source.n_rows, source.n_classes, source.fixed_bytes
        self.n_bases = int(rows.like.functions(basis).shape[1])
        self.row_bytes = source.row_bytes + 8 * (self.n_bases + 4 * self.n_classes * len(rows.posteriors))

    def blocks(self, block_rows: int) -> Iterator[RowBlock]:
        """Yield all rows in blocks; every pass must read the rows of the first one."""
        for block in self._rows.engine_of_file.read(block_rows):
            yield replace(block, rows=self._over_basis(block))

    def _over_basis(self, block: RowBlock) -> Rows:
        """Return the rows of a block with their posterior and one basis."""
        rows, basis = block.rows, self._basis
        eta: FloatArray = rows.eta
        for posterior in self._rows.posteriors:
            eta = posterior(np.asarray(eta, dtype=np.float64))
        given = _given_bases(block)
        phi = np.ones((len(eta), 1)) if basis == CONSTANT else unit_rows(given[basis], name=basis)
        return replace(rows, eta=eta, bases={PHI: phi})


def _given_bases(block: RowBlock) -> dict[str, FloatArray]:
    """Return the bases of a block by name; a source without basis functions has none."""
    return {name: phi for name, phi in block.rows.bases.items() if name != PHI or "phi" in block.files}


def _together(parts: list[Rows]) -> Rows:
    """Return the rows of several blocks in one, checked, after the constant basis."""

    def joined(arrays: list[FloatArray | None]) -> FloatArray | None:
        given = [each for each in arrays if each is not None]
        return np.concatenate(given) if given else None

    labels, weights = (joined([getattr(part, name) for part in parts]) for name in ("labels", "weights"))
    bases = {name: np.concatenate([part.bases[name] for part in parts]) for name in parts[0].bases}
    eta = np.concatenate([part.eta for part in parts])
    return Rows.of(eta, bases=bases, labels=labels, weights=weights, name="eta_train")
