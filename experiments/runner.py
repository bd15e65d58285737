"""How an experiment is run: only what is not stored yet, each (method, seed) stored at once, failures reported."""

from __future__ import annotations

import json
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.output import versions, write_text
from experiments.study import Experiment, Measured, Results, Row, Store, configuration, write_figures
from postshift.exceptions import PostshiftError


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run left: the results, and what failed."""

    results: Results
    failures: tuple[str, ...] = ()


def stored(experiment: Experiment, folder: Path, *, quick: bool = False) -> Results:
    """Return what a folder has of an experiment."""
    return experiment.results(Store(folder / f"{experiment.name}.csv").read(), quick=quick)


def run(experiment: Experiment, *, folder: Path | None, seeds: int, quick: bool, only: Sequence[str] = ()) -> Outcome:
    """Run every (method, seed) that is not stored, seed by seed; without a folder nothing is stored.

    Where texts are given in ``only``, methods whose names have none of them are left out.
    """
    store = None if folder is None else Store(folder / f"{experiment.name}.csv")
    rows = [] if store is None else store.read()
    done = experiment.results(rows, quick=quick).runs
    wanted = [each for each in experiment.wanted(seeds=seeds, quick=quick) if chosen(each[0], only)]
    todo = [each for each in wanted if each not in done]
    if store is not None and todo:
        store.prepare()
    failures: list[str] = []
    told: set[str] = set()  # one missing file may fail every method
    with progress(experiment.name, len(todo)) as step:
        for method, seed in todo:
            begin = time.perf_counter()
            try:
                found = measure(experiment, method, seed, quick=quick)
            except Exception as error:  # noqa: BLE001
                account = _account(error)
                what = "as above" if account in told else f"{type(error).__name__}: {error}"
                failures.append(f"{experiment.name}: {method}, seed {seed}: {what}")
                step(f"FAILED {method}, seed {seed}")
                say("as above" if account in told else account)
                told.add(account)
                continue
            rows += found
            try:
                if store is not None:
                    store.append(found)
            except OSError as error:  # what follows could not be stored either
                failures.append(f"{experiment.name}: {method}, seed {seed} could not be stored: {error}")
                break
            step(f"{method}, seed {seed} ({time.perf_counter() - begin:.1f} s)")
    if store is not None:
        rows = store.read()  # another process may have run other methods
    return Outcome(results=experiment.results(rows, quick=quick), failures=tuple(failures))


def chosen(method: str, only: Sequence[str]) -> bool:
    """Return whether a method's name has one of some texts; where there are none, all are chosen."""
    return not only or any(text in method for text in only)


def measure(experiment: Experiment, method: str, seed: int, *, quick: bool) -> list[Row]:
    """Run one (method, seed) and return its rows."""
    begin = time.process_time()
    measured = experiment.methods[method](seed, quick)
    taken = time.process_time() - begin
    _check(measured)
    config = {**configuration(experiment, quick=quick), **measured.config}
    return [
        Row(
            method=method,
            seed=seed,
            name=name,
            value=round(float(value), 6),
            seconds=round(taken if measured.seconds is None else measured.seconds, 3),
            queries=measured.queries,
            n_values=len(measured.values),
            config=json.dumps(config, sort_keys=True),
            versions=versions(*experiment.packages),
        )
        for name, value in measured.values.items()
    ]


def write_page(results: Results, folder: Path) -> None:
    """Write the page of an experiment and its figures, all from stored results."""
    experiment = results.experiment
    write_text(folder / f"{experiment.name}.md", experiment.page(results))
    write_figures(results, folder)


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def progress(name: str, total: int) -> Iterator[Callable[[str], None]]:
    """Give a function that is told of each finished run: a bar on a terminal if rich or tqdm is there, else lines."""
    bar = _bar(name, total) if sys.stderr.isatty() else None
    if bar is not None:
        with bar as step:
            yield step
        return
    count = 0

    def line(text: str) -> None:
        nonlocal count
        count += 1
        say(f"{name} {count} of {total}: {text}")

    yield line


def _bar(name: str, total: int) -> AbstractContextManager[Callable[[str], None]] | None:
    """Return a progress bar as a context manager, or None where no package draws one."""
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        try:
            import tqdm  # noqa: F401
        except ModuleNotFoundError:
            return None
        return _tqdm_bar(name, total)
    return _rich_bar(name, total)


@contextmanager
def _rich_bar(name: str, total: int) -> Iterator[Callable[[str], None]]:
    """Draw with rich."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[name]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("", total=total, name=name)
        yield lambda text: shown.update(task, advance=1, description=text)


@contextmanager
def _tqdm_bar(name: str, total: int) -> Iterator[Callable[[str], None]]:
    """Draw with tqdm."""
    from tqdm import tqdm

    with tqdm(total=total, desc=name) as shown:

        def step(text: str) -> None:
            shown.set_postfix_str(text, refresh=False)
            shown.update()

        yield step


def _check(measured: Measured) -> None:
    """Refuse what is no number, and nothing at all."""
    if not measured.values:
        raise ValueError("the method gave no value: Measured.values must have one or more")
    strange = {name: value for name, value in measured.values.items() if not math.isfinite(value)}
    if strange:
        raise ValueError(f"values must be finite. Got {strange} instead")


def _account(error: Exception) -> str:
    """Return what to say of an error: the message where it is meant for users, else where it came from too."""
    if isinstance(error, PostshiftError):
        return str(error)
    return "".join(traceback.format_exception(error)).rstrip()
