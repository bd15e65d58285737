"""Can the verdict be believed? Scores, intervals and decisions of the default against a truth that is known.

``python -m experiments.verdicts`` runs what is missing in ``docs/results/verdicts.csv`` (blocks of problems are stored
as they finish) and writes ``docs/results/verdicts.md`` and its picture; ``--render`` only writes. The problems are in
``experiments/verdict_settings.py``. Every problem draws validation rows, fits, and compares what the fit says with the
score of the fitted rule on 100,000 rows.
"""

from __future__ import annotations

import argparse
import os
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from experiments.output import OUT, read_table, together, versions, write_table, write_text
from experiments.pool import each_finished
from experiments.verdict_settings import Rows, Setting, settings
from postshift.core.questions import converse
from postshift.metrics import PredictionDriver, from_predictions
from postshift.rules import Base, Choice, Influence, Interview, Problem, Table, menu
from postshift.rules.choice import refitted
from postshift.rules.selection import How
from postshift.rules.verdict import Comparison, compare

NAME = "verdicts"
SIZES = (50, 200, 1000)
PROBLEMS, BLOCK = 200, 10  # of a size and setting; run together
WORSE = 0.02
KINDS = {
    "default": SIZES,  # the weighted average of the menu
    "evaluate": SIZES,  # a rule that is fixed beforehand
    "choice": (200,),  # the best entry of the menu
    "one rule": (200,),  # influence regression by name, three bases beside
    "queries": (200,),  # scores alone
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One problem. Limits are NaN where there is no interval."""

    kind: str
    setting: str
    rows: int
    seed: int
    score: float
    base_score: float
    low: float
    high: float
    gain_low: float
    gain_high: float
    adopted: bool
    truth: float
    base_truth: float

    @property
    def gains(self) -> bool:
        """Whether the setting has something to gain."""
        return settings()[self.setting].gains

    @property
    def gain(self) -> float:
        """The gain as it is scored."""
        return self.score - self.base_score

    @property
    def true_gain(self) -> float:
        """The true gain."""
        return self.truth - self.base_truth

    @property
    def error(self) -> float:
        """What was said less the truth, of the rule that was adopted."""
        return self.score - self.truth if self.adopted else self.base_score - self.base_truth

    @property
    def covered(self) -> bool:
        """Whether the truth is in the interval of the score."""
        return self.low <= self.truth <= self.high

    @property
    def gain_covered(self) -> bool:
        """Whether the true gain is in the interval of the gain."""
        return self.gain_low <= self.true_gain <= self.gain_high

    @property
    def worth_it(self) -> bool:
        """Whether the rule was adopted and called worth it."""
        return self.adopted and self.gain_low > 0

    @property
    def harmed(self) -> bool:
        """Whether a rule was adopted that is clearly worse than the base."""
        return self.adopted and self.true_gain < -WORSE


# -- one problem ------------------------------------------------------------------------------------------


def _row(kind: str, setting: Setting, n_rows: int, seed: int, found: Comparison, *, adopted: bool, labels: Any) -> Row:
    """Return the row of a comparison; ``labels`` are the rule's of the rows of the truth."""
    gain = found.intervals.gain or (np.nan, np.nan)
    base = np.argmax(setting.population.eta, axis=1)
    return Row(
        kind=kind,
        setting=setting.name,
        rows=n_rows,
        seed=seed,
        score=found.score,
        base_score=found.base_score,
        low=found.intervals.score[0],
        high=found.intervals.score[1],
        gain_low=gain[0],
        gain_high=gain[1],
        adopted=adopted,
        truth=setting.truth(labels),
        base_truth=setting.truth(base),
    )


def _default(setting: Setting, rows: Rows, n_rows: int, seed: int, *, how: How = "average") -> Row:
    problem = setting.problem(rows)
    entries = menu(problem)
    candidate = Choice(how=how).candidate(problem, entries)
    labels = refitted(problem, entries, candidate.selection).labels(setting.population.table())
    kind = "default" if how == "average" else "choice"
    return _row(kind, setting, n_rows, seed, candidate.comparison, adopted=not candidate.kept_out, labels=labels)


def _choice(setting: Setting, rows: Rows, n_rows: int, seed: int) -> Row:
    return _default(setting, rows, n_rows, seed, how="best")


def _one_rule(setting: Setting, rows: Rows, n_rows: int, seed: int) -> Row:
    """Fit influence regression over one of three bases; a rule that is asked for by name is always used."""

    def with_bases(part: Rows) -> Table:
        eta = part.eta
        sure = np.eye(2)[(eta.max(axis=1) > np.median(setting.population.eta.max(axis=1))).astype(int)]
        first = np.eye(2)[(eta[:, 0] > np.median(setting.population.eta[:, 0])).astype(int)]
        return Table.of(eta, bases={**part.bases, "sure": sure, "first": first}, labels=part.labels)

    problem = Problem.labelled(None, with_bases(rows), setting.goal, groups=rows.groups)
    entries = (Base(), Influence("first"))
    candidate = Choice(how="only").candidate(problem, entries)
    labels = refitted(problem, entries, candidate.selection).labels(with_bases(setting.population))
    return _row("one rule", setting, n_rows, seed, candidate.comparison, adopted=True, labels=labels)


def _evaluate(setting: Setting, rows: Rows, n_rows: int, seed: int) -> Row:
    """Compare a rule that is fixed beforehand with the base: random weights of the classes."""
    weights = np.exp(np.random.default_rng([3, seed]).normal(scale=0.5, size=setting.n_classes))
    labels, fixed = (np.argmax(weights * part.eta, axis=1) for part in (rows, setting.population))
    found = compare(setting.problem(rows), labels, np.argmax(rows.eta, axis=1))
    return _row("evaluate", setting, n_rows, seed, found, adopted=True, labels=fixed)


def _queries(setting: Setting, rows: Rows, n_rows: int, seed: int) -> Row:
    """Fit by scores alone: the labels are known to nobody but the metric."""
    known = setting.problem(rows)

    def metric(predicted: Any) -> float:
        return float(known.metric_of(known.label_confusion(np.asarray(predicted))))

    val = Table.of(rows.eta, bases=rows.bases)
    driver = PredictionDriver(from_predictions(metric, name=setting.metric), classes=np.arange(setting.n_classes))
    problem = Problem.queried(None, val, kind=driver.kind)
    interview = Interview(lambda: Choice(budget=200).fit(problem))
    converse(interview, driver)
    chosen = interview.result()
    record = chosen.record
    base = np.argmax(setting.population.eta, axis=1)
    return Row(
        kind="queries",
        setting=setting.name,
        rows=n_rows,
        seed=seed,
        score=record.score,
        base_score=record.base_score,
        low=np.nan,
        high=np.nan,
        gain_low=np.nan,
        gain_high=np.nan,
        adopted=not record.fallback,
        truth=setting.truth(chosen.rule.labels(setting.population.table())),
        base_truth=setting.truth(base),
    )


RUN = {"default": _default, "choice": _choice, "one rule": _one_rule, "evaluate": _evaluate, "queries": _queries}


def run_block(task: str, block: int) -> list[Row]:
    """Run a block of problems; ``task`` is kind, rows and setting."""
    kind, n_rows, name = task.split("|")
    setting, found = settings()[name], []
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = np.random.default_rng([zlib.crc32(name.encode()), int(n_rows), seed])
        rows = setting.draw(int(n_rows), rng)
        found.append(RUN[kind](setting, rows, int(n_rows), seed))
    return found


# -- storage ----------------------------------------------------------------------------------------------

_TYPES: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float, "bool": lambda text: text == "True"}


def read_rows(path: Path) -> tuple[list[Row], str]:
    """Return the stored results and what they were made with."""
    lines, made_with = read_table(path)
    names = {each.name: _TYPES[str(each.type)] for each in fields(Row)}
    return [Row(**{name: read(line[name]) for name, read in names.items()}) for line in lines], made_with


def write_rows(path: Path, rows: Iterable[Row], *, made_with: str) -> None:
    """Write all results, in order."""
    names = list(settings())
    ordered = sorted(rows, key=lambda row: (list(KINDS).index(row.kind), row.rows, names.index(row.setting), row.seed))
    lines = ([f"{v:.5f}" if isinstance(v, float) else v for v in asdict(row).values()] for row in ordered)
    write_table(path, [each.name for each in fields(Row)], lines, made_with=made_with)


def run_missing(path: Path, *, problems: int, jobs: int) -> None:
    """Run every block that is not stored yet, and store each at once."""
    rows, made_with = read_rows(path)
    done = {(f"{row.kind}|{row.rows}|{row.setting}", row.seed // BLOCK) for row in rows}
    tasks = [f"{kind}|{n_rows}|{name}" for kind, sizes in KINDS.items() for n_rows in sizes for name in settings()]
    todo = [(task, block) for block in range(problems // BLOCK) for task in tasks if (task, block) not in done]
    for found in each_finished(run_block, todo, jobs=jobs):
        rows.extend(found)
        write_rows(path, rows, made_with=together(made_with, versions()))


def main() -> None:
    """Run what is missing, and make the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="only make the page from the stored CSV")
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="of each size and setting")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    path = OUT / f"{NAME}.csv"
    if not args.render:
        run_missing(path, problems=args.problems, jobs=args.jobs)
    from experiments.verdicts_page import picture, render

    rows, made_with = read_rows(path)
    write_text(OUT / f"{NAME}.md", render(rows, made_with))
    picture(rows, OUT / f"{NAME}.png")


if __name__ == "__main__":
    main()
