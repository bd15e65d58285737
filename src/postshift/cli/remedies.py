"""What to do about a file whose columns do not fit: an option of the fit, or other columns where a run says which."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """The ends of messages that name options: every command advises only what it can take.

    Attributes
    ----------
    columns : str
        Where the probability columns are not there.
    sums : str
        Where probabilities do not sum to 1.
    features : str
        Where a model's columns are not there.
    whose : str
        What follows the name of an option.
    """

    columns: str
    sums: str
    features: str
    whose: str = ""

    def option(self, name: str) -> str:
        """Return how the option is called that named a column."""
        return f"--{name}{self.whose}"


OF_FIT = Remedies(
    columns="name the columns of two classes or more with --proba",
    sums="repair them, or add --normalise to divide each row by its sum",
    features="give the columns that it was fitted to (--features chooses them)",
)
OF_RUN = Remedies(
    columns="give the columns that --proba of the fit names",
    sums="repair them, or fit again with --normalise, which divides each row by its sum",
    features="give the columns of the fit",
    whose=" of the fit",
)
