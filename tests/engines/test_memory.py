from __future__ import annotations

import numpy as np
import pytest

from postshift import MemoryEngine, Sample
from postshift.exceptions import LabelError, SettingError
from tests.contracts.engine import EngineContract


class TestMemoryEngine(EngineContract):
    def make(self, sample, n_blocks):
        return MemoryEngine(sample, block_rows=-(-sample.n_samples // n_blocks))


def test_labels_are_needed():
    engine = MemoryEngine(Sample.of(np.full((3, 2), 0.5)))
    with pytest.raises(LabelError, match="has no labels"):
        engine.label_sums()


@pytest.mark.parametrize("rows", [0, 1.5, "all"])
def test_block_rows(rows):
    with pytest.raises(SettingError, match="block_rows"):
        MemoryEngine(Sample.of(np.full((3, 2), 0.5), labels=[0, 1, 1]), block_rows=rows)
