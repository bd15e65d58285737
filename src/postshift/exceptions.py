"""The errors and warnings of postshift.

::

    PostshiftError
    ├── InputError (ValueError)          an argument that cannot be used
    │   ├── ShapeError                     arrays whose shapes do not fit each other
    │   ├── ProbabilityError               eta is not a table of class distributions
    │   ├── LabelError                     labels outside 0..m-1, or not whole numbers
    │   ├── WeightError                    sample weights that are negative, NaN or all zero
    │   ├── BasisError                     phi outside [0, 1], empty, or not covering every row
    │   ├── MissingClassError              the metric needs the recall of a class that has no row
    │   └── SettingError                   a parameter outside its range
    ├── InfeasibleError (ValueError)     limits that no classifier meets together
    ├── NotCertifiedError (ValueError)   no rule could be certified with these rows
    ├── SolverError (RuntimeError)       the linear program could not be solved
    ├── SingularProbesError (ArithmeticError)   no probe changed a confusion
    ├── AnswerError (ValueError)         an answer that is not a finite number, or has the wrong shape
    ├── UnknownQueryError (KeyError)     an answer to a query that is not open
    ├── NotFinishedError (RuntimeError)  the result of a run that still has open queries
    ├── BudgetError (ValueError)         the budget is too small for one iteration
    │   └── BudgetEndedError               the budget of the oracle has ended
    ├── MetricError (RuntimeError)       the user's metric raised an error, or cannot answer the query
    ├── ArchiveError (ValueError)        a saved run or mixture that cannot be read
    │   └── UntrustedError                 a file with types or functions that are not trusted
    ├── ExportError (TypeError)          a model, or a part of it, that cannot be saved in this format
    ├── EngineError (RuntimeError)       the cluster with the rows cannot be reached, or lost its workers
    ├── OracleError (RuntimeError)       the metric's owner gives no answer; `code` names the reason for programs
    │   ├── LedgerError                    the ledger cannot be read or written
    │   │   ├── DamagedLedgerError         its content was damaged or changed
    │   │   ├── RestoredError              it is an older copy that forgot answers
    │   │   ├── OtherDataError             it belongs to other data or labels
    │   │   └── ClockError                 the clock was set back
    │   ├── TokenError                     this token gives no access
    │   │   ├── UnknownTokenError          it is not known
    │   │   ├── ExpiredTokenError          its time is over
    │   │   └── RevokedTokenError          the owner revoked it
    │   ├── OverBudgetError                the budget of the data does not cover the cost
    │   ├── TokenBudgetError               the budget of this token does not cover the cost
    │   ├── TooFastError                   too many answers in a minute
    │   ├── BadQueryError                  a query that cannot be answered as it is
    │   ├── KindError                      a kind of query that is not answered
    │   └── RemoteError                    a service that cannot be reached, or refuses
    └── DataNotFoundError (FileNotFoundError)   a data set that was not found in any known place

    PostshiftWarning (UserWarning)
    ├── MissingClassWarning              a class without rows; the fit continues without it
    ├── SmallValidationWarning           too few validation rows to tell small gains from noise
    ├── ConstraintWarning                a constraint that does not hold on rows that were not used for the fit
    ├── EmptyBasisWarning                a basis function without rows
    └── DuplicateBasisWarning            a basis function that is the same as another
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PostshiftError(Exception):
    """Base of every error of this library."""


class InputError(PostshiftError, ValueError):
    """An argument cannot be used; the message says why and what to do."""


class ShapeError(InputError):
    """Arrays whose shapes do not fit each other."""


class ProbabilityError(InputError):
    """``eta`` is not a table of class distributions."""


class LabelError(InputError):
    """Labels that are not whole numbers in ``0..n_classes-1``."""


class WeightError(InputError):
    """Sample weights that are negative, not finite or all zero."""


class BasisError(InputError):
    """Basis functions outside [0, 1], none at all, or not covering every row."""


class MissingClassError(InputError):
    """The metric needs the recall of a class that has no validation row."""


class SettingError(InputError):
    """A parameter outside its range."""


class InfeasibleError(PostshiftError, ValueError):
    """Limits that no classifier meets together.

    ``conflict`` names the limits that exclude each other; ``nearest`` is the solution that comes closest.
    """

    def __init__(self, message: str, *, conflict: Sequence[str] = (), nearest: Any = None) -> None:
        super().__init__(message)
        self.conflict, self.nearest = tuple(conflict), nearest


class NotCertifiedError(PostshiftError, ValueError):
    """No rule could be certified with these rows.

    ``rule`` is the one that came closest, ``p_value`` that of its tests, and ``rows_needed`` about how many labelled
    rows would certify it; None if it has no room to spare.
    """

    def __init__(self, message: str, *, rule: Any = None, p_value: float = 1.0, rows_needed: int | None = None) -> None:
        super().__init__(message)
        self.rule, self.p_value, self.rows_needed = rule, p_value, rows_needed


class SolverError(PostshiftError, RuntimeError):
    """The solver of linear programs gave no solution."""


class SingularProbesError(PostshiftError, ArithmeticError):
    """None of the probing classifiers changed a confusion that has a weight."""


class AnswerError(PostshiftError, ValueError):
    """An answer that cannot be used; the run does not change and the query stays open."""


class UnknownQueryError(PostshiftError, KeyError):
    """An answer to a query that is not open."""

    def __str__(self) -> str:
        """Return the message; ``KeyError`` would return its repr."""
        return str(self.args[0])


class NotFinishedError(PostshiftError, RuntimeError):
    """A run that still has open queries has no result yet."""


class BudgetError(PostshiftError, ValueError):
    """The budget is too small for a single iteration."""


class BudgetEndedError(BudgetError):
    """The budget of the oracle does not cover a query. ``left`` is what it covers, if that is known."""

    def __init__(self, message: str, *, left: int | None = None) -> None:
        super().__init__(message)
        self.left = left


class MetricError(PostshiftError, RuntimeError):
    """The user's metric raised an error, or cannot answer the queries of the run."""


class ArchiveError(PostshiftError, ValueError):
    """A saved run or mixture that cannot be read, or belongs to other data."""


class UntrustedError(ArchiveError):
    """A file with types or functions that are not trusted; ``names`` are their full names."""

    def __init__(self, message: str, *, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class ExportError(PostshiftError, TypeError):
    """A model, or a part of it, that cannot be saved in this format."""


class EngineError(PostshiftError, RuntimeError):
    """The cluster with the rows cannot be reached, has lost its workers, or takes longer than allowed."""


class OracleError(PostshiftError, RuntimeError):
    """The metric's owner gives no answer. ``code`` names the reason for programs."""

    code = "oracle"


class LedgerError(OracleError):
    """The ledger cannot be read or written, or is not used as it must be."""

    code = "ledger"


class DamagedLedgerError(LedgerError):
    """The content of the ledger was damaged, or changed by something else than postshift."""

    code = "damaged_database"


class RestoredError(LedgerError):
    """The ledger is an older copy that forgot answers which were given out.

    ``n_missing`` is the number of answers and ``spent`` what they cost; None if the two have different histories.
    """

    code = "restored_database"

    def __init__(self, message: str, *, n_missing: int | None = None, spent: int | None = None) -> None:
        super().__init__(message)
        self.n_missing, self.spent = n_missing, spent


class OtherDataError(LedgerError):
    """The ledger belongs to other data or labels."""

    code = "other_data"


class ClockError(LedgerError):
    """The clock was set back; times in the ledger never go back."""

    code = "clock_set_back"


class TokenError(OracleError):
    """A token that gives no access."""

    code = "token"


class UnknownTokenError(TokenError):
    """A token that is not known."""

    code = "unknown_token"


class ExpiredTokenError(TokenError):
    """A token whose time is over."""

    code = "expired_token"


class RevokedTokenError(TokenError):
    """A token that the owner revoked."""

    code = "revoked_token"


class OverBudgetError(OracleError):
    """The budget of the data does not cover the cost; nothing was charged. ``left`` is what it covers."""

    code = "over_budget"

    def __init__(self, message: str, *, left: int | None = None) -> None:
        super().__init__(message)
        self.left = left


class TokenBudgetError(OracleError):
    """The budget of the token does not cover the cost; nothing was charged. ``left`` is what it covers."""

    code = "token_budget"

    def __init__(self, message: str, *, left: int | None = None) -> None:
        super().__init__(message)
        self.left = left


class TooFastError(OracleError):
    """Too many answers in a minute; nothing was charged. ``wait`` is the number of seconds to wait."""

    code = "too_fast"

    def __init__(self, message: str, *, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class BadQueryError(OracleError):
    """A query that cannot be answered as it is: wrong lengths, unknown rows, numbers that are not finite."""

    code = "bad_query"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.code


class KindError(OracleError):
    """A kind of query that the owner does not allow."""

    code = "kind_not_allowed"


class RemoteError(OracleError):
    """A service that cannot be reached, or that refuses; ``code`` is the service's code."""

    code = "remote"


class DataNotFoundError(PostshiftError, FileNotFoundError):
    """A data set that was not found in any known place."""


class PostshiftWarning(UserWarning):
    """Base of every warning of this library."""


class MissingClassWarning(PostshiftWarning):
    """A class has no training or no validation row; a fit is possible without it."""


class SmallValidationWarning(PostshiftWarning):
    """Too few validation rows to tell small gains from noise; the message has the size of the noise."""


class ConstraintWarning(PostshiftWarning):
    """A constraint that does not hold on validation rows that were not used for the fit."""


class EmptyBasisWarning(PostshiftWarning):
    """A basis function without rows: dropped when the basis is fitted; later it gets the others' mean weights."""


class DuplicateBasisWarning(PostshiftWarning):
    """A basis function that equals another on the rows of the fit; it is dropped."""
