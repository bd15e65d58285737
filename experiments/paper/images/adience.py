"""What the tables on Adience share: the F-measure, the bases, the task of a network, and the post-shifts of it.

Gender is predicted by a ResNet-14 at 32 x 32 pixels, trained on faces of up to 32 years and used on older ones, of
which a fifth is for validation. The F-measure is the mean of both classes' F1. Two networks are looked at: one
trained with the paper's rate, and a better one, whose last hidden layer gives the coordinates of the bases for both, as
the layer of a network trained on ImageNet does in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.harness.experiment import Results
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import table
from experiments.paper.adult.chosen import Labelled
from experiments.paper.adult.tables import ours_among, standing
from experiments.paper.images import networks
from experiments.paper.images.cache import Later
from experiments.paper.images.networks import COORDINATES, Wanted, reduced_layer, trained
from experiments.paper.images.splits import load_split
from experiments.paper.images.stored_arrays import See, seen
from experiments.paper.images.tables import LEGEND, bases_text, compared, means, of_shift, probabilities
from experiments.paper.images.tasks import CONSTANT, RADII, RADIUS, RIDGES, ImageTask, Method, by_folds, ours, rival
from postshift.baselines import CoordinatePlugin, OptMetric
from postshift.metrics import MacroF1

BY_CLASS, BY_AGE, BY_BOTH = "by class", "by age", "by class and age"
BASES = [CONSTANT, BY_CLASS, BY_AGE, BY_BOTH]
MAX_ITER = 30
UNKNOWN = "FW-EG [unknown psi], basis and radius by CV"
KNOWN = "FW-EG [known psi], basis by CV"
DEFAULT = "ours: average of the rules (the default)"
REGRESSION = "logistic regression on the coordinates [val]"
PREFIXES = ("FW-EG", "ours: influence", "ours: stack + influence", "ours: best", DEFAULT)
VALUES = {"F-measure": "test", "F1 of men": "F1 of men", "accuracy": "accuracy"}


def scores(truth: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return the mean of both classes' F1, that of men alone, and the accuracy."""
    return {
        "test": f1_score(truth, labels, average="macro"),
        "F1 of men": f1_score(truth, labels),
        "accuracy": accuracy_score(truth, labels),
    }


def groupings(ages: np.ndarray, genders: np.ndarray) -> dict[str, np.ndarray]:
    """Return by which groups of validation rows the kernels are averaged."""
    return {BY_CLASS: genders, BY_AGE: ages, BY_BOTH: 2 * ages + genders}


@lru_cache(maxsize=1)
def load_task(task: str, seed: int, *, quick: bool, see: See = seen) -> ImageTask:
    """Return the split with a network's probabilities and few coordinates of the better network's last hidden layer."""
    network, labels = probabilities(task, seed, quick=quick, see=see)
    ages = load_split(task, seed, quick=quick).validation.columns["age_bucket"]
    return ImageTask(
        eta=network.eta,
        labels=labels,
        metric=MacroF1(),
        places=Later(lambda: see(base_of(task, seed, quick=quick).seer, labels).places),
        groupings=groupings(ages, labels["validation"]),
        seed=seed,
        quick=quick,
        with_constant=BASES[1:],
    )


def base_of(task: str, seed: int, *, quick: bool) -> Wanted:
    """Return the network of the training rows."""
    return Wanted(task=task, method=networks.TRAIN, seed=seed, quick=quick)


def of_task(task: str, method: Method) -> Callable[[int, bool], Row]:
    """Return a post-shift of a task's network as a method of a seed."""
    return of_shift(partial(load_task, task), method, scores)


def opt_metric_of_validation(task: str) -> Callable[[int, bool], Row]:
    """Return Opt-metric with the network of the validation rows, as a method of a seed."""

    def run(seed: int, quick: bool) -> Row:
        found = trained(Wanted(task=task, method=networks.VALIDATION, seed=seed, quick=quick))
        given = replace(load_task(task, seed, quick=quick), eta=found.eta)
        shifted: Labelled = opt_metric(given)
        return Row(values=scores(given.labels["test"], shifted.labels), seconds=found.seconds)

    return run


# -- other coordinates --------------------------------------------------------------------------------------


def own_places(task: str, seed: int, *, quick: bool) -> Mapping[str, np.ndarray]:
    """Return few coordinates of the last hidden layer of the network that is shifted."""
    return reduced_layer(base_of(task, seed, quick=quick))


def over(places: Callable[..., Mapping[str, np.ndarray]], task: str, method: Method) -> Method:
    """Return a method with the kernels of the bases taken in other coordinates."""
    return lambda given: method(replace(given, places=places(task, given.seed, quick=given.quick)))


def on_coordinates(task: ImageTask) -> Labelled:
    """Return labels by logistic regression of the validation rows on their coordinates and the network's log-odds."""

    def seen(part: str) -> np.ndarray:
        share = np.clip(task.eta[part][:, 1], 1e-6, 1 - 1e-6)
        return np.column_stack([task.places[part], logit(share)])

    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(seen("validation"), task.labels["validation"])
    return Labelled(labels=model.predict(seen("test")))


# -- post-shifts --------------------------------------------------------------------------------------------

opt_metric = rival(lambda model, task: OptMetric(model, metric=task.metric))
by_cv = by_folds(BASES, RADII, RIDGES, max_iter=MAX_ITER)
SHIFTS: dict[str, Method] = {
    "opt-metric [val], base network": opt_metric,
    "plug-in [train-val], exact": rival(lambda model, task: CoordinatePlugin(model, metric=task.metric)),
    "plug-in [train-val], spacing 1e-4": rival(
        lambda model, task: CoordinatePlugin(model, metric=task.metric, spacing=1e-4)
    ),
    UNKNOWN: by_cv,
    KNOWN: by_folds(BASES, [RADIUS], RIDGES, max_iter=MAX_ITER, known=True),
    **{f"FW-EG [unknown psi], {basis}, radius 0.1": by_folds([basis], [RADIUS], max_iter=MAX_ITER) for basis in BASES},
    "ours: influence regression, by queries alone": ours("influence [constant]", by_queries=True),
    "ours: influence regression, values told, basis by class and age": ours(
        f"influence [{BY_BOTH}]", [BY_BOTH], by_queries=True
    ),
    "ours: inverse prior": ours("inverse prior"),
    "ours: smoothed plug-in": ours("smoothed plug-in"),
    "ours: stack + smoothed plug-in": ours("stack + smoothed plug-in"),
    "ours: best rule": ours("best", BASES[1:]),
    DEFAULT: ours("auto", BASES[1:]),
}


# -- words of the pages -------------------------------------------------------------------------------------

TASK = """The network predicts gender. The metric is the F-measure: the mean of the F1 of men and the F1 of women, as in
the authors' program (the paper writes their sum). Training rows are the faces of the first five age buckets, up to 32
years. A fifth of the faces of the three older buckets is for validation and the rest for test, both with the same
shares of every age and gender."""


def method_text(results: Results) -> str:
    """Say what the bases and the paper's method are."""
    layer = "the last hidden layer of the better network of the training rows"
    return f"""{bases_text(COORDINATES, of=layer, quick=results.quick)} The groups are the two classes, the three age
    buckets of the validation rows, or both; ages of test rows are not needed. The paper's method also uses the constant
    function. *FW-EG*: {MAX_ITER} iterations from the inverse-prior plug-in; the last iterate is used. The basis, the
    ridge of the equations (at radius {RADIUS:g}) and, with psi unknown, the radius (without ridge) are chosen by 5-fold
    cross-validation on the validation rows. Rows named *radius 0.1* have no ridge. Their queries include those of the
    five folds, although nothing is chosen. Our rules are chosen by cross-validation, but the basis functions are
    averages over all validation rows, so a held-out row has a small influence on them. *KMM* weights the training rows
    so that the coordinates match those of the validation rows. It does not use their labels."""


def page_of(results: Results, about: str, *, what: str, rivals: Collection[str], beside: str = "") -> str:
    """Return a page: what it is about, the tables, what is to be said beside them, and who is above whom.

    ``what`` is a sentence that says what the table is.
    """
    parts = [
        about,
        table(results, ours=ours_among(results.methods, PREFIXES)),
        LEGEND,
        "Other values, mean over the seeds:",
        means(results, VALUES),
        beside,
        *(compared(results, method, rivals) for method in (UNKNOWN, KNOWN, DEFAULT)),
    ]
    lead = f"{what} {standing(results, PREFIXES)}"
    return whole_page(results, parts, lead=lead)


def others(results: Results) -> list[str]:
    """Return the methods that are neither the paper's nor ours."""
    return [method for method in results.methods if not method.startswith(("FW-EG", "ours"))]
