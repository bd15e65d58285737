"""Rows that are elsewhere: a table may be a draw of more rows than one machine holds."""

from __future__ import annotations

from typing import Protocol

from postshift.core.statistics import Engine
from postshift.rules.posterior import Posterior


class Elsewhere(Protocol):
    """All rows, of which a table in memory holds a draw; only sums of them are ever seen."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def engine(self, basis: str) -> Engine:
        """Return the engine over one basis of the table."""

    def through(self, posterior: Posterior) -> Elsewhere:
        """Return the rows as seen through a posterior, in place of eta."""
