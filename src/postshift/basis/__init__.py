"""Basis functions: columns phi in [0, 1] that say where example weights may differ."""

from __future__ import annotations

from postshift.basis.groups import ConstantBasis, CoverBasis, GroupBasis
from postshift.basis.tree import TreeBasis

__all__ = ["ConstantBasis", "CoverBasis", "GroupBasis", "TreeBasis"]
