"""Ablation, panel a: the class weights that PI-EW elicits under the label noise of CIFAR-10, and what they must be.

``python -m experiments weights``. With the constant basis the weights are known beforehand: the equations of
differences have the solution (prior_val_i + c) / prior_train_i, whatever the network and the radius are.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness.experiment import OLDER, Experiment, Results
from experiments.harness.figures import COLOURS, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from experiments.paper.images.networks import RECIPE, SEEDS
from experiments.paper.images.splits import CIFAR10
from experiments.paper.images.tables import probabilities, recipe_text, seeds_text
from experiments.paper.images.tasks import CONSTANT, RADII, RADIUS, ImageTask
from postshift.datasets.cifar10 import CLASSES
from postshift.metrics import Accuracy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAVE, ARRIVE, BOTH, NEITHER = "labels leave", "labels arrive", "both", "neither"
ROLES = {
    LEAVE: ("bird", "deer", "truck"),
    ARRIVE: ("airplane", "horse", "automobile"),
    BOTH: ("cat", "dog"),
    NEITHER: ("frog", "ship"),
}


def called(radius: float) -> str:
    """Return the name of the run with a radius."""
    return f"PI-EW, constant basis, radius {radius:g}"


SHOWN = called(RADIUS)


@lru_cache(maxsize=1)
def load_task(seed: int, *, quick: bool) -> ImageTask:
    """Return the split with the network's probabilities; no coordinates are needed."""
    network, labels = probabilities(CIFAR10, seed, quick=quick)
    return ImageTask(eta=network.eta, labels=labels, metric=Accuracy(), places={}, groupings={}, seed=seed)


def elicited(task: ImageTask, radius: float) -> tuple[np.ndarray, int]:
    """Return the class weights of PI-EW and how many queries they took."""
    found = task.view(CONSTANT).fit(radius=radius, max_iter=1)
    return np.array(found.mixture.members[0].alpha[0]), found.n_queries


def solved(task: ImageTask, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the weights as they must be, and c, the one number that the priors leave open."""
    train, val = (np.bincount(task.labels[part], minlength=task.n_classes) for part in ("train", "validation"))
    prior, prior_val = train / train.sum(), val / val.sum()
    c = float(np.mean(weights * prior - prior_val))
    return (prior_val + c) / prior, c


def measure(seed: int, quick: bool, *, radius: float) -> Row:
    """Return the weights, divided by their mean, beside those that the priors say."""
    task = load_task(seed, quick=quick)
    weights, queries = elicited(task, radius)
    exact, c = solved(task, weights)
    scale = weights.mean()
    values = {f"weight of {name}": weight for name, weight in zip(CLASSES, weights / scale, strict=True)}
    values |= {f"exact weight of {name}": weight for name, weight in zip(CLASSES, exact / scale, strict=True)}
    return Row(values={**values, "c": c, "gap": float(np.abs(weights / exact - 1).max())}, queries=queries)


# -- what it shows ------------------------------------------------------------------------------------------


def draw(results: Results, axes: Axes) -> None:
    """Draw the weights of the classes as bars, and the exact ones as marks on them."""
    for rank, (role, names) in enumerate(ROLES.items()):
        found = [summary(results.values(SHOWN, f"weight of {name}")) for name in names]
        places = [CLASSES.index(name) for name in names]
        spread = [0 if each.n < 2 else each.sd for each in found]
        axes.bar(places, [each.mean for each in found], yerr=spread, color=COLOURS[rank], label=role, width=0.7)
    exact = [results.values(SHOWN, f"exact weight of {name}").mean() for name in CLASSES]
    axes.plot(range(len(CLASSES)), exact, "_", color="black", markersize=16, label="from the priors")
    axes.axhline(1, color="0.6", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(CLASSES)), CLASSES, rotation=45, ha="right")
    axes.set(ylabel="weight (mean 1)", title="Elicited class weights")
    axes.legend(frameon=False, fontsize=8)


def lines(results: Results) -> str:
    """Return the table of the weights."""
    roles = {name: role for role, names in ROLES.items() for name in names}
    body = []
    for name in CLASSES:
        found = summary(results.values(SHOWN, f"weight of {name}"))
        exact = results.values(SHOWN, f"exact weight of {name}").mean()
        spread = f"{found.sd:.4f}" if found.n > 1 else ""
        body.append([name, roles[name], f"{found.mean:.4f}", spread, f"{exact:.4f}"])
    return markdown(["class", "noise", "weight", "sd", "from the priors"], body)


def checked(results: Results) -> str:
    """Say how exact the weights are, and how far they differ between radii."""
    gap = max(float(results.values(method, "gap").max()) for method in results.methods)
    names = [f"weight of {name}" for name in CLASSES]
    seeds = {method: [seed for each, seed in sorted(results.done) if each == method] for method in results.methods}
    same = [
        np.array([results.values(method, name) for name in names])
        for method in results.methods
        if seeds[method] == seeds[results.methods[0]]
    ]
    apart = max(float(np.abs(each - same[0]).max()) for each in same)
    return f"""The largest relative gap between an elicited weight and the one from the priors is {small(gap)}; between
    the {len(same)} radii the largest difference of a weight is
    {small(apart)}. c is
    {results.values(SHOWN, "c").mean():.4f} on average."""


def extremes(results: Results) -> str:
    """Name the classes of the largest and of the smallest weight, in one sentence."""
    means = {name: float(results.values(SHOWN, f"weight of {name}").mean()) for name in CLASSES}
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return f"The largest weight is {means[high]:.2f} ({high}), the smallest {means[low]:.2f} ({low})."


def small(value: float) -> str:
    """Return a small number; results are stored with six decimals."""
    return "less than 1e-6" if value < 1e-6 else f"{value:.0e}"


def make_page(results: Results) -> str:
    """Return the page."""
    about = f"""These are the factors by which PI-EW multiplies the probabilities of a network, if it can query the
    accuracy on 1,000 clean rows. Training labels are flipped with probability 0.6: bird to airplane, deer to horse,
    truck to automobile, cat to dog, dog to cat. There are {seeds_text(results)}. {recipe_text(CIFAR10)}"""
    why = """The weights follow from the class priors alone. A probe that moves a share of all rows to class i changes
    the accuracy by prior_val_i minus the accuracy, and the weighted training confusions by prior_train_i w_i minus a
    number that is the same for all i. So w_i = (prior_val_i + c) / prior_train_i. Classes that lost labels get larger
    weights, and classes that gained labels get smaller ones. Cats and dogs exchange labels, so their weights are
    nearly equal. Therefore the constant basis is no better than the inverse prior; better results need a basis or the
    full matrix."""
    shown = SHOWN in results.methods
    parts = [about, lines(results) if shown else "", checked(results) if shown else "", why]
    what = "Class weights that PI-EW finds if some labels of CIFAR-10 are flipped."
    lead = f"{what} {extremes(results)}" if shown else what
    return whole_page(results, parts, lead=lead)


EXPERIMENT = Experiment(
    name="weights",
    title="The elicited class weights under CIFAR-10's noise (ablation, panel a)",
    methods={called(radius): partial(measure, radius=radius) for radius in RADII},
    page=make_page,
    remark=OLDER,
    figure=side_by_side(draw),
    seeds=SEEDS[CIFAR10],
    config={"recipe": RECIPE},
    packages=("torch",),
)
