"""Sessions of FW-EG on small problems, and oracles of each kind."""

from __future__ import annotations

import numpy as np

from postshift import MemoryEngine, fw_eg_session
from postshift.metrics import ConfusionOracle, HardOracle, SoftOracle

KINDS = ("confusion", "soft", "hard")


def oracle_for(kind, val, metric):
    """An oracle of each kind for the same metric."""
    labels = val.labels

    def soft(table):
        return metric.value(np.stack([table[labels == i].sum(axis=0) for i in range(val.n_classes)]) / len(labels))

    if kind == "confusion":
        return ConfusionOracle(labels, n_classes=val.n_classes)
    if kind == "soft":
        return SoftOracle(soft)
    return HardOracle(lambda predicted: soft(np.eye(val.n_classes)[predicted]))


def new_run(problem, kind, metric, **settings):
    """A session of FW-EG."""
    psi = metric if kind == "confusion" else None
    return fw_eg_session(
        MemoryEngine(problem.train), problem.val, kind=kind, metric=psi, **{"radius": 0.3, "max_iter": 3, **settings}
    )


class Recorder:
    """An oracle that keeps what it was asked."""

    def __init__(self, oracle):
        self.oracle, self.asked = oracle, []
        self.kind, self.takes_subsets = oracle.kind, oracle.takes_subsets

    def answer(self, query):
        rows = None if query.rows is None else query.rows.tobytes()
        self.asked.append((query.kind, rows, np.asarray(query.predictions).tobytes()))
        return self.oracle.answer(query)
