"""Ablation, panel c: the result against the quality of the base model, Adult with proxy labels.

``python -m experiments base-quality``. A logistic regression is trained by gradient descent in batches of 32 with step
0.01, as the paper does; after 50 batches, 100, 200 and so on its probabilities are post-shifted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import draw_line, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.harness.tables import from_first_to_last, markdown, mean_sd, places, summary
from experiments.paper.adult.ablation import (
    METRICS,
    Given,
    Metric,
    by_metric,
    of_base,
    of_default,
    of_paper,
    of_search,
    sections,
)
from experiments.paper.adult.splits import PROXY, load_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCHES = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600)
QUICK_BATCHES = (50, 200)
EVERY = 50  # batches
RATE, BATCH = 0.01, 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """A model on its way: after so many batches, with its log loss on the training rows kept back."""

    batches: int
    loss: float
    model: LogisticRegression


@lru_cache(maxsize=1)
def checkpoints(seed: int, *, quick: bool) -> tuple[Checkpoint, ...]:
    """Return the models of one run of gradient descent."""
    data = load_data(PROXY, seed, quick=quick)
    train = data.split.train
    X = np.hstack([train.X, np.ones((len(train.X), 1))])
    kept_back = train.columns["early_stopping"]
    wanted = QUICK_BATCHES if quick else BATCHES
    return tuple(
        Checkpoint(batches=batches, loss=loss(theta, X[kept_back], train.y[kept_back]), model=as_model(theta))
        for batches, theta in steps(X[~kept_back], train.y[~kept_back], seed=seed, most=wanted[-1])
        if batches in wanted
    )


def steps(X: np.ndarray, y: np.ndarray, *, seed: int, most: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of batches and the parameters after every 50 of them; each pass has an order of its own."""
    rng = np.random.default_rng(seed)
    theta, batches, order = drawn(X.shape[1] - 1, rng), 0, np.empty(0, dtype=np.intp)
    while batches < most:
        while len(order) < EVERY * BATCH:
            order = np.concatenate([order, rng.permutation(len(y))])
        chunk, order = order[: EVERY * BATCH], order[EVERY * BATCH :]
        theta = descent(theta, X[chunk], y[chunk], rng=rng)
        batches += EVERY
        yield batches, theta


def drawn(n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random start: the difference of two columns of Glorot's uniform start, without intercept."""
    limit = np.sqrt(6 / (n_features + 2))
    first, second = rng.uniform(-limit, limit, size=(2, n_features))
    return np.append(second - first, 0.0)


def descent(theta: np.ndarray, X: np.ndarray, y: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    """Return the parameters after one pass over rows; X has a column of ones.

    The authors train a softmax of two columns; here they are one vector, their difference, for which a step counts
    twice.
    """
    order = rng.permutation(len(y))
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        theta = theta - 2 * RATE * slope(theta, X[rows], y[rows])
    return theta


def loss(theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean cross-entropy."""
    z = X @ theta
    return float(np.mean(np.logaddexp(0, z) - y * z))


def slope(theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return its gradient."""
    return np.asarray(X.T @ (expit(X @ theta) - y) / len(y))


def as_model(theta: np.ndarray) -> LogisticRegression:
    """Return a fitted logistic regression with given parameters, the intercept last."""
    model = LogisticRegression()
    model.classes_, model.n_features_in_ = np.array([0, 1]), len(theta) - 1
    model.coef_, model.intercept_ = theta[None, :-1], theta[-1:]
    return model


METHODS: dict[str, Callable[[Given], np.ndarray]] = {
    "base model": of_base,
    "paper's method": of_paper,
    "plug-in search": of_search,
    "default": of_default,
}


def measure(labels_of: Callable[[Given], np.ndarray], metric: Metric, seed: int, quick: bool) -> Row:
    """Return the loss of the base model and the test metric after so many batches."""
    data, values, seconds = load_data(PROXY, seed, quick=quick), {}, 0.0
    score = metric.of(data.split.test)
    for point in checkpoints(seed, quick=quick):
        labels, spent = timed(labels_of, Given(data=data, model=point.model, metric=metric))
        seconds += spent
        values[f"loss@{point.batches}"] = point.loss
        values[f"test@{point.batches}"] = score(np.eye(2)[labels])
    return Row(values=values, seconds=seconds)


# -- what it shows ------------------------------------------------------------------------------------------


def draw(results: Results, axes: Axes, *, metric: Metric) -> None:
    """Draw a metric against the log loss of the base model."""
    for rank, name in enumerate(METHODS):
        method = f"{metric.name}: {name}"
        at = places(results, method)
        losses = [float(results.values(method, f"loss@{n}").mean()) for n in at]
        draw_line(axes, losses, [results.values(method, f"test@{n}") for n in at], label=name, rank=rank)
    axes.invert_xaxis()
    axes.set(xlabel="log loss of the base model on training rows kept back (better to the right)")
    axes.set(ylabel=f"test {metric.title}", title=metric.heading)
    axes.legend(frameon=False)


def lines(results: Results, metric: Metric) -> str:
    """Return the table of a metric."""
    methods = [f"{metric.name}: {name}" for name in METHODS if f"{metric.name}: {name}" in results.methods]
    if not methods:
        return ""
    body = []
    for n in places(results, methods[0]):
        loss = summary(results.values(methods[0], f"loss@{n}")).mean
        cells = [mean_sd(results.values(method, f"test@{n}")) for method in methods]
        body.append([f"{n:,}", f"{loss:.3f}", *cells])
    return markdown(["batches", "log loss", *(method.partition(": ")[2] for method in methods)], body)


def rising(results: Results, metric: Metric) -> str:
    """Say how quality and result go together."""
    parts = []
    for name in METHODS:
        method = f"{metric.name}: {name}"
        at = places(results, method)
        if len(at) > 1:
            first, last = (results.values(method, f"test@{n}").mean() for n in (at[0], at[-1]))
            parts.append(f"{name} {first:.3f} to {last:.3f}")
    return f"From the first to the last model, {metric.title}: {', '.join(parts)}." if parts else ""


def make_page(results: Results) -> str:
    """Return the page."""
    about = f"""The proxy-label task on Adult (163 clean rows, {len(results.seeds)} splits). Logistic regression is
    trained by gradient descent (batches of {BATCH}, step {RATE}) on two thirds of the training rows.
    Its probabilities after 50, 100, 200 and more batches are post-shifted. The quality of the base model is its log
    loss on the other third. The paper shows accuracy and PI-EW; this page adds G-mean and FW-EG. *paper's method*:
    PI-EW or FW-EG at radius 0.1, with a basis chosen by 5-fold cross-validation. *plug-in search*: class weights are
    searched on the validation rows. *default*: `PostShiftClassifier` with the model frozen. The tables show mean and
    standard deviation over the splits. Bands in the figure are 95 % intervals."""
    metric = METRICS[0]
    shown = {name: f"{metric.name}: {name}" for name in ("base model", "paper's method", "default")}
    what = "A model is post-shifted at several points of its training, from a poor model to a good one."
    lead = f"{what} {from_first_to_last(results, shown, f'Test {metric.title}')}"
    return whole_page(results, [about, *sections(results, lines, rising)], lead=lead)


EXPERIMENT = Experiment(
    name="base-quality",
    title="The result against the quality of the base model (ablation, panel c)",
    methods=by_metric(METHODS, measure),
    page=make_page,
    figure=side_by_side(*(partial(draw, metric=metric) for metric in METRICS)),
    config={"batches": BATCHES, "batch": BATCH, "rate": RATE},
    quick_methods=["accuracy: base model", "accuracy: paper's method", "accuracy: default", "g_mean: plug-in search"],
)
