"""The port between the loop and whoever owns the metric: queries, oracles, and the conversation.

The loop never calls a metric. It asks, and a *oracle* answers: a local function, a service, a person.
An oracle says which of three kinds of query it can serve:

===========  =============================  ========================================================
kind         the oracle is shown            and answers
===========  =============================  ========================================================
confusion    distributions (n, m) and       (1 + L, R, m): for every column k, the share of weight
             columns (n, 1 + L)             ``sum_n w columns_nk 1(category=i) h_nj / sum_n w``
soft         distributions (n, m)           the value of this randomised classifier, a number
hard         labels (n,)                    the value of these labels, a number
===========  =============================  ========================================================

The R categories of a row are its true classes (R = m) unless the metric says otherwise (``n_categories``): then
they may be the (group, class) pairs of a group-wise metric. What is shown is read-only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from postshift._validation import LARGEST, FloatArray, IntArray, read_only
from postshift.exceptions import AnswerError

Kind = Literal["confusion", "soft", "hard"]
_SHARE_TOLERANCE = 1e-6
_DECIMALS = 12  # tables that agree to this many decimals are the same query


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Query:
    """What one classifier scores on the validation rows.

    Attributes
    ----------
    key : str
        Its name within the run, to be given back with the answer.
    kind : {"confusion", "soft", "hard"}
        What is shown, and what is to be answered.
    text : str
        The query in words.
    n_rows : int
        Number of validation rows of the whole sample.
    rows : array of int, optional
        The validation rows it is about; None for all.
    columns : array of shape (n, 1 + L), optional
        For kind "confusion": ones, then the basis functions.
    """

    key: str
    kind: Kind
    text: str
    n_rows: int
    rows: IntArray | None
    columns: FloatArray | None = None
    _predict: Callable[[], Any] = field(repr=False)

    @property
    def predictions(self) -> Any:
        """Distributions (n, m), or labels (n,) for kind "hard", on ``rows``. Computed when asked for, read-only."""
        return read_only(self._predict())

    def renamed(self, key: str) -> Query:
        """Return the same query under another name."""
        return replace(self, key=key)

    def restricted(self, rows: IntArray, *, n_rows: int) -> Query:
        """Return a query about a sample of its own as one about some ``rows`` of a larger sample."""
        return replace(self, rows=rows, n_rows=n_rows, text=f"{self.text}, on {len(rows)} of the rows")

    def fingerprint(self) -> str:
        """Return a digest of what is shown: equal digests are the same query."""
        shown = self.predictions
        if self.kind != "hard":
            shown = np.round(shown, _DECIMALS) + 0.0  # + 0.0 turns -0.0 into 0.0
        digest = hashlib.blake2b(self.kind.encode(), digest_size=16)
        if self.rows is not None:
            digest.update(np.asarray(self.rows, dtype="<i8").tobytes())
        digest.update(np.asarray(shown, dtype="<i8" if self.kind == "hard" else "<f8").tobytes())
        return digest.hexdigest()


class Oracle(Protocol):
    """Whoever answers."""

    kind: Kind
    takes_subsets: bool

    def answer(self, query: Query) -> Any:
        """Return the answer to one query."""


class Conversation(Protocol):
    """A run that asks and is told."""

    def ask(self) -> tuple[Query, ...]:
        """Return the open queries; none when the run is finished."""

    def tell(self, key: str, answer: Any) -> None:
        """Give the answer to an open query."""


def converse(run: Conversation, oracle: Oracle, *, on_answer: Callable[[Query, Any], None] | None = None) -> None:
    """Let an oracle answer until the run has no query left.

    Parameters
    ----------
    run : Conversation
        The run; it keeps every answer, so a conversation broken off by an error can be taken up again.
    oracle : Oracle
        Whoever answers.
    on_answer : callable, optional
        Called with each query and its answer: for progress bars, logs, saving.
    """
    while queries := run.ask():
        for query in queries:
            answer = oracle.answer(query)
            run.tell(query.key, answer)
            if on_answer is not None:
                on_answer(query, answer)


def check_number(query: Query, answer: Any) -> float:
    """Return the answer as a float, refused unless it is one finite number."""
    value = _numbers(answer)
    if value is None or value.ndim != 0 or not np.isfinite(value):
        raise AnswerError(_refusal(query, answer, "one finite number"))
    if abs(float(value)) > LARGEST:
        raise AnswerError(_refusal(query, answer, f"one number of at most {LARGEST:g}, larger ones overflow"))
    return float(value)


def check_confusions(query: Query, answer: Any, *, shape: tuple[int, int, int]) -> FloatArray:
    """Return a copy of the answer (1 + L, R, m), refused where it cannot be shares of weight.

    The first matrix belongs to all rows and sums to 1; the others are parts of it, for phi is in [0, 1].
    """
    expected = f"an array of shape {shape} of shares of weight, the first matrix summing to 1, the others parts of it"
    table = _numbers(answer)
    if table is None or table.shape != shape:
        shown = answer if table is None else f"shape {table.shape}"
        raise AnswerError(_refusal(query, shown, expected))
    if not np.isfinite(table).all() or (table < 0).any():
        raise AnswerError(_refusal(query, "NaN, infinite or negative shares", expected))
    total = float(table[0].sum())
    if abs(total - 1) > _SHARE_TOLERANCE:
        raise AnswerError(_refusal(query, f"a first matrix that sums to {total:g}", expected))
    if (table > table[0] + _SHARE_TOLERANCE).any():
        raise AnswerError(_refusal(query, "entries above those of the first matrix", expected))
    return np.array(table)


def _numbers(answer: Any) -> FloatArray | None:
    """Return an answer as floats, or None where it holds anything but real numbers (True is none)."""
    try:
        array = np.asarray(answer)
    except ValueError:
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def _refusal(query: Query, answer: Any, expected: str) -> str:
    """Say which query was answered how."""
    return (
        f"the answer to query {query.key!r} ({query.text}) must be {expected}. Got {answer!r} instead; "
        "the query is still open: answer it again"
    )
