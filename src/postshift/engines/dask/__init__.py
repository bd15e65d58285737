"""Rows on a Dask cluster: the engine, the sources of its partitions, and the task of a pass (``pass_task``)."""

from __future__ import annotations

from postshift.engines.dask.dask_engine import DaskEngine
from postshift.engines.dask.partitions import ArrayParts, FrameParts, ModelParts, ParquetParts

__all__ = ["ArrayParts", "DaskEngine", "FrameParts", "ModelParts", "ParquetParts"]
