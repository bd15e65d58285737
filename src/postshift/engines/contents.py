"""What a pass has read: by this a file that is changed between two passes is found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift.engines.sources import PARTS, Block
from postshift.exceptions import InputError

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class Contents:
    """The number of rows of every part of every file, and the sum of their numbers as bits."""

    found: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Add what a block holds; blocks of any size come to the same."""
        for part in PARTS:
            table = getattr(block, part)
            if table is not None:
                key = part, block.files[part]
                n_rows, bits = self.found.get(key, (0, 0))
                self.found[key] = n_rows + len(table), (bits + _bits(table)) % _MODULUS

    def check_rows(self, n_rows: int) -> None:
        """Refuse a first pass that has read another number of rows than its source announced."""
        read = {key: rows for key, (rows, _) in self.found.items() if key[0] == "eta"}
        if sum(read.values()) != n_rows:
            _, file = max(read, key=lambda key: read[key], default=("eta", "eta"))
            raise InputError(
                f"{file}, rows 0 to {max(read.values(), default=0) - 1}: the files have {sum(read.values())} rows, and "
                f"had {n_rows} rows when they were opened: leave them as they are while they are read"
            )

    def check_same(self, before: Contents) -> None:
        """Refuse a pass that has read something else than an earlier one."""
        for (part, file), (n_rows, _) in before.found.items():
            if self.found.get((part, file)) != before.found[part, file]:
                raise InputError(
                    f"{file}, rows 0 to {n_rows - 1}: {part} was changed between two passes over the rows: leave the "
                    "file as it is while it is read, and begin anew"
                )


def _bits(table: npt.NDArray[Any]) -> int:
    """Return the sum of the numbers of a table, each taken for a whole number of as many bits."""
    size = table.dtype.itemsize
    whole = table if size in {1, 2, 4, 8} else table.astype(np.float64)
    return int(np.add.reduce(whole.view(f"u{whole.dtype.itemsize}"), axis=None, dtype=np.uint64))
