"""The picture of a table: every method at its mean, in the table's order, the paper's figures where they are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import OURS, PAPER, RIVAL, SIMPLE, Panel, dots, kind_of, stacked
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import summary

PREFIXES = ("FW-EG", "ours: influence")
VALUES = {
    "plug-in": (0.60, 0.62),
    "FW-EG, by CV": (0.64, 0.66),
    "ours: stack": (0.63, 0.63),
    "ours: influence": (0.70, 0.74),
}


def results(paper, values=VALUES):
    """Return stored results of some methods, with the paper's figures."""
    experiment = Experiment(
        name="toy",
        title="A toy",
        methods=dict.fromkeys(values, lambda seed, quick: Row(values={"test": seed + quick})),
        page=lambda found: whole_page(found, ""),
        paper=paper,
    )
    rows = [
        Row(method=method, seed=seed, values={"test": value}, seconds=0)
        for method, each in values.items()
        for seed, value in enumerate(each)
    ]
    return Results(experiment=experiment, rows=tuple(rows))


def drawn(found, **options):
    """Return the axes of the picture."""
    axes = Figure().add_subplot()
    dots(PREFIXES, metric="G-mean", **options)(found, axes)
    return axes


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("plug-in", RIVAL),
        ("ours: stack", SIMPLE),
        ("FW-EG, by CV", PAPER),
        ("ours: paper's method, constant basis", PAPER),
        ("ours: influence", OURS),
    ],
)
def test_whose_a_method_is(name, kind):
    assert kind_of(name, PREFIXES) == kind


def test_every_method_is_at_its_mean_with_its_interval():
    axes = drawn(results({}))
    assert [text.get_text() for text in axes.get_yticklabels()] == list(VALUES)
    bars = {bar.get_label(): bar for bar in axes.containers}
    for place, (method, values) in enumerate(VALUES.items()):
        line, _, (spread,) = bars[kind_of(method, PREFIXES).whose]
        assert (line.get_xdata()[0], line.get_ydata()[0]) == (pytest.approx(np.mean(values)), place)
        told = summary(np.array(values))
        assert spread.get_segments()[0][:, 0] == pytest.approx([told.low, told.high])


def test_the_line_is_the_best_that_is_neither_the_papers_nor_ours():
    lines = {line.get_label(): line for line in drawn(results({})).lines}
    assert lines["the best of the others"].get_xdata()[0] == pytest.approx(0.63)


def test_the_papers_figures_are_drawn_and_those_far_below_are_written():
    axes = drawn(results({"plug-in": (0.1, 0.0), "FW-EG, by CV": (0.65, 0.0), "ours: influence": (5.0, 0.0)}))
    said = next(line for line in axes.lines if line.get_label() == "the paper's figure")
    assert list(zip(said.get_xdata(), said.get_ydata(), strict=True)) == [(0.65, 1), (5.0, 3)]
    assert axes.get_xlim()[0] > 0.1
    assert axes.get_xlim()[1] >= 5.0
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [("← ◇ 0.100", 0)]


def test_one_seed_has_no_interval():
    assert drawn(results({}, {"plug-in": (0.5,), "ours: influence": (0.6,)})).get_xlim()[0] > 0.4


def test_some_methods_under_other_names():
    axes = drawn(results({}), methods=["plug-in", "ours: influence"], called=str.upper)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["PLUG-IN", "OURS: INFLUENCE"]
    assert not drawn(results({}), methods=["not stored"]).lines


def test_panels_one_above_the_other():
    lines = {"first": np.array([0.1, 0.3]), "second": np.array([0.5])}
    panels = [Panel("A title", lines, "a metric"), Panel("Another", {"only": np.array([0.0, 0.1])}, "gap", zero=True)]
    above, below = stacked(lambda _: panels)(results({})).axes
    assert [text.get_text() for text in above.get_yticklabels()] == ["first", "second"]
    assert above.containers[0][0].get_xdata().tolist() == pytest.approx([0.2, 0.5])
    assert above.get_xlabel() == "a metric, mean and 95 % interval"
    assert len(below.lines) == len(above.lines) + 1
