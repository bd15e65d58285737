"""What the comparisons with other libraries share: names of methods, values by task and metric."""

from __future__ import annotations

import numpy as np

from experiments.harness.experiment import Results

BASE, OURS, SEARCH = "base", "ours", "plug-in search"
COLUMNS = ("task", "seed", "name", "method", "value")  # of the files of results; the name is that of the metric

Cells = dict[tuple[str, str], dict[str, np.ndarray]]  # (task, metric): method: test values (splits,)


def by_cell(results: Results) -> Cells:
    """Return the test values of every method by task and metric, in the order of the splits."""
    cells = dict.fromkeys((row.task, metric) for row in results.rows for metric in row.values)
    return {(task, metric): results.by_method(task, metric) for task, metric in cells}
