"""Rules that ask: a fit is a generator of queries, an interview lets anybody answer it.

A rule's ``fit`` yields lists of queries and is sent the lists of their answers; what it returns is the fitted rule.
A problem whose labels are at hand answers by itself, so its fits yield nothing. An interview never passes on a query
twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import numpy as np

from postshift._validation import check_count
from postshift.core.archive import contradicting, read_archive, write_answers
from postshift.core.loop import Loop
from postshift.core.queries import Query, check_number
from postshift.core.records import FitResult
from postshift.exceptions import ArchiveError, BudgetError, NotFinishedError, UnknownQueryError

T = TypeVar("T")
Fit = Generator[list[Query], list[Any], T]


def relay(run: Loop, *, about: Callable[[Query], Query]) -> Fit[FitResult]:
    """Pass on the queries of a run, each as ``about`` puts it, and return its result."""
    while queries := list(run.ask()):
        answers = yield [about(query) for query in queries]
        for query, answer in zip(queries, answers, strict=True):
            run.tell(query.key, answer)
    return run.result()


def without_queries(fit: Fit[T]) -> T:
    """Return the result of a fit that can answer by itself."""
    try:
        asked = next(fit)
    except StopIteration as done:
        found: T = done.value
        return found
    raise NotFinishedError(f"this fit asks {len(asked)} query(s), e.g. {asked[0].text!r}: it needs an interview")


class Interview(Generic[T]):
    """A fit as a conversation: ask, tell, and the result at the end.

    Parameters
    ----------
    start : callable
        Returns the fit's generator; called anew after an error, and when a saved interview is taken up again. Answers
        that were told are never asked for again.
    budget : int, optional
        The most queries that may be answered; a fit that would need more is refused.
    about : str
        What the interview is about (a digest of the data, the name of the metric): a saved interview is taken up only
        by one that is about the same.
    """

    def __init__(self, start: Callable[[], Fit[T]], *, budget: int | None = None, about: str = "") -> None:
        self._start, self._about = start, about
        self.budget = None if budget is None else check_count(budget, name="budget", low=1)
        self._known: dict[str, float] = {}
        self._open: dict[str, tuple[Query, str]] = {}
        self._round: list[tuple[Query, str]] = []
        self._fit: Fit[T] | None = None
        self._result: list[T] = []

    @property
    def n_queries(self) -> int:
        """Queries answered so far."""
        return len(self._known)

    def ask(self) -> tuple[Query, ...]:
        """Return the open queries; none when the fit is finished."""
        if self._fit is None and not self._result:
            self._fit = self._start()
            self._advance(None)
        while self._round and not self._open:
            self._advance([self._known[digest] for _, digest in self._round])
        return tuple(query for query, _ in self._open.values())

    def tell(self, key: str, answer: Any) -> None:
        """Give the answer to an open query; one that is refused leaves the interview as it was."""
        self.ask()
        if key not in self._open:
            raise UnknownQueryError(
                f"there is no open query {key!r}; open are {sorted(self._open)[:10]}: answer what ask() gave"
            )
        query, digest = self._open[key]
        self._known[digest] = check_number(query, answer)
        del self._open[key]

    def result(self) -> T:
        """Return what the fit found."""
        if self.ask():
            raise NotFinishedError(f"the interview has {len(self._open)} open query(s): answer them first")
        return self._result[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the answers so far to one npz file, without pickle.

        A file with answers that this interview does not know is refused: another process has saved them.
        """
        write_answers(
            path,
            kind="interview",
            header={"digests": list(self._known), "about": self._about},
            arrays={"answers": np.array(list(self._known.values()))},
            known="answers",
        )

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Take over the answers of a saved interview: the fit asks only what they do not tell."""
        header, arrays = read_archive(path, kind="interview")
        if header.get("about") != self._about:
            raise ArchiveError(
                f"{path} is about {header.get('about')!r}, this interview about {self._about!r}: take it up with the "
                "data, the rule and the metric it was begun with"
            )
        with contradicting(path):
            answers = arrays["answers"]
            if answers.dtype.kind != "f" or answers.ndim != 1 or not np.isfinite(answers).all():
                raise ValueError("the answers are no finite numbers")
            self._known = dict(zip(header["digests"], answers.tolist(), strict=True))
        self._rewind()

    def _rewind(self) -> None:
        """Go back to the beginning of the fit; what was told stays known."""
        self._open, self._round, self._fit, self._result = {}, [], None, []

    def _advance(self, answers: list[float] | None) -> None:
        """Send answers, and open the queries of the next round; after an error the fit begins anew when asked."""
        assert self._fit is not None  # noqa: S101
        try:
            asked = next(self._fit) if answers is None else self._fit.send(answers)
            self._open_round([(query, query.fingerprint()) for query in asked])
        except StopIteration as done:
            self._rewind()
            self._result = [done.value]
        except BaseException:
            self._rewind()
            raise

    def _open_round(self, asked: list[tuple[Query, str]]) -> None:
        """Open the queries of a round that were never answered."""
        fresh = {digest: query for query, digest in reversed(asked) if digest not in self._known}
        if self.budget is not None and len(self._known) + len(fresh) > self.budget:
            raise BudgetError(
                f"{len(self._known)} queries were answered and {len(fresh)} more are needed; the budget is "
                f"{self.budget}: raise it, or use fewer rules"
            )
        base = self.n_queries
        named = ((f"{base + place}/{q.key}", q, digest) for place, (digest, q) in enumerate(reversed(fresh.items())))
        self._round = asked
        self._open = {key: (query.renamed(key), digest) for key, query, digest in named}
