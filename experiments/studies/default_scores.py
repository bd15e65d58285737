"""The test values of the study of the default: by task, method and split, paired differences, ranks, hindsight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from experiments.harness.experiment import Results
from experiments.harness.tables import Summary, summary
from experiments.studies.default_rivals import RIVALS
from experiments.studies.menu_tasks import TASKS
from experiments.studies.new_tasks import ASIDE, NEW_KNOWN

BASE, DEFAULT, CHOICE = "base", "default", "choice"
FAILED, FALLBACK, ERROR = "failed", "fallback", "error"
SCORE, LOW, HIGH = "score", "low", "high"  # of the default: ``score_`` and its interval
SET_ASIDE, OLD, LOOKED_AT = "set aside", "old", "looked at"
GROUPS = {SET_ASIDE: ASIDE, OLD: TASKS, LOOKED_AT: NEW_KNOWN}
EQUAL = 1e-9  # a smaller difference is rounding
RIVAL_NAMES = tuple(rival.name for rival in RIVALS)

Floats = np.ndarray


def full_name(group: str, task: str) -> str:
    """Return the name of a task with its group, by which the study runs and stores it."""
    return f"{group}: {task}"


def short_name(task: str) -> str:
    """Return the name of a task without its group."""
    return task.partition(": ")[2]


@dataclass(frozen=True, eq=False)
class Lead:
    """How far the default is above a method: the differences (splits,) by task, each pair on the same split."""

    by_task: dict[str, Floats]

    @property
    def over_tasks(self) -> Summary:
        """Mean and t interval of the task means: a task counts once, as one of many that could have been taken."""
        return summary(np.array([each.mean() for each in self.by_task.values()]))

    @property
    def over_splits(self) -> Summary:
        """The same mean, with the interval for these very tasks: only the splits vary, separately in each task.

        The degrees of freedom are those of Welch and Satterthwaite.
        """
        sizes = np.array([len(each) for each in self.by_task.values()])
        mean = float(np.mean([each.mean() for each in self.by_task.values()]))
        if sizes.min() < 2:
            return Summary(n=1, mean=mean, sd=np.nan, low=np.nan, high=np.nan)
        parts = np.array([np.var(each, ddof=1) for each in self.by_task.values()]) / sizes
        if parts.sum() == 0:
            return Summary(n=int(sizes.sum()), mean=mean, sd=0.0, low=mean, high=mean)
        error = float(np.sqrt(parts.sum()) / len(sizes))
        freedom = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum()
        half = float(stats.t.ppf(0.975, freedom)) * error
        return Summary(n=int(sizes.sum()), mean=mean, sd=error, low=mean - half, high=mean + half)


@dataclass(frozen=True, eq=False)
class Scores:
    """The test values of some tasks."""

    results: Results

    @cached_property
    def by_seed(self) -> dict[str, dict[str, dict[int, float]]]:
        """The test values by task, method and seed; failures have none."""
        found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for row in self.results.rows:
            if "test" in row.values:
                found[row.task][row.method][row.seed] = row.values["test"]
        return found

    def tasks(self, *groups: str) -> list[str]:
        """Return the tasks of some groups that have results; by default of all groups."""
        kept = [full_name(group, task) for group in groups or GROUPS for task in GROUPS[group]]
        return [task for task in kept if task in self.by_seed]

    @cached_property
    def rules(self) -> list[str]:
        """The single rules of ours, the base first."""
        others = (DEFAULT, CHOICE, *RIVAL_NAMES)
        return [name for name in self.results.methods if name not in others]

    @cached_property
    def rivals(self) -> list[str]:
        """The rivals that have values."""
        known = {method for methods in self.by_seed.values() for method in methods}
        return [name for name in RIVAL_NAMES if name in known]

    @property
    def methods(self) -> list[str]:
        """All methods: the base, the default, the choice, the rules, the rivals."""
        return list(dict.fromkeys([BASE, DEFAULT, CHOICE, *self.rules, *self.rivals]))

    def serves(self, method: str, tasks: Iterable[str]) -> list[str]:
        """Return the tasks in which a method has values."""
        return [task for task in tasks if method in self.by_seed[task]]

    def costs(self, task: str, method: str) -> tuple[Floats, Floats]:
        """Return the processor seconds and the numbers of queries (splits,) of a method."""
        rows = [row for row in self.results.of(method, task=task) if "test" in row.values]
        return np.array([row.seconds for row in rows]), np.array([row.queries for row in rows])

    def values(self, task: str, method: str) -> Floats:
        """Return the test values (splits,) of a method."""
        return np.array(list(self.by_seed[task][method].values()))

    @cached_property
    def means(self) -> dict[str, dict[str, float]]:
        """The mean test values over the splits, by task and method."""
        return {
            task: {name: float(self.values(task, name).mean()) for name in self.by_seed[task]} for task in self.by_seed
        }

    def average(self, method: str, tasks: Sequence[str]) -> float:
        """Return the mean of a method over the tasks that it serves."""
        return float(np.mean([self.means[task][method] for task in self.serves(method, tasks)]))

    def lead(self, method: str, tasks: Iterable[str]) -> Lead:
        """Return how far the default is above a method in the tasks that it serves."""
        return Lead({task: self.differences(task, method) for task in self.serves(method, tasks)})

    def differences(self, task: str, method: str) -> Floats:
        """Return the default's test values less those of a method, on the splits that both have."""
        default, other = self.by_seed[task][DEFAULT], self.by_seed[task][method]
        return np.array([default[seed] - other[seed] for seed in default if seed in other])

    def above(self, tasks: Sequence[str]) -> dict[str, bool]:
        """Return whether the default is on average above each single rule and rival in the tasks that this serves."""
        names = [name for name in (*self.rules, *self.rivals) if self.serves(name, tasks)]
        return {name: self.lead(name, tasks).over_tasks.mean > EQUAL for name in names}

    @cached_property
    def ranks(self) -> dict[str, dict[str, float]]:
        """The rank of every method by its mean, by task; the best is 1, and equal ones share theirs."""
        places = {task: stats.rankdata([-mean for mean in found.values()]) for task, found in self.means.items()}
        return {task: dict(zip(self.means[task], found.tolist(), strict=True)) for task, found in places.items()}

    def rank(self, method: str, tasks: Iterable[str]) -> float:
        """Return the mean rank of a method over the tasks that it serves."""
        return float(np.mean([self.ranks[task][method] for task in self.serves(method, tasks)]))

    def hindsight(self, task: str, *, with_rivals: bool = False) -> float:
        """Return the mean of the single rule of ours (or of them and the rivals) that is best on the test rows."""
        names = [*self.rules, *(self.rivals if with_rivals else [])]
        return max(self.means[task][name] for name in names if name in self.by_seed[task])

    def above_hindsight(self, tasks: Sequence[str], *, with_rivals: bool = False) -> Summary:
        """Return the default's mean less that of hindsight, with a t interval over the tasks."""
        best = [self.hindsight(task, with_rivals=with_rivals) for task in tasks]
        return summary(np.array([self.means[task][DEFAULT] for task in tasks]) - best)
