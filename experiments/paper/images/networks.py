"""The networks of the experiments: trained once, kept in the cache, taken up again where they were stopped.

``python -m experiments.paper.images.networks --list`` says what there is; ``--train NAME [--seed S]`` trains what is
missing, the networks that others build on first. NAME is an experiment, ``experiment/network``, or ``all``. After every
epoch the state is written, so a run that was killed loses one epoch at the most; fine-tuning, which is short, begins
anew. Two processes of one thread train together.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from experiments.harness.progress import say
from experiments.paper.images.cache import Arrays, held, place_of, read_arrays, under, write_arrays
from experiments.paper.images.embeddings import Reduction
from experiments.paper.images.splits import ADIENCE, BETTER, CIFAR10, PARTS, QUICK, load_split, scaled
from postshift.baselines import FineTuned, ForwardCorrection, KernelMeanMatching, LearnToReweight, NetworkClassifier
from postshift.datasets import Split
from postshift.exceptions import PostshiftError

Floats = NDArray[np.float64]

TRAIN, VALIDATION = "train", "validation"
TUNED, SLOWLY = "fine-tuning", "fine-tuning-slowly"  # the second at the highest of the paper's rates
FORWARD, MATCHED, REWEIGHTED = "forward-correction", "kernel-mean-matching", "learn-to-reweight"

RECIPE: dict[str, Any] = {
    "network": "resnet14",
    "epochs": 20,
    "batch_size": 128,  # of both processes together
    "learning_rate": 0.2,
    "weight_decay": 2e-4,
    "augment": True,
    "n_processes": 2,
}
RECIPES = {  # of a task
    CIFAR10: RECIPE,
    ADIENCE: {**RECIPE, "learning_rate": 0.01, "weight_decay": 1e-4, "augment": False},  # rate and decay of the paper
    BETTER: RECIPE,
}
QUICK_RECIPE = {"network": "small", "epochs": 1, "batch_size": 32, "learning_rate": 0.1, "n_processes": 1}
SHORT = 10  # epochs of the expensive rivals
ON_FEW_ROWS = {"epochs": 100}  # validation rows alone; Adience's has as many as the paper's
NETWORKS: dict[tuple[str, str], dict[str, Any]] = {  # those that there are, and what differs from the recipe
    (CIFAR10, TRAIN): {},
    (BETTER, TRAIN): {},
    (ADIENCE, TRAIN): {},
    (ADIENCE, VALIDATION): {},
    (BETTER, VALIDATION): ON_FEW_ROWS,
    (CIFAR10, VALIDATION): ON_FEW_ROWS,
    (ADIENCE, SLOWLY): {},
    (CIFAR10, SLOWLY): {},
    (ADIENCE, TUNED): {},
    (BETTER, TUNED): {},
    (CIFAR10, TUNED): {},
    (ADIENCE, MATCHED): {},
    (BETTER, MATCHED): {},
    (CIFAR10, FORWARD): {"epochs": SHORT},
    (ADIENCE, REWEIGHTED): {"epochs": SHORT},
    (CIFAR10, REWEIGHTED): {"epochs": SHORT},
}
SEEDS = {CIFAR10: 3, ADIENCE: 3, BETTER: 3}

TUNING: dict[str, Any] = {"rates": (0.03, 0.01, 0.003, 0.001), "max_epochs": 50, "patience": 10, "held_out": 0.25}
QUICK_TUNING = {**TUNING, "rates": (0.01,), "max_epochs": 1}
TUNINGS = {TUNED: TUNING, SLOWLY: {**TUNING, "rates": (1e-4,), "max_epochs": 200}}
MATCHING: dict[str, Any] = {"on": "x"}
COORDINATES = Reduction(n_components=10)  # coordinates of the last hidden layer, for kernel mean matching and bases
DEARER = {REWEIGHTED: 3.0}  # times the work of an epoch of plain training
CONTINUED = (FORWARD, REWEIGHTED)  # trained on from the network of the training rows, as in the authors' program
BUILT_ON_BASE = (*TUNINGS, *CONTINUED, MATCHED)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A network of an experiment: which rows, which method, which seed (of the split and of the training)."""

    task: str
    method: str
    seed: int
    quick: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.task}/{self.method}"

    @property
    def recipe(self) -> dict[str, Any]:
        """The parameters of the network."""
        changes = NETWORKS[self.task, self.method]
        return {**RECIPES[self.task], **changes, **(QUICK_RECIPE if self.quick else {}), "random_state": self.seed}

    @property
    def tuning(self) -> dict[str, Any]:
        """The settings of fine-tuning."""
        return QUICK_TUNING if self.quick else TUNINGS[self.method]

    @property
    def base(self) -> Wanted:
        """The network of the same training rows that others build on."""
        return Wanted(task=self.task, method=TRAIN, seed=self.seed, quick=self.quick)

    @property
    def seer(self) -> Wanted:
        """The network in whose last hidden layer the rows have their coordinates: on Adience the better one."""
        return Wanted(
            task=BETTER if self.task == ADIENCE else self.task, method=TRAIN, seed=self.seed, quick=self.quick
        )

    @property
    def n_processes(self) -> int:
        """How many processes train it."""
        return 1 if self.method in TUNINGS else int(self.recipe["n_processes"])

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides what is learnt, but for the versions of the packages."""
        found: dict[str, Any] = {"task": self.task, "method": self.method, "recipe": self.recipe}
        if self.quick:
            found["rows"] = QUICK
        if self.method in TUNINGS:
            found["tuning"] = self.tuning
        if self.method == MATCHED:
            found["matching"] = {**MATCHING, "reduction": asdict(COORDINATES), "seer": self.seer.identity}
        if self.method in BUILT_ON_BASE:
            found["base"] = self.base.identity
        if self.method in CONTINUED:
            found["start"] = self.base.name
        return found

    @property
    def folder(self) -> Path:
        """Its place in the cache."""
        return place_of("networks", f"{self.name}-seed{self.seed}", self.identity)

    @property
    def work(self) -> float:
        """Epochs times thousands of rows, about: the time left is computed from it."""
        train, validation = (49, 1) if self.task == CIFAR10 else (12, 0.8)
        if self.method in TUNINGS:
            return len(self.tuning["rates"]) * self.tuning["max_epochs"] * 2 * validation  # one process, both parts
        rows = validation if self.method == VALIDATION else train
        return float(self.recipe["epochs"] * rows * DEARER.get(self.method, 1.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What is kept of a trained network: probabilities and the last hidden layer of each part, and its weights.

    ``seconds`` is the processor time of the training, ``setting`` what the training chose.
    """

    eta: Mapping[str, Floats]
    embeddings: Mapping[str, NDArray[np.float32]]
    weights: Mapping[str, NDArray[Any]]
    seconds: float
    setting: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A training: the network that is wanted, its rows, and what is called after each epoch."""

    wanted: Wanted
    split: Split
    pixels: Mapping[str, NDArray[np.float32]]
    progress: Callable[[Any], object] | None = None
    setting: dict[str, Any] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[Any, Any, Any, Any]:
        """Pixels and labels of training and validation rows."""
        train, val = self.split.train, self.split.validation
        return self.pixels["train"], train.y, self.pixels["validation"], val.y

    def network(self) -> NetworkClassifier:
        """Return the network, not trained yet, with its file of checkpoints."""
        wanted = self.wanted
        start = trained(wanted.base).weights if wanted.method in CONTINUED else None
        checkpoint = wanted.folder / "checkpoint"
        return NetworkClassifier(**wanted.recipe, initial_weights=start, checkpoint=checkpoint, progress=self.progress)

    def trained_base(self) -> NetworkClassifier:
        """Return the network of the training rows, as it came out of the cache."""
        kept = trained(self.wanted.base)
        recipe = {**self.wanted.base.recipe, "epochs": 0, "n_processes": 1}
        network = NetworkClassifier(**recipe, initial_weights=kept.weights)
        return network.fit(self.pixels["validation"], self.split.validation.y)  # no epoch: the weights stay


# -- ways to train ------------------------------------------------------------------------------------------


def on_training_rows(job: Job) -> NetworkClassifier:
    """Return the network of the training rows with the labels they have."""
    return job.network().fit(job.pixels["train"], job.split.train.y)


def on_validation_rows(job: Job) -> NetworkClassifier:
    """Return the network of the validation rows alone."""
    return job.network().fit(job.pixels["validation"], job.split.validation.y)


def fine_tuned(job: Job) -> NetworkClassifier:
    """Return the network trained on with validation rows; the rate with the least loss on a quarter of them."""
    options = {name: value for name, value in job.wanted.tuning.items() if name != "rates"}
    base = FrozenEstimator(job.trained_base())
    fits = {
        rate: FineTuned(base, learning_rate=rate, random_state=job.wanted.seed, **options).fit(*job.sides)
        for rate in job.wanted.tuning["rates"]
    }
    best = min(fits, key=lambda rate: fits[rate].stopping_losses_[fits[rate].best_epoch_])
    job.setting.update(rate=best, epochs=fits[best].best_epoch_)
    return fits[best].estimator_


def forward_corrected(job: Job) -> NetworkClassifier:
    """Return the network of the clean labels through the noise, which is estimated from the base network's anchors."""
    begun = job.network().get_params()
    base = job.trained_base().set_params(**begun)  # its weights give the noise, these parameters the training
    model = ForwardCorrection(FrozenEstimator(base)).fit(*job.sides)
    job.setting["largest flip"] = round(float((model.transition_ - np.diag(np.diag(model.transition_))).max()), 4)
    return model.estimator_


def matched(job: Job) -> NetworkClassifier:
    """Return the network of training rows weighted by kernel mean matching on the reduced last hidden layer."""
    places = reduced_layer(job.wanted.seer)
    matching = KernelMeanMatching(LogisticRegression(max_iter=1000), random_state=job.wanted.seed, **MATCHING)
    _, labels, _, labels_val = job.sides
    weights = matching.fit(places["train"], labels, places["validation"], labels_val).sample_weight_
    job.setting["rows of weight"] = round(float(weights.sum() ** 2 / (weights**2).sum()), 1)
    return job.network().fit(job.pixels["train"], labels, sample_weight=weights)


def reweighted(job: Job) -> NetworkClassifier:
    """Return the network whose training rows count as far as they help validation rows."""
    each = job.wanted.recipe["batch_size"] // job.wanted.recipe["n_processes"]  # rows of either side of a comparison
    method = LearnToReweight(job.network(), batch_size=each, random_state=job.wanted.seed)
    return method.fit(*job.sides).estimator_


WAYS: dict[str, Callable[[Job], NetworkClassifier]] = {
    TRAIN: on_training_rows,
    VALIDATION: on_validation_rows,
    TUNED: fine_tuned,
    SLOWLY: fine_tuned,
    FORWARD: forward_corrected,
    MATCHED: matched,
    REWEIGHTED: reweighted,
}


# -- the cache ----------------------------------------------------------------------------------------------


def trained(wanted: Wanted, *, report: Callable[[Any], object] | None = None) -> Trained:
    """Return a network from the cache; where it is not there, it is trained, from where it was stopped.

    Parameters
    ----------
    wanted : Wanted
        The network.
    report : callable, optional
        Called after every epoch; by default it writes a line to stderr.
    """
    kept = _kept(wanted, report or (_nobody if wanted.quick else Clock([wanted]).report))
    return Trained(
        eta=under("eta", kept),
        embeddings=under("embedding", kept),
        weights=under("weights", kept),
        seconds=float(kept["seconds"]),
        setting=json.loads(str(kept["setting"])),
    )


def _kept(wanted: Wanted, report: Callable[[Any], object]) -> Arrays:
    """Return what the cache has of a network; one process trains it, others that want it wait."""
    path = wanted.folder / "network.npz"
    kept = read_arrays(path)
    if kept is not None:
        return kept
    with held(wanted.folder):
        kept = read_arrays(path)
        if kept is None:
            kept = _made(wanted, report)
            write_arrays(path, kept)
            shutil.rmtree(wanted.folder / "checkpoint", ignore_errors=True)
    return kept


def reduced_layer(wanted: Wanted) -> dict[str, NDArray[np.float32]]:
    """Return few coordinates of a network's last hidden layer, for each part."""
    return COORDINATES.kept(
        trained(wanted).embeddings,
        name=f"{wanted.name}-seed{wanted.seed}",
        of=wanted.identity,
        seed=wanted.seed,
        quick=wanted.quick,
    )


def _nobody(epoch: Any) -> None:
    """Say nothing of an epoch."""


def _made(wanted: Wanted, report: Callable[[Any], object]) -> Arrays:
    """Train a network and return what is kept of it; what it is built on is made first, and not counted."""
    if wanted.method in BUILT_ON_BASE:
        trained(wanted.base)
    if wanted.method == MATCHED:
        reduced_layer(wanted.seer)
    split = load_split(wanted.task, wanted.seed, quick=wanted.quick)
    spent = Spent(wanted.folder / "spent.txt", n_processes=wanted.n_processes)

    def progress(epoch: Any) -> None:
        spent.note()
        report(epoch)

    job = Job(wanted=wanted, split=split, pixels=scaled(split), progress=progress)
    network = WAYS[wanted.method](job)
    spent.note()
    return {
        **{f"eta/{part}": network.predict_proba(job.pixels[part]) for part in PARTS},
        **{f"embedding/{part}": network.embeddings(job.pixels[part]).astype(np.float32) for part in PARTS},
        **{f"weights/{name}": array for name, array in network.weights_.items()},
        "seconds": np.array(spent.total),
        "setting": np.array(json.dumps(job.setting)),
        "identity": np.array(json.dumps(wanted.identity)),
    }


class Spent:
    """Processor time of a training, kept in a file, a line for each epoch, so that a stop does not lose it."""

    def __init__(self, path: Path, *, n_processes: int) -> None:
        self._path, self._n_processes = path, n_processes
        self._last = time.process_time()
        path.parent.mkdir(parents=True, exist_ok=True)

    def note(self) -> None:
        """Add what was spent since the last time; the other processes are taken to work as much as this one."""
        now = time.process_time()
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(f"{(now - self._last) * self._n_processes:.3f}\n")
        self._last = now

    @property
    def total(self) -> float:
        """All that was spent."""
        return sum(map(float, self._path.read_text(encoding="utf-8").split()))


# -- the command --------------------------------------------------------------------------------------------


class Clock:
    """Tells how long a list of trainings still takes, by the pace of the epochs so far."""

    def __init__(self, todo: Sequence[Wanted]) -> None:
        self._todo = list(todo)
        self._begin, self._done = time.monotonic(), 0.0
        self._from: int | None = None

    def report(self, epoch: Any) -> None:
        """Say that an epoch is done, and what is left of this network and of all."""
        wanted = self._todo[0]
        first = self._from is None
        self._from = epoch.number - 1 if self._from is None else self._from
        share = wanted.work / epoch.n_epochs
        pace = (time.monotonic() - self._begin) / (self._done + share * (epoch.number - self._from))
        left = pace * share * (epoch.n_epochs - epoch.number)
        everything = left + pace * sum(each.work for each in self._todo[1:])
        again = f", taken up after epoch {self._from}" if first and self._from else ""
        say(
            f"{wanted.name}, seed {wanted.seed}: epoch {epoch.number} of {epoch.n_epochs}{again}, loss "
            f"{epoch.loss:.4f}; {minutes(left)} left, {minutes(everything)} of all"
        )

    def finished(self) -> None:
        """Say that the first network of the list is done, and go on to the next."""
        wanted = self._todo.pop(0)
        done = 0 if self._from is None else self._from / max(wanted.recipe["epochs"], 1)
        self._done += wanted.work * (1 - done)
        self._from = None
        left = (time.monotonic() - self._begin) / self._done * sum(each.work for each in self._todo)
        say(f"{wanted.name}, seed {wanted.seed}: trained; {minutes(left)} of all left, {len(self._todo)} networks")


def minutes(seconds: float) -> str:
    """Return a time as text."""
    whole = round(seconds / 60)
    return f"{whole // 60} h {whole % 60:02d} min" if whole >= 60 else f"{whole} min"


def every(names: Iterable[str], *, seeds: Sequence[int] | None = None, quick: bool = False) -> list[Wanted]:
    """Return the networks of some names, those that others build on first, then the cheap ones."""
    chosen = set(names)
    return [
        Wanted(task=task, method=method, seed=seed, quick=quick)
        for task, method in NETWORKS
        if chosen & {"all", task, f"{task}/{method}"}
        for seed in (range(SEEDS[task]) if seeds is None else seeds)
    ]


def state(wanted: Wanted) -> str:
    """Say how far a network is."""
    if (wanted.folder / "network.npz").exists():
        return "trained"
    spent = wanted.folder / "spent.txt"
    n_epochs = len(spent.read_text(encoding="utf-8").split()) if spent.exists() else 0
    return f"{n_epochs} of {wanted.recipe['epochs']} epochs" if n_epochs else "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """List the networks or train some, and return the exit code."""
    known = ["all", *dict.fromkeys(task for task, _ in NETWORKS), *(f"{task}/{method}" for task, method in NETWORKS)]
    parser = argparse.ArgumentParser(prog="python -m experiments.paper.images.networks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the networks and how far they are")
    parser.add_argument("--train", nargs="+", choices=known, metavar="NAME", help=f"one of {', '.join(known)}")
    parser.add_argument("--seed", type=int, nargs="+", help="seeds; by default all of the experiment")
    parser.add_argument("--quick", action="store_true", help="few rows, a tiny network, one epoch")
    args = parser.parse_args(arguments)
    if args.list or not args.train:
        for wanted in every(args.train or ["all"], seeds=args.seed, quick=args.quick):
            print(f"{wanted.name:36s} seed {wanted.seed}  {state(wanted):18s} {wanted.folder}")
        return 0
    todo = [each for each in every(args.train, seeds=args.seed, quick=args.quick) if state(each) != "trained"]
    clock = Clock(todo)
    try:
        for wanted in todo:
            trained(wanted, report=clock.report)
            clock.finished()
    except KeyboardInterrupt:
        say("stopped; the same command goes on after the last whole epoch")
        return 130
    except PostshiftError as error:
        say(f"FAILED {wanted.name}, seed {wanted.seed}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
