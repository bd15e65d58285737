"""The menu on the paper's two Adult tasks and on the demo's digits.

``python -m experiments.menu_figures`` fits every rule, the choice and the average, and writes
``docs/results/menu_figures.csv`` and ``.md``. Test rows are only scored.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from textwrap import fill

import numpy as np

from examples import digits_demo
from experiments.adult_paper import Result, Task, by_method, make_task, read_csv, table, write_csv
from experiments.opening import opened_text
from experiments.output import OUT, write_text
from postshift import Accuracy, GMean, Sample
from postshift.basis import CoverBasis, TreeBasis
from postshift.metrics import GroupGMean
from postshift.rules import Choice, Interview, PluginSearch, Problem, Table, menu, rule_named, without_questions
from postshift.rules.influence import Influence

SEEDS = {"proxy": range(5), "fairness": range(5), "digits": range(10)}
TITLES = {
    "proxy": "Adult, proxy labels: G-mean, 163 clean rows",
    "fairness": "Adult, fairness: geometric mean of the recalls in both genders, 1,629 clean rows",
    "digits": "Digits as in the demo: accuracy, 300 clean rows",
}
CHOICE, AVERAGE = "choice", "average (the default)"
QUERIES = "influence regression by queries alone"
INDICATORS = {"proxy": ("private", "non_private"), "fairness": ("wife", "husband")}


def adult_table(task: Task, part: str, tree: TreeBasis, cover: CoverBasis) -> Table:
    """Return one part of an Adult split with the leaves of a tree and the paper's indicators as bases."""
    rows = getattr(task.split, part)
    bases = {"tree": tree.transform(rows.X), "paper": cover.transform(indicators(task, part))}
    return Table.of(task.eta[part], bases=bases, labels=rows.y)


def indicators(task: Task, part: str) -> np.ndarray:
    """Return the paper's indicator functions of a task."""
    rows = getattr(task.split, part)
    return np.column_stack([rows.indicators[name] for name in INDICATORS[task.name]])


def adult_results(name: str, seed: int, *, thorough: bool = True) -> Iterator[Result]:
    """Yield the menu on one Adult split: every rule if ``thorough``, else what the project promises."""
    task = make_task(name, seed)
    tree = TreeBasis().fit(task.split.train.X, task.split.train.y)
    cover = CoverBasis().fit(indicators(task, "train"))
    train, val, test = (adult_table(task, part, tree, cover) for part in ("train", "validation", "test"))
    if name == "proxy":
        problem = Problem.labelled(train, val, GMean())
    else:
        metric = GroupGMean(n_groups=2, n_classes=2)
        problem = Problem.labelled(train, val, metric, groups=task.split.validation.group)
    rules = (*menu(problem), PluginSearch()) if thorough else (rule_named("stack + influence [tree]", problem),)
    for rule in rules:
        yield task.scored(rule.name, without_questions(rule.fit(problem)).labels(test), n_questions=0)
    for method, how in ((CHOICE, "best"), *([(AVERAGE, "average")] if thorough or name == "fairness" else [])):
        chosen = without_questions(Choice(how=how).fit(problem))  # type: ignore[arg-type]
        yield task.scored(method, chosen.rule.labels(test), n_questions=0)


def digits_results(seed: int, *, thorough: bool = True) -> Iterator[Result]:
    """Yield the menu on one split of the demo's digits, and influence regression that is only told numbers."""
    train, val, test = digits_demo.load(seed)

    def as_table(sample: Sample) -> Table:
        return Table.of(sample.eta, labels=sample.labels)

    def result(method: str, labels: np.ndarray, n_questions: int = 0) -> Result:
        right = float(np.mean(labels == test.labels))
        return Result(task="digits", method=method, seed=seed, test=right, n_questions=n_questions)

    problem = Problem.labelled(as_table(train), as_table(val), Accuracy())
    for rule in (*menu(problem), PluginSearch()) if thorough else ():
        yield result(rule.name, without_questions(rule.fit(problem)).labels(as_table(test)))
    for method, how in ((CHOICE, "best"), (AVERAGE, "average")):
        chosen = without_questions(Choice(how=how).fit(problem))  # type: ignore[arg-type]
        yield result(method, chosen.rule.labels(as_table(test)))
    asked = Problem.queried(as_table(train), Table.of(val.eta), kind="soft")
    interview = Interview(lambda: Influence().fit(asked))
    while questions := interview.ask():
        for question in questions:
            told = question.predictions[np.arange(len(val.eta)), val.labels].mean()
            interview.tell(question.key, told)
    yield result(QUERIES, interview.result().labels(as_table(test)), interview.n_questions)


TASKS: dict[str, Callable[..., Iterator[Result]]] = {
    "proxy": lambda seed, **how: adult_results("proxy", seed, **how),
    "fairness": lambda seed, **how: adult_results("fairness", seed, **how),
    "digits": digits_results,
}


def lead_of(results: list[Result]) -> str:
    """Say in two sentences what it is about, and what came out."""
    told = []
    for task in TITLES:
        means = {method: values.mean() for method, values in by_method(results, task).items()}
        told.append(f"{means['base']:.3f} to {means[AVERAGE]:.3f} on {task}")
    return (
        f"Every rule of the menu, on two tasks of Adult and on digits. From the base to the average: {', '.join(told)}."
    )


def render(results: list[Result], made_with: str) -> str:
    """Return the page."""
    parts = [f"## {title}\n\n{table(results, name)}" for name, title in TITLES.items()]
    page = f"""# The menu on Adult and on digits

<!-- Made by `python -m experiments.menu_figures` from menu_figures.csv; do not edit. -->

Test metric of the deterministic labels; Adult with the authors' protocol, 5 splits, digits 10 splits. The *choice*
takes the rule with the best metric of pooled out-of-fold labels, the *average* weighs them all. Bases of influence
regression: the constant, the leaves of a 4-leaf tree on the training labels, and the paper's indicators (private or
not; wife, husband, neither). *questions*: what was asked of a metric of which only values were told.

{chr(10).join(f"{part}{chr(10)}" for part in parts)}
To repeat it: `python -m experiments.menu_figures`, made with {made_with}.
"""
    picture = "![Test metric of every rule on three tasks](menu_figures.png)"
    return opened_text(page, picture=picture, lead=fill(lead_of(results), 120))


def write_page() -> None:
    """Make page and picture from the stored results."""
    from experiments.pictures import Panel, write_panels

    results, made_with = read_csv(OUT / "menu_figures.csv")
    write_text(OUT / "menu_figures.md", render(results, made_with))
    panels = [Panel(title, by_method(results, task), "test metric") for task, title in TITLES.items()]
    write_panels(panels, OUT, "menu_figures")


def main() -> None:
    """Run every seed, or only rebuild the page from the stored results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="rebuild the page from the stored CSV")
    if not parser.parse_args().render:
        results = []
        for name, run in TASKS.items():
            for seed in SEEDS[name]:
                sys.stderr.write(f"{name}: seed {seed + 1} of {len(SEEDS[name])}\n")
                results.extend(run(seed))
        write_csv(results, OUT / "menu_figures.csv")
    write_page()


if __name__ == "__main__":
    main()
