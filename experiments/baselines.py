"""Every baseline of the package, and our own rules, on the paper's two Adult tasks.

``python -m experiments.baselines`` runs what is missing in ``docs/results/baselines.csv`` (every finished fit is stored
at once, so a stopped run goes on where it was) and writes ``docs/results/baselines.md``. ``--why`` does the same with
the measurements that explain where we and the paper differ (``experiments/baselines_why.py``). The methods are in
``experiments/baseline_methods.py``: nothing is tuned, and test rows are only scored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar

import numpy as np

from experiments import adult_paper
from experiments.baseline_methods import FAIRNESS, METHODS, PROXY, TASKS, C, Data, Method, load
from experiments.menu_study import interval
from experiments.opening import opened_text
from experiments.output import OUT, markdown, read_table, together, versions, write_table, write_text
from postshift.exceptions import SmallValidationWarning

N_SEEDS = 5
CSV, PAGE = OUT / "baselines.csv", OUT / "baselines.md"
TITLES = {
    PROXY: 'Proxy labels (Table 3): G-mean of gender, trained on "is a husband", 163 clean rows',
    FAIRNESS: "Fairness (Table 5): geometric mean of the recalls in both genders, 1,629 rows with groups",
}
DEFAULT = "ours: average of the rules (the default)"
APART = 2.0  # standard deviations from which on a difference to the paper is marked

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method on one split of one task."""

    task: str
    method: str
    seed: int
    test: float
    seconds: float
    queries: int


PAPER = {  # mean and standard deviation over 5 splits
    (PROXY, "cross-entropy [train]"): (0.654, 0.002),
    (PROXY, "cross-entropy [val]"): (0.394, 0.064),
    (PROXY, "opt-metric [val]"): (0.652, 0.027),
    (PROXY, "learn-to-reweight"): (0.668, 0.003),
    (PROXY, "plug-in [train-val], spacing 1e-4"): (0.672, 0.013),
    (PROXY, "forward correction, anchors"): (0.214, 0.004),
    (PROXY, "fine-tuning"): (0.631, 0.017),
    (PROXY, "importance weights"): (0.662, 0.024),
    (PROXY, "adaptive surrogates, largest basis"): (0.682, 0.002),
    (PROXY, "FW-EG [unknown psi], basis and radius by CV"): (0.685, 0.002),
    (PROXY, "FW-EG [known psi], basis by CV"): (0.685, 0.001),
    (FAIRNESS, "cross-entropy [train]"): (0.736, 0.005),
    (FAIRNESS, "cross-entropy [val]"): (0.610, 0.020),
    (FAIRNESS, "learn-to-reweight"): (0.729, 0.007),
    (FAIRNESS, "fine-tuning"): (0.738, 0.005),
    (FAIRNESS, "adaptive surrogates, largest basis"): (0.812, 0.004),
    (FAIRNESS, "plug-in [train-val], spacing 1e-4"): (0.812, 0.005),
    (FAIRNESS, "FW-EG, basis and radius searched in-sample"): (0.822, 0.002),
}


def run(method: Method, data: Data) -> Row:
    """Fit a method to a split and score its labels of the test rows."""
    train, val = data.split.train, data.split.validation
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallValidationWarning)  # 163 rows are few: that is the task
        model = method.make(data)
        model.fit(train.X, train.y, val.X, val.y, **(data.groups if method.reads_metric else {}))
    seconds = time.process_time() - begin
    return Row(
        task=data.task,
        method=method.name,
        seed=data.seed,
        test=round(data.score(model.predict(data.split.test.X)), 6),
        seconds=round(seconds, 2),
        queries=int(getattr(model, "n_queries_", 0)),
    )


# -- storage ------------------------------------------------------------------------------------------------


def read_rows(path: Path, kind: type[Kind]) -> tuple[list[Kind], str]:
    """Return the stored rows of a kind, and what they were made with."""
    casts = {"str": str, "int": int, "float": float}
    readers = {field.name: casts[str(field.type)] for field in fields(kind)}  # type: ignore[arg-type]
    lines, made_with = read_table(path)
    return [kind(**{name: reader(line[name]) for name, reader in readers.items()}) for line in lines], made_with


def write_rows(path: Path, rows: Sequence[Any], *, made_with: str) -> None:
    """Write all rows."""
    write_table(path, [field.name for field in fields(rows[0])], map(astuple, rows), made_with=made_with)


def wanted(*, seeds: int = N_SEEDS, quick: bool = False) -> list[tuple[str, str, int]]:
    """Return the (task, method, seed) to be had, in order."""
    chosen = [method for method in METHODS if method.quick or not quick]
    return [
        (task, method.name, seed)
        for task in TASKS
        for seed in range(seeds)
        for method in chosen
        if task in method.tasks
    ]


def run_missing(path: Path, cells: Iterable[tuple[str, str, int]]) -> None:
    """Run every cell that is not stored yet, and store each at once."""
    rows, made_with = read_rows(path, Row)
    stored = {(row.task, row.method, row.seed) for row in rows}
    methods = {method.name: method for method in METHODS}
    names = list(methods)
    todo = [cell for cell in cells if cell not in stored]
    data = None
    for count, (task, name, seed) in enumerate(todo, start=1):
        if data is None or (data.task, data.seed) != (task, seed):
            data = load(task, seed)
        rows.append(run(methods[name], data))
        rows.sort(key=lambda row: (TASKS.index(row.task), row.seed, names.index(row.method)))
        write_rows(path, rows, made_with=together(made_with, versions()))
        sys.stderr.write(f"{count} of {len(todo)}: {task}, seed {seed}, {name}\n")


# -- the page -----------------------------------------------------------------------------------------------


def quoted() -> list[Row]:
    """Return the paper's method as the paper runs it, from ``adult_paper.csv``; its time was not taken."""
    results, _ = adult_paper.read_csv(OUT / "adult_paper.csv")
    return [
        Row(
            task=each.task, method=each.method, seed=each.seed, test=each.test, seconds=np.nan, queries=each.n_questions
        )
        for each in results
        if (each.task, each.method) in PAPER
    ]


def is_ours(method: str) -> bool:
    """Return whether a method is one of our rules."""
    return method.startswith("ours")


def by_method(rows: Iterable[Row], task: str) -> dict[str, list[Row]]:
    """Return a task's rows by method, the baselines first, ours last."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.task == task:
            found.setdefault(row.method, []).append(row)
    return dict(sorted(found.items(), key=lambda item: is_ours(item[0])))


def scores(rows: Iterable[Row]) -> np.ndarray:
    """Return the test values of rows."""
    return np.array([row.test for row in rows])


def spread(values: np.ndarray) -> list[str]:
    """Return mean, standard deviation and 95 % interval as cells; one value has a mean only."""
    if len(values) == 1:
        return [f"{values[0]:.3f}", "", ""]
    low, high = interval(values)
    return [f"{values.mean():.3f}", f"{values.std(ddof=1):.3f}", f"{low:.3f} to {high:.3f}"]


def apart(values: np.ndarray, paper: tuple[float, float]) -> float:
    """Return ours less the paper's in standard deviations of the difference of two single splits."""
    own = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return float((values.mean() - paper[0]) / np.hypot(own, paper[1]))


def compared(values: np.ndarray, paper: tuple[float, float] | None) -> list[str]:
    """Return the paper's figure, the difference to it, and a mark where that is large."""
    if paper is None:
        return ["", ""]
    deviations = apart(values, paper)
    text = f"{values.mean() - paper[0]:+.3f} ({abs(deviations):.1f} sd)"
    return [f"{paper[0]:.3f} ± {paper[1]:.3f}", f"**{text}**" if abs(deviations) > APART else text]


def marked(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the (task, method) that are more than two standard deviations from the paper."""
    return [
        (task, method)
        for task in TASKS
        for method, found in by_method(rows, task).items()
        if (task, method) in PAPER and abs(apart(scores(found), PAPER[task, method])) > APART
    ]


def table(rows: Sequence[Row], task: str) -> str:
    """Return the table of a task."""
    lines = []
    for method, found in by_method(rows, task).items():
        seconds = float(np.mean([row.seconds for row in found]))
        cost = ["" if np.isnan(seconds) else f"{seconds:.1f}", f"{max(row.queries for row in found):,}"]
        lines.append([method, *spread(scores(found)), *cost, *compared(scores(found), PAPER.get((task, method)))])
    return markdown(["method", "mean", "sd", "95 % interval", "CPU s", "queries", "paper", "ours less paper"], lines)


def verdict(rows: Sequence[Row]) -> str:
    """Name what differs from the paper, our default, and what is best in hindsight."""
    differing = [f"{method} ({task})" for task, method in marked(rows)]
    sentences = [f"More than {APART:g} standard deviations from the paper: {', '.join(differing) or 'none'}."]
    for task in dict.fromkeys(row.task for row in rows):
        means = {method: scores(found).mean() for method, found in by_method(rows, task).items()}
        if DEFAULT in means:
            sentences.append(f"On {task} our default has {means[DEFAULT]:.3f}.")
        for whose, own in (("the others", False), ("our rules", True)):
            best = max((name for name in means if is_ours(name) == own), key=lambda name: means[name], default=None)
            if best is not None:
                name = best.removeprefix("ours: ")
                sentences.append(f"The best of {whose} on {task}, in hindsight, is {name} with {means[best]:.3f}.")
    return " ".join(sentences)


def render(rows: list[Row], made_with: str) -> str:
    """Return the page."""
    everything = [*rows, *quoted()]
    parts = [f"## {TITLES[task]}\n\n{table(everything, task)}\n" for task in dict.fromkeys(row.task for row in rows)]
    page = f"""# Every baseline on Adult

<!-- Made by `python -m experiments.baselines` from baselines.csv and adult_paper.csv; do not edit. -->

{len({row.seed for row in rows})} random splits with the authors' protocol (`postshift.datasets.adult`); test metric of
the deterministic labels. The base model is logistic regression (C = {C:g}) on all training rows. Every method has its
default settings, and `random_state` is the number of the split; test rows are only scored. On the fairness task groups
are given with the validation rows, to the methods that read the metric, and never for prediction. *CPU s* is the mean
processor time of a fit, that of the base model included (ours fits it six times: probabilities of training rows are out
of fold). *queries* is the most that a split asked of the metric; 0 where no metric is read or where it is computed from
the confusion matrix. *ours less paper* has the difference also in units of `sqrt(sd_ours^2 + sd_paper^2)`, the standard
deviation of the difference of two single splits: it is **bold** where it is more than {APART:g} of them, and
[baselines_why.md](baselines_why.md) has the measurements that explain it. *FW-EG* is the paper's method as the paper
runs it, basis and radius searched, quoted from [adult_paper.md](adult_paper.md); as a rule of ours it has one basis,
fixed beforehand: the constant, private work or not, or the largest of the paper's sets of indicators. The paper also
chooses the basis and the learning rates of adaptive surrogates by cross-validation; here they are fixed.

{chr(10).join(parts)}
{fill(verdict(everything), 120)}

To repeat it: `python -m experiments.baselines`, made with {made_with}.
"""
    picture = "![Test metric of every method on both tasks](baselines.png)"
    return opened_text(page, picture=picture, lead=fill(lead_of(everything), 120))


def lead_of(rows: Sequence[Row]) -> str:
    """Say in two sentences what it is about, and what came out."""
    told = []
    for task in TITLES:
        means = {method: float(scores(found).mean()) for method, found in by_method(rows, task).items()}
        best = max((name for name in means if not is_ours(name)), key=means.__getitem__)
        told.append(
            f"on {task} our default has {means[DEFAULT]:.3f} and the best of the others {means[best]:.3f} ({best})"
        )
    what = "Every baseline with its default settings, beside our rules, on two tasks of Adult."
    return f"{what} In the mean {'; '.join(told)}."


def write_page() -> None:
    """Make page and picture from the stored results."""
    from experiments.pictures import Panel, write_panels

    rows, made_with = read_rows(CSV, Row)
    write_text(PAGE, render(rows, made_with))
    everything = [*rows, *quoted()]
    panels = [
        Panel(title, {name: scores(found) for name, found in by_method(everything, task).items()}, "test metric")
        for task, title in TITLES.items()
    ]
    write_panels(panels, OUT, PAGE.stem)


def main() -> None:
    """Run what is missing, and make the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="only rebuild the page from the stored CSV")
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="number of splits")
    parser.add_argument("--quick", action="store_true", help="only the methods that take a second or two")
    parser.add_argument("--why", action="store_true", help="measure why we and the paper differ instead")
    args = parser.parse_args()
    if args.why:
        from experiments import baselines_why

        baselines_why.main(seeds=args.seeds, render_only=args.render)
        return
    if not args.render:
        run_missing(CSV, wanted(seeds=args.seeds, quick=args.quick))
    write_page()


if __name__ == "__main__":
    main()
