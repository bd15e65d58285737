"""How the time of an iteration grows with the rows, the classes and the basis functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.data import draw
from benchmarks.engine import prepared_runs
from benchmarks.timing import Outcome, interleaved
from postshift.core.fw_eg import Settings

N_ITER = 5
MANY = 1_000_000  # rows from which fewer repeats do


def by_rows(sizes: Sequence[int]) -> list[Outcome]:
    """Measure n: ten classes in five clusters or over five soft functions, and two classes, sorted."""
    cases: dict[str, dict[str, Any]] = {
        "10 classes, 5 hard clusters": {"m": 10, "n_bases": 5},
        "10 classes, 5 soft functions": {"m": 10, "n_bases": 5, "basis": "soft"},
        "2 classes, 5 hard clusters": {"m": 2, "n_bases": 5},
    }
    return [_point(case, n, n=n, **how) for case, how in cases.items() for n in sizes]


def by_classes(sizes: Sequence[int], *, n: int) -> list[Outcome]:
    """Measure m: constant basis, weights on the diagonal, by the gradient of the metric."""
    how: dict[str, Any] = {"separation": 5.0, "linearise": "gradient"}
    return [_point("constant basis", m, n=n, m=m, **how) for m in sizes]


def by_functions(sizes: Sequence[int], *, n: int) -> list[Outcome]:
    """Measure L: hard clusters and soft functions."""
    cases: dict[str, dict[str, Any]] = {"hard clusters": {"basis": "hard"}, "soft functions": {"basis": "soft"}}
    return [_point(case, size, n=n, m=10, n_bases=size, **how) for case, how in cases.items() for size in sizes]


def _point(case: str, x: int, *, n: int, linearise: Any = "probes", **how: Any) -> Outcome:
    """Return the time of one iteration."""
    repeats = 3 if n < MANY else 2
    settings = Settings(weighting="diagonal", linearise=linearise, max_iter=N_ITER)
    run = prepared_runs(draw(n, **how), repeats=repeats, settings=settings)
    least, results = interleaved({"ours": run}, repeats=repeats)
    return Outcome(case=case, x=x, ours=least["ours"].over(len(results["ours"].trace)))
