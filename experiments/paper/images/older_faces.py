"""The older faces of Adience, cut anew into validation and test rows, and what methods make of such a cut.

The networks of the training rows are those of the tables; those with validation rows are trained when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.harness.runner import timed
from experiments.paper.adult.chosen import Labelled
from experiments.paper.adult.splits import quietly
from experiments.paper.images import networks
from experiments.paper.images.adience import BASES, base_of, groupings
from experiments.paper.images.networks import Job, Wanted, trained
from experiments.paper.images.splits import ADIENCE, PARTS, load_split, scaled
from experiments.paper.images.stored_arrays import seen
from experiments.paper.images.tasks import ImageTask, Method
from postshift.baselines import NetworkClassifier
from postshift.datasets import Dataset, Split

OLDER = ("validation", "test")
Timed = tuple[Labelled, float]  # labels of the test rows, and the processor time they took


@dataclass(frozen=True, kw_only=True, eq=False)
class Cut:
    """Places of validation and test rows among the older faces of a seed, for a task's network."""

    task: str
    seed: int
    validation: np.ndarray
    test: np.ndarray
    quick: bool = False

    @property
    def at(self) -> dict[str, np.ndarray]:
        """The places of each part."""
        return {part: getattr(self, part) for part in OLDER}

    @property
    def truth(self) -> np.ndarray:
        """The labels of the test rows."""
        return older_faces(self.seed, quick=self.quick).y[self.test]


@lru_cache(maxsize=1)
def older_faces(seed: int, *, quick: bool) -> Dataset:
    """Return all older faces, those of the table's validation rows first; their row numbers are not in order."""
    split = load_split(ADIENCE, seed, quick=quick)
    first, second = split.validation, split.test
    return replace(
        first,
        X=np.concatenate([first.X, second.X]),
        y=np.concatenate([first.y, second.y]),
        rows=np.concatenate([first.rows, second.rows]),
        columns={name: np.concatenate([values, second.columns[name]]) for name, values in first.columns.items()},
    )


def strata(faces: Dataset) -> np.ndarray:
    """Return age and gender as one number."""
    return 2 * faces.columns["age_bucket"] + faces.y


def task_of(cut: Cut, metric: Any) -> ImageTask:
    """Return the cut as post-shifts of the network see it."""
    faces, base = older_faces(cut.seed, quick=cut.quick), base_of(cut.task, cut.seed, quick=cut.quick)
    split = load_split(ADIENCE, cut.seed, quick=cut.quick)
    labels = {part: getattr(split, part).y for part in PARTS}
    eta, layer = seen(base, labels).eta, seen(base.seer, labels).places
    return ImageTask(
        eta={"train": eta["train"], **cut_up(eta, cut)},
        labels={"train": labels["train"], **{part: faces.y[rows] for part, rows in cut.at.items()}},
        metric=metric,
        places={"train": layer["train"], **cut_up(layer, cut)},
        groupings=groupings(faces.columns["age_bucket"][cut.validation], faces.y[cut.validation]),
        seed=cut.seed,
        quick=cut.quick,
        with_constant=BASES[1:],
    )


def cut_up(arrays: Mapping[str, np.ndarray], cut: Cut) -> dict[str, np.ndarray]:
    """Return the rows of each part of the cut, of arrays by the table's parts."""
    older = np.concatenate([arrays[part] for part in OLDER])
    return {part: older[rows] for part, rows in cut.at.items()}


# -- methods ------------------------------------------------------------------------------------------------


def by_base(cut: Cut, metric: Any) -> Timed:
    """Return labels of the network of the training rows; the time is that of its training."""
    network = trained(base_of(cut.task, cut.seed, quick=cut.quick))
    return Labelled(labels=cut_up(network.eta, cut)["test"].argmax(axis=1)), network.seconds


def by_shift(cut: Cut, metric: Any, *, method: Method) -> Timed:
    """Return labels by a post-shift."""
    task = task_of(cut, metric)
    with quietly():
        return timed(method, task)


def by_tuning(cut: Cut, metric: Any) -> Timed:
    """Return those of the network of the training rows, trained on with the validation rows."""
    trained(base_of(cut.task, cut.seed, quick=cut.quick))
    return _by_network(cut, networks.TUNED, networks.fine_tuned)


def by_validation(cut: Cut, metric: Any) -> Timed:
    """Return those of a network of the validation rows alone, trained by one process."""
    return _by_network(cut, networks.VALIDATION, _alone)


def _alone(job: Job) -> NetworkClassifier:
    """Return the network of the validation rows; it is small, and not kept."""
    network = NetworkClassifier(**{**job.wanted.recipe, "n_processes": 1})
    return network.fit(job.pixels["validation"], job.split.validation.y)


def _by_network(cut: Cut, method: str, train: Callable[[Job], NetworkClassifier]) -> Timed:
    """Return the labels of a network trained on the cut."""
    split, faces = load_split(ADIENCE, cut.seed, quick=cut.quick), older_faces(cut.seed, quick=cut.quick)
    pixels = scaled(split)
    job = Job(
        wanted=Wanted(task=cut.task, method=method, seed=cut.seed, quick=cut.quick),
        split=Split(train=split.train, **{part: faces.take(rows) for part, rows in cut.at.items()}),
        pixels={"train": pixels["train"], **cut_up(pixels, cut)},
    )
    labels, seconds = timed(lambda: train(job).predict_proba(job.pixels["test"]).argmax(axis=1))
    return Labelled(labels=labels, setting=job.setting), seconds
