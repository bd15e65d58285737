"""How numbers are written: scores, shares, counts and weights."""

from __future__ import annotations

MINUS = "−"
NO_BREAK = "\u00a0"


def number(value: float, *, signed: bool = False) -> str:
    """Return a score: three decimals, one if it is large."""
    decimals = 3 if abs(value) < 100 else 1
    text = f"{value:+,.{decimals}f}" if signed else f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = f"{0:.{decimals}f}"
    return text.replace("-", MINUS)


def interval(limits: tuple[float, float], *, signed: bool = False) -> str:
    """Return the limits of an interval."""
    low, high = (number(each, signed=signed) for each in limits)
    return f"{low} to {high}"


def percent(share: float) -> str:
    """Return a share in per cent, with one decimal if it is small."""
    return f"{100 * share:.{0 if share >= 0.1 or share == 0 else 1}f}{NO_BREAK}%"


def amount(value: float, *, signed: bool = False) -> str:
    """Return a count, or a sum of weights with up to two decimals."""
    whole = float(value).is_integer()
    text = f"{value:+,.0f}" if whole else f"{value:+,.1f}" if abs(value) >= 10 else f"{value:+,.2f}"
    if value == 0 or not signed:
        text = text.removeprefix("+")
    return text.replace("-", MINUS)


def factor(weight: float) -> str:
    """Return a weight as a factor, with two significant digits below 10."""
    decimals = 0 if weight >= 10 else 1 if weight >= 1.95 else 2
    return f"×{weight:,.{decimals}f}" if weight >= 0.01 else "×<0.01"


def rows(n_rows: int) -> str:
    """Return a number of rows."""
    return f"{n_rows:,} row{'' if n_rows == 1 else 's'}"
