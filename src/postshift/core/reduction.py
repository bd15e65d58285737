"""Fewer members, the same confusion matrix: a vertex of a linear program.

The confusion matrix of a mixture is the average of its members' matrices. Shares that keep K of its entries form a
polytope; a vertex of it has at most K + 1 positive shares (Carathéodory).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from postshift._validation import FloatArray, IntArray
from postshift.core.mixture import Mixture
from postshift.core.rows import Rows
from postshift.core.weighting import weighting_named
from postshift.exceptions import LabelError

_NEGLIGIBLE = 1e-12


def reduced(mixture: Mixture, val: Rows, *, keeps: str = "full") -> Mixture:
    """Return a mixture of few of the members with the same confusion matrix on the validation rows.

    The randomised classifier keeps its score for every metric that depends only on what is kept. The most probable
    class of a row may change: score deterministic labels again.

    Parameters
    ----------
    mixture : Mixture
        The mixture.
    val : Rows
        Validation rows with labels.
    keeps : {"diagonal", "columns", "full"}
        What is kept: the diagonal (at most m + 1 members), the column sums too (2m), or all of it (m^2 - m + 1).

    Examples
    --------
    >>> from postshift import PlugIn, Rows
    >>> rules = [PlugIn(weighting="diagonal", alpha=[[1.0, w]], n_classes=2) for w in (1, 2, 4, 8, 16)]
    >>> p = np.linspace(0, 1, 41)
    >>> rows = Rows.of(np.column_stack([1 - p, p]), labels=(p > 0.3).astype(int))
    >>> len(reduced(Mixture.of(rules, np.full(5, 0.2)), rows, keeps="diagonal").members) <= 3
    True
    """
    if val.labels is None:
        raise LabelError("the validation rows need labels to keep their confusion matrix: pass labels=... to Rows.of")
    kept = np.stack([_entries(member.labels(val.eta, val.phi), val, keeps) for member in mixture.members], axis=1)
    equations = np.vstack([kept, np.ones(len(mixture.members))])
    found = linprog(
        np.random.default_rng(0).random(len(mixture.members)),  # any vertex will do: a direction without ties
        A_eq=equations,
        b_eq=equations @ mixture.shares,
        bounds=(0, None),
        method="highs-ds",
    )
    if found.x is None:  # rounding made the equations contradict each other
        return mixture
    shares = np.where(found.x > _NEGLIGIBLE, found.x, 0)
    return Mixture.of(mixture.members, shares / shares.sum())


def _entries(labels: IntArray, val: Rows, keeps: str) -> FloatArray:
    """Return the entries of the confusion matrix that are kept."""
    weighting_named(keeps)  # a typo is an error
    n_classes = val.n_classes
    codes = np.asarray(val.labels) * n_classes + labels
    table = np.bincount(codes, weights=val.row_weights, minlength=n_classes**2).reshape(n_classes, n_classes)
    shares = table / table.sum()
    if keeps == "diagonal":
        return np.asarray(np.diag(shares))
    if keeps == "columns":
        return np.concatenate([np.diag(shares), shares.sum(axis=0)])
    return np.asarray(shares.ravel())
