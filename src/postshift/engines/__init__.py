"""Engines: where the training rows are held and summed, behind the protocol ``core.sums.Engine``."""

from __future__ import annotations

from postshift.core.sums import use_for_rows
from postshift.engines.blocks import BlockEngine
from postshift.engines.dask import DaskEngine
from postshift.engines.dask_parts import ArrayParts, FrameParts, ModelParts, ParquetParts
from postshift.engines.memory import MemoryEngine
from postshift.engines.sources import ArraySource
from postshift.engines.tables import ArrowSource, ParquetSource

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
