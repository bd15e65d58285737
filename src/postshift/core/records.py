"""The records of a run: its settings, its trace, its state and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from postshift._validation import FloatArray, check_count, check_in_range
from postshift.core.constrained import ConstrainedProbes
from postshift.core.elicitation import RCOND
from postshift.core.mixture import Mixture
from postshift.core.moments import ClassifierSums
from postshift.core.weighting import DIAGONAL, weighting_named
from postshift.exceptions import SettingError

Status = Literal["running", "finished", "flat"]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What defines any run: the number of iterations, a budget, a seed."""

    max_iter: int = 30
    budget: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        """Refuse values outside their ranges; keep plain numbers, whatever they were given as."""
        object.__setattr__(self, "max_iter", check_count(self.max_iter, name="max_iter", low=1))
        object.__setattr__(self, "random_state", check_count(self.random_state, name="random_state", low=0))
        if self.budget is not None:
            object.__setattr__(self, "budget", check_count(self.budget, name="budget", low=1))


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """What defines a run of the paper's method, apart from the data.

    Attributes
    ----------
    weighting : {"diagonal", "columns", "full"}
        What the example weights are put on; usually what the metric says it depends on.
    radius : float in (0, 1]
        How far the probes stand from the current classifier (the paper's epsilon).
    max_iter : int
        Number of Frank-Wolfe iterations T; 1 is PI-EW.
    linearise : {"probes", "gradient"}
        Whether a known psi is evaluated at the probes or differentiated (confusion queries only).
    rcond, ridge : float
        Of the least-squares solve, see :func:`postshift.core.elicitation.elicit`.
    min_hit, max_leak : float, optional
        gamma and omega of Eq. (11): both given, the constrained probes are used (disjoint groups only).
    budget : int, optional
        The most queries that may be asked; iterations that it cannot pay for are not begun.
    random_state : int
        Seed of the draws by which hard labels are asked about.
    """

    weighting: str = "diagonal"
    radius: float = 0.1
    linearise: Literal["probes", "gradient"] = "probes"
    rcond: float = RCOND
    ridge: float = 0.0
    min_hit: float | None = None
    max_leak: float | None = None

    def __post_init__(self) -> None:
        """Refuse values outside their ranges."""
        super().__post_init__()
        checked: dict[str, Any] = {
            "radius": check_in_range(self.radius, name="radius", low=0, high=1, open_low=True),
            "rcond": check_in_range(self.rcond, name="rcond", low=0, high=1, open_high=True),
            "ridge": check_in_range(self.ridge, name="ridge", low=0, high=np.inf, open_high=True),
        }
        for name in ("min_hit", "max_leak"):
            if getattr(self, name) is not None:
                checked[name] = check_in_range(getattr(self, name), name=name, low=0, high=1, open_low=True)
        for name, value in checked.items():  # plain numbers, whatever they were given as
            object.__setattr__(self, name, value)
        weighting_named(self.weighting)
        if self.linearise not in ("probes", "gradient"):
            raise SettingError(f"linearise must be 'probes' or 'gradient'. Got {self.linearise!r} instead")
        if (self.min_hit is None) != (self.max_leak is None):
            raise SettingError("min_hit and max_leak must be given together, or neither (the fixed probes)")
        if self.min_hit is not None and self.weighting != DIAGONAL.name:
            raise SettingError(f"constrained probes serve weighting 'diagonal'. Got {self.weighting!r} instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One line of the trace: the iterate's value and how its weights were determined.

    The last line of a finished run has a value only: nothing was elicited there.
    """

    index: int
    value: float
    n_queries: int
    step: float | None = None
    rank: int | None = None
    condition: float | None = None
    smallest: float | None = None
    largest: float | None = None
    residual: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """Everything a run knows, in small arrays."""

    iteration: int
    vertices: tuple[FloatArray, ...]
    steps: tuple[float, ...]
    sums: ClassifierSums
    view: FloatArray | None
    known: Mapping[str, Any]
    trace: tuple[Iteration, ...]
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """What a finished run found.

    ``status`` is "finished", or "flat" where no probe changed the metric any more. The result is the last iterate;
    of a flat run, the best one (at the first look: the start).
    """

    mixture: Mixture
    iterate: int
    trace: tuple[Iteration, ...]
    status: Status
    n_queries: int
    max_queries: int
    probes: ConstrainedProbes | None = None

    @property
    def value(self) -> float:
        """The metric of the resulting mixture, on the validation rows that served the elicitation."""
        return self.trace[self.iterate].value
