"""The rate program against a linear program with a variable for each row and class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from benchmarks.data import draw
from benchmarks.timing import FailedError, Outcome, interleaved
from postshift import MemoryEngine
from postshift.core.rate_program import Limits, RateProgram, RateSolution, expected_rates
from postshift.core.rows import Rows

LEAST_RECALL = 0.55  # of every class in every cluster
GAP = 1e-4
N_WARM = 1000


def against_all_rows(*, n: int, n_few: int, n_bases: int, n_limited: int, m: int = 10, repeats: int = 2) -> Outcome:
    """Compare with HiGHS on fewer rows: accuracy, subject to a recall of ``n_limited`` classes in every hard cluster.

    On the fewer rows, both must find the same optimum, up to the gap.
    """
    many, few = (draw(size, m, n_bases=n_bases) for size in (n, n_few))
    limits = limits_of(n_bases, m, n_limited=n_limited)
    by_columns(draw(N_WARM, m, n_bases=n_bases), limits)  # compiles
    least, results = interleaved(
        {"theirs": lambda: by_all_rows(few, limits), "ours": lambda: by_columns(many, limits)}, repeats=repeats
    )
    theirs, ours = -float(results["theirs"].fun), by_columns(few, limits).value
    if not abs(theirs - ours) <= GAP:
        raise FailedError(f"the optima of the same rows are {ours:.6f} and {theirs:.6f}")
    return Outcome(
        ours=least["ours"],
        theirs=least["theirs"],
        ours_value=ours,
        theirs_value=theirs,
        note=f"{results['ours'].n_passes} passes; both values are of {n_few:,} rows",
    )


def by_columns(rows: Rows, limits: Limits) -> RateSolution:
    """Return the solution of the rate program."""
    rates = expected_rates(MemoryEngine(replace(rows, labels=np.zeros(rows.n_rows, dtype=np.intp)), n_categories=1))
    size = {"n_bases": rows.n_bases, "n_classes": rows.n_classes}
    return RateProgram(rates, **size, limits=limits, tol=GAP).maximise(goal_of(rows))


def by_all_rows(rows: Rows, limits: Limits) -> OptimizeResult:
    """Return the solution of the program with a variable for each row and class, by HiGHS."""
    n_rows, n_classes = rows.eta.shape
    cluster = np.argmax(rows.phi, axis=1)
    goal = goal_of(rows)
    blocks = []
    for table in limits.coefficients:
        own = np.flatnonzero(np.abs(table).sum(axis=(1, 2)) > 0)
        here = np.flatnonzero(np.isin(cluster, own))
        values = np.einsum("ni,nij->nj", rows.eta[here], table[cluster[here]]) / n_rows
        places = (here[:, None] * n_classes + np.arange(n_classes)).reshape(-1)
        entries = (values.reshape(-1), (np.zeros(len(places), dtype=int), places))
        blocks.append(sparse.csr_array(entries, shape=(1, n_rows * n_classes)))
    return linprog(
        -(np.einsum("ni,nij->nj", rows.eta, goal[cluster]) / n_rows).reshape(-1),
        A_ub=sparse.vstack(blocks, format="csr"),
        b_ub=limits.bounds,
        A_eq=sparse.kron(sparse.eye_array(n_rows), np.ones((1, n_classes)), format="csr"),
        b_eq=np.ones(n_rows),
        method="highs",
    )


def goal_of(rows: Rows) -> np.ndarray:
    """Return the coefficients of accuracy."""
    return np.tile(np.eye(rows.n_classes), (rows.n_bases, 1, 1))


def limits_of(n_bases: int, n_classes: int, *, n_limited: int) -> Limits:
    """Return the limits: the recall of the last classes, in every cluster, is not below ``LEAST_RECALL``."""
    limited = range(n_classes - n_limited, n_classes)
    coefficients = np.zeros((n_bases, n_limited, n_bases, n_classes, n_classes))
    for cluster in range(n_bases):
        for place, label in enumerate(limited):
            coefficients[cluster, place, cluster, label] = LEAST_RECALL
            coefficients[cluster, place, cluster, label, label] -= 1
    return Limits(
        coefficients=coefficients.reshape(-1, n_bases, n_classes, n_classes),
        bounds=np.zeros(n_bases * n_limited),
        names=tuple(f"recall of {label} in {cluster}" for cluster in range(n_bases) for label in limited),
    )
