"""What the paper's two tables on Adult share: how each kind of method is run, and the page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.harness.experiment import Results
from experiments.harness.page import whole_page
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.harness.tables import table
from experiments.paper.adult.chosen import CHOICE_FOLDS, CHOICE_ROWS, RATES, Labelled, surrogates_by_cv
from experiments.paper.adult.methods import Method, run
from experiments.paper.adult.splits import MAX_ITER, RADII, C, Data, Task, as_task, load_data

Run = Callable[[Data, bool], Row]  # of a split, and whether it is a quick look

CONFIG = {"C": C, "radii": RADII, "iterations": MAX_ITER}


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a method must reach."""

    method: str
    least: float

    def verdict(self, results: Results) -> str:
        """Say whether it is reached; nothing where the method has no results."""
        values = results.values(self.method)
        if not len(values):
            return ""
        word = "reached" if values.mean() >= self.least else "NOT reached"
        return f"{self.method}: {values.mean():.3f}, goal {self.least:.3f}, {word}."


def on_task(task: str, runs: Mapping[str, Run]) -> dict[str, Callable[[int, bool], Row]]:
    """Return methods of a split as methods of a seed."""
    return {name: partial(_on_seed, each, task) for name, each in runs.items()}


def _on_seed(each: Run, task: str, seed: int, quick: bool) -> Row:
    """Run a method on the split of a seed."""
    return each(load_data(task, seed, quick=quick), quick)


def from_baselines(method: Method, seen_as: Callable[[Data], Data] = lambda data: data) -> Run:
    """Return a method of ``adult_methods``, which may see the split in another way."""
    return lambda data, _: run(method, seen_as(data))


def of_paper(method: Callable[[Task], Labelled]) -> Run:
    """Return a method of ``adult_paper``, the time of the base model included."""
    return lambda data, _: _scored(data, lambda: method(as_task(data)))


def surrogates(bases: Sequence[tuple[str, ...]]) -> Run:
    """Return adaptive surrogates as the paper runs them: basis and learning rates by cross-validation."""
    return lambda data, quick: _scored(data, lambda: surrogates_by_cv(as_task(data), bases, quick=quick))


def _scored(data: Data, labelled: Callable[[], Labelled]) -> Row:
    """Return the test metric of the labels that a function gives, with its time."""
    found, seconds = timed(labelled)
    return Row(values={"test": data.score(found.labels)}, seconds=seconds, queries=found.queries, config=found.setting)


def quick_of(runs: Collection[str]) -> list[str]:
    """Return the methods of a quick look: those that take long even with few rows are left out, but for the default."""
    slow = ("best rule", "influence", "paper's method, private", "constant basis", "largest basis", "radius by CV")
    return [name for name in runs if not any(text in name for text in slow)]


# -- the page -----------------------------------------------------------------------------------------------

PROTOCOL = f"""The protocol is the authors' (`postshift.datasets.adult`), with one random split for each seed. The
tables show the test metric of the deterministic labels. The base model is logistic regression (C = {C:g}) on all
training rows. Settings are chosen on validation rows; test rows are only scored. Rows named after a method of
`experiments/paper/adult/methods.py` use its default settings. *Adaptive surrogates, by CV*: the basis and both learning
rates ({RATES[0]:g} or {RATES[1]:g}) are chosen by {CHOICE_FOLDS}-fold cross-validation on the validation rows, with
fits to {CHOICE_ROWS:,} training rows. *FW-EG*: {MAX_ITER} iterations from the inverse-prior plug-in; the last iterate
is used, and the radii are those of the paper's grid."""

LEGEND = """*vs best baseline*: the mean minus the mean of the best baseline. Stars mark differences by Welch's t-test
(\\* 95 %, \\*\\* 99 %, \\*\\*\\* 99.9 %). Our simple rules (inverse prior, smoothed plug-in, stacking) count as
baselines here. *CPU s*: mean processor time, including the base model and the choice of settings. *queries*: the
largest number of queries in a split; 0 if the metric is computed from the confusion matrix or is not used. *minus
paper*: our mean minus the paper's."""


def ours_among(methods: Collection[str], prefixes: tuple[str, ...]) -> list[str]:
    """Return the methods that are compared with the closest baseline."""
    return [method for method in methods if method.startswith(prefixes)]


def page(
    results: Results, *, what: str, about: str, prefixes: tuple[str, ...], goals: Sequence[Goal], after: str = ""
) -> str:
    """Return the page of a table; ``what`` is a sentence that says what it is."""
    reached = [text for text in (goal.verdict(results) for goal in goals) if text]
    n_seeds = len(results.seeds)
    parts = [
        f"{about}\n\n{n_seeds} {'splits' if n_seeds > 1 else 'split'}. {PROTOCOL}",
        table(results, ours=ours_among(results.methods, prefixes)),
        LEGEND,
        *([f"**Goals.** {' '.join(reached)}"] if reached else []),
        after,
    ]
    lead = f"{what} {standing(results, prefixes)}"
    return whole_page(results, parts, lead=lead)


def standing(results: Results, prefixes: tuple[str, ...]) -> str:
    """Name the best of ours and the best of the others, in one sentence."""
    means = {method: float(np.mean(results.values(method))) for method in results.methods}
    ours = ours_among(means, prefixes)
    others = [method for method in means if method not in ours]
    best = [
        f"{max(means[name] for name in names):.3f} for {whose} ({max(names, key=means.__getitem__)})"
        for whose, names in (("the paper's method and our rules", ours), ("the baselines", others))
        if names
    ]
    return f"The best mean is {' and '.join(best)}."
