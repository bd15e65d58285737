"""Rows as the rules see them: probabilities, and the functions of several bases under their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from postshift._validation import (
    MIN_ROWS,
    NEGLIGIBLE,
    FloatArray,
    IntArray,
    check_eta,
    check_labels,
    check_phi,
    check_weights,
    relative_weights,
)
from postshift.core.rows import Rows
from postshift.core.statistics import Engine
from postshift.engines.memory import MemoryEngine
from postshift.exceptions import BasisError, WeightError
from postshift.rules.elsewhere import Elsewhere
from postshift.rules.posterior import Posterior

CONSTANT = "constant"


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Rows with the model's probabilities and, under their names, the basis functions of several bases.

    Where ``whole`` is given the rows are a draw of it: what reads sums reads those of all rows, what reads rows these.
    """

    eta: FloatArray
    bases: Mapping[str, FloatArray]
    labels: IntArray | None = None
    weights: FloatArray | None = None
    whole: Elsewhere | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        eta: Any,
        *,
        bases: Mapping[str, Any] | None = None,
        labels: Any = None,
        weights: Any = None,
        name: str = "eta",
    ) -> Table:
        """Validate; the constant basis is always there, and the rows of every basis are divided by their sums."""
        table = check_eta(eta, name=name)
        n_rows, n_classes = table.shape
        named = {CONSTANT: np.ones((n_rows, 1))}
        for basis, phi in (bases or {}).items():
            if basis == CONSTANT:
                raise BasisError(f"the name {CONSTANT!r} is taken: the constant basis is always there")
            named[basis] = unit_rows(check_phi(phi, n_rows=n_rows, name=f"basis {basis!r}"), name=basis)
        return cls(
            eta=table,
            bases=named,
            labels=None if labels is None else check_labels(labels, n_rows=n_rows, n_classes=n_classes),
            weights=check_weights(weights, n_rows=n_rows),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave the engines, and rows that are elsewhere, behind where the rows go to another process."""
        return {name: value for name, value in vars(self).items() if name not in ("_engines", "whole")}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.eta)

    @property
    def n_total(self) -> int:
        """Number of rows, those elsewhere included."""
        return self.n_rows if self.whole is None else self.whole.n_rows

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return int(self.eta.shape[1])

    def sample(self, basis: str) -> Rows:
        """Return the rows over one basis."""
        return Rows(eta=self.eta, phi=self.phi(basis), labels=self.labels, weights=self.weights)

    def engine(self, basis: str) -> Engine:
        """Return the engine over one basis, of all rows; made once, for all rules."""
        if basis not in self._engines:
            held = self.whole
            self._engines[basis] = MemoryEngine(self.sample(basis)) if held is None else held.engine(basis)
        return self._engines[basis]

    @cached_property
    def _engines(self) -> dict[str, Engine]:
        """The engines made so far."""
        return {}

    def phi(self, basis: str) -> FloatArray:
        """Return the functions of one basis."""
        if basis not in self.bases:
            raise BasisError(f"there is no basis {basis!r} in this table; there are {sorted(self.bases)}")
        return self.bases[basis]

    def through(self, posterior: Posterior) -> Table:
        """Return the rows as seen through a posterior."""
        whole = None if self.whole is None else self.whole.through(posterior)
        return replace(self, eta=posterior(self.eta), whole=whole)

    def at_hand(self) -> Table:
        """Return the rows that are in memory alone."""
        return self if self.whole is None else replace(self, whole=None)

    def relative(self) -> Table:
        """Return the rows with weights of mean 1, without weights where all are equal."""
        return self if self.weights is None else replace(self, weights=relative_weights(self.weights))

    def places_with_weight(self, *, name: str) -> IntArray | None:
        """Return which rows have a weight above 0, None for all; one alone is refused."""
        weights = relative_weights(self.weights)
        if weights is None or weights.all():
            return None
        places = np.flatnonzero(weights)
        if len(places) < MIN_ROWS:
            raise WeightError(
                f"only {len(places)} of the {self.n_rows} {name} rows has a weight that counts; the others are 0, or "
                f"below {NEGLIGIBLE:g} of the mean: give weights to at least {MIN_ROWS} rows"
            )
        return places

    def take(self, rows: IntArray) -> Table:
        """Return these rows only."""
        return Table(
            eta=self.eta[rows],
            bases={name: phi[rows] for name, phi in self.bases.items()},
            labels=None if self.labels is None else self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
        )


def unit_rows(phi: FloatArray, *, name: str) -> FloatArray:
    """Return basis functions whose rows sum to 1; rows that are covered in part are refused."""
    sums = phi.sum(axis=1, keepdims=True)
    if (sums < 1 - 1e-6).any():
        raise BasisError(
            f"basis {name!r} has {int((sums < 1 - 1e-6).sum())} rows whose functions sum to less than 1: append the "
            "complement with postshift.basis.CoverBasis, fitted on the training rows"
        )
    return np.asarray(phi / sums)
