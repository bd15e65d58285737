"""An experiment: what is run, and what is shown of it. Its results: stored rows in order.

An experiment is a module with an ``EXPERIMENT``, named in ``experiments/registry.py`` and run by
``python -m experiments NAME``. Its methods are functions of a seed; all that it shows is made from the stored results.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.harness.store import LONG, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = Callable[[int, bool], Row | Sequence[Row]]  # of a seed, and whether it is a quick look

TEST = "test"
OLDER = (
    "**Older results.** The guard that keeps the base, and the order of the classes in plug-in search, have changed "
    "since these results were computed (see the changelog). They need trained networks and were not computed again."
)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of the paper, or a study.

    Attributes
    ----------
    name, title : str
        ``name`` is that of the files of results.
    methods : mapping
        What is run on each seed: functions of (seed, quick) that return a row or several, by name.
    page : callable
        Makes the page from the results.
    by : tuple of str
        The fields of a row that make up the name of the method that gave it, joined by ": ".
    columns : tuple of str
        The columns of the file of results.
    digits : int
        Decimals of stored values.
    paper : mapping
        Mean and standard deviation of the paper's table, by method.
    figure : callable, optional
        Draws the results.
    picture : str
        What the figure shows; by default the title.
    seeds : int or mapping
        Number of seeds, of all methods or by method.
    config : mapping
        A stored result counts only while it was made with the same configuration (where the file has it).
    packages : tuple of str
        Packages beside postshift's own whose versions matter.
    quick_methods : sequence of str, optional
        The methods of a quick look; by default all.
    remark : str
        Stands on the page after its tables.
    """

    name: str
    title: str
    methods: Mapping[str, Method]
    page: Callable[[Results], str]
    by: tuple[str, ...] = ("method",)
    columns: tuple[str, ...] = LONG
    digits: int = 6
    paper: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    figure: Callable[[Results], Figure] | None = None
    picture: str = ""
    seeds: int | Mapping[str, int] = 5
    config: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    quick_methods: Sequence[str] | None = None
    remark: str = ""

    def wanted(self, *, seeds: int | None = None, quick: bool = False) -> list[tuple[str, int]]:
        """Return the (method, seed) to be run, seed by seed; by default one seed of a quick look, else all."""
        methods = self.methods if self.quick_methods is None or not quick else self.quick_methods
        given = seeds or (1 if quick else None)
        number = {method: given or self._seeds_of(method) for method in methods}
        most = max(number.values(), default=0)
        return [(method, seed) for seed in range(most) for method in methods if seed < number[method]]

    def _seeds_of(self, method: str) -> int:
        """Return the number of seeds of a method."""
        return self.seeds if isinstance(self.seeds, int) else self.seeds[method]

    def method_of(self, row: Row) -> str:
        """Return the name of the method that gave a row."""
        return ": ".join(str(getattr(row, each)) for each in self.by)

    def configuration(self, *, quick: bool) -> dict[str, Any]:
        """Return what a stored result must have been made with to count, as it comes back from JSON."""
        return dict(json.loads(json.dumps({**self.config, "quick": quick}, sort_keys=True)))

    def results(self, rows: Iterable[Row], *, quick: bool = False) -> Results:
        """Return the results among stored rows that are of this configuration, in order; the last of equal ones."""
        wanted = self.configuration(quick=quick) if "config" in self.columns else {}
        places = {method: place for place, method in enumerate(self.methods)}
        found = {
            row.key: row
            for row in rows
            if self.method_of(row) in places and all(row.config.get(key) == value for key, value in wanted.items())
        }
        ordered = sorted(found.values(), key=lambda row: (places[self.method_of(row)], row.seed))
        return Results(experiment=self, rows=tuple(ordered), quick=quick)


@dataclass(frozen=True, kw_only=True)
class Results:
    """The stored results of an experiment, in the order of its methods, then of the seeds."""

    experiment: Experiment
    rows: tuple[Row, ...]
    quick: bool = False

    @cached_property
    def _grouped(self) -> Mapping[tuple[str, str, int], list[Row]]:
        """The rows by task, method and size."""
        found = defaultdict(list)
        for row in self.rows:
            found[row.key[:3]].append(row)
        return found

    @cached_property
    def done(self) -> set[tuple[str, int]]:
        """The (method, seed) of the experiment that are stored."""
        return {(self.experiment.method_of(row), row.seed) for row in self.rows}

    @property
    def missing(self) -> list[tuple[str, int]]:
        """The (method, seed) of the experiment that are not stored."""
        return [each for each in self.experiment.wanted(quick=self.quick) if each not in self.done]

    @property
    def methods(self) -> list[str]:
        """The methods that have results."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @property
    def tasks(self) -> list[str]:
        """The tasks that have results."""
        return list(dict.fromkeys(row.task for row in self.rows))

    @property
    def seeds(self) -> list[int]:
        """The seeds that have results."""
        return sorted({row.seed for row in self.rows})

    @property
    def made_with(self) -> str:
        """The versions of what made the results."""
        return "; ".join(dict.fromkeys(row.versions for row in self.rows))

    def of(self, method: str, *, task: str = "", size: int = 0) -> list[Row]:
        """Return the rows of a method, by seed."""
        return self._grouped.get((task, method, size), [])

    def values(self, method: str, name: str = TEST, *, task: str = "", size: int = 0) -> np.ndarray:
        """Return a method's values of a name, by seed; empty where there are none."""
        return np.array([row.values[name] for row in self.of(method, task=task, size=size) if name in row.values])

    def by_method(self, task: str, name: str = TEST) -> dict[str, np.ndarray]:
        """Return the values of every method of a task."""
        found = {method: self.values(method, name, task=task) for method in self.methods}
        return {method: values for method, values in found.items() if len(values)}

    def seconds(self, method: str, *, task: str = "") -> np.ndarray:
        """Return the CPU time of a method's runs, by seed; NaN where it was not taken."""
        return np.array([row.seconds for row in self.of(method, task=task)], dtype=np.float64)

    def queries(self, method: str, *, task: str = "") -> int:
        """Return the most queries that a run of a method put to the metric."""
        return max(row.queries for row in self.of(method, task=task))
