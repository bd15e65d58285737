"""The chances that ``postshift.power`` predicts, beside how often rows show a gain or certify a bound.

``python -m experiments power_check``. A seed draws samples of every size, and counts how often the verdict is "worth
it", or all tests accept. *Simulated*: rows are drawn from shares that are known. *Adult*: rows are drawn, with
replacement, from the published test rows; a fixed rule, or the rule that a fit makes from probabilities alone. The rows
with probabilities are drawn anew for each seed. A model that is too sure of itself shows what wrong probabilities do,
and what some rows with labels correct.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
from postshift.rules.power import Power
from postshift.rules.verdict import compare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_SAMPLES = 40  # of a seed
DELTA = 0.05
ALLOWED = 0.05  # difference between the chance and the share
COLUMNS = ("method", "task", "size", "seed", "predicted", "low", "high", "known", "seen")
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
ADULT_FACTOR = 8.0  # of the weight of high income, for the fixed rule
# A bound on recall would say nothing of probabilities: the class for all rows always meets it.
ETA_BOUND, ETA_SIZES = "precision >= 0.8", (400, 800, 1600)
ETA_METRIC, ETA_GAIN_SIZES = "balanced_accuracy", (240, 480)
FROM_FEW, FROM_MANY = 2000, 8000  # rows with probabilities
TOO_SURE = 1.6  # factor of the log-odds of a model that is too sure of itself
N_LABELLED = 2000  # rows with labels that correct its chances
KINDS = {  # how the questions from probabilities begin
    f"from {FROM_FEW:,} probabilities": "few",
    f"from {FROM_MANY:,} probabilities": "many",
    f"from {FROM_MANY:,} wrong probabilities": "wrong",
    f"from {FROM_MANY:,} wrong probabilities and {N_LABELLED:,} labels": "corrected",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One question at one size: the chance that is predicted, and what draws a sample and tells whether it shows it.

    ``known`` is the chance for the true shares of the rule; by default it is the one that was predicted.
    """

    task: str
    size: int
    predicted: Power
    shows: Callable[[np.random.Generator], bool]
    known: float | None = None

    def row(self, name: str, rng: np.random.Generator, n_samples: int) -> Row:
        """Return what is predicted and what is seen in so many samples."""
        chance = self.predicted.chance
        low, high = self.predicted.interval or (chance, chance)
        values = {
            "predicted": chance,
            "low": low,
            "high": high,
            "known": chance if self.known is None else self.known,
            "seen": float(np.mean([self.shows(rng) for _ in range(n_samples)])),
        }
        return Row(values=values, method=name, task=self.task, size=self.size)


# -- simulated ----------------------------------------------------------------------------------------------


def simulated(rng: np.random.Generator) -> Iterator[Cell]:
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

    return Cell(task=task, size=size, predicted=power(confusion=shares, subject_to=text, n_rows=size), shows=shows)


def comparison(task: str, cells: Any, metric: str, size: int) -> Cell:
    """Return the cell of a gain of a rule whose labels are known, beside those of the base."""
    n_classes = cells.shape[-1]
    resolved, flat = resolve_metric(metric, classes=np.arange(n_classes)), np.full((size, n_classes), 1 / n_classes)

    def shows(rng: np.random.Generator) -> bool:
        truth, labels, base = np.unravel_index(rng.choice(cells.size, size=size, p=cells.ravel()), cells.shape)
        with warnings.catch_warnings(action="ignore"):
            problem = Problem.labelled(None, Rows.of(flat, labels=truth), resolved)
        return compare(problem, labels, base).kind == "worth it"

    return Cell(task=task, size=size, predicted=power(confusion=cells, metric=metric, n_rows=size), shows=shows)


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


def on_adult(rng: np.random.Generator) -> Iterator[Cell]:
    """Yield the cells of the published test rows."""
    eta, y = adult()
    cells = true_cells(eta, y, (eta * [1, ADULT_FACTOR]).argmax(axis=1))
    for size in ADULT_SIZES:
        yield certification(f"a fixed rule: certify {ADULT_BOUND}", cells.sum(axis=2), ADULT_BOUND, size)
    for size in (120, 480, 1000, 2000):
        yield comparison("a fixed rule: see a gain in balanced_accuracy", cells, "balanced_accuracy", size)
    few, many, wrong, corrected = KINDS
    sure = eta**TOO_SURE / np.sum(eta**TOO_SURE, axis=1, keepdims=True)
    for kind, n_rows in ((few, FROM_FEW), (many, FROM_MANY)):
        some = rng.integers(len(y), size=n_rows)
        for size in ETA_SIZES:
            yield certified_fit(kind, eta, y, some, size)
        for size in ETA_GAIN_SIZES:
            yield seen_gain(kind, eta, y, some, size)
    labelled = rng.integers(len(y), size=N_LABELLED)
    for kind, given in ((wrong, {}), (corrected, {"eta_val": sure[labelled], "y_val": y[labelled]})):
        for size in (ETA_SIZES[1], ETA_SIZES[2]):
            yield certified_fit(kind, sure, y, some, size, **given)
        yield seen_gain(kind, sure, y, some, ETA_GAIN_SIZES[1], **given)


def true_cells(eta: Any, y: Any, labels: Any) -> Any:
    """Return the shares of true class, label of a rule, and label of the base."""
    return np.bincount((y * 2 + labels) * 2 + eta.argmax(axis=1), minlength=8).reshape(2, 2, 2) / len(y)


def certified_fit(kind: str, eta: Any, y: Any, some: Any, size: int, **given: Any) -> Cell:
    """Return the cell of a certified fit, whose path is made from the probabilities of some rows.

    If its first rule is refused, nothing is certified.
    """
    bounded = (resolve_constraint(Constraint.read(ETA_BOUND), classes=[0, 1]),)
    metric = resolve_metric("recall", classes=[0, 1])
    program = ConstrainedProgram(Expectation.of(Rows.of(eta[some]), None), RateObjective.of(metric), bounded)
    path = make_path(program, basis="constant", posterior=Identity(), n_rows=size, delta=DELTA)

    def shows(rng: np.random.Generator) -> bool:
        drawn = rng.integers(len(y), size=size)
        problem = Problem.labelled(None, Rows.of(eta[drawn], labels=y[drawn]), metric)
        try:
            certify(path[:1], Evidence(problem=problem), bounded, confidence=1 - DELTA)
        except NotCertifiedError:
            return False
        return True

    truth = true_cells(eta, y, path[0].rule.labels(Rows.of(eta))).sum(axis=2)
    return Cell(
        task=f"{kind}: certify {ETA_BOUND}",
        size=size,
        predicted=power(eta[some], subject_to=ETA_BOUND, n_rows=size, **given),
        shows=shows,
        known=power(confusion=truth, subject_to=ETA_BOUND, n_rows=size).chance,
    )


def seen_gain(kind: str, eta: Any, y: Any, some: Any, size: int, **given: Any) -> Cell:
    """Return the cell of a gain of the rule that is best for the probabilities of some rows."""
    metric = resolve_metric(ETA_METRIC, classes=[0, 1])
    program = ConstrainedProgram(Expectation.of(Rows.of(eta[some]), None), RateObjective.of(metric), ())
    labels = program.solve().rule.labels(eta, np.ones((len(y), 1)))
    truth = true_cells(eta, y, labels)
    found = comparison(f"{kind}: see a gain in {ETA_METRIC}", truth, ETA_METRIC, size)
    predicted = power(eta[some], metric=ETA_METRIC, n_rows=size, **given)
    return replace(found, predicted=predicted, known=found.predicted.chance)


# -- runs and page ------------------------------------------------------------------------------------------


SOURCES = {"simulated": simulated, "Adult": on_adult}


def measure(name: str, seed: int, quick: bool) -> list[Row]:
    """Return the chances that are predicted and the shares of samples that show it."""
    rng = np.random.default_rng([seed, len(name)])
    return [cell.row(name, rng, 2 if quick else N_SAMPLES) for cell in SOURCES[name](rng)]


def measured(name: str) -> Callable[[int, bool], list[Row]]:
    """Return the function of a seed for one source of rows."""
    return lambda seed, quick: measure(name, seed, quick)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All seeds of a cell: means of what was predicted and seen, and how the intervals fare."""

    predicted: float
    low: float
    high: float
    known: float
    seen: float
    off: float  # mean difference of a single prediction from the chance for the true shares
    covered: float  # share of intervals that hold that chance

    @property
    def apart(self) -> float:
        """The difference of prediction and samples."""
        return self.predicted - self.seen


Key = tuple[str, str, int]


def by_cell(results: Results) -> dict[Key, Seen]:
    """Return what was seen, by source, question and size."""
    found = defaultdict(list)
    for row in results.rows:
        found[row.method, row.task, row.size].append([row.values[name] for name in COLUMNS[4:]])
    cells = {}
    for key, rows in found.items():
        predicted, low, high, known, seen = np.array(rows).T
        cells[key] = Seen(
            predicted=predicted.mean(),
            low=low.mean(),
            high=high.mean(),
            known=known.mean(),
            seen=seen.mean(),
            off=float(np.abs(predicted - known).mean()),
            covered=float(np.mean((low <= known) & (known <= high))),
        )
    return cells


def of_kind(cells: dict[Key, Seen], kind: str | None) -> list[Seen]:
    """Return the cells of one kind of question from probabilities; those of known shares for None."""
    return [each for key, each in cells.items() if KINDS.get(key[1].split(":")[0]) == kind]


def make_page(results: Results) -> str:
    """Return the page."""
    cells, n_samples = by_cell(results), N_SAMPLES * len(results.seeds)
    shares, many = of_kind(cells, None), of_kind(cells, "many")
    lead = (
        "How often rows show a gain or certify a bound, and what `postshift.power` says before. From shares that are "
        f"known the two differ by at most 5 points in {within(shares)} of {len(shares)} cells (at most "
        f"{largest(shares):.1f}), and from the probabilities of {FROM_MANY:,} rows of Adult, on average over samples "
        f"of rows, in {within(many)} of {len(many)} (at most {largest(many):.1f})."
    )
    known = [
        [method, task, f"{size:,}", f"{each.predicted:.3f}", f"{each.seen:.3f}", f"{each.apart:+.3f}"]
        for (method, task, size), each in cells.items()
        if task.split(":")[0] not in KINDS
    ]
    rough = [
        [
            *(task, f"{size:,}", f"{each.predicted:.3f}", f"{each.low:.3f} to {each.high:.3f}", f"{each.known:.3f}"),
            *(f"{each.seen:.3f}", f"{each.apart:+.3f}", f"{each.off:.3f}", f"{each.covered:.0%}"),
        ]
        for (_, task, size), each in cells.items()
        if task.split(":")[0] in KINDS
    ]
    about = (
        f"Each share is of {n_samples:,} samples, so it has a standard error of up to {50 / np.sqrt(n_samples):.1f} "
        "points. On Adult, rows are drawn with replacement from the test rows."
    )
    head = ["rows", "question", "n", "predicted", "seen", "predicted less seen"]
    head_rough = [
        *("question", "n", "predicted", "interval", "true shares", "seen", "predicted less seen"),
        *("off, a single one", "covered"),
    ]
    sections = ["## From known shares", markdown(head, known, n_texts=2), about, "## From probabilities, on Adult"]
    return whole_page(results, [*sections, markdown(head_rough, rough, n_texts=1), rough_about(results)], lead=lead)


def rough_about(results: Results) -> str:
    """Return how to read the table of predictions from probabilities."""
    return (
        f"Means over {len(results.seeds)} samples of rows with probabilities. *Seen* is how often the rule that a fit "
        "makes from these rows is accepted first, or is worth it, on other rows. *True shares* is the chance for the "
        "true shares of that rule. *Off* is how far a single prediction is from it, and *covered* how often the "
        f"interval, which has a level of 95 %, holds it. *Wrong probabilities* have their log-odds multiplied by "
        f"{TOO_SURE:g}: the chance and its interval take them for right, and no number of rows without labels tells. "
        "Rows with labels correct both, at the price of a wide interval. The model's own probabilities are a little "
        "wrong too: with more rows the intervals are narrower, and hold the chance less often."
    )


def within(cells: list[Seen]) -> int:
    """Return in how many cells prediction and samples differ by at most what is allowed."""
    return sum(abs(each.apart) <= ALLOWED for each in cells)


def largest(cells: list[Seen]) -> float:
    """Return the largest difference, in points."""
    return 100 * max(abs(each.apart) for each in cells)


def draw(results: Results, axes: Axes) -> None:
    """Draw the seen shares against the predicted chances."""
    cells = by_cell(results)
    for name, colour in zip(SOURCES, ("#0072B2", "#D55E00"), strict=True):
        own = np.array([(each.predicted, each.seen) for key, each in cells.items() if key[0] == name])
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
    seeds=12,
    figure=side_by_side(draw),
    picture="Seen shares against predicted chances",
)
