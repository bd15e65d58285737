"""Does the guarantee hold? How often certified rules violate a constraint on the population that rows are drawn from.

``python -m experiments guarantee``. The tasks are in ``guarantee_tasks``. A resample draws labelled rows with
replacement, walks the path of rules with the library's tests, and looks at the chosen rule on the whole population.
Beside it: tuning without a test, and MAPIE where it serves the task. A seed is 50 resamples of every cell of a task.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import COLOURS, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown
from experiments.studies.guarantee_rivals import CONTROLS, FIXED, HOLM, THRESHOLDS, controlled, controls, misses, tuned
from experiments.studies.guarantee_tasks import TASKS
from postshift import Rows
from postshift.constraints.pieces import BoundedMetric
from postshift.rules import Problem
from postshift.rules.certified import Candidate, Evidence, walk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES, DELTAS = (300, 1_000, 5_000), (0.05, 0.1)
N_RESAMPLES = 50  # of a seed
N_UNLABELLED = 10_000
FINE = (1_000, 20_000)  # numbers of rows for which paths are made in search of the best rule
LEVEL = 0.05  # of the verdict over all cells
CERTIFIED, ON_PATH, BY_THRESHOLD = "certified", "naive, same rules", "naive, thresholds"
ROW = "row"  # the basis that has a row's number in the population
QUICK_TASKS = ("5 classes, recall", "digits, minimum")
Floats = NDArray[np.float64]


# -- rules whose labels are known ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KnownRule:
    """A rule that looks up its labels of the population."""

    known: NDArray[np.intp]

    def labels(self, rows: Rows) -> NDArray[np.intp]:
        """Return the labels of rows that were drawn from the population."""
        return self.known[rows.bases[ROW][:, 0].astype(np.intp)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rules:
    """Rules with their labels (K, N) of the population, their true metrics, and whether they violate a constraint."""

    labels: NDArray[np.intp]
    values: Floats
    violated: NDArray[np.bool_]
    path: tuple[Candidate, ...] = ()


@cache
def population(name: str) -> Problem:
    """Return the population of a task, with numbered rows."""
    task, sample = TASKS[name], TASKS[name].source().population
    rows = Rows(eta=sample.eta, bases={ROW: np.arange(sample.n_rows, dtype=np.float64)[:, None]}, labels=sample.labels)
    return Problem.labelled(None, rows, task.resolved, groups=sample.groups)


@cache
def constraints_of(name: str) -> tuple[BoundedMetric, ...]:
    """Return the constraints of a task."""
    return TASKS[name].limits.constraints


def rules_of(name: str, labels: Any, path: Iterable[Candidate] = ()) -> Rules:
    """Return rules with what is true of them."""
    whole, labels = population(name), np.asarray(labels)
    tables = confusions(whole, labels, np.arange(whole.val.n_rows))
    known = tuple(
        replace(each, rule=KnownRule(own))  # type: ignore[arg-type]
        for each, own in zip(path, labels, strict=False)
    )
    violated = misses(constraints_of(name), tables) > 0
    return Rules(labels=labels, values=whole.metric_of(tables), violated=violated, path=known)


@cache
def path_rules(name: str, size: int, delta: float) -> Rules:
    """Return the path for a number of labelled rows; it is made without labels, so all resamples share it."""
    source = TASKS[name].source()
    path = TASKS[name].path(source.making, n_rows=size, delta=delta)
    rows = source.population.rows()
    return rules_of(name, [each.rule.labels(rows) for each in path], path)


@cache
def threshold_rules(name: str) -> Rules:
    """Return the rules "class 1 from a threshold on"."""
    eta = TASKS[name].source().population.eta
    return rules_of(name, (eta[:, 1] >= THRESHOLDS[:, None]).astype(np.intp))


@cache
def optimum(name: str) -> float:
    """Return the best metric on the population among all known rules that meet the constraints there.

    Known are the rules of all paths of the task, of paths made from the population itself, and, with two classes, the
    thresholds.
    """
    task, sample = TASKS[name], TASKS[name].source().population
    own = [task.path(sample, n_rows=n_rows, delta=DELTAS[-1]) for n_rows in FINE]
    rows = sample.rows()
    known = [rules_of(name, [each.rule.labels(rows) for each in path]) for path in own if path]
    known += [path_rules(name, size, delta) for size in SIZES for delta in DELTAS]
    known += [threshold_rules(name)] if sample.n_classes == 2 else []
    return max(float(each.values[~each.violated].max(initial=-np.inf)) for each in known)


def confusions(problem: Problem, labels: NDArray[np.intp], places: NDArray[np.intp]) -> Floats:
    """Return the confusion matrices (K, R, m) of rules on some rows."""
    shape = len(labels), problem.n_categories, problem.n_classes
    categories = problem.confusion_rows(slice(None))[0][places]
    cells = (np.arange(len(labels))[:, None] * shape[1] + categories) * shape[2] + labels[:, places]
    counts = np.bincount(cells.ravel(), minlength=int(np.prod(shape)))
    return counts.reshape(shape) / len(places)


# -- resamples ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Labelled rows of a resample, and rows without labels, as places in the population."""

    labelled: NDArray[np.intp]
    unlabelled: NDArray[np.intp]

    def evidence(self, name: str) -> Evidence:
        """Return the rows that test."""
        whole, groups = population(name), TASKS[name].source().population.groups
        evidence = Evidence(problem=whole.take(self.labelled))
        if all(piece.needs_labels for piece in evidence.pieces(constraints_of(name))):
            return evidence
        rows = replace(whole.val, labels=None).take(self.unlabelled)
        return replace(evidence, unlabelled=rows, groups=None if groups is None else groups[self.unlabelled])


def certified(name: str, draw: Draw, rules: Rules, *, delta: float) -> int | None:
    """Return the rule that the library certifies: the best of those that it accepts."""
    accepted = walk(rules.path, draw.evidence(name), constraints_of(name), delta=delta)
    return int(np.argmax([each.value for each in accepted])) if accepted else None


def naive(name: str, draw: Draw, rules: Rules) -> int | None:
    """Return the rule that is best on the labelled rows among those that meet the constraints there."""
    tables = confusions(population(name), rules.labels, draw.labelled)
    return tuned(population(name).metric_of(tables), misses(constraints_of(name), tables))


def by_mapie(name: str, draw: Draw, control: str, *, delta: float) -> int | None:
    """Return the threshold that MAPIE chooses."""
    task, sample = TASKS[name], TASKS[name].source().population.take(draw.labelled)
    return controlled(control, task.rival, task.metric, eta=sample.eta, labels=sample.labels, delta=delta)


def drawn(name: str, size: int, seed: int, n_resamples: int) -> list[Draw]:
    """Return the resamples of a seed; both deltas share them."""
    rng, n_rows = np.random.default_rng([zlib.crc32(name.encode()), size, seed]), population(name).val.n_rows
    return [
        Draw(labelled=rng.integers(n_rows, size=size), unlabelled=rng.integers(n_rows, size=N_UNLABELLED))
        for _ in range(n_resamples)
    ]


def figures(name: str, rules: Rules, chosen: Sequence[int | None]) -> dict[str, float]:
    """Return how often nothing was chosen, or a rule that violates a constraint, and the mean metric of the others."""
    found = [each for each in chosen if each is not None]
    values = {"runs": len(chosen), "violated": int(rules.violated[found].sum()), "nothing": len(chosen) - len(found)}
    metric = {"objective": float(rules.values[found].mean())} if found else {}
    return {**values, **metric, "optimum": optimum(name)}


def measure(name: str, seed: int, quick: bool) -> list[Row]:
    """Return what every procedure chose in the resamples of one seed."""
    rows = []
    for size in SIZES[:1] if quick else SIZES:
        draws = drawn(name, size, seed, 10 if quick else N_RESAMPLES)
        by_threshold = thresholded(name, draws)
        for delta in DELTAS:
            found = {**on_path(name, draws, size=size, delta=delta), **by_threshold, **rivals(name, draws, delta=delta)}
            rows += [
                Row(task=name, method=f"{procedure}, {delta:g}", size=size, values={"delta": delta, **values})
                for procedure, values in found.items()
            ]
    return rows


def on_path(name: str, draws: Sequence[Draw], *, size: int, delta: float) -> dict[str, dict[str, float]]:
    """Return the figures of the rules of the path: certified, and tuned without a test."""
    path = path_rules(name, size, delta)
    return {
        CERTIFIED: figures(name, path, [certified(name, draw, path, delta=delta) for draw in draws]),
        ON_PATH: figures(name, path, [naive(name, draw, path) for draw in draws]),
    }


def thresholded(name: str, draws: Sequence[Draw]) -> dict[str, dict[str, float]]:
    """Return the figures of thresholds that are tuned without a test, which needs two classes and no delta."""
    if population(name).n_classes > 2:
        return {}
    rules = threshold_rules(name)
    return {BY_THRESHOLD: figures(name, rules, [naive(name, draw, rules) for draw in draws])}


def rivals(name: str, draws: Sequence[Draw], *, delta: float) -> dict[str, dict[str, float]]:
    """Return the figures of MAPIE, where it serves the task."""
    return {
        control: figures(name, threshold_rules(name), [by_mapie(name, draw, control, delta=delta) for draw in draws])
        for control in controls(TASKS[name].rival)
    }


# -- the page -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What a procedure did in all resamples of a cell."""

    runs: int
    violated: int
    nothing: int
    objective: float  # NaN if nothing was ever chosen
    optimum: float

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, float]]) -> Tally:
        """Return the sum over seeds."""
        runs, violated, nothing = (round(sum(row[name] for row in rows)) for name in ("runs", "violated", "nothing"))
        total = sum(row["objective"] * (row["runs"] - row["nothing"]) for row in rows if "objective" in row)
        objective = total / (runs - nothing) if runs > nothing else np.nan
        return cls(runs=runs, violated=violated, nothing=nothing, objective=objective, optimum=rows[0]["optimum"])

    @property
    def rate(self) -> float:
        """Share of resamples in which the chosen rule violates a constraint."""
        return self.violated / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The Clopper-Pearson interval of the rate."""
        found = stats.binomtest(self.violated, self.runs).proportion_ci(0.95, method="exact")
        return float(found.low), float(found.high)

    def p_value(self, delta: float) -> float:
        """Return the exact one-sided p-value of "the rate is at most delta"."""
        return float(stats.binomtest(self.violated, self.runs, delta, alternative="greater").pvalue)


Cell = tuple[str, int, float]
Cells = dict[Cell, dict[str, Tally]]


def by_cell(results: Results) -> Cells:
    """Return the tallies of every procedure, by (task, number of rows, delta)."""
    found: dict[Cell, dict[str, list[Mapping[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rows:
        cell = row.task, row.size, row.values["delta"]
        found[cell][row.method.rpartition(", ")[0]].append(row.values)
    return {cell: {name: Tally.of(rows) for name, rows in each.items()} for cell, each in found.items()}


def adjusted(cells: Cells) -> dict[Cell, float]:
    """Return the p-values of "violated at most as often as delta says", times the number of cells."""
    return {cell: min(1.0, len(cells) * each[CERTIFIED].p_value(cell[2])) for cell, each in cells.items()}


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f}"


def metric_text(tally: Tally) -> str:
    """Return the mean metric of the chosen rules."""
    return "" if np.isnan(tally.objective) else f"{tally.objective:.3f}"


def cells_table(cells: Cells) -> str:
    """Return one line for each cell."""
    head = ["task", "rows", "delta", "violated, %", "interval", "adjusted p", "nothing, %", "metric", "lost"]
    head += ["naive: violated, %", "metric", "thresholds: violated, %", "metric"]
    p_values, lines = adjusted(cells), []
    for cell, each in cells.items():
        ours = each[CERTIFIED]
        lost = "" if np.isnan(ours.objective) else f"{ours.optimum - ours.objective:.3f}"
        line = [cell[0], f"{cell[1]:,}", f"{cell[2]:g}", percent(ours.rate), " to ".join(map(percent, ours.interval))]
        line += [f"{p_values[cell]:.3f}", percent(ours.nothing / ours.runs), metric_text(ours), lost]
        for rival in (each.get(name) for name in (ON_PATH, BY_THRESHOLD)):
            line += ["", ""] if rival is None else [percent(rival.rate), metric_text(rival)]
        lines.append(line)
    return markdown(head, lines)


def rivals_table(cells: Cells) -> str:
    """Return one line for each cell that MAPIE serves."""
    head = ["task", "rows", "delta"]
    head += [f"{name}: {what}" for name in (CERTIFIED, *CONTROLS) for what in ("violated, %", "nothing, %", "metric")]
    lines = []
    for cell, each in cells.items():
        if HOLM in each:
            line = [cell[0], f"{cell[1]:,}", f"{cell[2]:g}"]
            for tally in (each.get(name) for name in (CERTIFIED, FIXED, HOLM)):
                known = tally and [percent(tally.rate), percent(tally.nothing / tally.runs), metric_text(tally)]
                line += known or ["", "", ""]
            lines.append(line)
    return markdown(head, lines) if lines else "MAPIE was not installed where these results were computed."


def tasks_table(names: Iterable[str]) -> str:
    """Return what every task is."""
    return markdown(["task", "what is maximised, and the constraints"], [[n, TASKS[n].about] for n in names], n_texts=2)


def lead_of(cells: Cells) -> str:
    """Say in two sentences what it is about, and what came out."""
    highest = [max(each[CERTIFIED].rate for cell, each in cells.items() if cell[2] == delta) for delta in DELTAS]
    above = [cell for cell, p_value in adjusted(cells).items() if p_value < LEVEL]
    naive_rates = [tally.rate for each in cells.values() for name, tally in each.items() if name.startswith("naive")]
    verdict = (
        "in no cell" if not above else f"in {len(above)} cells ({'; '.join(', '.join(map(str, c)) for c in above)})"
    )
    return (
        f"How often does a rule that `confidence=` certified violate a constraint? In {percent(highest[0])} % of the "
        f"resamples at most at delta {DELTAS[0]:g} and in {percent(highest[1])} % at delta {DELTAS[1]:g}, {verdict} of "
        f"{len(cells)} significantly more often than delta, while tuning without a test violates one in "
        f"{percent(float(np.median(naive_rates)))} % (median over the cells)."
    )


ABOUT = f"""*Violated*: share of the resamples in which the chosen rule violates a constraint on the whole population,
with its 95 % Clopper-Pearson interval. *Adjusted p*: the exact one-sided p-value of "violated in at most delta of the
resamples", times the number of cells (Bonferroni). *Nothing*: nothing was certified. *Metric*: its mean on the
population over the resamples in which a rule was chosen. *Lost*: how far that is below the best known rule that meets
the constraints on the population; known are the rules of all paths, of paths that are made from the population, and the
thresholds. *Naive*: the best rule of the same path whose constraints hold on the labelled rows. *Thresholds*: the same
with {len(THRESHOLDS)} thresholds on the probability, for two classes."""
HOW = f"""A resample draws labelled rows from the population with replacement, so that the value on the population is
the true one, and {N_UNLABELLED:,} rows without labels. Rates and demographic parity are tested with these. The path is
made once for each cell, from other rows, without labels. The library's own walk and tests choose the rule. Tests of
gaps between groups are asymptotic, the others are exact. If the metric is wrong for some rows or the probabilities are,
the guarantee still holds, but less is certified."""
MAPIE = """MAPIE's `BinaryClassificationController` gets the same labelled rows and its own 100 thresholds. With a fixed
sequence it takes a single risk; *Holm* is its default. Its risk for F1 is the Jaccard index, defined by us. It has no
gaps between groups. Its controller for several classes abstains from rows, which is another problem."""


def make_page(results: Results) -> str:
    """Return the page."""
    cells = by_cell(results)
    n_runs = min(each[CERTIFIED].runs for each in cells.values())
    body = [
        f"{n_runs:,} resamples in each of {len(cells)} cells. {HOW}",
        cells_table(cells),
        ABOUT,
        "## Beside MAPIE",
        rivals_table(cells),
        MAPIE,
        "## The tasks",
        tasks_table(results.tasks),
    ]
    return whole_page(results, body, lead=lead_of(cells))


def draw_rates(results: Results, axes: Axes, *, delta: float) -> None:
    """Draw how often a constraint is violated, a line for each task and number of rows."""
    cells = {cell: each for cell, each in by_cell(results).items() if cell[2] == delta}
    for place, each in enumerate(cells.values()):
        ours = each[CERTIFIED]
        axes.plot(ours.interval, [place, place], color=COLOURS[0], linewidth=1.2)
        for rank, name in enumerate((CERTIFIED, ON_PATH, BY_THRESHOLD, FIXED)):
            if name in each:
                label = name if place == 0 else None
                axes.plot(each[name].rate, place, "osD^"[rank], color=COLOURS[rank], markersize=3.5, label=label)
    axes.axvline(delta, color="0.3", linestyle="--", linewidth=0.9)
    axes.set_yticks(range(len(cells)), [f"{cell[0]}, {cell[1]:,}" for cell in cells], fontsize=6.5)
    axes.invert_yaxis()
    axes.set(title=f"delta {delta:g}", xlabel="share of resamples that violate a constraint")
    axes.legend(loc="lower right", frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    name="guarantee",
    title="Does the guarantee hold?",
    methods={name: partial(measure, name) for name in TASKS},
    page=make_page,
    by=("task",),
    columns=("method", "task", "size", "seed", "delta", "runs", "violated", "nothing", "objective", "optimum"),
    digits=5,
    seeds=10,
    packages=("mapie",),
    figure=side_by_side(*(partial(draw_rates, delta=delta) for delta in DELTAS), size=(5.9, 8.5)),
    picture="Share of resamples in which a constraint is violated: certified rules, naive tuning and MAPIE",
    quick_methods=QUICK_TASKS,
)
