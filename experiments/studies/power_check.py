"""The chances that ``postshift.power`` predicts, beside how often rows show a gain or certify a bound.

``python -m experiments power_check``. A seed draws samples of every size, and counts how often the verdict is "worth
it", or all tests accept. *Simulated*: rows are drawn from shares that are known. *Adult*: rows are drawn, with
replacement, from the published test rows; a fixed rule, or the path of rules that a fit makes from probabilities alone.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import side_by_side
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown
from postshift import Rows, power
from postshift.constraints.p_values import test_piece
from postshift.constraints.pieces import resolve_constraint
from postshift.constraints.terms import Constraint
from postshift.datasets import load_adult
from postshift.exceptions import NotCertifiedError
from postshift.metrics import resolve_metric
from postshift.rules import Problem
from postshift.rules.certified import Evidence, certify, make_path
from postshift.rules.constrained_program import ConstrainedProgram, Expectation, RateObjective
from postshift.rules.posterior import Identity
from postshift.rules.verdict import compare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_SAMPLES = 100  # of a seed
DELTA = 0.05
ALLOWED = 0.05  # difference between the chance and the share
COLUMNS = ("method", "task", "size", "seed", "predicted", "known", "seen")
FROM_ETA = "from probabilities"
CONSTRAINTS = {  # shares, and sizes
    "recall >= 0.9": ([[0.8, 0.1], [0.005, 0.095]], (150, 500, 1500)),
    "precision >= 0.7": ([[0.85, 0.02], [0.04, 0.09]], (150, 400, 800)),
    "rate <= 0.22": ([[0.8, 0.1], [0.005, 0.095]], (150, 800, 1600)),
    "f1 >= 0.55": ([[0.7, 0.1], [0.05, 0.15]], (60, 180, 360)),
    "demographic_parity <= 0.12": ([[0.30, 0.10], [0.03, 0.07], [0.29, 0.12], [0.02, 0.07]], (250, 450, 900)),
    "equal_opportunity <= 0.3": ([[0.30, 0.10], [0.03, 0.07], [0.29, 0.12], [0.02, 0.07]], (150, 250, 500)),
}
GAINS = {  # metric: classes, factor of the last class, sizes
    "balanced_accuracy": (2, 2.0, (100, 350, 700)),
    "f1": (2, 1.3, (250, 900, 1800)),
    "g_mean": (3, 3.0, (100, 330, 660)),
    "min_recall": (3, 2.0, (60, 120, 240)),
}
ADULT_BOUND, ADULT_SIZES = "recall >= 0.9", (200, 400, 800, 1600)
UNLABELLED_BOUND = "precision >= 0.8"  # a bound on recall would say nothing: the class for all rows always meets it
ADULT_FACTOR = 8.0  # of the weight of high income, for the fixed rule


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One question at one size: the chance that is predicted, and what draws a sample and tells whether it shows it.

    ``known`` is the chance for the true confusion matrix of the rule; by default it is the one that was given.
    """

    task: str
    size: int
    predicted: float
    shows: Callable[[np.random.Generator], bool]
    known: float | None = None


# -- simulated ----------------------------------------------------------------------------------------------


def simulated() -> Iterator[Cell]:
    """Yield the cells of known shares."""
    for text, (shares, sizes) in CONSTRAINTS.items():
        for size in sizes:
            yield certification(f"certify {text}", np.array(shares), text, size)
    for metric, (n_classes, factor, sizes) in GAINS.items():
        for size in sizes:
            yield comparison(f"see a gain in {metric}", known_cells(n_classes, factor), metric, size)


def certification(task: str, shares: Any, text: str, size: int) -> Cell:
    """Return the cell of a constraint of a rule whose confusion matrix is known."""
    shares = shares / shares.sum()
    bounded = resolve_constraint(Constraint.read(text), classes=[0, 1], n_groups=len(shares) // 2)

    def shows(rng: np.random.Generator) -> bool:
        counts = rng.multinomial(size, shares.ravel()).reshape(shares.shape).astype(np.float64)
        return max(test_piece(piece, counts).p_value for piece in bounded.pieces(counts / size)) <= DELTA

    return Cell(
        task=task, size=size, predicted=power(confusion=shares, subject_to=text, n_rows=size).chance, shows=shows
    )


def comparison(task: str, cells: Any, metric: str, size: int) -> Cell:
    """Return the cell of a gain of a rule whose labels are known, beside those of the base."""
    n_classes = cells.shape[-1]
    resolved, flat = resolve_metric(metric, classes=np.arange(n_classes)), np.full((size, n_classes), 1 / n_classes)

    def shows(rng: np.random.Generator) -> bool:
        truth, labels, base = np.unravel_index(rng.choice(cells.size, size=size, p=cells.ravel()), cells.shape)
        with warnings.catch_warnings(action="ignore"):
            problem = Problem.labelled(None, Rows.of(flat, labels=truth), resolved)
        return compare(problem, labels, base).kind == "worth it"

    return Cell(task=task, size=size, predicted=power(confusion=cells, metric=metric, n_rows=size).chance, shows=shows)


@cache
def known_cells(n_classes: int, factor: float) -> Any:
    """Return the shares of true class, label of a rule, and label of the base, for calibrated probabilities."""
    rng = np.random.default_rng(1)
    logits = 1.3 * rng.normal(size=(20_000, n_classes)) + np.linspace(1.5, 0, n_classes)
    eta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    base, rule = eta.argmax(axis=1), (eta * np.linspace(1, factor, n_classes)).argmax(axis=1)
    found = np.zeros((n_classes,) * 3)
    for label in range(n_classes):
        np.add.at(found[label], (rule, base), eta[:, label])
    return found / found.sum()


# -- Adult --------------------------------------------------------------------------------------------------


@cache
def adult() -> tuple[Any, Any]:
    """Return a model's probabilities of the published test rows, and their labels."""
    tables = load_adult()
    names = [name for name in tables.train if name != "income"]
    columns = {name: np.concatenate([tables.train[name], tables.test[name]]) for name in names}
    parts = []
    for values in columns.values():
        if values.dtype.kind == "i":
            parts.append(np.log1p(values)[:, None])
        else:
            labels, codes = np.unique(values, return_inverse=True)
            parts.append(np.eye(len(labels))[codes])
    X, n_train = np.hstack(parts), len(tables.train["income"])
    y = np.concatenate([tables.train["income"], tables.test["income"]]) == ">50K"
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X[:n_train], y[:n_train])
    return model.predict_proba(X[n_train:]), y[n_train:].astype(np.intp)


def on_adult() -> Iterator[Cell]:
    """Yield the cells of the published test rows."""
    eta, y = adult()
    base, rule = eta.argmax(axis=1), (eta * [1, ADULT_FACTOR]).argmax(axis=1)
    cells = np.bincount((y * 2 + rule) * 2 + base, minlength=8).reshape(2, 2, 2) / len(y)
    for size in ADULT_SIZES:
        yield certification(f"a fixed rule: certify {ADULT_BOUND}", cells.sum(axis=2), ADULT_BOUND, size)
    for size in (120, 480, 1000, 2000):
        yield comparison("a fixed rule: see a gain in balanced_accuracy", cells, "balanced_accuracy", size)
    for size in ADULT_SIZES:
        yield from_eta(eta, y, size)


def from_eta(eta: Any, y: Any, size: int) -> Cell:
    """Return the cell of a certified fit, whose path is made from the probabilities of 2,000 rows without labels."""
    bounded = (resolve_constraint(Constraint.read(UNLABELLED_BOUND), classes=[0, 1]),)
    metric, some = resolve_metric("recall", classes=[0, 1]), Rows.of(eta[:2000])
    program = ConstrainedProgram(Expectation.of(some, None), RateObjective.of(metric), bounded)
    path = make_path(program, basis="constant", posterior=Identity(), n_rows=size, delta=DELTA)

    def shows(rng: np.random.Generator) -> bool:
        drawn = rng.integers(2000, len(y), size=size)
        problem = Problem.labelled(None, Rows.of(eta[drawn], labels=y[drawn]), metric)
        try:
            certify(path[:1], Evidence(problem=problem), bounded, confidence=1 - DELTA)
        except NotCertifiedError:
            return False
        return True

    chance = power(eta[:2000], subject_to=UNLABELLED_BOUND, n_rows=size).chance
    labels = path[0].rule.labels(Rows.of(eta[2000:]))
    truth = np.bincount(y[2000:] * 2 + labels, minlength=4).reshape(2, 2)
    known = power(confusion=truth, subject_to=UNLABELLED_BOUND, n_rows=size).chance
    return Cell(task=f"{FROM_ETA}: certify {UNLABELLED_BOUND}", size=size, predicted=chance, shows=shows, known=known)


# -- runs and page ------------------------------------------------------------------------------------------


SOURCES = {"simulated": simulated, "Adult": on_adult}


def measure(name: str, seed: int, quick: bool) -> list[Row]:
    """Return the chances that are predicted and the shares of samples that show it."""
    rng = np.random.default_rng([seed, len(name)])
    n_samples = 10 if quick else N_SAMPLES
    rows = []
    for cell in SOURCES[name]():
        seen = float(np.mean([cell.shows(rng) for _ in range(n_samples)]))
        known = cell.predicted if cell.known is None else cell.known
        values = {"predicted": cell.predicted, "known": known, "seen": seen}
        rows.append(Row(values=values, method=name, task=cell.task, size=cell.size))
    return rows


def measured(name: str) -> Callable[[int, bool], list[Row]]:
    """Return the function of a seed for one source of rows."""
    return lambda seed, quick: measure(name, seed, quick)


Cells = dict[tuple[str, str, int], tuple[float, float, float]]


def by_cell(results: Results) -> Cells:
    """Return the predicted chance, the one for the true shares, and the share that was seen, by cell."""
    found = defaultdict(list)
    for row in results.rows:
        found[row.method, row.task, row.size].append(row.values)
    return {
        key: (each[0]["predicted"], each[0]["known"], float(np.mean([values["seen"] for values in each])))
        for key, each in found.items()
    }


def apart(cells: Cells, *, from_eta: bool) -> list[float]:
    """Return how far the predicted chances are from what was seen: from probabilities, or from known shares."""
    return [abs(each[0] - each[2]) for key, each in cells.items() if key[1].startswith(FROM_ETA) == from_eta]


def make_page(results: Results) -> str:
    """Return the page."""
    cells = by_cell(results)
    lines = [
        [method, task, f"{size:,}", f"{chance:.3f}", f"{known:.3f}", f"{seen:.3f}", f"{chance - seen:+.3f}"]
        for (method, task, size), (chance, known, seen) in cells.items()
    ]
    shares, rough = apart(cells, from_eta=False), apart(cells, from_eta=True)
    n_samples = N_SAMPLES * len(results.seeds)
    lead = (
        "How often rows show a gain or certify a bound, and what `postshift.power` says before. From shares that are "
        f"known the two differ by at most 5 points in {sum(each <= ALLOWED for each in shares)} of {len(shares)} cells "
        f"(at most {100 * max(shares):.1f}), but from the probabilities of 2,000 rows in only "
        f"{sum(each <= ALLOWED for each in rough)} of {len(rough)} (up to {100 * max(rough):.1f})."
    )
    about = (
        f"Each share is of {n_samples:,} samples, so it has a standard error of up to {50 / np.sqrt(n_samples):.1f} "
        "points. On Adult, rows are drawn with replacement from the test rows."
    )
    rough_about = (
        "*From probabilities* reads no label. The chance is computed from the model's probabilities of the first 2,000 "
        "test rows, and the rule is the first of the path that a fit with a confidence would test on other rows. "
        "*True shares* is the same chance for the rule's true confusion matrix: what is left of the difference is that "
        "of the formula, the rest is that 2,000 rows are not like the others, and that the fit takes another rule. A "
        "bound on recall is left out here: the rule that gives every row this class is certified by any few rows."
    )
    head = ["rows", "question", "n", "predicted", "true shares", "seen", "predicted less seen"]
    return whole_page(results, [markdown(head, lines, n_texts=2), about, rough_about], lead=lead)


def draw(results: Results, axes: Axes) -> None:
    """Draw the seen shares against the predicted chances."""
    cells = by_cell(results)
    for name, colour in zip(SOURCES, ("#0072B2", "#D55E00"), strict=True):
        own = np.array([(each[0], each[2]) for key, each in cells.items() if key[0] == name])
        axes.plot(own[:, 0], own[:, 1], "o", color=colour, label=name)
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=1)
    axes.set(xlabel="predicted chance", ylabel="share of samples", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


EXPERIMENT = Experiment(
    name="power_check",
    title="Power: the predicted chance and what is seen",
    methods={name: measured(name) for name in SOURCES},
    page=make_page,
    columns=COLUMNS,
    seeds=6,
    figure=side_by_side(draw),
    picture="Seen shares against predicted chances",
)
