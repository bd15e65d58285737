"""Beyond the paper: F-measure on Adience where no album, and so no person, is among validation and test rows both.

``python -m experiments adience-albums``. In the paper's split most test rows show a person whom the validation rows
show too, and a network that is trained on validation rows can learn that person by heart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold

from experiments.harness.experiment import OLDER, Experiment, Results
from experiments.harness.figures import dots_figure
from experiments.harness.store import Row
from experiments.paper.images import networks
from experiments.paper.images.adience import (
    PREFIXES,
    REGRESSION,
    SHIFTS,
    method_text,
    on_coordinates,
    others,
    page_of,
    scores,
)
from experiments.paper.images.networks import COORDINATES
from experiments.paper.images.older_faces import (
    Cut,
    Timed,
    by_base,
    by_shift,
    by_tuning,
    by_validation,
    older_faces,
    strata,
)
from experiments.paper.images.splits import ADIENCE, BETTER, load_split
from experiments.paper.images.tables import (
    config_of,
    recipe_text,
    seeds_text,
    tuning_text,
)
from postshift.metrics import MacroF1

USED = (networks.TRAIN, networks.VALIDATION, networks.TUNED)
N_FOLDS = 5  # one of them is for validation
NETWORK = "cross-entropy [train]"
KNOWN_PERSONS, SAME_PICTURES = "rows of known persons", "rows of known pictures"


@lru_cache(maxsize=1)
def cut_of(seed: int, *, quick: bool) -> Cut:
    """Return validation and test rows of albums apart, with like shares of every age and gender."""
    faces = older_faces(seed, quick=quick)
    folds = StratifiedGroupKFold(N_FOLDS, shuffle=True, random_state=seed)
    test, validation = next(folds.split(faces.y[:, None], strata(faces), faces.columns["user"]))
    return Cut(task=ADIENCE, seed=seed, validation=validation, test=test, quick=quick)


def known_rows(seed: int, *, quick: bool) -> dict[str, float]:
    """Return the share of test rows in the paper's split whose person, or whose very picture, is in validation."""
    split = load_split(ADIENCE, seed, quick=quick)
    val, test = split.validation, split.test
    pictures = {image.tobytes() for image in val.X}
    return {
        KNOWN_PERSONS: float(np.isin(test.columns["face_id"], val.columns["face_id"]).mean()),
        SAME_PICTURES: float(np.mean([image.tobytes() in pictures for image in test.X])),
    }


def better(cut: Cut, metric: Any, *, method: Callable[[Cut, Any], Timed]) -> Timed:
    """Return what a method makes of the better network."""
    return method(replace(cut, task=BETTER), metric)


METHODS: dict[str, Callable[[Cut, Any], Timed]] = {
    NETWORK: by_base,
    "cross-entropy [val]": by_validation,
    "fine-tuning": by_tuning,
    "the better network [train]": partial(better, method=by_base),
    "the better network [val]": partial(better, method=by_validation),
    "the better network, fine-tuning": partial(better, method=by_tuning),
    REGRESSION: partial(by_shift, method=on_coordinates),
    **{name: partial(by_shift, method=method) for name, method in SHIFTS.items()},
}


def measure(name: str, seed: int, quick: bool) -> Row:
    """Return the test metrics of a method; beside the network's, how many persons the paper's split knows."""
    cut = cut_of(seed, quick=quick)
    found, seconds = METHODS[name](cut, MacroF1())
    known = known_rows(seed, quick=quick) if name == NETWORK else {}
    values = {**scores(cut.truth, found.labels), **known}
    return Row(values=values, seconds=seconds, queries=found.queries, config=found.setting)


# -- what it shows ------------------------------------------------------------------------------------------


def known_text(results: Results) -> str:
    """Say how many test rows of the paper's split show a person of the validation rows."""
    persons, pictures = (results.values(NETWORK, name) for name in (KNOWN_PERSONS, SAME_PICTURES))
    if not len(persons):
        return ""
    return f"""In the paper's split, {persons.mean():.1%} of the test rows show a person of the validation rows, and
    {pictures.mean():.1%} are the same picture."""


def make_page(results: Results) -> str:
    """Return the page."""
    about = f"""This is the task of the page `adience-shift` with one difference: whole albums of older faces go either
    to validation (a fifth of the rows) or to test, so no person is in both. {
        known_text(results)
    } The albums and the network are drawn with {seeds_text(results)}. {recipe_text(ADIENCE)} {tuning_text(ADIENCE)} {
        method_text(results)
    } *The better network* and its methods are trained as in `adience-better`. *{
        REGRESSION
    }* also uses the log-odds of the network. For all methods, the folds and the held-out quarter of the validation rows
    are drawn by row, not by album."""
    what = "The task is that of the page `adience-shift`, but no person is in both validation and test rows."
    return page_of(results, about, what=what, rivals=others(results))


EXPERIMENT = Experiment(
    name="adience-albums",
    title="Domain shift on Adience, albums apart: F-measure",
    methods={name: partial(measure, name) for name in METHODS},
    page=make_page,
    remark=OLDER,
    figure=dots_figure(PREFIXES, metric="F-measure", n_methods=len(METHODS)),
    seeds=networks.SEEDS[ADIENCE],
    config=config_of(
        ADIENCE,
        USED,
        COORDINATES,
        metric=MacroF1().name,
        folds=N_FOLDS,
        better={method: networks.NETWORKS[BETTER, method] for method in USED},
    ),
    packages=("torch", "umap-learn"),
)
