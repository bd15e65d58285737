"""Every experiment's page is what its stored results give, without data and without networks."""

from __future__ import annotations

import re

import numpy as np
import pytest

from experiments.harness import runner
from experiments.harness.files import OUT
from experiments.registry import EXPERIMENTS, load


@pytest.fixture(params=EXPERIMENTS)
def results(request):
    return runner.stored(load(request.param), OUT)


def test_the_page_is_made_from_the_stored_results(results):
    experiment = results.experiment
    assert (OUT / f"{experiment.name}.md").read_text(encoding="utf-8") == experiment.page(results)


def test_every_run_is_stored(results):
    assert results.rows
    assert not results.missing


def test_the_page_names_the_command_and_the_versions(results):
    text = " ".join((OUT / f"{results.experiment.name}.md").read_text(encoding="utf-8").split())
    assert f"To repeat it: `python -m experiments {results.experiment.name}`" in text
    assert all(name in results.made_with for name in ("postshift", "numpy", "ython", *results.experiment.packages))


def test_every_value_is_a_number(results):
    assert all(np.isfinite([*row.values.values()]).all() for row in results.rows)


def test_figures_are_there(results):
    for suffix in ("png", "svg") if results.experiment.figure else ():
        assert (OUT / f"{results.experiment.name}.{suffix}").stat().st_size > 10_000


@pytest.mark.parametrize("path", sorted(OUT.glob("*.md")), ids=lambda path: path.stem)
def test_every_page_begins_with_a_picture_two_sentences_and_the_table(path):
    _, comment, picture, lead, *rest = path.read_text(encoding="utf-8").split("\n\n")
    assert comment.startswith("<!-- Made by")
    (named,) = re.fullmatch(r"!\[[^]]+\]\(([^)]+)\)", picture).groups()
    assert (OUT / named).stat().st_size > 10_000
    assert len(re.findall(r"[.!?](?=\s|$)", lead)) == 2
    assert lead.endswith(".")
    table = next(place for place, each in enumerate(rest) if each.startswith("|"))
    assert all(each.startswith("## ") for each in rest[:table])
    assert picture not in rest
