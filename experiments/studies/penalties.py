"""Metrics with a penalty for a gap between groups: the default beside constrained rules over a grid of bounds.

``python -m experiments penalties``. A penalty has a kink where two groups change places. The default is called as a
user would call it, with the groups as a basis. The rivals are rules that are constrained to a gap of at most b: b is
chosen by validation rows, or in hindsight by test rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import Panel, stacked
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from experiments.studies.power_check import adult
from postshift import PostShifter
from postshift.datasets import load_adult

SIZES = (1000, 4000)  # validation rows
BOUNDS = (0.0, 0.01, 0.02, 0.05, 0.1)
ALLOWED = 0.005
N_SYNTHETIC, N_MODEL = 40_000, 4_000  # rows: all, and those of the model
BASE, DEFAULT, HALF = "base", "default", "default, half the penalty"
PROGRAM, INFLUENCE = "rate program alone", "influence regression alone"
BY_VALIDATION = "constrained, bound by validation rows"


@dataclass(frozen=True)
class Penalty:
    """A metric: accuracy less a strength times a gap; the gap of all rows or of those of class 1."""

    gap: str
    strength: int

    def name(self, factor: float = 1.0) -> str:
        """Return the metric's name, with the penalty times a factor."""
        strength = self.strength * factor
        return f"accuracy - {'' if strength == 1 else f'{strength:g} * '}{self.gap}"

    def value(self, labels: Any, rows: Sample) -> float:
        """Return the metric of labels, from its definition."""
        counted = rows.y == 1 if self.gap == "equal_opportunity" else np.ones(len(rows.y), dtype=bool)
        rates = [float(np.mean(labels[counted & (rows.groups == group)])) for group in (0, 1)]
        return float(np.mean(labels == rows.y)) - self.strength * abs(rates[0] - rates[1])


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Rows with two classes and two groups."""

    eta: Any
    y: Any
    groups: Any

    def take(self, rows: Any) -> Sample:
        """Return some of the rows."""
        return Sample(eta=self.eta[rows], y=self.y[rows], groups=self.groups[rows])

    @property
    def phi(self) -> Any:
        """The groups as a basis."""
        return np.eye(2)[self.groups]


@cache
def adult_rows() -> Sample:
    """Return the published test rows of Adult, with gender as the group."""
    eta, y = adult()
    return Sample(eta=eta, y=y, groups=(np.asarray(load_adult().test["sex"]) == "Male").astype(np.intp))


@cache
def synthetic_rows() -> Sample:
    """Return rows whose groups differ in a feature and in their share of class 1; the model misses a product."""
    rng = np.random.default_rng(0)
    n_rows = N_SYNTHETIC + N_MODEL
    groups = (rng.random(n_rows) < 0.35).astype(np.intp)
    X = rng.normal(size=(n_rows, 4)) + np.outer(groups, [0.8, 0.0, 0.4, 0.0])
    logits = 1.4 * X[:, 0] + 0.8 * X[:, 1] + 0.7 * X[:, 2] * X[:, 3] + 0.4 * groups - 1.0
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-logits))).astype(np.intp)
    model = LogisticRegression().fit(X[:N_MODEL], y[:N_MODEL])
    return Sample(eta=model.predict_proba(X[N_MODEL:]), y=y[N_MODEL:], groups=groups[N_MODEL:])


SETS = {"Adult": adult_rows, "synthetic": synthetic_rows}
PENALTIES = (Penalty("demographic_parity", 1), Penalty("equal_opportunity", 2))
TASKS = {f"{name}: {penalty.name()}": (rows, penalty) for name, rows in SETS.items() for penalty in PENALTIES}


def measure(task: str, seed: int, quick: bool) -> list[Row]:
    """Return the test metric of every method on one split, for each number of validation rows."""
    rows_of, penalty = TASKS[task]
    rows = rows_of()
    order = np.random.default_rng(seed).permutation(len(rows.y))
    found = []
    for size in SIZES[:1] if quick else SIZES:
        with warnings.catch_warnings(action="ignore"):  # few rows of a group are expected here
            values = by_method(penalty, rows.take(order[:size]), rows.take(order[max(SIZES) :]))
        found += [Row(task=task, method=method, size=size, values={"test": each}) for method, each in values.items()]
    return found


def by_method(penalty: Penalty, val: Sample, test: Sample) -> dict[str, float]:
    """Return the test metric of every method."""

    def fitted(metric: str, **options: Any) -> PostShifter:
        return PostShifter(metric, **options).fit(val.eta, val.y, phi_val=val.phi, groups=val.groups)

    def tested(model: PostShifter) -> float:
        return penalty.value(model.predict(test.eta, phi=test.phi), test)

    metric = penalty.name()
    found = {BASE: penalty.value(test.eta.argmax(axis=1), test)}
    found[INFLUENCE] = tested(fitted(metric, method="influence"))
    found[PROGRAM] = tested(fitted(metric, method="rate program"))
    found[HALF] = tested(fitted(penalty.name(0.5)))
    found[DEFAULT] = tested(fitted(metric))
    limited = [fitted("accuracy", subject_to=f"{penalty.gap} <= {bound}") for bound in BOUNDS]
    out_of_fold = [penalty.value(each.held_out_.labels, val.take(each.held_out_.rows)) for each in limited]
    found[BY_VALIDATION] = tested(limited[int(np.argmax(out_of_fold))])
    return {**found, **{constrained(bound): tested(each) for bound, each in zip(BOUNDS, limited, strict=True)}}


def constrained(bound: float) -> str:
    """Return the name of the rule that is constrained to a bound."""
    return f"constrained, gap <= {bound:g}"


# -- the page -----------------------------------------------------------------------------------------------

Cells = dict[tuple[str, int], Mapping[str, np.ndarray]]  # values by split of each method, by task and size


def cells_of(results: Results) -> Cells:
    """Return the test values of every method, by task and number of validation rows."""
    sizes = sorted({row.size for row in results.rows})
    return {
        (task, size): {method: results.values(method, task=task, size=size) for method in results.methods}
        for task in results.tasks
        for size in sizes
    }


def best_bound(values: Mapping[str, np.ndarray]) -> str:
    """Return the constrained rule with the highest mean on the test rows."""
    return max((constrained(bound) for bound in BOUNDS), key=lambda name: float(values[name].mean()))


def best_by_split(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the highest test value over the bounds, split by split."""
    return np.max([values[constrained(bound)] for bound in BOUNDS], axis=0)


def rivals_of(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the values of the constrained rules that the default is compared with."""
    return {
        "bound by validation rows": values[BY_VALIDATION],
        "best bound in hindsight": values[best_bound(values)],
        "best bound of each split in hindsight": best_by_split(values),
    }


def comparison(cells: Cells) -> str:
    """Return the default less the constrained rules, paired by split."""
    lines = []
    for (task, size), values in cells.items():
        for name, theirs in rivals_of(values).items():
            apart = summary(values[DEFAULT] - theirs)
            means = [f"{each.mean():.3f}" for each in (values[DEFAULT], theirs)]
            reached = "yes" if apart.mean >= -ALLOWED else "no"
            lines.append([task, name, f"{size:,}", *means, *apart.difference(), reached])
    head = ["task", "constrained rule", "validation rows", "default", "constrained", "difference", "95 % interval"]
    return markdown([*head, f">= -{ALLOWED}"], lines, n_texts=2)


def means(results: Results, cells: Cells) -> str:
    """Return the mean of every method."""
    lines = [
        [method, *(f"{values[method].mean():.3f}" for values in cells.values() if len(values[method]))]
        for method in results.methods
    ]
    return markdown(["method", *(f"{task}, {size:,} rows" for task, size in cells)], lines)


ABOUT = f"""Accuracy less a penalty for the gap between two groups, on test rows, deterministic labels. *Adult*: the
published test rows, groups by gender, a logistic regression that was fitted to the training rows. *Synthetic*: the
groups differ in a feature and in their share of class 1, and the logistic regression misses a product of two features.
All rows but those for validation (at most {max(SIZES):,}) are test rows. Every fit gets the model's probabilities and
labels of the validation rows, and the groups as a basis. A constrained rule maximises accuracy with a gap of at most
{", ".join(f"{bound:g}" for bound in BOUNDS)}. *Bound by validation rows*: the bound with the best metric of
out-of-fold labels. *Best bound in hindsight*: the bound with the best mean on the test rows, and *of each split*: on
the test rows of the split, which no method can know."""


def lead_of(cells: Cells) -> str:
    """Say in two sentences what it is about, and what came out."""
    gaps = {
        name: [float((values[DEFAULT] - rivals_of(values)[name]).mean()) for values in cells.values()]
        for name in rivals_of(next(iter(cells.values())))
    }
    counts = ", ".join(f"{sum(gap >= -ALLOWED for gap in each)} of {len(each)} ({name})" for name, each in gaps.items())
    return (
        "Two metrics with a penalty for a gap between groups, which has a kink, by the default and by rules that are "
        "constrained to a grid of bounds. The mean of the default is above that of the constrained rule, less "
        f"{ALLOWED}, in so many cells: {counts}."
    )


def make_page(results: Results) -> str:
    """Return the page."""
    cells = cells_of(results)
    parts = [ABOUT, comparison(cells), f"## Means over {len(results.seeds)} splits", means(results, cells)]
    return whole_page(results, parts, lead=lead_of(cells))


def panels(results: Results) -> list[Panel]:
    """Return the default less the constrained rules, a panel for each rival."""
    cells = cells_of(results)
    return [
        Panel(
            f"Default less constrained, {name}",
            {f"{task}, {size:,} rows": v[DEFAULT] - rivals_of(v)[name] for (task, size), v in cells.items()},
            "difference of the test metric",
            zero=True,
        )
        for name in rivals_of(next(iter(cells.values())))
    ]


EXPERIMENT = Experiment(
    name="penalties",
    title="A penalty for a gap between groups",
    methods={task: partial(measure, task) for task in TASKS},
    page=make_page,
    by=("task",),
    columns=("task", "size", "seed", "method", "test"),
    seeds=10,
    figure=stacked(panels),
    picture="The default less constrained rules on every task, mean and interval",
    quick_methods=["synthetic: accuracy - demographic_parity"],
)
