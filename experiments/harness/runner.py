"""How an experiment is run: only what is not stored yet, each (method, seed) stored at once, failures reported."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from experiments import registry
from experiments.harness.experiment import Experiment, Results
from experiments.harness.files import versions
from experiments.harness.progress import progress, say
from experiments.harness.store import Row, Store
from postshift.exceptions import PostshiftError

Given, Found = ParamSpec("Given"), TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run left: the results, and what failed."""

    results: Results
    failures: tuple[str, ...] = ()


def store_of(experiment: Experiment, folder: Path, *, quick: bool = False) -> Store:
    """Return the file of an experiment's results; quick looks have their own."""
    return Store(folder / f"{experiment.name}{'.quick' if quick else ''}.csv", experiment.columns)


def stored(experiment: Experiment, folder: Path, *, quick: bool = False) -> Results:
    """Return the results of an experiment in a folder."""
    return experiment.results(store_of(experiment, folder, quick=quick).read(), quick=quick)


def run(
    experiment: Experiment,
    *,
    folder: Path | None,
    seeds: int | None = None,
    quick: bool = False,
    only: Sequence[str] = (),
    jobs: int = 1,
) -> Outcome:
    """Run every (method, seed) that is not stored, seed by seed; without a folder nothing is stored.

    Where texts are given in ``only``, methods whose names have none of them are left out.
    """
    store = None if folder is None else store_of(experiment, folder, quick=quick)
    rows = [] if store is None else store.read()
    done = experiment.results(rows, quick=quick).done
    wanted = [each for each in experiment.wanted(seeds=seeds, quick=quick) if chosen(each[0], only)]
    todo = [each for each in wanted if each not in done]
    if store is not None and todo:
        store.prepare()
    failures = Failures(experiment.name)
    with progress(experiment.name, len(todo)) as step:
        for method, seed, found in finished(experiment, todo, quick=quick, jobs=jobs):
            if isinstance(found, Exception):
                step(f"FAILED {method}, seed {seed}")
                failures.add(method, seed, found)
                continue
            rows += found
            try:
                if store is not None:
                    store.append(found)
            except OSError as error:  # what follows could not be stored either
                failures.texts.append(f"{experiment.name}: {method}, seed {seed} could not be stored: {error}")
                break
            step(f"{method}, seed {seed} ({found[0].seconds:.1f} s)")
    if store is not None:
        rows = store.read()  # another process may have run other methods
    return Outcome(results=experiment.results(rows, quick=quick), failures=tuple(failures.texts))


def chosen(method: str, only: Sequence[str]) -> bool:
    """Return whether a method's name has one of some texts; where there are none, all are chosen."""
    return not only or any(text in method for text in only)


def finished(
    experiment: Experiment, todo: Sequence[tuple[str, int]], *, quick: bool, jobs: int
) -> Iterator[tuple[str, int, list[Row] | Exception]]:
    """Run methods on seeds, in one process or in several, and yield the rows of each, or its error."""
    if jobs == 1 or len(todo) < 2:
        for method, seed in todo:
            yield method, seed, _attempt(experiment, method, seed, quick=quick)
        return
    with ProcessPoolExecutor(jobs, initializer=warnings.simplefilter, initargs=("ignore",)) as pool:
        running = {pool.submit(_in_worker, experiment.name, *each, quick=quick): each for each in todo}
        try:
            for each in as_completed(running):
                yield (*running[each], each.exception() or each.result())  # type: ignore[misc]
        except BaseException:  # also where the results are not wanted any more
            pool.shutdown(cancel_futures=True)
            raise


def _attempt(experiment: Experiment, method: str, seed: int, *, quick: bool) -> list[Row] | Exception:
    """Return the rows of one (method, seed), or its error."""
    try:
        return measure(experiment, method, seed, quick=quick)
    except Exception as error:  # noqa: BLE001
        return error


def _in_worker(name: str, method: str, seed: int, *, quick: bool) -> list[Row]:
    """Run one (method, seed) of an experiment by its name: functions do not go from process to process."""
    return measure(registry.load(name), method, seed, quick=quick)


def measure(experiment: Experiment, method: str, seed: int, *, quick: bool) -> list[Row]:
    """Run one (method, seed) and return its rows, complete."""
    found, seconds = timed(experiment.methods[method], seed, quick)
    rows = [replace(found, method=found.method or method)] if isinstance(found, Row) else list(found)
    return [_completed(experiment, row, seed=seed, seconds=seconds, quick=quick) for row in rows]


def _completed(experiment: Experiment, row: Row, *, seed: int, seconds: float, quick: bool) -> Row:
    """Return a row as it is stored."""
    _check(row)
    return replace(
        row,
        seed=seed,
        values={name: round(float(value), experiment.digits) for name, value in row.values.items()},
        seconds=round(seconds if row.seconds is None else row.seconds, 3),
        config={**experiment.configuration(quick=quick), **row.config},
        versions=versions(*experiment.packages),
    )


def timed(function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> tuple[Found, float]:
    """Call a function, and return what it gives and the processor time it takes."""
    begin = time.process_time()
    found = function(*args, **kwargs)
    return found, time.process_time() - begin


def _check(row: Row) -> None:
    """Raise if a value is no number, or if there is none."""
    if not row.values:
        raise ValueError("the method gave no value: Row.values must have one or more")
    strange = {name: value for name, value in row.values.items() if not math.isfinite(value)}
    if strange:
        raise ValueError(f"values must be finite. Got {strange} instead")


class Failures:
    """What failed in a run; an error is reported in full once, as one missing file may fail every method."""

    def __init__(self, experiment: str) -> None:
        self.texts: list[str] = []
        self._experiment = experiment
        self._known: set[str] = set()

    def add(self, method: str, seed: int, error: Exception) -> None:
        """Report the error of one (method, seed)."""
        account = _account(error)
        again = account in self._known
        self._known.add(account)
        say("as above" if again else account)
        what = "as above" if again else f"{type(error).__name__}: {error}"
        self.texts.append(f"{self._experiment}: {method}, seed {seed}: {what}")


def _account(error: Exception) -> str:
    """Return what to say of an error: the message where it is meant for users, else where it came from too."""
    if isinstance(error, PostshiftError):
        return str(error)
    return "".join(traceback.format_exception(error)).rstrip()
