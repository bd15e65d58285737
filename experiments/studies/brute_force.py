"""Constrained rules beside brute force over plug-in weights, for two and three classes.

``python -m experiments brute_force``. Probabilities are drawn, and labels from them. The rate program and brute force
maximise a metric of the expected confusion matrix subject to constraints on it. The values on the drawn labels stand
beside.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import Panel, stacked
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown
from postshift import Rows
from postshift.constraints.pieces import resolve_constraint
from postshift.constraints.terms import Constraint
from postshift.metrics import resolve_metric
from postshift.rules.constrained_program import ConstrainedProgram, Expectation, RateObjective

ALLOWED = 0.005
N_ROWS = {2: 1200, 3: 600}  # by the number of classes
N_RULES = 3000  # of brute force with diagonal weights, and as many with a whole matrix
BLOCK = 500
CASES = {
    2: (
        ("precision", "recall[1] >= 0.9"),
        ("recall", "precision[1] >= 0.6"),
        ("accuracy", "rate[1] <= 0.1"),
        ("f1", "rate[1] <= 0.15"),
        ("g_mean", "precision[1] >= 0.5"),
        ("accuracy", "recall[1] >= 0.7, precision[1] >= 0.4"),
    ),
    3: (
        ("accuracy", "recall[2] >= 0.7"),
        ("accuracy", "min_recall >= 0.5"),
        ("accuracy", "rate[0] <= 0.4, recall[1] >= 0.4"),
        ("g_mean", "precision[2] >= 0.5"),
        ("f1_macro", "rate[2] <= 0.1"),
    ),
}
TASKS = {f"{m} classes: {metric}, {texts}": (m, metric, texts) for m, each in CASES.items() for metric, texts in each}


def measure(task: str, seed: int, quick: bool) -> Row:
    """Return the metric of the rate program's rule and of the best rule of brute force: expected, and on labels."""
    n_classes, name, texts = TASKS[task]
    rng = np.random.default_rng([seed, n_classes])
    eta, y = drawn(rng, N_ROWS[n_classes], n_classes)
    metric = resolve_metric(name, classes=np.arange(n_classes))
    bounded = [resolve_constraint(Constraint.read(text), classes=np.arange(n_classes)) for text in texts.split(", ")]
    program = ConstrainedProgram(Expectation.of(Rows.of(eta), None), RateObjective.of(metric), bounded)
    ours = program.solve().rule.labels(eta, np.ones((len(eta), 1)))
    forced = best_labels(plug_in_labels(eta, rng, N_RULES // 10 if quick else N_RULES), eta, metric, bounded)
    truth = np.eye(n_classes)[y]
    values = {
        f"{whose}{where}": float(metric.value(confusions(table, labels[None])[0]))
        for whose, labels in (("ours", ours), ("forced", forced))
        for where, table in (("", eta), ("_labels", truth))
    }
    missed = max(each.miss(confusions(eta, ours[None])[0]) for each in bounded)
    return Row(task=task, method="rate program", values={**values, "missed": missed})


def drawn(rng: np.random.Generator, n_rows: int, n_classes: int) -> tuple[Any, Any]:
    """Return probabilities, and labels drawn from them."""
    scores = rng.normal(scale=1.6, size=(n_rows, n_classes))
    scores[:, 0] += 1
    eta = softmax(scores, axis=1)
    return eta, (rng.random((n_rows, 1)) > eta.cumsum(axis=1)[:, :-1]).sum(axis=1)


def plug_in_labels(eta: Any, rng: np.random.Generator, n_rules: int) -> Any:
    """Return the labels (K, n) of every threshold or, for three classes, of random weights."""
    n_classes = eta.shape[1]
    if n_classes == 2:
        return (eta[None, :, 1] >= np.append(np.sort(eta[:, 1]), 2.0)[:, None]).astype(np.intp)
    diagonal = np.exp(rng.normal(size=(n_rules, n_classes)))[:, None] * np.eye(n_classes)
    full = diagonal + 0.3 * rng.normal(size=(n_rules, n_classes, n_classes))
    return np.argmax(np.einsum("ni,kij->knj", eta, np.concatenate([diagonal, full])), axis=2)


def confusions(table: Any, labels: Any) -> Any:
    """Return the confusion matrices of labels (K, n); ``table`` has each row's shares of the true classes."""
    return np.einsum("ni,knj->kij", table, np.eye(table.shape[1])[labels]) / len(table)


def best_labels(labels: Any, eta: Any, metric: Any, bounded: Any) -> Any:
    """Return the labels with the best expected metric among those that meet the constraints in expectation."""
    best, found = -np.inf, labels[0]
    for block in np.array_split(labels, max(1, len(labels) // BLOCK)):
        for one, table in zip(block, confusions(eta, block), strict=True):
            value = float(metric.value(table))
            if value > best and all(each.miss(table) <= 0 for each in bounded):
                best, found = value, one
    return found


# -- the page -----------------------------------------------------------------------------------------------


def apart(results: Results, task: str, *, where: str = "") -> np.ndarray:
    """Return the rate program's metric less that of brute force, by seed."""
    ours, forced = (results.values("rate program", f"{whose}{where}", task=task) for whose in ("ours", "forced"))
    return np.asarray(ours - forced)


def make_page(results: Results) -> str:
    """Return the page."""
    lines = []
    for task in results.tasks:
        names = ("ours", "forced", "ours_labels", "forced_labels")
        means = [f"{results.values('rate program', name, task=task).mean():.4f}" for name in names]
        lowest, missed = apart(results, task).min(), results.values("rate program", "missed", task=task).max()
        lines.append([task, *means[:2], f"{lowest:+.4f}", *means[2:], f"{max(missed, 0.0) + 0.0:.1g}"])
    lowest = min(float(apart(results, task).min()) for task in results.tasks)
    lead = (
        "A metric maximised subject to constraints, by the rate program and by brute force over plug-in weights. In "
        f"expectation, the rule of the rate program is at most {max(-lowest, 0):.4f} below the best rule of brute "
        f"force ({'within' if lowest >= -ALLOWED else 'above'} the goal of {ALLOWED})."
    )
    about = (
        f"Means over {len(results.seeds)} draws; *lowest* is the lowest difference of one draw. Labels are drawn from "
        "the probabilities. Both sides give single rules, and meet the constraints in expectation (*missed*: the most "
        "that ours misses one by). Brute force tries every threshold of two classes, and of three classes "
        f"{2 * N_RULES:,} random weights, so it may miss the optimum and be below. *On labels* are the same rules with "
        "the drawn labels, which neither side has seen: constraints may be missed there."
    )
    head = ["task", "rate program", "brute force", "lowest", "rate program, on labels", "brute force, on labels"]
    return whole_page(results, [about, markdown([*head, "missed"], lines)], lead=lead)


def panels(results: Results) -> list[Panel]:
    """Return the differences to brute force, in expectation."""
    lines = {task: apart(results, task) for task in results.tasks}
    return [Panel("The rate program less brute force", lines, "difference of the expected metric", zero=True)]


EXPERIMENT = Experiment(
    name="brute_force",
    title="Constrained rules and brute force",
    methods={task: partial(measure, task) for task in TASKS},
    page=make_page,
    by=("task",),
    columns=("task", "seed", "method", "ours", "forced", "ours_labels", "forced_labels", "missed"),
    seeds=10,
    figure=stacked(panels),
    picture="The expected metric of the rate program less that of brute force",
)
