"""Sessions: ask queries, keep the answers, check the budget, write the journal, and resume.

A session drives a *fit*, a generator of queries (:mod:`postshift.core.queries`), and never asks the same query twice.
With a journal, every answer is on disk before the next query is asked. A session that is opened again with the same
journal replays the fit: queries that the journal answers are not asked again. Sums over the training rows are computed
again.

The journal is a text file with one JSON object per line. It is only appended to, unless the last answer is taken back:

==========  ================================================================================================
line        holds
==========  ================================================================================================
the first   ``about``, a digest of what the answers depend on
any other   ``query``, the fingerprint of what was shown; ``answer``; ``text``, the query in words
==========  ================================================================================================

Every line has a ``check`` of its content. A process that is killed while it writes leaves at most a part of the
last line, which is dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np

from postshift._validation import LARGEST, check_count
from postshift.core.archive import try_lock
from postshift.core.queries import Fit, Oracle, Query, ScoredRule
from postshift.exceptions import AnswerError, ArchiveError, BudgetError, NotFinishedError, UnknownQueryError

T = TypeVar("T")
FORMAT = 1


class Session(Generic[T]):
    """Drives a fit: ``ask()`` for queries, ``tell()`` the answers, and get the ``result()`` at the end.

    Parameters
    ----------
    start : callable
        Returns the fit's generator; it is called again after an error. No query is asked twice.
    budget : int, optional
        The maximum number of queries; a fit that needs more raises BudgetError.
    journal : path, optional
        The file that keeps every answer. An existing journal is resumed.
    about : str
        A digest of what the answers depend on: a journal can only be resumed by a session with the same digest.
    max_queries : int, optional
        The maximum number of queries of the fit, if it is known.

    Examples
    --------
    >>> from postshift.core.queries import Query
    >>> def fit():
    ...     (answer,) = yield [Query(key="a", kind="hard", text="these labels", n_rows=2, _predict=lambda: [0, 1])]
    ...     return answer
    >>> session = Session(fit)
    >>> [query.text for query in session.ask()]
    ['these labels']
    >>> session.tell(session.ask()[0].key, 0.5)
    >>> session.result()
    0.5
    """

    def __init__(
        self,
        start: Callable[[], Fit[T]],
        *,
        budget: int | None = None,
        journal: str | os.PathLike[str] | None = None,
        about: str = "",
        max_queries: int | None = None,
    ) -> None:
        self._start, self.max_queries = start, max_queries
        self.budget = None if budget is None else check_count(budget, name="budget", low=1)
        self._journal = None if journal is None else Journal(journal, about=about)
        self._known: dict[str, Any] = {} if self._journal is None else self._journal.answers
        self._texts: dict[str, str] = {}  # of all queries so far, by their fingerprints
        self._best: ScoredRule | None = None
        self.scores: list[float] = []  # of the rules found so far, in their order
        self._fit: Fit[T] | None = None
        self._open: dict[str, tuple[Query, str]] = {}
        self._round: list[tuple[Query, str]] = []
        self._result: list[T] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the journal, so that another session can resume it."""
        if self._journal is not None:
            self._journal.close()

    @property
    def n_queries(self) -> int:
        """Number of queries answered so far, including those in the journal."""
        return len(self._known)

    @property
    def answers(self) -> tuple[tuple[str, Any], ...]:
        """The text and the answer of every answered query, in the order of the answers, up to the open queries."""
        return tuple((self._texts[digest], answer) for digest, answer in self._known.items() if digest in self._texts)

    def ask(self) -> tuple[Query, ...]:
        """Return the open queries; there are none when the fit is finished."""
        if self._fit is None and not self._result:
            self._fit, self.scores = self._start(), []
            self._advance(None)
        while self._round and not self._open:
            self._advance([self._answer_to(query, digest) for query, digest in self._round])
        return tuple(query for query, _ in self._open.values())

    def tell(self, key: str, answer: Any) -> None:
        """Give the answer to an open query. An invalid answer raises an error and leaves the session as it was.

        With a journal, the answer is on disk when this returns.
        """
        self.ask()
        if key not in self._open:
            raise UnknownQueryError(
                f"query {key!r} is not open; the open queries are {sorted(self._open)[:10]}: answer what ask() returns"
            )
        query, digest = self._open[key]
        checked = query.checked(answer)
        if self._journal is not None:
            self._journal.append(digest, checked, text=query.text)
        self._known[digest] = checked
        del self._open[key]

    def take_back(self) -> None:
        """Remove the last answer, which was wrong: its query is open again. With a journal, also on disk."""
        if not self._known:
            raise NotFinishedError("no query is answered yet, so there is no answer to take back")
        if self._journal is not None:
            self._journal.remove_last()
        self._known.popitem()
        self._best = None
        self._rewind()

    def run(self, oracle: Oracle, *, on_answer: Callable[[Query, Any], None] | None = None) -> T:
        """Let an oracle answer every query, and return the result.

        An error of the oracle is passed on. The answers so far are kept: call ``run`` again to continue.

        Parameters
        ----------
        oracle : Oracle
            Answers the queries.
        on_answer : callable, optional
            Called with each query and its answer: for progress bars and logs.
        """
        while queries := self.ask():
            for query in queries:
                answer = oracle.answer(query)
                self.tell(query.key, answer)
                if on_answer is not None:
                    on_answer(query, answer)
        return self.result()

    def result(self) -> T:
        """Return what the fit found."""
        if self.ask():
            raise NotFinishedError(f"the session has {len(self._open)} open queries: answer them first (ask, tell)")
        return self._result[0]

    def best_so_far(self) -> ScoredRule:
        """Return the best classifier found so far, with its score; it can be called at any time.

        The score comes from answers about the same rows that the fit learns from, so it is too high.
        """
        if self._best is None:
            raise NotFinishedError(
                f"no classifier is scored yet ({self.n_queries} queries are answered): answer more queries first"
            )
        return self._best

    def _answer_to(self, query: Query, digest: str) -> Any:
        """Return a known answer; raise if one from the journal does not fit the query."""
        try:
            return query.checked(self._known[digest])
        except AnswerError as error:
            raise ArchiveError(f"{self._journal} was changed after it was written: {error}") from error

    def _rewind(self) -> None:
        """Go back to the beginning of the fit; the answers are kept."""
        self._open, self._round, self._fit, self._result = {}, [], None, []

    def _advance(self, answers: list[Any] | None) -> None:
        """Send answers, and open the queries of the next round; after an error, the next call starts the fit again."""
        assert self._fit is not None  # noqa: S101
        try:
            asked = self._fit.send(answers)
            while isinstance(asked, ScoredRule):
                self.scores.append(asked.score)
                if self._best is None or asked.score > self._best.score:
                    self._best = asked
                asked = self._fit.send(None)
            self._open_round([(query, query.fingerprint()) for query in asked])
        except StopIteration as done:
            self._rewind()
            self._result = [done.value]
            self.close()
        except BaseException:
            self._rewind()
            raise

    def _open_round(self, asked: list[tuple[Query, str]]) -> None:
        """Open the queries of a round that have no answer yet, each once."""
        fresh: dict[str, Query] = {}
        for query, digest in asked:
            self._texts.setdefault(digest, query.text)
            if digest not in self._known:
                fresh.setdefault(digest, query)
        if self.budget is not None and len(self._known) + len(fresh) > self.budget:
            raise BudgetError(
                f"{len(self._known)} queries were answered and {len(fresh)} more are needed; the budget is "
                f"{self.budget}: raise it, or use fewer rules"
            )
        base = self.n_queries
        self._round = asked
        self._open = {}
        for place, (digest, query) in enumerate(fresh.items()):
            key = f"{base + place}/{query.key}"
            self._open[key] = (query.renamed(key), digest)


class Journal:
    """The answers of a session, in a file that no other session can use at the same time.

    Parameters
    ----------
    path : path
        The file; it is created if it does not exist.
    about : str
        What the answers depend on.
    """

    def __init__(self, path: str | os.PathLike[str], *, about: str) -> None:
        self._path = Path(path)
        if self._path.is_symlink() or (self._path.exists() and not self._path.is_file()):
            raise ArchiveError(f"{path} is not a regular file: remove it, or name another journal")
        self._stream = self._path.open("a+b")
        if not try_lock(self._stream.fileno()):
            self._stream.close()
            raise ArchiveError(
                f"{path} is in use by another session, of this process or of another: wait until it ends, or name "
                "another journal"
            )
        try:
            self.answers = self._read(about)
        except BaseException:
            self._stream.close()
            raise

    def __str__(self) -> str:
        return str(self._path)

    def append(self, digest: str, answer: Any, *, text: str) -> None:
        """Write an answer; it is on disk when this returns."""
        plain = answer.tolist() if isinstance(answer, np.ndarray) else answer
        self._write({"query": digest, "answer": plain, "text": text})

    def remove_last(self) -> None:
        """Remove the last line; it is gone from the disk when this returns."""
        content = self._path.read_bytes()
        os.truncate(self._path, content.rindex(b"\n", 0, len(content) - 1) + 1)
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Close the file; another session may open it."""
        self._stream.close()

    def _read(self, about: str) -> dict[str, Any]:
        """Return the answers in the file, and write the first line if it is missing."""
        self._stream.seek(0)
        content = self._stream.read()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(self._path, len(whole))
        if not whole:
            self._write({"postshift": "journal", "format": FORMAT, "about": about})
            return {}
        first, *lines = whole.splitlines()
        header = self._parsed(first, 1)
        if header.get("postshift") != "journal" or header.get("format") != FORMAT:
            raise ArchiveError(f"{self._path} is not a journal of this version of postshift: name another file")
        if header.get("about") != about:
            raise ArchiveError(
                f"{self._path} was started with other data, another metric or another kind of query: resume it with "
                "the same ones, or name another journal"
            )
        return dict(self._answer(line, number) for number, line in enumerate(lines, start=2))

    def _answer(self, line: bytes, number: int) -> tuple[str, Any]:
        """Return fingerprint and answer on a line."""
        found = self._parsed(line, number)
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            answer, query = np.asarray(found["answer"]), found["query"]
            if isinstance(query, str) and answer.dtype.kind in "iuf" and (np.abs(answer) <= LARGEST).all():
                return query, answer.astype(np.float64) if answer.ndim else float(answer)
        raise self._damaged(number)

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        """Return the object on a line; raise if its check is wrong."""
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and found.pop("check", None) == _check(found):
                return found
        raise self._damaged(number)

    def _damaged(self, number: int) -> ArchiveError:
        """Return the error for a damaged line."""
        return ArchiveError(
            f"line {number} of {self._path} was damaged or changed after it was written: restore the file, or "
            "start again with another journal"
        )

    def _write(self, content: dict[str, Any]) -> None:
        """Append one line, and wait until it is on disk; a line that cannot be written completely is removed."""
        before = self._path.stat().st_size
        try:
            self._stream.write(json.dumps({**content, "check": _check(content)}).encode() + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError:
            os.truncate(self._path, before)
            raise


def n_answers(path: str | os.PathLike[str]) -> int:
    """Return the number of answers in a journal; 0 if there is no file."""
    file = Path(path)
    return max(0, file.read_bytes().count(b"\n") - 1) if file.is_file() else 0


def _check(content: dict[str, Any]) -> str:
    """Return a digest that reveals damage to a line."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()
