"""Ablation, panel d as the paper has it: accuracy on Adience against the number of validation rows, PI-EW and rivals.

``python -m experiments adience-size``. Half of the older faces are for testing, the validation rows are drawn from the
rest, smaller samples within larger ones; the networks are those of ``adience-shift``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import train_test_split

from experiments.harness.experiment import OLDER, Experiment, Results
from experiments.harness.figures import draw_line, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import from_first_to_last, markdown, mean_sd, places, welch
from experiments.paper.adult.ablation import stratified_order
from experiments.paper.images import networks
from experiments.paper.images.adience import BASES, on_coordinates
from experiments.paper.images.networks import COORDINATES, TUNING
from experiments.paper.images.older_faces import Cut, Timed, by_shift, by_tuning, older_faces, strata
from experiments.paper.images.splits import ADIENCE
from experiments.paper.images.tables import bases_text, config_of, recipe_text, seeds_text
from experiments.paper.images.tasks import CONSTANT, RADIUS, RIDGES, Method, by_folds, likeliest, ours, rival
from postshift.baselines import CoordinatePlugin
from postshift.metrics import Accuracy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (50, 100, 200, 400, 800, 1_600)
QUICK_SIZES = (40, 80)
PIEW, TUNED = "PI-EW, basis by CV", "fine-tuning"


@lru_cache(maxsize=1)
def halves(seed: int, *, quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return places among the older faces: those for testing, and the others in the order in which they are taken."""
    groups = strata(older_faces(seed, quick=quick))
    test, rest = train_test_split(np.arange(len(groups)), test_size=0.5, stratify=groups, random_state=seed)
    order = stratified_order(groups[rest], rng=np.random.default_rng(seed))
    return test, rest[order]


def cut_of(seed: int, size: int, *, quick: bool) -> Cut:
    """Return so many validation rows, and the test rows, which are the same for all sizes."""
    test, order = halves(seed, quick=quick)
    return Cut(task=ADIENCE, seed=seed, validation=np.sort(order[:size]), test=np.sort(test), quick=quick)


SHIFTS: dict[str, Method] = {
    "network": likeliest,
    PIEW: by_folds(BASES, [RADIUS], RIDGES, max_iter=1),
    "PI-EW, constant basis": by_folds([CONSTANT], [RADIUS], max_iter=1),
    "default": ours("auto", BASES[1:]),
    "plug-in search": rival(lambda model, task: CoordinatePlugin(model, metric=task.metric)),
    "logistic regression": on_coordinates,
}
METHODS: dict[str, Callable[[Cut, Any], Timed]] = {
    **{name: partial(by_shift, method=method) for name, method in SHIFTS.items()},
    TUNED: by_tuning,
}


def measure(labels_of: Callable[[Cut, Any], Timed], seed: int, quick: bool) -> Row:
    """Return the test accuracy with every number of validation rows, and the cost of all of them together."""
    values, total, queries = {}, 0.0, 0
    for size in QUICK_SIZES if quick else SIZES:
        cut = cut_of(seed, size, quick=quick)
        found, seconds = labels_of(cut, Accuracy())
        values[f"test@{size}"] = float(np.mean(found.labels == cut.truth))
        total += seconds
        queries += found.queries
    return Row(values=values, seconds=total, queries=queries)


# -- what it shows ------------------------------------------------------------------------------------------


def draw(results: Results, axes: Axes) -> None:
    """Draw the mean accuracy against the number of validation rows; intervals of few seeds would hide the lines."""
    for rank, method in enumerate(results.methods):
        at = places(results, method)
        samples = [results.values(method, f"test@{n}") for n in at]
        draw_line(axes, at, samples, label=method, rank=rank, band=False)
    axes.set_xscale("log")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.set(xlabel="validation rows", ylabel="test accuracy", title="Accuracy on older faces")
    axes.legend(frameon=False, fontsize=8)


def lines(results: Results) -> str:
    """Return the table."""
    sizes = sorted({n for method in results.methods for n in places(results, method)})
    body = [[f"{n:,}", *(mean_sd(results.values(m, f"test@{n}")) for m in results.methods)] for n in sizes]
    return markdown(["validation rows", *results.methods], body)


def against_tuning(results: Results) -> str:
    """Say where PI-EW and fine-tuning differ."""
    if not {PIEW, TUNED} <= set(results.methods):
        return ""
    gaps = []
    for n in places(results, PIEW):
        ours_, theirs = results.values(PIEW, f"test@{n}"), results.values(TUNED, f"test@{n}")
        if min(len(ours_), len(theirs)) > 1:
            gaps.append(f"{n:,} rows: {ours_.mean() - theirs.mean():+.3f} (p = {welch(ours_, theirs):.2g})")
    return f"{PIEW} minus {TUNED}, with Welch's test: {'; '.join(gaps)}." if gaps else ""


def make_page(results: Results) -> str:
    """Return the page."""
    layer = "the last hidden layer of the better network of the training rows"
    rates = ", ".join(f"{rate:g}" for rate in TUNING["rates"])
    about = f"""The network is trained on faces of up to 32 years and predicts the gender of older ones.
    The rows and the network are drawn with {seeds_text(results)}. Half of the older faces are for testing. Validation
    rows are drawn from the rest: each smaller sample is part of the larger ones. All have the same shares of every age
    and gender. {recipe_text(ADIENCE)} {
        bases_text(COORDINATES, of=layer, quick=results.quick)
    } *PI-EW* queries the accuracy at radius {
        RADIUS:g}. Its basis (constant, or with averages by class, by age or by both)
    and the ridge of the equations are chosen by 5-fold cross-validation. *fine-tuning*: the rate (one of {
        rates
    }) and the epoch are chosen on a quarter of the validation rows. *plug-in
    search*: class weights are searched on the validation rows. *logistic regression* is fitted to the validation rows,
    on the same coordinates and the network's log-odds. *default*: the average of the menu. The paper reports that PI-EW
    is generally above fine-tuning and that both rise with the number of rows; it prints no numbers. The figure shows
    means, the table means and standard deviations."""
    what = f"Accuracy on older faces than those of the training rows, with {SIZES[0]} to {SIZES[-1]:,} clean rows."
    shown = {name: name for name in (PIEW, "default", TUNED)}
    lead = f"{what} {from_first_to_last(results, shown, 'Test accuracy')}"
    return whole_page(results, [about, lines(results), against_tuning(results)], lead=lead)


EXPERIMENT = Experiment(
    name="adience-size",
    title="The number of validation rows on Adience (ablation, panel d)",
    methods={name: partial(measure, labels_of) for name, labels_of in METHODS.items()},
    page=make_page,
    remark=OLDER,
    figure=side_by_side(draw),
    seeds=networks.SEEDS[ADIENCE],
    config=config_of(ADIENCE, (networks.TRAIN, networks.TUNED), COORDINATES, sizes=SIZES),
    packages=("torch", "umap-learn"),
)
