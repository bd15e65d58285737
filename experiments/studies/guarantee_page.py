"""The page of the guarantee: a line for each cell, the verdict over all cells, and MAPIE beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from experiments.harness.experiment import Results
from experiments.harness.figures import COLOURS
from experiments.harness.page import whole_page
from experiments.harness.tables import markdown
from experiments.studies.guarantee_rivals import BY_THRESHOLD, CERTIFIED, CONTROLS, FIXED, HOLM, ON_PATH, THRESHOLDS
from experiments.studies.guarantee_tasks import DELTAS, N_UNLABELLED, TASKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.05  # of the verdict over all cells
TIE_METRIC, TIE_SHARE = 0.005, 0.01  # smaller differences from MAPIE are ties


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


def against_mapie(cells: Cells) -> str:
    """Say how often a fixed sequence of MAPIE does better or worse."""
    both = [(each[CERTIFIED], each[FIXED]) for each in cells.values() if FIXED in each]
    if not both:
        return ""
    known = [ours.objective - theirs.objective for ours, theirs in both if ours.nothing < ours.runs > theirs.nothing]
    shares = [theirs.nothing / theirs.runs - ours.nothing / ours.runs for ours, theirs in both]
    higher, lower = (sum(sign * each > TIE_METRIC for each in known) for sign in (1, -1))
    rarer, oftener = (sum(sign * each > TIE_SHARE for each in shares) for sign in (1, -1))
    return (
        f"Beside MAPIE's fixed sequence, in {len(both)} cells: the mean metric of the certified rules is higher by "
        f"more than {TIE_METRIC} in {higher} and lower in {lower}; nothing is certified less often, by more than "
        f"{100 * TIE_SHARE:.0f} point, in {rarer} and more often in {oftener}."
    )


def averages_table(cells: Cells) -> str:
    """Return the means over the tasks, a line for each number of rows and delta."""
    head = ["rows", "delta", "violated, %", "highest, %", "nothing, %", "lost", "naive: violated, %"]
    head += ["thresholds: violated, %"]
    lines = []
    for size, delta in sorted({cell[1:] for cell in cells}):
        part = [each for cell, each in cells.items() if cell[1:] == (size, delta)]
        ours = [each[CERTIFIED] for each in part]
        line = [f"{size:,}", f"{delta:g}", percent(mean(each.rate for each in ours))]
        line += [percent(max(each.rate for each in ours)), percent(mean(each.nothing / each.runs for each in ours))]
        line += [f"{mean(each.optimum - each.objective for each in ours):.3f}"]
        line += [percent(mean(each[name].rate for each in part if name in each)) for name in (ON_PATH, BY_THRESHOLD)]
        lines.append(line)
    return markdown(head, lines, n_texts=0)


def mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are known; NaN for none."""
    known = [each for each in values if not np.isnan(each)]
    return float(np.mean(known)) if known else np.nan


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
gaps between groups are asymptotic, the others are exact. If the
probabilities are wrong, the guarantee still holds, but less is certified. The rules with far stricter bounds (`SHARES`
in `postshift/rules/certified.py`) were added to the path after a first look at these tasks: without them nothing was
certified with wrong probabilities and many rows. A fit without rows that lack labels, in which a fifth of the labelled
rows makes the path, is not measured here."""
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
        "## Means over the tasks",
        averages_table(cells),
        "## Beside MAPIE",
        rivals_table(cells),
        against_mapie(cells),
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
