"""Every error and warning that postshift raises on purpose.

::

    PostshiftError
    ├── InputError (ValueError)          what was given cannot be used
    │   ├── ShapeError                     arrays whose shapes do not fit each other
    │   ├── ProbabilityError               eta is not a table of class distributions
    │   ├── LabelError                     labels outside 0..m-1, or not whole numbers
    │   ├── WeightError                    sample weights that are negative, NaN or all zero
    │   ├── BasisError                     phi outside [0, 1], empty, or not covering every row
    │   ├── MissingClassError              the metric needs the recall of a class that has no row
    │   └── SettingError                   a parameter outside its range
    ├── SingularProbesError (ArithmeticError)   no probe changed what the weights weigh
    ├── AnswerError (ValueError)         an answer that is no finite number, or of the wrong shape
    ├── UnknownQueryError (KeyError)  an answer to a query that is not open
    ├── NotFinishedError (RuntimeError)  the result of a run that still has queries
    ├── BudgetError (ValueError)         the budget does not pay for one iteration
    ├── MetricError (RuntimeError)       the user's metric raised, or cannot serve the query
    ├── ArchiveError (ValueError)        a saved run or mixture that cannot be read here
    │   └── UntrustedError                 a file that holds types or functions that its reader did not trust
    ├── ExportError (TypeError)          a model, or a part of it, that cannot be saved in the format asked for
    ├── EngineError (RuntimeError)       the cluster that holds the rows cannot be reached, or lost its workers
    └── DataNotFoundError (FileNotFoundError)   a data set that is in none of the known places

    PostshiftWarning (UserWarning)
    ├── MissingClassWarning              a class without rows, where that can be borne
    ├── SmallValidationWarning           so few validation rows that small gains are noise
    ├── EmptyBasisWarning                a basis function without rows
    └── DuplicateBasisWarning            a basis function that is the same as another
"""

from __future__ import annotations

from collections.abc import Sequence


class PostshiftError(Exception):
    """Base of every error of this library."""


class InputError(PostshiftError, ValueError):
    """What was given cannot be used; the message says why and what to do."""


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


class SingularProbesError(PostshiftError, ArithmeticError):
    """None of the probing classifiers changed what the weights weigh."""


class AnswerError(PostshiftError, ValueError):
    """An answer that cannot be used; the run stays as it was and the query stays open."""


class UnknownQueryError(PostshiftError, KeyError):
    """An answer to a query that is not open."""

    def __str__(self) -> str:
        """Show the message as written: ``KeyError`` would show its repr."""
        return str(self.args[0])


class NotFinishedError(PostshiftError, RuntimeError):
    """The result was asked of a run that still has open queries."""


class BudgetError(PostshiftError, ValueError):
    """The budget does not pay for a single iteration."""


class MetricError(PostshiftError, RuntimeError):
    """The user's metric raised, or cannot serve what the run needs."""


class ArchiveError(PostshiftError, ValueError):
    """A saved run or mixture that cannot be read, or belongs to other data."""


class UntrustedError(ArchiveError):
    """A file that holds types or functions that its reader did not trust; ``names`` are their full names."""

    def __init__(self, message: str, *, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class ExportError(PostshiftError, TypeError):
    """A model, or a part of it, that cannot be saved in the format asked for."""


class EngineError(PostshiftError, RuntimeError):
    """The cluster that holds the rows cannot be reached, has lost its workers, or takes longer than allowed."""


class DataNotFoundError(PostshiftError, FileNotFoundError):
    """A data set that is in none of the known places."""


class PostshiftWarning(UserWarning):
    """Base of every warning of this library."""


class MissingClassWarning(PostshiftWarning):
    """A class has no training or no validation row; a fit is possible without it."""


class SmallValidationWarning(PostshiftWarning):
    """So few validation rows that small gains are noise; the message has the size of the noise."""


class EmptyBasisWarning(PostshiftWarning):
    """A basis function without rows: dropped where the basis is fitted, given the others' average weights later on."""


class DuplicateBasisWarning(PostshiftWarning):
    """A basis function is the same as another on the rows where the basis is fitted; it is dropped."""
