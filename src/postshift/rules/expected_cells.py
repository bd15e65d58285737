"""What rows are expected to be like before they are collected: shares of rows in cells, for ``postshift.power``.

Notation: cells (R, m, m) hold the share of rows for each category, label of a rule, and label of the base.

*A table* is taken as known.

*Probabilities* take the place of labels. A rule looks better on the rows that made it than on others, so each half of
the rows makes the rule that labels the other half. Cells are means over rows, so their noise is known: rows are put
into blocks, and blocks are drawn again (a bootstrap).

*Labelled rows* correct wrong probabilities. On these rows, the cells by labels minus those by probabilities are what
the probabilities miss; this difference is added. The sum is right on average whatever the model, and its noise is that
of both samples of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_eta
from postshift.core.plugin import PlugIn, onehot
from postshift.core.rows import Rows
from postshift.exceptions import InputError, LabelError, ShapeError
from postshift.rules.certified import PATH_ROWS
from postshift.rules.constrained_program import Expectation

N_BLOCKS = 200  # of rows; each is drawn as a whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Expected shares of rows in cells: the sum of the means over the blocks (B, R, m, m) of each source of rows."""

    blocks: tuple[FloatArray, ...]

    @property
    def is_known(self) -> bool:
        """Whether the shares have no noise."""
        return all(len(each) == 1 for each in self.blocks)

    @property
    def shares(self) -> FloatArray:
        """The shares (R, m, m)."""
        return _as_shares(sum(each.mean(axis=0) for each in self.blocks))

    def drawn(self, n_draws: int) -> Iterator[FloatArray]:
        """Yield shares for blocks that are drawn again, with a fixed seed."""
        rng = np.random.default_rng(0)
        for _ in range(n_draws):
            yield _as_shares(sum(each[rng.integers(len(each), size=len(each))].mean(axis=0) for each in self.blocks))


def _as_shares(cells: Any) -> FloatArray:
    """Return cells as shares; a correction may leave less than nothing in a cell."""
    found = np.maximum(cells, 0)
    return np.asarray(found / found.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A table that is known: a confusion matrix (R, m), or cells (R, m, m)."""

    table: FloatArray

    @classmethod
    def of(cls, confusion: Any, *, n_axes: int) -> Table:
        """Return a table as shares; raise if it has another shape or negative entries."""
        table = np.asarray(confusion, dtype=np.float64)
        wanted = "(R, m)" if n_axes == 2 else "(R, m, m): true class, label of the rule, label of the base"
        n_classes = table.shape[-1] if table.ndim else 0
        square = table.ndim == n_axes and len(set(table.shape[1:])) == 1
        if not square or n_classes < 2 or len(table) % n_classes:
            raise ShapeError(f"confusion must have shape {wanted}. Got {table.shape} instead")
        if not np.isfinite(table).all() or (table < 0).any() or table.sum() <= 0:
            raise InputError("confusion must have finite numbers >= 0, not all of them 0")
        return cls(table=table / table.sum())

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.table.shape[-1])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.table) // self.n_classes

    @property
    def cells(self) -> Cells:
        """The cells; a confusion matrix has one label of the base."""
        return Cells(blocks=(self.table.reshape(1, len(self.table), self.n_classes, -1),))


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpectedRows:
    """Rows with a model's probabilities in place of labels, and the groups of the rows as positions."""

    rows: Rows
    groups: IntArray | None = None
    n_groups: int = 1
    labels: IntArray | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.rows.n_classes

    @classmethod
    def of(
        cls, eta: Any, groups: Any, *, labels: Any = None, known_groups: Any = None, name: str = "eta"
    ) -> ExpectedRows:
        """Return the rows; groups have their own basis, and labels are positions."""
        table = check_eta(eta, name=name)
        if labels is not None and np.shape(labels) != (len(table),):
            raise ShapeError(f"y_val must have one label for each of the {len(table)} rows. Got {np.shape(labels)}")
        if groups is None:
            return cls(rows=Rows.of(table), labels=labels)
        values = np.asarray(groups)
        if values.shape != (len(table),):
            raise ShapeError(f"groups must have one value for each of the {len(table)} rows. Got {values.shape}")
        known = np.unique(values) if known_groups is None else known_groups
        if not np.isin(values, known).all():
            raise LabelError(
                f"groups of {name} must be among {known.tolist()}. Got {np.unique(values).tolist()} instead"
            )
        codes, n_groups = np.searchsorted(known, values), len(known)
        return cls(rows=Rows.of(table, phi=np.eye(n_groups)[codes]), groups=codes, n_groups=n_groups, labels=labels)

    def expectation(self) -> Expectation:
        """Return the expected confusion matrices of classifiers."""
        return Expectation.of(self.rows, self.groups, n_groups=self.n_groups)

    def take(self, places: IntArray) -> ExpectedRows:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[places]
        return ExpectedRows(rows=self.rows.take(places), groups=groups, n_groups=self.n_groups)

    def blocks(self, rule: PlugIn) -> FloatArray:
        """Return the cells of a rule in each block of rows (B, R, m, m), all blocks together being a mean of 1.

        With labels, they are those of the labels minus those of the probabilities.
        """
        n_rows, n_classes = self.rows.n_rows, self.n_classes
        chances = self.rows.eta
        if self.labels is not None:
            chances = onehot(self.labels, n_classes=n_classes) - chances
        member = np.ones((n_rows, 1)) if self.groups is None else np.eye(self.n_groups)[self.groups]
        places = rule.labels(self.rows.eta, self.rows.phi) * n_classes + np.argmax(self.rows.eta, axis=1)
        n_blocks = min(N_BLOCKS, n_rows)
        block = np.random.default_rng(0).permutation(n_rows) % n_blocks
        cells = np.zeros((n_blocks, n_classes**2, self.n_groups, n_classes))
        np.add.at(cells, (block, places), member[:, :, None] * chances[:, None, :])
        found = np.moveaxis(cells, 1, 3).reshape(n_blocks, self.n_groups * n_classes, n_classes, n_classes)
        return np.asarray(found * n_blocks / n_rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Halves:
    """Probabilities of some rows, in two halves that label each other, and labelled rows that correct them, if any."""

    halves: tuple[ExpectedRows, ExpectedRows]
    labelled: ExpectedRows | None = None

    @classmethod
    def of(cls, rows: ExpectedRows, labelled: ExpectedRows | None) -> Halves:
        """Split rows at random, with a fixed seed."""
        n_rows = rows.rows.n_rows
        if n_rows < 2:
            raise InputError(f"eta must have at least 2 rows, one for each half. Got {n_rows}")
        order = np.random.default_rng(0).permutation(n_rows)
        first, second = (rows.take(np.sort(order[start::2])) for start in (0, 1))
        return cls(halves=(first, second), labelled=labelled)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.halves[0].n_classes

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.halves[0].n_groups

    def made(self, make: Callable[[Expectation], Any]) -> list[Any]:
        """Return what each half makes from its expected confusion matrices; many rows are not all needed."""
        few = [half.take(np.arange(min(half.rows.n_rows, PATH_ROWS))) for half in self.halves]
        return [make(half.expectation()) for half in few]

    def cells(self, rules: Sequence[PlugIn]) -> Cells:
        """Return the cells of the rules that the halves made: each rule labels the half that did not make it."""
        first, second = self.halves
        n_rows = first.rows.n_rows + second.rows.n_rows
        blocks = [
            half.blocks(rule) * half.rows.n_rows / n_rows for half, rule in zip((second, first), rules, strict=True)
        ]
        if self.labelled is not None:
            blocks.append(np.mean([self.labelled.blocks(rule) for rule in rules], axis=0))
        return Cells(blocks=tuple(blocks))
