"""Tables of results, and the statistics in them: intervals, differences, Welch's test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from experiments.harness.experiment import Results

LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]], *, n_texts: int = 1) -> str:
    """Return a table; its first columns are texts, the others numbers."""
    rule = ["---"] * n_texts + ["---:"] * (len(head) - n_texts)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


# -- statistics ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Mean, standard deviation and 95 % t interval; one value has a mean only, the rest is NaN."""

    n: int
    mean: float
    sd: float
    low: float
    high: float

    def cells(self) -> list[str]:
        """Return mean, standard deviation and interval as text."""
        if self.n < 2:
            return [f"{self.mean:.3f}", "", ""]
        return [f"{self.mean:.3f}", f"{self.sd:.3f}", f"{self.low:.3f} to {self.high:.3f}"]

    def difference(self, digits: int = 4) -> list[str]:
        """Return the mean and the interval of differences as text, with their signs."""
        interval = "" if self.n < 2 else f"{self.low:+.{digits}f} to {self.high:+.{digits}f}"
        return [f"{self.mean:+.{digits}f}", interval]


def summary(values: np.ndarray) -> Summary:
    """Return what a table says of values."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Summary(n=len(values), mean=mean, sd=np.nan, low=np.nan, high=np.nan)
    sd = float(np.std(values, ddof=1))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * sd / np.sqrt(len(values))
    return Summary(n=len(values), mean=mean, sd=sd, low=mean - half, high=mean + half)


def mean_sd(values: np.ndarray, digits: int = 3) -> str:
    """Return mean and, of several values, standard deviation; nothing for none."""
    if not len(values):
        return ""
    found = summary(values)
    spread = "" if found.n < 2 else f" ± {found.sd:.{digits}f}"
    return f"{found.mean:.{digits}f}{spread}"


def welch(first: np.ndarray, second: np.ndarray) -> float:
    """Return the two-sided p of Welch's t-test that two means are equal; NaN for fewer than two values."""
    if min(len(first), len(second)) < 2:
        return float("nan")
    parts = np.array([np.var(values, ddof=1) / len(values) for values in (first, second)])
    apart = float(np.mean(first) - np.mean(second))
    if parts.sum() == 0:
        return float(apart == 0)
    freedom = parts.sum() ** 2 / (parts**2 / [len(first) - 1, len(second) - 1]).sum()
    return float(2 * stats.t.sf(abs(apart) / np.sqrt(parts.sum()), freedom))


def stars(p: float) -> str:
    """Return ``*`` where a difference is significant at 95 %, ``**`` at 99 %, ``***`` at 99.9 %."""
    return next((mark for level, mark in LEVELS if p < level), "")


# -- tables of methods --------------------------------------------------------------------------------------


def against_closest(results: Results, method: str, rivals: Collection[str]) -> str:
    """Return the difference to the rival with the highest mean, with the stars of Welch's test."""
    scored = {rival: results.values(rival) for rival in rivals}
    scored = {rival: values for rival, values in scored.items() if len(values)}
    if not scored:
        return ""
    closest = max(scored.values(), key=lambda values: float(values.mean()))
    own = results.values(method)
    return f"{own.mean() - closest.mean():+.3f}{stars(welch(own, closest))}"


def table(
    results: Results,
    *,
    methods: Sequence[str] | None = None,
    ours: Collection[str] = (),
    called: Callable[[str], str] = str,
) -> str:
    """Return the table of the test values: spread, cost, the closest baseline, the paper's figure.

    Parameters
    ----------
    results : Results
        What is stored.
    methods : sequence of str, optional
        The rows, in order; by default all methods. Those without results are left out.
    ours : collection of str
        The methods that are compared with the best of the others by Welch's test.
    called : callable
        From a method's name to what the table calls it.
    """
    shown = [m for m in (results.methods if methods is None else methods) if len(results.values(m))]
    rivals = [method for method in shown if method not in ours]
    lines = []
    for method in shown:
        values, paper = results.values(method), results.experiment.paper.get(method)
        lines.append(
            [
                called(method),
                *summary(values).cells(),
                against_closest(results, method, rivals) if method in ours else "",
                f"{results.seconds(method).mean():.1f}",
                f"{results.queries(method):,}",
                *_beside(values, paper),
            ]
        )
    head = ["method", "mean", "sd", "95 % interval", "vs best baseline", "CPU s", "queries", "paper", "minus paper"]
    return markdown(head, lines)


def _beside(values: np.ndarray, paper: tuple[float, float] | None) -> list[str]:
    """Return the paper's figure, whose standard deviation may be unknown (NaN), and the difference to it."""
    if paper is None:
        return ["", ""]
    mean, sd = paper
    text = f"{mean:.3f} ± {sd:.3f}" if np.isfinite(sd) else f"{mean:.3f}"
    return [text, f"{values.mean() - mean:+.3f}"]


def task_table(results: Results, task: str, paper: Mapping[str, float] | None = None) -> str:
    """Return the table of one task: spread, queries and, where it is given, the paper's figure."""
    lines = [
        [
            method,
            *summary(values).cells(),
            f"{results.queries(method, task=task):,}",
            f"{(paper or {})[method]:.3f}" if method in (paper or {}) else "",
        ]
        for method, values in results.by_method(task).items()
    ]
    return markdown(["method", "mean", "sd", "95 % interval", "queries", "paper"], lines)


# -- values named "test@<place>" ----------------------------------------------------------------------------


def places(results: Results, method: str) -> list[int]:
    """Return the places at which a method has a test value, ascending."""
    names = {name for row in results.of(method) for name in row.values if name.startswith("test@")}
    return sorted(int(name.removeprefix("test@")) for name in names)


def from_first_to_last(results: Results, methods: Mapping[str, str], what: str) -> str:
    """Say in one sentence how the means of some methods, by what to call them, move from first to last place."""
    moves = []
    for name, method in methods.items():
        at = places(results, method)
        if at:
            first, last = (results.values(method, f"test@{n}").mean() for n in (at[0], at[-1]))
            moves.append(f"from {first:.3f} to {last:.3f} with *{name}*")
    return f"{what} goes {', '.join(moves)}." if moves else ""
