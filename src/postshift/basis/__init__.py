"""Basis functions: columns phi in [0, 1] that define where example weights may differ."""

from __future__ import annotations

from postshift.basis.base import Basis
from postshift.basis.clusters import KMeansBasis, RBFBasis
from postshift.basis.groups import ConstantBasis, GroupBasis
from postshift.basis.spec import basis_catalogue, basis_named, named_bases
from postshift.basis.tree import TreeBasis
from postshift.basis.user import CoverBasis, TransformerBasis, UnionBasis

__all__ = [
    "Basis",
    "ConstantBasis",
    "CoverBasis",
    "GroupBasis",
    "KMeansBasis",
    "RBFBasis",
    "TransformerBasis",
    "TreeBasis",
    "UnionBasis",
    "basis_catalogue",
    "basis_named",
    "named_bases",
]
