"""Rows in files: the engine that sums them block by block, and the sources that read the blocks."""

from __future__ import annotations

from postshift.engines.blocks.array_source import ArraySource
from postshift.engines.blocks.block_engine import BlockEngine
from postshift.engines.blocks.column_files import ArrowSource, ParquetSource
from postshift.engines.blocks.row_block import BlockSource, RowBlock

__all__ = ["ArraySource", "ArrowSource", "BlockEngine", "BlockSource", "ParquetSource", "RowBlock"]
