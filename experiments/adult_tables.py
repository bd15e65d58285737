"""What the paper's two tables on Adult share: how each kind of method is run, and the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments import baselines
from experiments.adult_paper import MAX_ITER, RADII, Result, Task, group_recalls
from experiments.adult_rows import Look, as_task, load_data
from experiments.baseline_methods import C, Data, Method
from experiments.chosen import CHOICE_FOLDS, CHOICE_ROWS, RATES, surrogates_by_cv
from experiments.study import Measured, Results, table, whole_page

Run = Callable[[Look], Measured]

CONFIG = {"C": C, "radii": RADII, "iterations": MAX_ITER}
FEW_STEPS = {"n_outer": 3, "n_inner": 5, "n_perturbations": 20}  # of adaptive surrogates in a quick look


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a method must reach."""

    method: str
    least: float

    def told(self, results: Results) -> str:
        """Say whether it is reached; nothing where the method has no results."""
        values = results.values(self.method)
        if not len(values):
            return ""
        word = "reached" if values.mean() >= self.least else "NOT reached"
        return f"{self.method}: {values.mean():.3f}, at least {self.least:.3f} wanted, {word}."


def on_task(task: str, runs: Mapping[str, Run]) -> dict[str, Callable[[int, bool], Measured]]:
    """Return methods of a split as methods of a seed."""
    return {name: partial(_on_seed, run, task) for name, run in runs.items()}


def _on_seed(run: Run, task: str, seed: int, quick: bool) -> Measured:  # noqa: FBT001
    """Run a method on the split of a seed."""
    return run(Look(data=load_data(task, seed, quick=quick), quick=quick))


def from_baselines(method: Method, seen_as: Callable[[Data], Data] = lambda data: data) -> Run:
    """Return a method of ``experiments/baseline_methods.py``, which may see the split in another way."""

    def run(look: Look) -> Measured:
        found = baselines.run(method, seen_as(look.data))
        return Measured(values={"test": found.test}, seconds=found.seconds, queries=found.queries)

    return run


def quick_of(runs: Collection[str]) -> list[str]:
    """Return the methods of a quick look: those that take long even with few rows are left out, but for the default."""
    slow = ("best rule", "influence", "paper's method, private", "constant basis", "largest basis", "radius by CV")
    return [name for name in runs if not any(text in name for text in slow)]


def of_paper(fit: Callable[[Task], Result]) -> Run:
    """Return a run of ``experiments/adult_paper.py``, the time of the base model included."""

    def run(look: Look) -> Measured:
        begin = time.process_time()
        found = fit(as_task(look.data))
        seconds = time.process_time() - begin
        return Measured(values={"test": found.test}, seconds=seconds, queries=found.n_questions)

    return run


def surrogates(bases: Sequence[tuple[str, ...]]) -> Run:
    """Return adaptive surrogates as the paper runs them: basis and learning rates by cross-validation."""

    def run(look: Look) -> Measured:
        begin = time.process_time()
        options: dict[str, Any] = FEW_STEPS if look.quick else {}
        tried = bases[:1] if look.quick else bases
        found = surrogates_by_cv(as_task(look.data), tried, group_recalls, options=options)
        seconds = time.process_time() - begin
        test = look.data.score(found.labels)
        return Measured(values={"test": test}, seconds=seconds, queries=found.queries, config=found.setting)

    return run


# -- the page -----------------------------------------------------------------------------------------------

PROTOCOL = f"""The authors' protocol (`postshift.datasets.adult`), one random split for each seed; test metric of the
deterministic labels. The base model is logistic regression (C = {C:g}) on all training rows. Settings are chosen on
validation rows, test rows are only scored. Rows named after a method of `experiments/baseline_methods.py` have its
default settings. *Adaptive surrogates, by CV*: basis, and both learning rates from {RATES[0]:g} and {RATES[1]:g}, by
{CHOICE_FOLDS}-fold cross-validation on the validation rows; the fits that only choose see {CHOICE_ROWS:,} training
rows. *FW-EG*: {MAX_ITER} iterations from the inverse-prior plug-in, the last iterate, radii from the paper's grid."""

LEGEND = """*against closest*: the mean less that of the baseline with the highest mean, with stars where Welch's t-test
says that they differ (\\* 95 %, \\*\\* 99 %, \\*\\*\\* 99.9 %). Simple rules of ours (inverse prior, smoothed plug-in,
stacking) count as baselines there. *CPU s*: mean processor time, that of the base model and of choosing included.
*queries*: the most that a split asked of the metric; 0 where it is computed from the confusion matrix or not read.
*less paper*: our mean less the paper's."""


def ours_among(methods: Collection[str], prefixes: tuple[str, ...]) -> list[str]:
    """Return the methods that are compared with the closest baseline."""
    return [method for method in methods if method.startswith(prefixes)]


def page(
    results: Results, *, what: str, about: str, prefixes: tuple[str, ...], goals: Sequence[Goal], after: str = ""
) -> str:
    """Return the page of a table; ``what`` is a sentence that says what it is."""
    told = [text for text in (goal.told(results) for goal in goals) if text]
    n_seeds = len(results.seeds)
    parts = [
        f"{about}\n\n{n_seeds} {'splits' if n_seeds > 1 else 'split'}. {PROTOCOL}",
        table(results, ours=ours_among(results.methods, prefixes)),
        LEGEND,
        *([f"**Goals.** {' '.join(told)}"] if told else []),
        after,
    ]
    lead = f"{what} {standing(results, prefixes)}"
    return whole_page(results, "\n\n".join(part for part in parts if part), lead=lead)


def standing(results: Results, prefixes: tuple[str, ...]) -> str:
    """Name the best of ours and the best of the others, in one sentence."""
    means = {method: float(np.mean(results.values(method))) for method in results.methods}
    ours = ours_among(means, prefixes)
    others = [method for method in means if method not in ours]
    told = [
        f"{whose} reach a mean of {max(means[name] for name in names):.3f} ({max(names, key=means.__getitem__)})"
        for whose, names in (("the paper's method and our own rules", ours), ("the others", others))
        if names
    ]
    return f"At best {', '.join(told)}."
