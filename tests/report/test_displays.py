"""The figures for notebooks: the numbers of the report, on matplotlib axes."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import postshift
from postshift.exceptions import InputError, LabelError, SettingError, ShapeError
from postshift.metrics import ExpectedCost
from postshift.report import ConfusionChangeDisplay, FrontierDisplay, HistoryDisplay, WeightsDisplay
from postshift.report.counts import matrices
from tests.report import cases

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    """Figures are drawn at the end of a test, where unreadable texts would raise, and closed."""
    import matplotlib.pyplot as plt

    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


@pytest.fixture(scope="module")
def made():
    rows = cases.random_rows(3)
    return cases.fitted(rows), rows


def test_weights_are_those_of_the_report(made):
    from postshift.report import Facts

    shifter, rows = made
    display = WeightsDisplay.from_estimator(shifter, rows.eta_val)
    facts = Facts.of(shifter, rows.eta_val, rows.y_val)
    np.testing.assert_array_equal(display.weights["all rows"], facts.weights.by_class)
    widths = [bar.get_width() + 1 for bar in display.ax_.patches]
    np.testing.assert_allclose(widths, facts.weights.by_class)
    assert display.ax_.get_xscale() == "log"
    assert display.figure_ is display.ax_.figure
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["0", "1", "2"]


def test_weights_by_basis_function():
    two, facts = cases.two_classes(), cases.two_classes_facts()
    display = WeightsDisplay.from_estimator(two.model, two.data.X_val)
    assert list(display.weights) == [f.name for f in facts.weights.functions]
    for function in facts.weights.functions:
        np.testing.assert_allclose(display.weights[function.name], function.by_class)
    legend = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert legend == list(display.weights)


def test_history_is_that_of_the_estimator():
    rows = cases.random_rows(3)
    shifter = cases.fitted(rows, method="paper")
    display = HistoryDisplay.from_estimator(shifter)
    (line,) = display.ax_.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [record.metric for record in shifter.history_])
    np.testing.assert_array_equal(line.get_xdata(), [record.iteration for record in shifter.history_])
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("iteration", "f1_macro")


def test_history_by_queries():
    display = HistoryDisplay.from_estimator(cases.queried().shifter)
    assert display.ax_.get_xlabel() == "queries"
    assert display.ax_.get_ylabel() == "their metric"


def test_history_without_a_loop():
    rows = cases.random_rows(3)
    display = HistoryDisplay.from_estimator(cases.fitted(rows, method="smoothed plug-in"))
    assert not display.ax_.get_lines()
    assert "no rule" in display.ax_.get_title()


def test_confusion_on_the_rows_held_out(made):
    from postshift.report import Facts

    shifter, rows = made
    display = ConfusionChangeDisplay.from_estimator(shifter, y=rows.y_val)
    before, after = matrices(Facts.of(shifter, rows.eta_val, rows.y_val).confusion.cells, n_classes=3)
    np.testing.assert_array_equal(display.before, before)
    np.testing.assert_array_equal(display.after, after)
    texts = [t.get_text() for t in display.ax_.texts]
    assert len(texts) == np.count_nonzero(after - before)


def test_one_colour_is_better_and_the_other_worse():
    """More errors must not look like more hits."""
    display = ConfusionChangeDisplay([[5, 0], [2, 2]], [[4, 1], [0, 4]], ["a", "b"]).plot()
    better = np.array([[False, False], [True, True]])  # a: a hit less, an error more; b: two errors less, two hits more
    np.testing.assert_array_equal(np.asarray(display.im_.get_array()) > 0, better)
    assert {t.get_text() for t in display.ax_.texts} == {"−1", "+1", "−2", "+2"}


@pytest.mark.parametrize(
    "names", [["compensated hypothyroid", "negative"], [f"class {'x' * 40} {k}" for k in range(12)]]
)
def test_long_names_stay_in_their_figure(names):
    change = np.ones((len(names), len(names)))
    displays = [
        ConfusionChangeDisplay(change, 2 * change, names).plot(),
        WeightsDisplay({"all rows": np.linspace(0.2, 5, len(names))}, names).plot(),
    ]
    for display in displays:
        display.figure_.canvas.draw()
        whole = display.figure_.bbox
        for text in (*display.ax_.get_xticklabels(), *display.ax_.get_yticklabels(), *display.ax_.texts):
            box = text.get_window_extent()
            assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, text
            assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, text
        shown = [text.get_text() for text in display.ax_.get_yticklabels()]
        assert len(set(shown)) == len(names)
        assert display.ax_.get_window_extent().width > 0.25 * whole.width


def test_the_history_of_a_cost_has_no_minus():
    rows = cases.random_rows(3)
    shifter = cases.fitted(rows, ExpectedCost(np.ones((3, 3)) - np.eye(3)), method="paper")
    (line,) = HistoryDisplay.from_estimator(shifter).ax_.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [-record.metric for record in shifter.history_])
    assert line.get_ydata().min() > 0


def test_confusion_on_other_rows(made):
    shifter, rows = made
    display = ConfusionChangeDisplay.from_estimator(shifter, rows.eta, rows.y)
    assert display.after.sum() == len(rows.y)
    assert np.trace(display.after) == (shifter.predict(rows.eta) == rows.y).sum()
    assert np.trace(display.before) == (rows.eta.argmax(axis=1) == rows.y).sum()
    two = cases.two_classes()
    display = ConfusionChangeDisplay.from_estimator(two.model, two.data.X_test, two.names[two.data.y_test])
    assert np.trace(display.after) == (two.model.predict(two.data.X_test) == two.names[two.data.y_test]).sum()


def test_confusion_with_weights(made):
    shifter, rows = made
    weights = np.random.default_rng(0).uniform(size=len(rows.y_val))
    held = ConfusionChangeDisplay.from_estimator(shifter, y=rows.y_val, sample_weight=weights)
    assert held.before.sum() == pytest.approx(weights.sum())
    names = {"labels": [2, 1, 0], "sample_weight": [1, 2, 3]}
    display = ConfusionChangeDisplay.from_predictions([0, 1, 1], [0, 0, 1], [0, 1, 1], **names)
    np.testing.assert_array_equal(display.change, [[0, 0, 0], [0, 2, -2], [0, 0, 0]])
    assert display.classes == ["2", "1", "0"]


def test_any_matrix_on_given_axes():
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 3)
    display = ConfusionChangeDisplay([[2, 0], [1, 1]], [[2, 0], [0, 2]], cases.HOSTILE[1:])
    for ax, show in zip(axes, ("before", "after", "change"), strict=True):
        display.plot(ax, show=show, include_values=show != "after")
        assert display.ax_ is ax
        np.testing.assert_array_equal(np.abs(display.im_.get_array()), np.abs(getattr(display, show)))
    with pytest.raises(SettingError, match=r"'change', 'before' or 'after'\. Got 'both'"):
        display.plot(show="both")
    assert WeightsDisplay({"$a": [1, 2], "b$": [2, 1]}, cases.HOSTILE[1:]).plot(axes[0]).ax_ is axes[0]


def test_what_cannot_be_drawn_is_refused(made):
    shifter, rows = made
    with pytest.raises(LabelError, match="true labels are needed"):
        ConfusionChangeDisplay.from_estimator(shifter)
    with pytest.raises(ShapeError, match="600 validation rows of the fit"):
        ConfusionChangeDisplay.from_estimator(shifter, y=rows.y_val[:4])
    with pytest.raises(ShapeError, match="one label for each of the 3 rows"):
        ConfusionChangeDisplay.from_estimator(shifter, rows.eta[:3], rows.y[:2])
    with pytest.raises(ShapeError, match=r"the same length. Got \[2, 2, 1\]"):
        ConfusionChangeDisplay.from_predictions([0, 1], [0, 1], [0])
    with pytest.raises(LabelError, match="after has 1 values that are not among the 2 labels"):
        ConfusionChangeDisplay.from_predictions([0, 1], [0, 1], [0, 2], labels=[0, 1])
    with pytest.raises(InputError, match="Got str"):
        WeightsDisplay.from_estimator("model", rows.eta)


@pytest.mark.slow
def test_a_frontier_marks_what_is_certified():
    made = cases.with_frontier(0.9)
    found = postshift.frontier(made.shifter, made.rows.eta_val, made.rows.y_val, bounds=[0.3, 0.6, 0.99])
    ax = FrontierDisplay.from_frontier(found).ax_
    lines = {line.get_label(): line for line in ax.get_lines()}
    drawn = lines[f"on {found.n_rows} labelled rows"]
    assert drawn.get_xdata().tolist() == [point.bound for point in found.points]
    assert drawn.get_ydata().tolist() == [point.metric for point in found.points]
    assert lines["expected"].get_ydata().tolist() == [point.expected_metric for point in found.points]
    certified = [point.bound for point in found.points if point.certified]
    assert lines["certified"].get_xdata().tolist() == certified
    assert len(certified) + len(lines["not certified"].get_xdata()) == len(found.points)
    assert ax.get_xlabel() == "recall[1] >= bound"


@pytest.mark.slow
def test_a_frontier_without_a_confidence_has_strict_bounds_on_the_right():
    made = cases.with_frontier()
    found = postshift.frontier(
        made.shifter, made.rows.eta_val, made.rows.y_val, subject_to="rate[0] <= 0.5", bounds=[0.3, 0.5]
    )
    ax = FrontierDisplay(found).plot(expected=False).ax_
    assert ax.xaxis_inverted()
    assert len(ax.get_lines()) == 1
