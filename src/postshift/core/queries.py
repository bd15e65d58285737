"""Queries: what the loop asks, and who answers.

The loop never calls a metric. It asks, and an *oracle* answers: a local function, a service, a person.
An oracle says which of four kinds of query it serves:

===========  =============================  ========================================================
kind         the oracle is shown            and answers
===========  =============================  ========================================================
confusion    distributions (n, m) and       (1 + L, R, m): for every column k, the share of weight
             columns (n, 1 + L)             ``sum_n w columns_nk 1(category=i) h_nj / sum_n w``
soft         distributions (n, m)           the score of this randomised classifier, a number
hard         labels (n,)                    the score of these labels, a number
table        cells (n,) ``0..K-1``, a           (K, R): how many rows of each category are in each cell
             partition of the rows
===========  =============================  ========================================================

The R categories of a row are its true classes (R = m) unless the metric says otherwise (``n_categories``): then
they may be the (group, class) pairs of a group-wise metric. Counts of a table may have noise, so they may be fractions
or negative. What is shown is read-only.

A *fit* is a generator. It yields lists of queries and is sent the lists of their answers; what it returns is its
result. Between queries it may yield a :class:`ScoredRule`: a candidate for the best rule so far.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from postshift._validation import LARGEST, FloatArray, IntArray, read_only
from postshift.exceptions import AnswerError, NotFinishedError, SettingError

KindName = Literal["confusion", "soft", "hard", "table"]
_SHARE_TOLERANCE = 1e-6
_DECIMALS = 12  # tables that agree to this many decimals are the same query


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of query: how class distributions are shown to an oracle."""

    name: KindName
    soft: bool  # whether distributions are shown instead of labels
    matrices: bool = False  # whether the answer is matrices that psi reads, instead of one number

    def shown(self, distribution: FloatArray) -> Any:
        """Return class distributions (n, m) as an oracle sees them."""
        return distribution if self.soft else np.argmax(distribution, axis=1)


KINDS = {
    "confusion": Kind(name="confusion", soft=True, matrices=True),
    "soft": Kind(name="soft", soft=True),
    "hard": Kind(name="hard", soft=False),
    "table": Kind(name="table", soft=False, matrices=True),
}


def kind_named(name: Any) -> Kind:
    """Return the kind of query of this name: ``"confusion"``, ``"soft"``, ``"hard"`` or ``"table"``."""
    if name not in KINDS:
        raise SettingError(f"kind must be 'confusion', 'soft', 'hard' or 'table'. Got {name!r} instead")
    return KINDS[name]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Query:
    """A question: the score of one classifier on the validation rows.

    Attributes
    ----------
    key : str
        Its name within the session; give it back with the answer.
    kind : {"confusion", "soft", "hard", "table"}
        What is shown, and what the answer must be.
    text : str
        The query in words.
    n_rows : int
        Number of validation rows of the whole sample.
    rows : array of int, optional
        The validation rows it is about; None for all.
    columns : array of shape (n, 1 + L), optional
        For kind "confusion": ones, then the basis functions.
    shape : tuple of int
        The shape of the answer; empty for one number.
    """

    key: str
    kind: KindName
    text: str
    n_rows: int
    rows: IntArray | None = None
    columns: FloatArray | None = None
    shape: tuple[int, ...] = ()
    _predict: Callable[[], Any] = field(repr=False)
    _digest: list[bytes] = field(default_factory=list, repr=False)  # of what is shown, once it is known

    @property
    def predictions(self) -> Any:
        """Distributions (n, m), labels (n,) for kind "hard", or cells (n,) for kind "table"; read-only."""
        return read_only(self._predict())

    def renamed(self, key: str) -> Query:
        """Return the same query under another name."""
        return replace(self, key=key)

    def restricted(self, rows: IntArray, *, n_rows: int) -> Query:
        """Return the query as one about some ``rows`` of a larger sample."""
        return replace(self, rows=rows, n_rows=n_rows, text=f"{self.text}, on {len(rows)} of the rows")

    def fingerprint(self) -> str:
        """Return a digest of what the oracle sees; queries with equal digests are the same."""
        digest = hashlib.blake2b(self.kind.encode(), digest_size=16)
        if self.rows is not None:
            digest.update(np.asarray(self.rows, dtype="<i8").tobytes())
        if self.columns is not None:
            digest.update(np.ascontiguousarray(self.columns, dtype="<f8").tobytes())
        digest.update(self._shown_digest())
        return digest.hexdigest()

    def _shown_digest(self) -> bytes:
        """Return a digest of the predictions; it is computed once, also for renamed queries."""
        if not self._digest:
            shown = self.predictions
            if KINDS[self.kind].soft:
                shown = np.asarray(np.round(shown, _DECIMALS) + 0.0, dtype="<f8")  # + 0.0 turns -0.0 into 0.0
            else:
                shown = np.asarray(shown, dtype="<i8")
            self._digest.append(hashlib.blake2b(shown.tobytes(), digest_size=16).digest())
        return self._digest[0]

    def checked(self, answer: Any) -> Any:
        """Return the answer as a float or as a new array; raise if it is not valid."""
        if not self.shape:
            return self._checked_number(answer)
        return self._checked_counts(answer) if self.kind == "table" else self._checked_matrices(answer)

    def _checked_number(self, answer: Any) -> float:
        """Return the answer as a float; raise if it is not one finite number."""
        value = _numbers(answer)
        if value is None or value.ndim != 0 or not np.isfinite(value):
            raise self._refusal(answer, "one finite number")
        if abs(float(value)) > LARGEST:
            raise self._refusal(answer, f"one number of at most {LARGEST:g} (larger numbers overflow)")
        return float(value)

    def _checked_matrices(self, answer: Any) -> FloatArray:
        """Return a copy of the answer (1 + L, R, m); raise if it cannot be shares of weight.

        The first matrix belongs to all rows and sums to 1; the others are parts of it, because phi is in [0, 1].
        """
        wanted = (
            f"an array of shape {self.shape} of shares of weight: the first matrix must sum to 1, and no other may "
            "exceed it in any entry"
        )
        table = _numbers(answer)
        if table is None or table.shape != self.shape:
            raise self._refusal(answer if table is None else f"shape {table.shape}", wanted)
        if not np.isfinite(table).all() or (table < 0).any():
            raise self._refusal("NaN, infinite or negative shares", wanted)
        total = float(table[0].sum())
        if abs(total - 1) > _SHARE_TOLERANCE:
            raise self._refusal(f"a first matrix that sums to {total:g}", wanted)
        if (table > table[0] + _SHARE_TOLERANCE).any():
            raise self._refusal("entries above those of the first matrix", wanted)
        return np.array(table)

    def _checked_counts(self, answer: Any) -> FloatArray:
        """Return a copy of the counts (K, R); raise if they are not finite numbers of this shape."""
        table, wanted = _numbers(answer), f"an array of shape {self.shape} of finite counts"
        if table is None or table.shape != self.shape:
            raise self._refusal(answer if table is None else f"shape {table.shape}", wanted)
        if not np.isfinite(table).all() or (np.abs(table) > LARGEST).any():
            raise self._refusal("NaN, infinite or huge counts", wanted)
        return np.array(table)

    def _refusal(self, answer: Any, expected: str) -> AnswerError:
        """Return the error for an answer that cannot be used."""
        return AnswerError(
            f"the answer to query {self.key!r} ({self.text}) must be {expected}. Got {answer!r} instead; "
            "the query is still open: answer it again"
        )


class Oracle(Protocol):
    """Answers queries."""

    kind: KindName
    takes_subsets: bool  # whether it also scores predictions of some of the validation rows

    def answer(self, query: Query) -> Any:
        """Return the answer to one query."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredRule:
    """A classifier that a running fit has found, and its score according to the answers so far."""

    score: float
    make: Callable[[], Any] = field(repr=False)

    @property
    def rule(self) -> Any:
        """The classifier; it is made when it is read."""
        return self.make()


T = TypeVar("T")
Fit = Generator["list[Query] | ScoredRule", Any, T]


def without_queries(fit: Fit[T]) -> T:
    """Return the result of a fit that asks nothing, because its labels and its metric are available."""
    try:
        asked = next(fit)
    except StopIteration as done:
        found: T = done.value
        return found
    count = len(asked) if isinstance(asked, list) else 0
    raise NotFinishedError(f"this fit asks {count} queries: run it in a Session with an oracle")


def answered(fit: Fit[T], oracle: Oracle) -> Fit[T]:
    """Answer the queries of a fit by this oracle, without asking anybody; its scored rules are passed on."""
    answers: Any = None
    try:
        while True:
            asked = fit.send(answers)
            answers = None
            if isinstance(asked, list):
                answers = [query.checked(oracle.answer(query)) for query in asked]
            else:
                yield asked
    except StopIteration as done:
        found: T = done.value
        return found


def asking(
    fit: Fit[T], *, about: Callable[[Query], Query] | None = None, as_rule: Callable[[Any], Any] | None = None
) -> Fit[T]:
    """Pass on the queries of a fit, changed by ``about``, and its scored rules, changed by ``as_rule`` or dropped."""
    answers: Any = None
    try:
        while True:
            asked = fit.send(answers)
            if isinstance(asked, list):
                answers = yield asked if about is None else [about(query) for query in asked]
            else:
                answers = None
                if as_rule is not None:
                    yield ScoredRule(score=asked.score, make=partial(_made, as_rule, asked))
    except StopIteration as done:
        found: T = done.value
        return found


def _made(as_rule: Callable[[Any], Any], found: ScoredRule) -> Any:
    """Return the classifier of a scored rule, changed by ``as_rule``."""
    return as_rule(found.rule)


def _numbers(answer: Any) -> FloatArray | None:
    """Return an answer as floats, or None if it holds anything but real numbers (booleans are not accepted)."""
    try:
        array = np.asarray(answer)
    except ValueError:
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None
