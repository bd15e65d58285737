"""What the tables on photographs share: networks and post-shifts as methods of a seed, and words of the pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.harness.experiment import Results
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.harness.tables import markdown, welch
from experiments.paper.adult.splits import quietly
from experiments.paper.images.embeddings import CLIP, WIDTH, Reduction
from experiments.paper.images.networks import (
    NETWORKS,
    RECIPES,
    SLOWLY,
    TRAIN,
    TUNING,
    TUNINGS,
    VALIDATION,
    Wanted,
    trained,
)
from experiments.paper.images.splits import PARTS, load_split
from experiments.paper.images.stored_arrays import See, Seen, seen
from experiments.paper.images.tasks import RADII, RIDGES, ImageTask, Method

Scores = Callable[[np.ndarray, np.ndarray], Mapping[str, float]]  # of true labels and predicted ones
LoadTask = Callable[..., ImageTask]


def config_of(task: str, used: Iterable[str], reduction: Reduction, **more: Any) -> dict[str, Any]:
    """Return what decides the results of a table that uses some networks: a stored one counts while it is the same."""
    names, seer = list(used), Wanted(task=task, method=TRAIN, seed=0).seer.task
    return {
        "recipe": RECIPES[task],
        "seer": RECIPES[seer],
        "networks": {method: NETWORKS[task, method] for method in names},
        "tuning": {method: TUNINGS[method] for method in names if method in TUNINGS},
        "reduction": asdict(reduction),
        "width": WIDTH,
        "clip": CLIP,
        "radii": RADII,
        "ridges": RIDGES,
        **more,
    }


def of_network(task: str, method: str, scores: Scores) -> Callable[[int, bool], Row]:
    """Return a network's own labels as a method of a seed; its time is that of the training."""

    def run(seed: int, quick: bool) -> Row:
        found = trained(Wanted(task=task, method=method, seed=seed, quick=quick))
        truth = load_split(task, seed, quick=quick).test.y
        values = scores(truth, np.argmax(found.eta["test"], axis=1))
        return Row(values=values, seconds=found.seconds, config=found.setting)

    return run


def of_shift(load_task: LoadTask, method: Method, scores: Scores) -> Callable[[int, bool], Row]:
    """Return a post-shift of the network of the training rows; its time is without those of network and coordinates."""

    def run(seed: int, quick: bool) -> Row:
        task = load_task(seed, quick=quick)
        before = task.waited
        with quietly():  # a quick look has few validation rows
            found, seconds = timed(method, task)
        values = scores(task.labels["test"], found.labels)
        return Row(values=values, seconds=seconds - (task.waited - before), queries=found.queries, config=found.setting)

    return run


def probabilities(task: str, seed: int, *, quick: bool, see: See = seen) -> tuple[Seen, dict[str, np.ndarray]]:
    """Return what post-shifts read of the network of the training rows, and the labels of each part."""
    split = load_split(task, seed, quick=quick)
    labels = {part: getattr(split, part).y for part in PARTS}
    return see(Wanted(task=task, method=TRAIN, seed=seed, quick=quick), labels), labels


# -- words of the pages -------------------------------------------------------------------------------------


def seeds_text(results: Results) -> str:
    """Say how many seeds there are."""
    n_seeds = len(results.seeds)
    return f"{n_seeds} {'seeds' if n_seeds > 1 else 'seed'}"


def recipe_text(task: str) -> str:
    """Say how the networks of a task are trained."""
    recipe = RECIPES[task]
    images = "images shifted by up to four pixels and mirrored" if recipe["augment"] else "no augmentation"
    return f"""The network is a ResNet-14 (16, 32, 64 channels). It is trained for {recipe["epochs"]} epochs by
    stochastic gradient descent with batches of {recipe["batch_size"]}, Nesterov momentum 0.9, one cycle of the learning
    rate (peak {recipe["learning_rate"]:g}), weight decay {recipe["weight_decay"]:g} and {images}."""


def tuning_text(task: str, *, slowly: bool = False) -> str:
    """Say how the networks of a task are trained with validation rows, on a page that has the slow ones or not."""
    rates = ", ".join(f"{rate:g}" for rate in TUNING["rates"])
    epochs = {**RECIPES[task], **NETWORKS[task, VALIDATION]}["epochs"]
    most = TUNINGS[SLOWLY]["max_epochs"]
    more = f" A separate row has the highest of the paper's rates, 1e-4, with up to {most} epochs."
    return f"""A network trained on the validation rows alone gets {epochs} epochs. *Fine-tuning* continues training
    with three quarters of the validation rows. The rate (one of {rates}) and the epoch are those with the lowest
    cross-entropy on the other quarter. Training stops after {TUNING["max_epochs"]} epochs, or after
    {TUNING["patience"]} epochs without improvement.{more if slowly else ""}"""


def bases_text(reduction: Reduction, *, of: str, quick: bool) -> str:
    """Say what the basis functions are."""
    how = (
        "principal components (this is a quick look: UMAP is not run)"
        if quick
        else f"UMAP ({reduction.n_neighbors} neighbours, minimal distance {reduction.min_dist:g})"
    )
    return f"""The basis functions are exp(-d² / (2 * {WIDTH:g}²)), clipped to [{CLIP[0]:g}, {CLIP[1]:g}] and averaged
    over the validation rows of a group. Our rules also use the complement of their sum. d is the distance in
    {reduction.n_components} coordinates, computed from {of} by {how} and fitted to the training rows."""


LEGEND = """*vs best baseline*: the mean minus the mean of the best baseline. Stars mark differences by Welch's t-test
(\\* 95 %, \\*\\* 99 %, \\*\\*\\* 99.9 %). Our simple rules (inverse prior, smoothed plug-in, stack) count as baselines
here. *CPU s*: mean processor time of the training, or of the post-shift in rows that train no network. It does not
include the network that a method starts from (*cross-entropy [train]*: fine-tuning, forward correction, KMM, all
post-shifts) or the computation of the coordinates. *queries*: the largest number of queries for a seed; 0 if the metric
is computed from the confusion matrix or is not used. A plug-in with a spacing counts the weights that it tries. *minus
paper*: our mean minus the paper's."""


def means(results: Results, named: Mapping[str, str], *, digits: int = 3) -> str:
    """Return the table of the means of some values, by heading."""
    return markdown(
        ["method", *named],
        [
            [method, *(f"{results.values(method, name).mean():.{digits}f}" for name in named.values())]
            for method in results.methods
        ],
    )


CLEARLY, BY_MEAN, NOT = "significantly above (Welch's test, 95 %)", "above, but not significantly,", "not above"


def compared(results: Results, method: str, rivals: Collection[str]) -> str:
    """Say which of some rivals a method is above, at 95 % of Welch's test or by the mean alone."""
    own = results.values(method)
    scored = {rival: results.values(rival) for rival in rivals if len(results.values(rival))}
    if not len(own) or not scored:
        return ""
    groups: dict[str, list[str]] = {CLEARLY: [], BY_MEAN: [], NOT: []}
    for rival, values in scored.items():
        apart = float(own.mean() - values.mean())
        said = NOT if apart <= 0 else CLEARLY if welch(own, values) < 0.05 else BY_MEAN
        groups[said].append(f"{rival} ({apart:+.3f})")
    return f"**{method}** is " + "; ".join(f"{said} {', '.join(them)}" for said, them in groups.items() if them) + "."
