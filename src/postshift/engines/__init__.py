"""Engines: where the training rows are kept and summed, behind the protocol ``core.sums.Engine``."""

from __future__ import annotations

from postshift.core.sums import use_for_rows
from postshift.engines.blocks import ArraySource, ArrowSource, BlockEngine, ParquetSource
from postshift.engines.dask import ArrayParts, DaskEngine, FrameParts, ModelParts, ParquetParts
from postshift.engines.memory import MemoryEngine

__all__ = [
    "ArrayParts",
    "ArraySource",
    "ArrowSource",
    "BlockEngine",
    "DaskEngine",
    "FrameParts",
    "MemoryEngine",
    "ModelParts",
    "ParquetParts",
    "ParquetSource",
]

use_for_rows(MemoryEngine)
