"""Ablation, panel d: the result against the number of validation rows, Adult with proxy labels.

``python -m experiments validation-size``. Half of ``adult.test`` is set aside for testing, the validation rows are
drawn from the rest, smaller samples within larger ones. The paper has this panel on Adience: see ``adience-size``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import draw_line, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.harness.tables import from_first_to_last, markdown, mean_sd, places
from experiments.paper.adult.ablation import (
    METRICS,
    Given,
    Metric,
    by_metric,
    fitted_labels,
    of_base,
    of_default,
    of_paper,
    of_search,
    sections,
    stratified_order,
)
from experiments.paper.adult.chosen import FEW_STEPS
from experiments.paper.adult.splits import (
    PROXY,
    PROXY_BASES,
    C,
    Data,
    column_basis,
    joined,
    load_data,
    logistic,
)
from postshift.baselines import AdaptiveSurrogates, FineTuned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400)
QUICK_SIZES = (50, 200)


@lru_cache(maxsize=1)
def base_model(seed: int, *, quick: bool) -> Any:
    """Return logistic regression of the training rows."""
    train = load_data(PROXY, seed, quick=quick).split.train
    return logistic().fit(train.X, train.y)


@lru_cache(maxsize=1)
def halves(seed: int, *, quick: bool) -> tuple[Data, np.ndarray]:
    """Return the data with half of the other file as test rows, and an order of the rest, its validation rows.

    Any first rows of the order have both labels in about their shares.
    """
    data = load_data(PROXY, seed, quick=quick)
    pool = joined(data.split.validation, data.split.test)
    test, rest = train_test_split(np.arange(len(pool.y)), test_size=0.5, stratify=pool.y, random_state=seed)
    split = replace(data.split, validation=pool.take(rest), test=pool.take(test))
    return replace(data, split=split), stratified_order(split.validation.y, rng=np.random.default_rng(seed))


def with_size(seed: int, size: int, *, quick: bool) -> Data:
    """Return the data with so many validation rows."""
    data, order = halves(seed, quick=quick)
    rows = np.sort(order[:size])
    return replace(data, split=replace(data.split, validation=data.split.validation.take(rows)))


def of_fine_tuning(given: Given) -> np.ndarray:
    """Return those of the model, trained on with the validation rows."""
    return fitted_labels(FineTuned(FrozenEstimator(given.model), random_state=given.data.seed), given.data.split)


def of_surrogates(given: Given) -> np.ndarray:
    """Return those of adaptive surrogates with the paper's largest basis."""
    split = given.data.split
    options: dict[str, Any] = FEW_STEPS if given.quick else {}
    basis = column_basis(split, PROXY_BASES[-1])
    model = AdaptiveSurrogates(metric=given.metric.name, basis=basis, random_state=given.data.seed, **options)
    return fitted_labels(model, split)


METHODS: dict[str, Callable[[Given], np.ndarray]] = {
    "base model": of_base,
    "paper's method": of_paper,
    "paper's method, constant basis": partial(of_paper, bases=[()]),
    "default": of_default,
    "plug-in search": of_search,
    "fine-tuning": of_fine_tuning,
    "adaptive surrogates": of_surrogates,
}


def measure(labels_of: Callable[[Given], np.ndarray], metric: Metric, seed: int, quick: bool) -> Row:
    """Return the test metric with every number of validation rows."""
    values, seconds, model = {}, 0.0, base_model(seed, quick=quick)
    for size in QUICK_SIZES if quick else SIZES:
        data = with_size(seed, size, quick=quick)
        labels, spent = timed(labels_of, Given(data=data, model=model, metric=metric, quick=quick))
        seconds += spent
        values[f"test@{size}"] = metric.of(data.split.test)(np.eye(2)[labels])
    return Row(values=values, seconds=seconds)


# -- what it shows ------------------------------------------------------------------------------------------


def names_of(results: Results, metric: Metric) -> dict[str, str]:
    """Return the methods of a metric that have results, by what they are called."""
    return {name: f"{metric.name}: {name}" for name in METHODS if f"{metric.name}: {name}" in results.methods}


def draw(results: Results, axes: Axes, *, metric: Metric) -> None:
    """Draw a metric against the number of validation rows."""
    for rank, (name, method) in enumerate(names_of(results, metric).items()):
        at = places(results, method)
        draw_line(axes, at, [results.values(method, f"test@{n}") for n in at], label=name, rank=rank)
    axes.set_xscale("log")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.set(xlabel="validation rows", ylabel=f"test {metric.title}", title=metric.heading)
    axes.legend(frameon=False, fontsize=8, loc="center right", bbox_to_anchor=(1, 0.28))  # between the lines


def lines(results: Results, metric: Metric) -> str:
    """Return the table of a metric."""
    methods = names_of(results, metric)
    sizes = sorted({n for method in methods.values() for n in places(results, method)})
    body = [[f"{n:,}", *(mean_sd(results.values(method, f"test@{n}")) for method in methods.values())] for n in sizes]
    return markdown(["validation rows", *methods], body) if body else ""


def ahead(results: Results, metric: Metric) -> str:
    """Say with which numbers of rows the paper's method and the default are above fine-tuning."""
    methods = names_of(results, metric)
    sentences = []
    for name in ("paper's method", "default"):
        if name in methods and "fine-tuning" in methods:
            above = [
                f"{n:,}"
                for n in places(results, methods[name])
                if results.values(methods[name], f"test@{n}").mean()
                > results.values(methods["fine-tuning"], f"test@{n}").mean()
            ]
            where = f"above fine-tuning with {', '.join(above)} rows" if above else "never above fine-tuning"
            sentences.append(f"*{name}* is {where}.")
    return f"{metric.title[0].upper()}{metric.title[1:]}: {' '.join(sentences)}" if sentences else ""


def make_page(results: Results) -> str:
    """Return the page."""
    about = f"""The proxy-label task on Adult, {len(results.seeds)} splits. Half of `adult.test` is for testing.
    Validation rows are drawn from the rest: each smaller sample is part of the larger ones. The paper has this panel on
    Adience, with accuracy, PI-EW and a fine-tuned network (see the page `adience-size`). On Adult, with a linear model,
    every method can be run with every number of rows; G-mean is shown as well as accuracy. *paper's method*: PI-EW
    (accuracy) or FW-EG (G-mean) at radius 0.1, with a basis chosen by 5-fold cross-validation, or with the constant
    basis. *default*: `PostShiftClassifier` with the model frozen. *plug-in search*: class weights are searched on the
    validation rows. *fine-tuning*: gradient descent on the validation rows, with early stopping on a quarter of them.
    *adaptive surrogates*: default settings, with the paper's largest basis. The tables show mean and standard deviation
    over the splits. Bands in the figure are 95 % intervals."""
    metric = METRICS[0]
    shown = {name: f"{metric.name}: {name}" for name in ("paper's method", "default", "fine-tuning")}
    what = f"The proxy-label task on Adult with {SIZES[0]} to {SIZES[-1]:,} clean validation rows."
    lead = f"{what} {from_first_to_last(results, shown, f'Test {metric.title}')}"
    return whole_page(results, [about, *sections(results, lines, ahead)], lead=lead)


EXPERIMENT = Experiment(
    name="validation-size",
    title="The result against the number of validation rows (ablation, panel d)",
    methods=by_metric(METHODS, measure),
    page=make_page,
    figure=side_by_side(*(partial(draw, metric=metric) for metric in METRICS)),
    config={"sizes": SIZES, "C": C},
    quick_methods=[
        *(f"accuracy: {name}" for name in METHODS if name != "default"),
        *(f"g_mean: {name}" for name in ("base model", "default", "fine-tuning")),
    ],
)
