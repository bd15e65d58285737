"""Engines: where the training rows are held and summed, behind the protocol ``core.statistics.Statistics``."""

from __future__ import annotations

from postshift.engines.memory import MemoryEngine

__all__ = ["MemoryEngine"]
