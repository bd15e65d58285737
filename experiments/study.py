"""What the experiments share: methods by name, results stored as they come, tables, pages, figures.

An experiment is a module with an ``EXPERIMENT``, named in ``experiments/registry.py`` and run by
``python -m experiments NAME``. Its methods are functions of a seed; all that it shows is made from the stored results.
The file of results has one line for each value, and the lines of one (method, seed) are appended in one piece, so a run
that was killed goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from experiments.opening import QUICK, opened
from experiments.output import OUT, markdown
from experiments.store import Row, Store, StoredLineError
from postshift._installing import install
from postshift.core.archive import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "OLDER",
    "OUT",
    "Experiment",
    "Measured",
    "Results",
    "Row",
    "Store",
    "StoredLineError",
    "Summary",
    "against_closest",
    "draw_line",
    "markdown",
    "plain_axes",
    "save_figure",
    "stars",
    "summary",
    "table",
    "welch",
    "whole_page",
    "write_figures",
]

LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#000000")
MARKERS = "osD^vP*X"
WIDTH = 120
SHOWN = 6  # names of methods with missing runs
TEST = "test"
OLDER = (
    "**Made before the last change of the rules.** The guard that keeps the base, and the order of the classes in "
    "plug-in search, have changed since (see the changelog). These results need trained networks and were not made "
    "again."
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one (method, seed) gives: values by name, the CPU time of the fit, the questions put to the metric.

    ``seconds`` is taken by the runner where it is None. ``config`` is stored beside the experiment's own.
    """

    values: Mapping[str, float]
    seconds: float | None = None
    queries: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of the paper.

    ``methods`` are functions of (seed, quick) by name; ``paper`` has the mean and standard deviation of the paper's
    table, for those of them that it has. ``page`` makes the page, ``figure`` draws one or, given several functions,
    several panels side by side, each of ``panel_size`` inches. A stored result counts only while it was made with the
    same ``config``. ``packages`` are those beside postshift's own whose versions matter. A quick look runs
    ``quick_methods``, by default all. ``remark`` stands on the page after its tables.
    """

    name: str
    title: str
    methods: Mapping[str, Callable[[int, bool], Measured]]
    page: Callable[[Results], str]
    paper: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    figure: Callable[[Results, Axes], None] | Sequence[Callable[[Results, Axes], None]] | None = None
    panel_size: tuple[float, float] = (5.9, 4.4)
    seeds: int = 5
    config: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    quick_methods: Sequence[str] | None = None
    remark: str = ""

    def wanted(self, *, seeds: int, quick: bool) -> list[tuple[str, int]]:
        """Return the (method, seed) to be run, seed by seed."""
        methods = self.methods if self.quick_methods is None or not quick else self.quick_methods
        return [(method, seed) for seed in range(seeds) for method in methods]

    @property
    def panels(self) -> tuple[Callable[[Results, Axes], None], ...]:
        """The functions that draw, one a panel."""
        if self.figure is None:
            return ()
        return (self.figure,) if callable(self.figure) else tuple(self.figure)

    def results(self, rows: Iterable[Row], *, quick: bool = False) -> Results:
        """Return the results among stored rows that are whole and of this configuration."""
        wanted = configuration(self, quick=quick)
        found: dict[tuple[str, int], dict[str, Row]] = {}
        for row in rows:
            config = json.loads(row.config)
            if row.method in self.methods and all(config.get(key) == value for key, value in wanted.items()):
                found.setdefault((row.method, row.seed), {})[row.name] = row
        whole = {key: named for key, named in found.items() if all(r.n_values == len(named) for r in named.values())}
        places = {method: place for place, method in enumerate(self.methods)}
        ordered = sorted(whole, key=lambda key: (places[key[0]], key[1]))
        return Results(
            experiment=self,
            rows=tuple(row for key in ordered for row in whole[key].values()),
            quick=quick,
        )


@dataclass(frozen=True, kw_only=True)
class Results:
    """The stored results of an experiment, in the order of its methods, then of the seeds."""

    experiment: Experiment
    rows: tuple[Row, ...]
    quick: bool = False

    @cached_property
    def runs(self) -> dict[tuple[str, int], dict[str, Row]]:
        """The rows by (method, seed), then by the name of the value."""
        found: dict[tuple[str, int], dict[str, Row]] = {}
        for row in self.rows:
            found.setdefault((row.method, row.seed), {})[row.name] = row
        return found

    @property
    def methods(self) -> list[str]:
        """The methods that have results."""
        return list(dict.fromkeys(method for method, _ in self.runs))

    @property
    def seeds(self) -> list[int]:
        """The seeds that have results."""
        return sorted({seed for _, seed in self.runs})

    @property
    def missing(self) -> list[tuple[str, int]]:
        """The (method, seed) that the experiment wants and that are not stored."""
        wanted = self.experiment.wanted(seeds=1 if self.quick else self.experiment.seeds, quick=self.quick)
        return [each for each in wanted if each not in self.runs]

    @property
    def made_with(self) -> str:
        """The versions of what made the results."""
        return "; ".join(dict.fromkeys(row.versions for row in self.rows))

    def values(self, method: str, name: str = TEST) -> np.ndarray:
        """Return a method's values of a name, by seed; empty where there are none."""
        return np.array([rows[name].value for (each, _), rows in self.runs.items() if each == method and name in rows])

    def seconds(self, method: str) -> np.ndarray:
        """Return the CPU time of a method's fits, by seed."""
        return np.array([next(iter(rows.values())).seconds for (each, _), rows in self.runs.items() if each == method])

    def queries(self, method: str) -> int:
        """Return the most questions that a method put to the metric."""
        return max((next(iter(rows.values())).queries for (each, _), rows in self.runs.items() if each == method))


def configuration(experiment: Experiment, *, quick: bool) -> dict[str, Any]:
    """Return what a stored result must have been made with to count, as it comes back from JSON."""
    return dict(json.loads(json.dumps({**experiment.config, "quick": quick}, sort_keys=True)))


# -- tables -------------------------------------------------------------------------------------------------


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


def summary(values: np.ndarray) -> Summary:
    """Return what a table says of values."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Summary(n=len(values), mean=mean, sd=np.nan, low=np.nan, high=np.nan)
    sd = float(np.std(values, ddof=1))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * sd / np.sqrt(len(values))
    return Summary(n=len(values), mean=mean, sd=sd, low=mean - half, high=mean + half)


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
    head = ["method", "mean", "sd", "95 % interval", "against closest", "CPU s", "queries", "paper", "less paper"]
    return markdown(head, lines)


def _beside(values: np.ndarray, paper: tuple[float, float] | None) -> list[str]:
    """Return the paper's figure, whose standard deviation may be unknown (NaN), and the difference to it."""
    if paper is None:
        return ["", ""]
    mean, sd = paper
    text = f"{mean:.3f} ± {sd:.3f}" if np.isfinite(sd) else f"{mean:.3f}"
    return [text, f"{values.mean() - mean:+.3f}"]


def whole_page(results: Results, body: str, *, lead: str = "") -> str:
    """Return a page: title, the picture, two sentences, the text (its paragraphs wrapped), how to repeat it."""
    experiment = results.experiment
    name, n_wanted = experiment.name, len(results.missing) + len(results.runs)
    files = f"[{name}.csv]({name}.csv)" + (f", [{name}.svg]({name}.svg)" if experiment.panels else "")
    parts = [
        f"# {experiment.title}",
        f"<!-- Made by `python -m experiments {name}` from {name}.csv; do not edit. -->",
        *([f"{QUICK}: the smallest sizes there are. These figures are no results."] if results.quick else []),
        *body.strip().split("\n\n"),
    ]
    if results.missing:
        names = list(dict.fromkeys(method for method, _ in results.missing))
        listed = "; ".join([*names[:SHOWN], *([f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else [])])
        parts.append(f"**Incomplete.** {len(results.missing)} of {n_wanted} runs are not stored yet, of: {listed}.")
    if experiment.remark:
        parts.append(experiment.remark)
    parts.append(f"To repeat it: `python -m experiments {name}`, made with {results.made_with}. The results: {files}.")
    picture = f"![{experiment.title}]({name}.png)" if experiment.panels else ""
    return "\n\n".join(map(_wrapped, opened(parts, picture=picture, lead=lead))) + "\n"


def _wrapped(paragraph: str) -> str:
    """Return a paragraph in lines of equal width; tables, lists and headings as they are."""
    if paragraph.startswith(("|", "#", "!", "<", "* ", "- ")):
        return paragraph
    return fill(" ".join(paragraph.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


# -- figures ------------------------------------------------------------------------------------------------


def draw_line(
    axes: Axes,
    places: Sequence[float],
    samples: Sequence[np.ndarray],
    *,
    label: str,
    rank: int,
    band: bool = True,
) -> None:
    """Draw means against places, in a band of their 95 % intervals; ``rank`` decides colour and marker."""
    found = [(place, summary(values)) for place, values in zip(places, samples, strict=True) if len(values)]
    if not found:
        return
    colour = COLOURS[rank % len(COLOURS)]
    x = [place for place, _ in found]
    if band and all(each.n > 1 for _, each in found):
        axes.fill_between(
            x, [s.low for _, s in found], [s.high for _, s in found], color=colour, alpha=0.15, linewidth=0
        )
    axes.plot(
        x,
        [each.mean for _, each in found],
        color=colour,
        marker=MARKERS[rank % len(MARKERS)],
        markersize=4.5,
        linewidth=1.5,
        label=label,
    )


def write_figures(results: Results, folder: Path) -> None:
    """Draw the panels of an experiment and write them as PNG and SVG."""
    panels = results.experiment.panels
    if not panels:
        return
    try:
        import matplotlib as mpl  # noqa: F401
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"figures need matplotlib: {install('report')}") from error
    width, height = results.experiment.panel_size
    figure = Figure(figsize=(width * len(panels), height), layout="constrained")
    for place, draw in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        plain_axes(axes)
        draw(results, axes)
    save_figure(figure, folder, results.experiment.name)


def plain_axes(axes: Axes) -> None:
    """Draw a light grid behind, and no frame."""
    axes.grid(visible=True, color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG; the same figure makes the same SVG."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": name}):
        write_atomically(
            folder / f"{name}.svg", lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None})
        )
    write_atomically(folder / f"{name}.png", lambda stream: figure.savefig(stream, format="png", dpi=150))
