"""Work shared among processes: each result is given as it comes, and what failed is raised when all have ended."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Found = TypeVar("Found")


def each_finished(
    run_split: Callable[[str, int], Found], todo: Sequence[tuple[str, int]], *, jobs: int
) -> Iterator[Found]:
    """Run splits of tasks and give what they return; those that fail do not keep the others from being given."""
    failed = []
    with ProcessPoolExecutor(jobs, initializer=_quiet) as pool:
        running = {pool.submit(run_split, *each): each for each in todo}
        try:
            for count, finished in enumerate(as_completed(running), start=1):
                task, split = running[finished]
                error = finished.exception()
                if error is None:
                    yield finished.result()
                elif isinstance(error, BrokenProcessPool):
                    raise error  # noqa: TRY301
                else:
                    error.add_note(f"in {task}, split {split}")
                    failed.append(error)
                sys.stderr.write(f"{count} of {len(todo)}: {'FAILED ' if error else ''}{task}, split {split}\n")
        except BaseException:  # also where the results are not wanted any more
            pool.shutdown(cancel_futures=True)
            raise
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {len(todo)} splits failed; the others are stored", failed)


def _quiet() -> None:
    """In a worker: small validation samples and rare classes are expected here."""
    warnings.simplefilter("ignore")
