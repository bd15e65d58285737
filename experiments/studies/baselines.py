"""Every baseline of the package, and our own rules, on the paper's two Adult tasks.

``python -m experiments baselines``. The methods are in ``experiments/paper/adult/methods.py``: nothing is tuned, and
test rows are only scored. ``docs/results/baselines_why.md`` explains where we and the paper differ.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from experiments.harness import runner
from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import task_panels
from experiments.harness.files import OUT
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from experiments.paper import adult_fairness, adult_paper, adult_proxy
from experiments.paper.adult.methods import METHODS, Method, run
from experiments.paper.adult.splits import FAIRNESS, PROXY, TASKS, C, load_data

TITLES = {
    PROXY: 'Proxy labels (Table 3): G-mean of gender, trained on "is a husband", 163 clean rows',
    FAIRNESS: "Fairness (Table 5): geometric mean of the recalls in both genders, 1,629 rows with groups",
}
DEFAULT = "ours: average of the rules (the default)"
LARGEST = "adaptive surrogates, largest basis"
APART = 2.0  # standard deviations from which on a difference to the paper is marked
PAPER = {  # mean and standard deviation over 5 splits
    (task, LARGEST if method == table.SURROGATES else method): figures
    for task, table in ((PROXY, adult_proxy), (FAIRNESS, adult_fairness))
    for method, figures in table.PAPER.items()
}


def measure(task: str, method: Method, seed: int, quick: bool) -> Row:
    """Fit a method to the split of a seed and score it."""
    return replace(run(method, load_data(task, seed, quick=quick)), task=task, method=method.name)


# -- the page -----------------------------------------------------------------------------------------------


def with_quoted(results: Results) -> Results:
    """Return the results with the paper's method as the paper runs it, from ``adult_paper``; it has no time there."""
    quoted = runner.stored(adult_paper.EXPERIMENT, OUT).rows
    mine = (row for row in quoted if (row.task, row.method) in PAPER and row.task in results.tasks)
    rows = sorted([*results.rows, *mine], key=lambda row: is_ours(row.method))
    return replace(results, rows=tuple(rows))


def is_ours(method: str) -> bool:
    """Return whether a method is one of our rules."""
    return method.startswith("ours")


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


def marked(results: Results) -> list[tuple[str, str]]:
    """Return the (task, method) that are more than two standard deviations from the paper."""
    return [
        (task, method)
        for task in results.tasks
        for method, values in results.by_method(task).items()
        if (task, method) in PAPER and abs(apart(values, PAPER[task, method])) > APART
    ]


def table(results: Results, task: str) -> str:
    """Return the table of a task."""
    lines = []
    for method, values in results.by_method(task).items():
        seconds = float(results.seconds(method, task=task).mean())
        cost = ["" if np.isnan(seconds) else f"{seconds:.1f}", f"{results.queries(method, task=task):,}"]
        lines.append([method, *summary(values).cells(), *cost, *compared(values, PAPER.get((task, method)))])
    return markdown(["method", "mean", "sd", "95 % interval", "CPU s", "queries", "paper", "ours minus paper"], lines)


def verdict(results: Results) -> str:
    """Name what differs from the paper, our default, and what is best in hindsight."""
    differing = [f"{method} ({task})" for task, method in marked(results)]
    sentences = [f"More than {APART:g} standard deviations from the paper: {', '.join(differing) or 'none'}."]
    for task in results.tasks:
        means = {method: values.mean() for method, values in results.by_method(task).items()}
        if DEFAULT in means:
            sentences.append(f"On {task} our default scores {means[DEFAULT]:.3f}.")
        for whose, own in (("the others", False), ("our rules", True)):
            best = max((name for name in means if is_ours(name) == own), key=lambda name: means[name], default=None)
            if best is not None:
                name = best.removeprefix("ours: ")
                sentences.append(f"In hindsight, the best of {whose} on {task} is {name} with {means[best]:.3f}.")
    return " ".join(sentences)


ABOUT = f"""random splits with the authors' protocol (`postshift.datasets.adult`). The tables show the test metric of
the deterministic labels. The base model is logistic regression (C = {C:g}) on all training rows. Every method has its
default settings, and `random_state` is the number of the split. Test rows are only scored. On the fairness task,
methods that use the metric get the groups of the validation rows, but not for prediction. *CPU s* is the mean processor
time of a fit, including the base model (our rules fit it six times, because probabilities of training rows are out of
fold). *queries* is the largest number of queries in a split; 0 if the metric is not used or is computed from the
confusion matrix. *ours minus paper* also has the difference in units of `sqrt(sd_ours^2 + sd_paper^2)`, the standard
deviation of the difference of two single splits. It is **bold** above {APART:g}; [baselines_why.md](baselines_why.md)
examines these cases. *FW-EG* is the paper's method with a search over basis and radius, as in the paper, quoted from
[adult_paper.md](adult_paper.md). The rows *ours: paper's method* use one basis that is fixed in advance: the constant,
private work or not, or the largest of the paper's sets of indicators. The paper also chooses the basis and the learning
rates of adaptive surrogates by cross-validation; here they are fixed."""


def make_page(results: Results) -> str:
    """Return the page."""
    everything = with_quoted(results)
    parts = [
        f"{len(results.seeds)} {ABOUT}",
        *(f"## {TITLES[task]}\n\n{table(everything, task)}" for task in results.tasks),
        verdict(everything),
    ]
    return whole_page(results, parts, lead=lead_of(everything), sources=[adult_paper.EXPERIMENT.name])


def lead_of(results: Results) -> str:
    """Say in two sentences what it is about, and what came out."""
    means = {task: {m: float(v.mean()) for m, v in results.by_method(task).items()} for task in results.tasks}
    best = {task: max((m for m in found if not is_ours(m)), key=found.__getitem__) for task, found in means.items()}
    what = "Every baseline with its default settings, and our rules, on two tasks of Adult."
    figures = [
        f"{found[DEFAULT]:.3f} on {task} (best other method: {found[best[task]]:.3f}, {best[task]})"
        for task, found in means.items()
        if DEFAULT in found
    ]
    return f"{what} The mean of our default is {' and '.join(figures)}." if figures else what


FITS = {f"{task}: {method.name}": (task, method) for task in TASKS for method in METHODS if task in method.tasks}
EXPERIMENT = Experiment(
    name="baselines",
    title="Every baseline on Adult",
    methods={name: partial(measure, *each) for name, each in FITS.items()},
    page=make_page,
    by=("task", "method"),
    columns=("task", "method", "seed", "test", "seconds", "queries"),
    figure=lambda results: task_panels(TITLES, "test metric")(with_quoted(results)),
    picture="Test metric of every method on both tasks",
    quick_methods=[name for name, (_, method) in FITS.items() if method.quick],
)
