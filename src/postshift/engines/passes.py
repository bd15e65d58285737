"""What the engine asks of its kernels: four passes over the rows for a plug-in classifier.

A pass over some rows (a *part*) gives a table that adds up over the parts; what the tables hold depends on the basis:

===========  ============================  ===============================  ==================================
pass         hard clusters                 other bases                      entries
===========  ============================  ===============================  ==================================
hits         (L, m)                        (L, 1 + L, m)                    sum of w phi_l (1, phi) 1(y=i) h_i
confusions   (L, R, m)                     (L, 1 + L, R, m)                 sum of w phi_l (1, phi) 1(y=i) h_j
influence    (L, 1 + m, m)                 (L, 1 + m, m)                    sum of w phi_l (1, p) h_j p_j
look         (L, 1 or 1 + m, R, m)         (1 + L or 1 + L m, R, m)         sum of w columns 1(y=i) h_j
===========  ============================  ===============================  ==================================
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from postshift._validation import FloatArray
from postshift.core.sums import ClassifierSums
from postshift.engines.rows import KernelRows, RuleWeights, on_the_diagonal


class Passes(Protocol):
    """The passes of one way to compute; see the module."""

    parts: list[Any]

    def hits(self, part: Any, rule: RuleWeights) -> FloatArray:
        """Return the weight of the rows that the rule predicts right."""

    def confusions(self, part: Any, rule: RuleWeights) -> FloatArray:
        """Return the weight by label and predicted class."""

    def influence(self, part: Any, rule: RuleWeights) -> FloatArray:
        """Return the sums of influence regression."""

    def look(self, part: Any, rule: RuleWeights, *, influence: bool) -> FloatArray:
        """Return the weighted confusions by column."""


def classifier_table(rows: KernelRows, table: FloatArray) -> ClassifierSums:
    """Return the sums B, b or F, f that a table of hits or confusions stands for."""
    if rows.clusters is not None:
        return on_the_diagonal(np.ascontiguousarray(table))
    return _parted(table[:, 1:], table[:, 0])


def influence_table(table: FloatArray) -> ClassifierSums:
    """Return the sums of z (h p)' and phi (h p)'."""
    return _parted(table[:, 1:].reshape(-1, table.shape[2]), table[:, 0])


def look_table(rows: KernelRows, table: FloatArray, *, influence: bool) -> FloatArray:
    """Return the tensor (1 + K, R, m) of a look: column 1, then those of phi or z."""
    if rows.clusters is None:
        return np.ascontiguousarray(table)
    columns = table[:, 1:] if influence else table[:, :1]
    return np.concatenate([table[:, 0].sum(axis=0)[None], columns.reshape(-1, *table.shape[2:])])


def _parted(pair: FloatArray, single: FloatArray) -> ClassifierSums:
    """Return sums laid out row by row, however they were found: a run that is saved and resumed has the same bytes."""
    return ClassifierSums(pair=np.ascontiguousarray(pair), single=np.ascontiguousarray(single))
