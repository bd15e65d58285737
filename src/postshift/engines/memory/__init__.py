"""Rows in memory: the engine that sums them, its kernels, and prediction by the same kernels."""

from __future__ import annotations

from postshift.engines.memory.memory_engine import MemoryEngine

__all__ = ["MemoryEngine"]
