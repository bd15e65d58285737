"""What the outermost function must know of the options, even where a command fails."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class State:
    """Whether tracebacks are wanted."""

    debug: bool = False
