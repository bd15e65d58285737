"""The guarantee: what is stored, resamples beside the public route, the rivals, and the verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.harness import runner
from experiments.harness.files import OUT
from experiments.harness.store import Row
from experiments.studies import guarantee, guarantee_page, guarantee_rivals
from experiments.studies.guarantee_tasks import DELTAS, SIZES, TASKS
from postshift import PostShifter
from postshift.constraints.p_values import proportion_p_value
from postshift.exceptions import NotCertifiedError

# Without files of data: a rare class; several constraints, one of them on rows without labels; groups; a cost.
SYNTHETIC = ("5 classes, recall", "5 classes, three", "3 classes, opportunity", "10 classes, cost")


@pytest.fixture(scope="module")
def cells():
    return guarantee_page.by_cell(runner.stored(guarantee.EXPERIMENT, OUT))


class TestStored:
    def test_every_cell_has_500_resamples(self, cells):
        assert len(cells) == len(TASKS) * len(SIZES) * len(DELTAS)
        assert min(tally.runs for each in cells.values() for tally in each.values()) >= 500
        multiclass = {cell[0] for cell, each in cells.items() if guarantee.BY_THRESHOLD not in each}
        assert len(TASKS) >= 8
        assert len(multiclass) >= 3

    def test_no_cell_is_violated_significantly_more_often_than_delta(self, cells, record_property):
        p_values = guarantee_page.adjusted(cells)
        record_property("figure", f"smallest adjusted p: {min(p_values.values()):.3f}")
        assert min(p_values.values()) >= guarantee_page.LEVEL

    def test_the_cells_can_fail(self, cells):
        """Without a test, the same rules violate their constraints far more often than delta in most of the cells."""
        naive = [cell for cell, each in cells.items() if each[guarantee.ON_PATH].p_value(cell[2]) < 1e-3]
        assert len(naive) > len(cells) / 2

    @pytest.mark.slow
    def test_a_seed_is_the_same_again(self):
        """Of a task whose path is the same on every processor; where programs have several optima, paths differ."""
        name = "5 classes, recall"
        stored = runner.stored(guarantee.EXPERIMENT, OUT)
        kept = {row.key: row.values for row in stored.rows if row.task == name and row.seed == 0}
        again = {row.key: row.values for row in runner.measure(guarantee.EXPERIMENT, name, 0, quick=False)}
        assert again == kept


# -- resamples ----------------------------------------------------------------------------------------------


def public_rule(name, draw, making, *, confidence):
    """The labels of the population by the rule of a public fit, or None; unlabelled rows are halved at random there."""
    task, whole = TASKS[name], TASKS[name].source().population
    drawn, others = whole.take(draw.labelled), whole.take(draw.unlabelled)
    order = np.random.default_rng(0).permutation(making.n_rows + others.n_rows)
    places = np.concatenate([np.sort(order[: making.n_rows]), np.sort(order[making.n_rows :])])

    def mixed(one, other):
        found = np.empty((len(places), *one.shape[1:]), dtype=one.dtype)
        found[places] = np.concatenate([one, other])
        return found

    given = {"eta_unlabelled": mixed(making.eta, others.eta)}
    if whole.groups is not None:
        given |= {"phi_val": drawn.phi, "groups": drawn.groups, "phi_unlabelled": mixed(making.phi, others.phi)}
        given |= {"groups_unlabelled": mixed(making.groups, others.groups)}
    shifter = PostShifter(task.metric, subject_to=list(task.subject_to), confidence=confidence)
    try:
        return shifter.fit(drawn.eta, drawn.labels, **given).predict(whole.eta, whole.phi)
    except NotCertifiedError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_resample_gives_the_rule_of_a_public_fit(name):
    size, delta = 1_000, 0.1
    making = TASKS[name].source().making
    rules = guarantee.path_rules(name, size, delta)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2):
        places = (rng.integers(guarantee.population(name).val.n_rows, size=n) for n in (size, making.n_rows))
        draw = guarantee.Draw(**dict(zip(("labelled", "unlabelled"), places, strict=True)))
        chosen = guarantee.certified(name, draw, rules, delta=delta)
        public = public_rule(name, draw, making, confidence=1 - delta)
        found.append(chosen)
        if chosen is None:
            assert public is None
        else:
            np.testing.assert_array_equal(public, rules.labels[chosen])
    assert found != [None] * 2


@pytest.fixture(scope="module")
def rules():
    """Some rules of five classes, without a path: weights of the rarest class."""
    name = "5 classes, three"
    eta = TASKS[name].source().population.eta
    weights = np.exp(np.linspace(-1, 3, 7))
    return guarantee.rules_of(name, [(eta * [1, 1, 1, 1, weight]).argmax(axis=1) for weight in weights])


def test_confusions_and_misses_are_those_of_the_library(rules):
    name, places = "5 classes, three", np.random.default_rng(0).integers(15_000, size=200)
    part = guarantee.population(name).take(places)
    tables = guarantee.confusions(guarantee.population(name), rules.labels, places)
    limits = TASKS[name].limits.constraints
    for table, labels, missed in zip(tables, rules.labels, guarantee_rivals.misses(limits, tables), strict=True):
        np.testing.assert_allclose(table, part.label_confusion(labels[places]))
        assert missed == pytest.approx(max(limit.miss(table) for limit in limits))


def test_what_is_true_of_rules(rules):
    true = TASKS["5 classes, three"].source().population.labels
    recalls = [np.mean(rules.labels[:, true == label] == label, axis=1) for label in range(5)]
    np.testing.assert_allclose(rules.values, np.mean(recalls, axis=0))
    precision = [np.mean(true[labels == 4] == 4) for labels in rules.labels]
    low = (np.array(precision) < 0.4) | (recalls[3] < 0.7) | (np.mean(rules.labels == 0, axis=1) < 0.42)
    np.testing.assert_array_equal(rules.violated, low)
    assert 0 < low.sum() < len(low)


def test_a_known_rule_looks_up_drawn_rows(rules):
    places = np.array([5, 3, 3, 14_999])
    drawn = guarantee.population("5 classes, three").take(places)
    known = guarantee.KnownRule(rules.labels[0])
    np.testing.assert_array_equal(known.labels(drawn.val), rules.labels[0][places])


# -- the rivals ---------------------------------------------------------------------------------------------


def test_tuning_takes_the_best_that_holds():
    values = np.array([0.5, 0.9, 0.7])
    assert guarantee_rivals.tuned(values, np.array([-0.1, 0.01, 0.0])) == 2
    assert guarantee_rivals.tuned(values, np.array([0.1, 0.01, 0.2])) is None


def test_without_mapie_its_rows_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(guarantee_rivals.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(guarantee_rivals, "has_mapie", guarantee_rivals.has_mapie.__wrapped__)
    assert guarantee_rivals.controls((("recall", 0.9),)) == []
    assert "mapie" in "".join(capsys.readouterr()).lower()


@pytest.mark.parametrize("control", guarantee_rivals.CONTROLS)
def test_mapie_controls_recall(control):
    pytest.importorskip("mapie", reason="THE COMPARISON WITH MAPIE WAS NOT TRIED: pip install -e '.[rivals]'")
    rng = np.random.default_rng(0)
    score = rng.random(2000)
    labels = (rng.random(2000) < score).astype(int)
    given = {"eta": np.column_stack([1 - score, score]), "labels": labels}
    chosen = guarantee_rivals.controlled(control, (("recall", 0.8),), "precision", delta=0.1, **given)
    hits = int(np.sum(score[labels == 1] >= guarantee_rivals.THRESHOLDS[chosen]))
    assert proportion_p_value(hits, int(labels.sum()), bound=0.8, at_least=True) <= 0.1
    assert guarantee_rivals.THRESHOLDS[chosen] > 0.3
    impossible = guarantee_rivals.controlled(control, (("precision", 0.999),), "recall", delta=0.1, **given)
    assert impossible is None


# -- the verdict --------------------------------------------------------------------------------------------


def results_of(violated):
    """Two seeds of one cell, of which each has so many violations."""
    values = {"delta": 0.1, "runs": 250, "nothing": 50, "objective": 0.7, "optimum": 0.75}
    method = f"{guarantee.CERTIFIED}, 0.1"
    row = Row(task="digits, minimum", method=method, size=300, values={**values, "violated": violated})
    naive = replace(row, method=f"{guarantee.ON_PATH}, 0.1", values={**values, "violated": 100})
    low = replace(row, method=f"{guarantee.CERTIFIED}, 0.05", values={**values, "delta": 0.05, "violated": 5})
    rows = [replace(each, seed=seed) for each in (row, naive, low) for seed in range(2)]
    return guarantee.EXPERIMENT.results(rows)


def test_a_tally_is_the_sum_over_seeds():
    tally = guarantee_page.by_cell(results_of(25))["digits, minimum", 300, 0.1][guarantee.CERTIFIED]
    assert (tally.runs, tally.violated, tally.nothing) == (500, 50, 100)
    assert tally.rate == 0.1
    assert tally.interval == pytest.approx((0.0751, 0.1297), abs=2e-4)
    assert tally.p_value(0.1) == pytest.approx(0.52, abs=0.01)
    assert tally.objective == pytest.approx(0.7)


def test_a_guarantee_that_does_not_hold_is_named():
    assert "in no cell of 2" in guarantee_page.lead_of(guarantee_page.by_cell(results_of(25)))
    broken = guarantee_page.by_cell(results_of(40))
    assert "in 1 cells (digits, minimum, 300, 0.1) of 2" in guarantee_page.lead_of(broken)
    assert guarantee_page.adjusted(broken)["digits, minimum", 300, 0.1] < 0.01
