"""A quick look at every study that needs no network."""

from __future__ import annotations

import pytest

from experiments import registry
from experiments.harness import runner
from experiments.harness.page import write_page
from postshift.datasets import load_adult
from postshift.exceptions import DataNotFoundError

STUDIES = [name for name, module in registry.EXPERIMENTS.items() if ".studies." in module and "adience" not in name]
ON_ADULT = (
    *("baselines", "constrained_probes", "menu_figures", "oracle_adult", "penalties", "power_check"),
    "threshold_comparison",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_quick_look(name, tmp_path):
    if name in ON_ADULT:
        try:
            load_adult(download=False)
        except DataNotFoundError as error:
            pytest.skip(f"NO QUICK LOOK AT {name}: {error}")
    if name == "xcolumns_comparison":
        pytest.importorskip("xcolumns")
    outcome = runner.run(registry.load(name), folder=tmp_path, quick=True)
    assert outcome.failures == ()
    assert outcome.results.missing == []
    write_page(outcome.results, tmp_path)
    text = (tmp_path / f"{name}.md").read_text()
    assert "**A quick look**" in text
    assert "Incomplete" not in text
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".png", ".svg"}
