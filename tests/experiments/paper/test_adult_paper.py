"""The paper's two Adult experiments: the figures that its method must reach, on the real data."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from experiments.harness import runner
from experiments.harness.files import OUT
from experiments.paper import adult_paper
from postshift.datasets import load_adult
from postshift.exceptions import DataNotFoundError


@pytest.fixture(scope="module")
def means():
    try:
        load_adult()
    except DataNotFoundError as error:
        pytest.skip(f"THE ADULT EXPERIMENTS WERE NOT RUN: {error}")
    scores, queries = defaultdict(list), defaultdict(list)
    for name, seed in adult_paper.EXPERIMENT.wanted():
        if not name.endswith(adult_paper.SLOW):
            row = adult_paper.EXPERIMENT.methods[name](seed, False)
            scores[row.task, row.method].append(row.values["test"])
            queries[row.task, row.method].append(row.queries)
    return {key: (float(np.mean(values)), max(queries[key])) for key, values in scores.items()}


@pytest.mark.slow
def test_the_paper_method_reaches_the_papers_figures(means, record_property):
    proxy = [score for (task, method), (score, _) in means.items() if task == "proxy" and "FW-EG" in method]
    fair = [score for (task, method), (score, _) in means.items() if task == "fairness" and "FW-EG" in method]
    for (task, method), (score, asked) in means.items():
        record_property("figure", f"Adult {task:9s} {method:55s} {score:.4f}  {asked:5d} queries")
    assert len(proxy) == 2
    assert min(proxy) >= 0.681
    assert len(fair) == 2
    assert min(fair) >= 0.819


@pytest.mark.slow
def test_the_base_model_is_the_protocols(means):
    """With a column too many (marital status) plain argmax scores .722, and a figure reached so counts for nothing."""
    assert means["proxy", "argmax eta"][0] == pytest.approx(0.653, abs=0.003)
    assert means["fairness", "argmax eta"][0] == pytest.approx(0.735, abs=0.005)


def test_every_seed_is_stored():
    results = runner.stored(adult_paper.EXPERIMENT, OUT)
    assert results.seeds == [0, 1, 2, 3, 4]
    assert len(results.rows) == 13 * 5
