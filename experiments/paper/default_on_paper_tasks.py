"""Our default on the paper's tasks, seed by seed: this version of postshift, other versions, the stored results.

``python -m experiments.paper.default_on_paper_tasks`` runs the version that Python imports. For another one, put the
``src`` folder of its checkout on PYTHONPATH. The results are in ``docs/results/paper-default.csv``: the column
``method`` has the version, a digest of the package's source, and ``stored`` the value in the results of the experiment.
What is stored is not run again. The tasks on photographs use the arrays that the repository has of their networks;
without these they are left out. Their stored results are of networks that were trained on another processor.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

import postshift
from experiments.harness import runner
from experiments.harness.experiment import Experiment, Method
from experiments.harness.files import OUT
from experiments.harness.progress import progress, say
from experiments.harness.store import Row, Store
from experiments.harness.tables import markdown, summary
from experiments.paper import adience_shift, adult_fairness, adult_proxy, cifar10_noise, macro_f
from experiments.paper.images import adience
from experiments.paper.images.stored_arrays import NotStoredError, stored
from experiments.paper.images.tables import of_shift
from experiments.studies import adience_better

NAME = "paper-default"
COLUMNS = ("task", "method", "seed", "test", "stored", "seconds", "queries", "versions")
STORED = "stored results"
MOST_LOST = 0.002  # of the stored mean
Values = Mapping[int, float]  # by seed


@dataclass(frozen=True, kw_only=True)
class PaperTask:
    """A method of an experiment that is our default."""

    name: str
    experiment: Experiment
    method: str

    @cached_property
    def before(self) -> Values:
        """The test values that are stored, by seed."""
        rows = runner.stored(self.experiment, OUT).of(self.method)
        return {row.seed: row.values["test"] for row in rows}

    def measured(self, seed: int) -> Row:
        """Run the default on a seed."""
        (row,) = runner.measure(self.experiment, self.method, seed, quick=False)
        return row


def whole(experiment: Experiment, method: str, run: Method | None = None) -> PaperTask:
    """Return a task that is the whole experiment; ``run`` takes the place of the method."""
    runs = experiment.methods if run is None else {**experiment.methods, method: run}
    return PaperTask(name=experiment.name, experiment=replace(experiment, methods=runs), method=method)


def on_adience(experiment: Experiment) -> PaperTask:
    """Return a task on Adience with stored arrays."""
    load = partial(adience.load_task, experiment.name, see=stored)
    return whole(experiment, adience.DEFAULT, of_shift(load, adience.SHIFTS[adience.DEFAULT], adience.scores))


def on_cifar10() -> PaperTask:
    """Return the task on CIFAR-10 with stored arrays."""
    load, method = partial(cifar10_noise.load_task, see=stored), cifar10_noise.DEFAULT
    run = of_shift(load, cifar10_noise.SHIFTS[method], cifar10_noise.scores)
    return whole(cifar10_noise.EXPERIMENT, method, run)


TASKS = (
    whole(adult_proxy.EXPERIMENT, adult_proxy.DEFAULT),
    whole(adult_fairness.EXPERIMENT, adult_fairness.AVERAGE),
    *(
        PaperTask(name=f"macro-f, {each.title}", experiment=macro_f.EXPERIMENT, method=each.key(macro_f.DEFAULT))
        for each in macro_f.SECTIONS
        if each.paper is not None
    ),
    on_cifar10(),
    on_adience(adience_shift.EXPERIMENT),
    on_adience(adience_better.EXPERIMENT),
)


# -- running ------------------------------------------------------------------------------------------------


def version_of(package: Path) -> str:
    """Return a digest of the source of a package."""
    sources = sorted(package.rglob("*.py"))
    text = b"\0".join(part for path in sources for part in (str(path.relative_to(package)).encode(), path.read_bytes()))
    return hashlib.blake2b(text, digest_size=4).hexdigest()


def run(tasks: Sequence[PaperTask], store: Store, version: str) -> None:
    """Run the default on every task and seed for which the version has no result yet, and store each at once."""
    done = {row.key for row in store.read()}
    todo = [(task, seed) for task in tasks for seed in task.before if (task.name, version, 0, seed) not in done]
    with progress(NAME, len(todo)) as step:
        for task, seed in todo:
            try:
                found = task.measured(seed)
            except NotStoredError as error:
                step(f"{task.name}, seed {seed} left out: {error}")
                continue
            values = {"test": found.values["test"], "stored": task.before[seed]}
            store.append([replace(found, task=task.name, method=version, values=values)])
            step(f"{task.name}, seed {seed}")


# -- what it shows ------------------------------------------------------------------------------------------


def by_version(rows: Sequence[Row]) -> dict[str, dict[str, Values]]:
    """Return the test values of each task by version, then by seed; the stored results are those of the first run."""
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        found[row.task][STORED].setdefault(row.seed, row.values["stored"])
        found[row.task][row.method][row.seed] = row.values["test"]
    return {task: dict(values) for task, values in found.items()}


def lines(found: Mapping[str, Mapping[str, Values]], version: str) -> Iterator[list[str]]:
    """Yield a line for each task and other version: means, and the paired differences of the given one to it."""
    for task, values in found.items():
        for other in [each for each in values if each != version and version in values]:
            seeds = sorted(values[other].keys() & values[version].keys())
            if seeds:
                now, before = (np.array([values[each][seed] for seed in seeds]) for each in (version, other))
                yield [task, other, *paired(now, before), goal(now, before) if other == STORED else ""]


def paired(now: np.ndarray, before: np.ndarray) -> list[str]:
    """Return the number of seeds, both means, and the differences: mean, interval, seed by seed."""
    each = now - before
    differences = " ".join(f"{value:+.4f}" for value in each)
    return [str(len(each)), f"{before.mean():.4f}", f"{now.mean():.4f}", *summary(each).difference(), differences]


def goal(now: np.ndarray, before: np.ndarray) -> str:
    """Say whether the mean is at most so far below the stored one."""
    least = before.mean() - MOST_LOST
    return f"{least:.4f} {'reached' if now.mean() >= least else 'NOT reached'}"


def report(rows: Sequence[Row], version: str) -> str:
    """Return the table of a version against the others."""
    head = ["task", "other version", "seeds", "its mean", "mean now", "difference", "95 % interval", "by seed", "goal"]
    return markdown(head, lines(by_version(rows), version), n_texts=2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.paper.default_on_paper_tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", nargs="+", metavar="TEXT", default=[], help="only those whose names have a text")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results (default: docs/results)")
    args = parser.parse_args(arguments)
    package = Path(postshift.__file__).parent
    version = version_of(package)
    store = Store(args.out / f"{NAME}.csv", COLUMNS)
    say(f"{NAME}: version {version}, in {package}")
    run([task for task in TASKS if runner.chosen(task.name, args.tasks)], store, version)
    print(report(store.read(), version))
    return 0


if __name__ == "__main__":
    sys.exit(main())
