"""The service behind the web application: who may ask what, what it costs, and the stored answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from postshift._validation import check_count
from postshift.exceptions import BadQueryError, KindError, SettingError
from postshift.oracle.answers import MOST_COUNTS, Answers, ServiceQuery
from postshift.oracle.charges import Answered, Charge
from postshift.oracle.holdings import KINDS_OF_ANSWER, Holdings, KindOfAnswer, Mode
from postshift.oracle.ledger import Ledger
from postshift.oracle.ledger_log import LogLine
from postshift.oracle.privacy import attack_bound, epsilon_of
from postshift.oracle.tokens import Token, TokenUse
from postshift.oracle.wire import GRID, MICRO, encoded

DELTA = 1e-5
_DTYPES = {"i": "i8", "f": "f8", "u": "i8"}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the owner allows.

    Attributes
    ----------
    mode : {"private", "trusted"}
        Private: counts with noise, and a budget of micro-rho. Trusted: exact answers, and a budget of queries.
    kinds : tuple of {"table", "confusion", "value"}
        Which kinds of query are answered.
    budget : int
        Micro-rho or queries, for this data set: all tokens share it.
    title : str
        What the data set is called.
    delta : float
        The delta at which epsilon is shown.
    """

    mode: Mode
    kinds: tuple[KindOfAnswer, ...]
    budget: int
    title: str = "validation rows"
    delta: float = DELTA


class Service:
    """Answers the queries of learners, and charges them.

    Parameters
    ----------
    holdings : Holdings
        What the owner holds.
    terms : Terms
        What the owner allows.
    ledger : Ledger
        Where charges and answers are kept.
    """

    def __init__(self, holdings: Holdings, terms: Terms, ledger: Ledger) -> None:
        self.check(holdings, terms)
        self.holdings, self.terms, self.ledger = holdings, terms, ledger
        self._answers = Answers(holdings, terms.mode)

    @staticmethod
    def check(holdings: Holdings, terms: Terms) -> None:
        """Raise if what is held cannot be asked about on these terms."""
        Answers(holdings, terms.mode)
        strange = [kind for kind in terms.kinds if kind not in KINDS_OF_ANSWER]
        if strange or not terms.kinds:
            got = ", ".join(map(repr, strange)) or "none"
            raise SettingError(f"kinds must be some of {', '.join(KINDS_OF_ANSWER)}. Got {got}")
        if holdings.psi is None and terms.kinds != ("value",):
            raise SettingError("a metric that reads single rows has no confusion matrix: allow the kind value only")
        check_count(terms.budget, name="budget", low=1)
        n_counts = holdings.n_categories * holdings.n_classes
        if terms.mode == "private" and "value" in terms.kinds and n_counts > MOST_COUNTS:
            raise SettingError(
                f"a value would need {n_counts} counts with noise, and an answer has at most {MOST_COUNTS}: allow the "
                "kind table only"
            )

    @cached_property
    def about(self) -> dict[str, Any]:
        """What a learner may know before asking: it does not depend on the labels."""
        holdings, terms = self.holdings, self.terms
        metric = holdings.metric if isinstance(holdings.metric, str) else None
        return {
            "title": terms.title,
            "mode": terms.mode,
            "kinds": list(terms.kinds),
            "metric": metric,
            "metric_name": str(getattr(holdings.goal, "name", metric)),
            "distributions": holdings.takes_distributions,
            "scale": float(getattr(holdings.goal, "scale", 1.0)),
            "classes": list(map(str, holdings.classes)),
            "groups": list(map(str, holdings.group_names)),
            "categories": holdings.n_categories,
            "rows": holdings.n_rows,
            "grid": GRID,
            "most_counts": MOST_COUNTS,
            "unit": "micro-rho" if terms.mode == "private" else "queries",
        }

    def budget(self) -> dict[str, Any]:
        """Return the budget: all of it, what is spent and what is left; in private mode as (epsilon, delta) too."""
        found = self.ledger.budget()
        parts: dict[str, Any] = {"total": found.total, "spent": found.spent, "left": found.left}
        parts["answers"] = found.n_answers
        if self.terms.mode == "private":
            parts["delta"] = self.terms.delta
            for name in ("total", "spent", "left"):
                parts[f"{name}_epsilon"] = self.epsilon(parts[name])
            parts["attack_bound"] = attack_bound(found.total)
        return parts

    def epsilon(self, micro_rho: int) -> float:
        """Return the epsilon of some micro-rho at the delta of the terms; 0 for nothing."""
        return epsilon_of(micro_rho, delta=self.terms.delta) if micro_rho else 0.0

    def quote(self, query: ServiceQuery) -> dict[str, Any]:
        """Return what a query costs and would leave; nothing is charged."""
        found = self._known(query)
        cost, left = 0 if found else query.cost, self.ledger.budget().left
        parts: dict[str, Any] = {"cost": cost, "repeated": found is not None, "left": left, "affordable": cost <= left}
        if self.terms.mode == "private":
            parts |= {"epsilon": self.epsilon(cost), "delta": self.terms.delta}
        return parts

    def answer(self, query: ServiceQuery, token: Token) -> Answered:
        """Return the answer to a query; the same query again gets the stored answer, free."""
        known = self._known(query)
        if known is not None:
            return known
        self.ledger.check(token.id, cost=query.cost)  # before any work: a refusal takes no time of the metric
        payload = payload_of(self._answers.answer(query))
        charge = Charge(
            key=query.key(self.holdings.digest),
            kind=query.kind,
            cost=query.cost,
            token=token.id,
            text=_in_words(query, self.terms.mode),
        )
        return self.ledger.charge(charge, payload)

    def _known(self, query: ServiceQuery) -> Answered | None:
        """Return the stored answer, if there is one; raise if the query is not allowed."""
        if query.kind not in self.terms.kinds:
            raise KindError(
                f"queries of kind {query.kind!r} are not answered here: ask for {' or '.join(self.terms.kinds)}"
            )
        if self.terms.mode == "trusted" and query.cost != 1:
            raise BadQueryError(f"in trusted mode, the cost of a query is 1. Got cost {query.cost}", code="bad_cost")
        self._answers.check(query)
        return self.ledger.stored(query.key(self.holdings.digest))


def token_line(use: TokenUse) -> dict[str, Any]:
    """Return what the owner sees of a token, as JSON; there is nothing secret in it."""
    token = use.token
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "expires": _in_utc(token.expires),
        "revoked": _in_utc(use.revoked),
        "most": token.most,
        "spent": use.spent,
        "answers": use.n_answers,
        "last_used": _in_utc(use.last_used),
    }


def log_line(line: LogLine) -> dict[str, Any]:
    """Return what the owner sees of a line of the log, as JSON."""
    names = ("number", "event", "token", "kind", "cost", "text")
    return {**{name: getattr(line, name) for name in names}, "time": _in_utc(line.time)}


def _in_utc(time: datetime | None) -> str | None:
    """Return a time as text."""
    return None if time is None else time.astimezone(UTC).isoformat(timespec="seconds")


def payload_of(answer: Any) -> bytes:
    """Return an answer as the bytes that are stored and sent."""
    return json.dumps(encoded(answer, _DTYPES[answer.dtype.kind])).encode()


def _in_words(query: ServiceQuery, mode: Mode) -> str:
    """Return a query in words, for the log."""
    cost = f"rho {query.cost / MICRO:g}" if mode == "private" else "one query"
    if query.cells is not None:
        return f"{query.kind} of {int(query.cells.max()) + 1} cells, {cost}"
    shown = "labels" if query.predictions is not None and query.predictions.ndim == 1 else "distributions"
    return f"{query.kind} of {shown}, {cost}"
