"""Constraints as people write them: ``"recall[fraud] >= 0.9"``, or ``Recall("fraud") >= 0.9``.

====================================  ==========================================================
text                                  meaning
====================================  ==========================================================
``recall[fraud] >= 0.9``              recall of one class; so too precision, f1, jaccard
``rate[fraud] <= 0.02``               share of rows that are predicted to be of a class
``demographic_parity <= 0.05``        a gap between groups; so too equal_opportunity, equalized_odds
``balanced_accuracy >= 0.8``          any metric of the catalogue
====================================  ==========================================================

Objects take the label itself, and a metric that has no name: ``Value(ExpectedCost(matrix)) <= 0.3``. It may be a
function of labels: ``Value(profit) >= 0.2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

from postshift._validation import check_in_range
from postshift.exceptions import SettingError
from postshift.metrics.catalogue import GAPS, METRICS
from postshift.metrics.grammar import read_term

Sense = Literal[">=", "<="]
RATE = "rate"  # how often a class is predicted
_FORM = re.compile(r"(?P<term>.+?)\s*(?P<sense>>=|<=|≥|≤)\s*(?P<bound>[^<>=≤≥]+)", re.DOTALL)
_SENSES: dict[str, Sense] = {">=": ">=", "<=": "<=", "≥": ">=", "≤": "<="}


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """The left side of a constraint: a metric, and the class that it is about.

    Examples
    --------
    >>> str(Term("recall", "fraud") >= 0.9)
    'recall[fraud] >= 0.9'
    """

    metric: Any
    label: Any = None

    @property
    def is_of_open_class(self) -> bool:
        """Whether the term has a name, is about one class, and does not say which."""
        name = self.metric
        if not isinstance(name, str) or self.label is not None:
            return False
        return name == RATE or name in GAPS or (name in METRICS and METRICS[name].is_of_one_class)

    def __ge__(self, bound: float) -> Constraint:
        """Return the constraint that the term is at least ``bound``."""
        return Constraint(term=self, sense=">=", bound=bound)

    def __le__(self, bound: float) -> Constraint:
        """Return the constraint that the term is at most ``bound``."""
        return Constraint(term=self, sense="<=", bound=bound)

    def __str__(self) -> str:
        name = self.metric if isinstance(self.metric, str) else getattr(self.metric, "name", None)
        name = name or getattr(self.metric, "__name__", type(self.metric).__name__)
        return str(name) if self.label is None else f"{name}[{self.label}]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constraint:
    """A term, at least or at most a bound.

    Attributes
    ----------
    term : Term
        What is bounded.
    sense : {">=", "<="}
        At least, or at most.
    bound : float
        The bound.
    margin : float
        How many standard errors the fit stays on the safe side of the bound.

    Examples
    --------
    >>> constraint = Constraint.read("precision[spam] >= 0.95")
    >>> constraint.term.metric, constraint.term.label, constraint.sense, constraint.bound
    ('precision', 'spam', '>=', 0.95)
    """

    term: Term
    sense: Sense
    bound: float
    margin: float = 0.0

    def __post_init__(self) -> None:
        """Raise if the bound or the margin is not a number in range; store plain numbers."""
        bound = check_in_range(self.bound, name=f"the bound of {self.term}", low=-1e300, high=1e300)
        margin = check_in_range(self.margin, name=f"the margin of {self.term}", low=0, high=100)
        object.__setattr__(self, "bound", bound)
        object.__setattr__(self, "margin", margin)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the constraint of a text; raise if it has another form."""
        found = _FORM.fullmatch(text.strip())
        try:
            if found is None:
                raise ValueError  # noqa: TRY301
            bound = float(found["bound"])
        except ValueError as error:
            raise SettingError(
                "a constraint must have the form 'recall[CLASS] >= 0.9' or 'demographic_parity <= 0.05'. "
                f"Got {text!r} instead"
            ) from error
        return cls(term=Term(*read_term(found["term"])), sense=_SENSES[found["sense"]], bound=bound)

    @property
    def sign(self) -> float:
        """1 if the term is at most the bound, -1 if it is at least the bound."""
        return 1.0 if self.sense == "<=" else -1.0

    def __str__(self) -> str:
        return f"{self.term} {self.sense} {self.bound:g}"


def read_constraints(subject_to: Any, *, margin: Any = 0.0) -> tuple[Constraint, ...]:
    """Return constraints from a text, a constraint, or several of them.

    ``margin`` is one number for all, or a mapping from the text of a constraint to its margin.
    """
    given = [subject_to] if isinstance(subject_to, str | Constraint) else list(_several(subject_to))
    found = tuple(_one(each) for each in given)
    if not isinstance(margin, Mapping):
        return tuple(replace(each, margin=margin) if each.margin == 0 else each for each in found)
    named = {str(_one(text)): value for text, value in margin.items()}
    if strangers := sorted(set(named) - {str(each) for each in found}):
        raise SettingError(f"margin is given for {strangers}, and the constraints are {[str(each) for each in found]}")
    return tuple(replace(each, margin=named.get(str(each), each.margin)) for each in found)


def _several(subject_to: Any) -> Iterable[Any]:
    """Return the constraints of a collection; raise if it is none, or empty."""
    if not isinstance(subject_to, Iterable) or not (several := list(subject_to)):
        raise SettingError(
            f"subject_to must be a constraint such as 'recall[fraud] >= 0.9', or a list of them. Got {subject_to!r}"
        )
    return several


def _one(given: Any) -> Constraint:
    """Return one constraint; a comparison that Python has already evaluated is an error."""
    if isinstance(given, Constraint):
        return given
    if isinstance(given, str):
        return Constraint.read(given)
    raise SettingError(
        "a constraint must be a text such as 'recall[fraud] >= 0.9', or an object such as Recall('fraud') >= 0.9. "
        f"Got {given!r} instead"
    )


Value = Term
Recall = partial(Term, "recall")
Precision = partial(Term, "precision")
F1 = partial(Term, "f1")
Rate = partial(Term, "rate")
DemographicParity = partial(Term, "demographic_parity")
EqualOpportunity = partial(Term, "equal_opportunity")
EqualizedOdds = partial(Term, "equalized_odds")
