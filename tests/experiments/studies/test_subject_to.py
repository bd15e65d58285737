"""The study of constraints: its statistics, its methods on digits, what is said of bad figures, what is stored."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from experiments.harness import runner
from experiments.harness.files import OUT
from experiments.harness.store import Row
from experiments.studies import constraint_rivals, subject_to, subject_to_page
from experiments.studies.constraint_rivals import RIVALS, tune_weights
from experiments.studies.constraint_tasks import TASKS, Draw, Sample, Task, draw_task
from experiments.studies.subject_to import EXPERIMENT, errors, fit_wholly, measure, solve
from experiments.studies.subject_to_page import (
    OURS,
    PRICE,
    SAFE,
    Cell,
    Rate,
    holm,
    large_shares,
    least_shares,
    least_verdict,
    margin_verdict,
    price_verdict,
    prices,
    rivals_verdict,
    shortfall_verdict,
    significant,
)
from postshift.constraints import Constraint
from postshift.constraints.pieces import resolve_constraint
from postshift.metrics import Accuracy
from postshift.metrics.over_groups import PooledMetric

DIGITS = "digits: accuracy given recall[8] >= 0.95"
SEVERAL = "digits: accuracy given precision[1] >= 0.95 and recall[8] >= 0.93"
ADULT = "Adult: precision given recall >= 0.9"


def two_groups(text="demographic_parity <= 0.05", *, how="known", n_rows=2000):
    """Return a draw of rows of two classes and two groups whose probabilities are right."""
    rng = np.random.default_rng(0)

    def sample():
        groups = rng.integers(2, size=n_rows)
        p = 1 / (1 + np.exp(-rng.normal(size=n_rows) - groups + 0.5))
        basis = np.eye(2)[np.where(rng.random(n_rows) < 0.9, groups, 1 - groups)]
        X = np.column_stack([np.log(p / (1 - p)), rng.normal(size=n_rows)])
        y = (rng.random(n_rows) < p).astype(np.intp)
        return Sample(X=X, eta=np.column_stack([1 - p, p]), y=y, groups=groups, basis=basis)

    return Draw(
        task=Task(source="Adult", metric="accuracy", subject_to=(text,), groups=how),
        train=sample(),
        val=sample(),
        population=sample(),
        metric=PooledMetric(inner=Accuracy(), n_groups=2, n_classes=2),
        constraints=(resolve_constraint(Constraint.read(text), classes=np.arange(2), n_groups=2),),
    )


class TestStatistics:
    def test_holm(self):
        np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
        np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])

    def test_a_rate_and_its_exact_interval(self):
        rate = Rate.of(np.arange(50) < 8)
        assert rate.share == 0.16
        assert (rate.low, rate.high) == pytest.approx((0.0717, 0.2911), abs=1e-4)  # beta quantiles
        assert rate.p_value == pytest.approx(stats.binom.sf(7, 50, 0.16))
        assert Rate.of(np.ones(50, dtype=bool)).p_value < 1e-30

    def test_standard_errors_of_a_recall_and_of_a_rate(self):
        draw = draw_task(SEVERAL, 300, 0)
        confusion = draw.confusion(draw.population, draw.population.eta.argmax(axis=1))
        share, recall = confusion[8].sum(), confusion[8, 8] / confusion[8].sum()
        assert errors(draw, confusion)["error_2"] == pytest.approx(
            np.sqrt(recall * (1 - recall) / share / 300), rel=1e-3
        )


class TestTasks:
    def test_values_are_those_of_the_population(self):
        draw = draw_task(DIGITS, 300, 0)
        labels = draw.population.eta.argmax(axis=1)
        found, truth = draw.judged(draw.confusion(draw.population, labels)), draw.population.y
        assert found["objective"] == pytest.approx(np.mean(labels == truth))
        assert found["miss_1"] == pytest.approx(0.95 - np.mean(labels[truth == 8] == 8))
        chances = np.eye(10)[labels]
        np.testing.assert_allclose(
            draw.expected_confusion(draw.population, chances), draw.confusion(draw.population, labels)
        )

    def test_validation_rows_come_from_the_population_and_differ_by_seed(self):
        first, second = draw_task(DIGITS, 300, 0), draw_task(DIGITS, 300, 1)
        assert len(first.val.y) == 300
        assert {tuple(row) for row in first.val.eta} <= {tuple(row) for row in first.population.eta}
        assert not np.array_equal(first.val.y, second.val.y)
        np.testing.assert_array_equal(first.val.eta, draw_task(DIGITS, 300, 0).val.eta)

    def test_a_gap_is_read_from_both_groups(self):
        draw = two_groups()
        labels = draw.val.eta.argmax(axis=1)
        rates = [np.mean(labels[draw.val.groups == group]) for group in range(2)]
        assert draw.judged(draw.confusion(draw.val, labels))["miss_1"] == pytest.approx(abs(rates[0] - rates[1]) - 0.05)

    def test_what_was_asked_for(self):
        sizes = {
            (TASKS[task].source, int(size)) for task, _, size in (name.rpartition(": ") for name in EXPERIMENT.methods)
        }
        assert {(name, size) for name in ("Adult", "Default", "five classes") for size in (300, 1000, 5000)} <= sizes
        assert {(name, size) for name in ("digits", "COMPAS") for size in (300, 1000)} <= sizes
        assert {task.groups for task in TASKS.values()} == {"none", "known", "hidden"}
        assert max(len(task.subject_to) for task in TASKS.values()) > 1


class TestMethods:
    @pytest.mark.slow
    def test_the_rule_is_that_of_a_whole_fit(self):
        draw = draw_task(DIGITS, 300, 0)
        whole = fit_wholly(draw, 1.0)
        np.testing.assert_array_equal(solve(draw, 1.0).labels(draw.population), whole.predict(draw.population.eta))

    def test_the_rule_is_that_of_a_whole_fit_with_groups(self):
        draw = two_groups(n_rows=500)
        whole = fit_wholly(draw, 0.0)
        found = whole.predict(draw.population.eta, draw.basis(draw.population))
        np.testing.assert_array_equal(solve(draw, 0.0).labels(draw.population), found)

    def test_tuned_weights_meet_the_bounds_on_the_validation_rows(self):
        for draw in (draw_task(SEVERAL, 300, 0), two_groups()):
            found = draw.judged(draw.expected_confusion(draw.val, tune_weights(draw)(draw.val)))
            assert all(found[name] <= 1e-9 for name in found if name.startswith("miss"))

    def test_rivals_have_no_entry_for_many_classes_and_few_for_hidden_groups(self):
        assert not any(rival.suits(draw_task(DIGITS, 300, 0)) for rival in RIVALS.values())
        assert [name for name, rival in RIVALS.items() if rival.suits(two_groups(how="hidden"))] == [
            "ExponentiatedGradient",
            "OxonFair",
        ]
        assert all(rival.suits(two_groups()) for rival in RIVALS.values())

    def test_a_rival_that_is_not_installed_is_left_out_with_a_message(self, monkeypatch, capsys):
        monkeypatch.setattr(constraint_rivals, "find_spec", lambda _: None)
        subject_to._say_missing.cache_clear()
        methods = [name for _ in range(2) for name, _ in subject_to._others(two_groups(), 0)]
        assert methods == ["tuned weights"] * 2
        assert capsys.readouterr().err.count("OxonFair is left out: oxonfair is not installed") == 1

    def test_a_run(self):
        rows = {row.method: row for row in measure(DIGITS, 300, subject_to.N_TIMED, quick=True)}
        assert list(rows) == [OURS, SAFE, "base", "tuned weights"]
        assert rows[SAFE].values["miss_1"] < rows[OURS].values["miss_1"]
        assert rows[OURS].values["price"] >= -1e-3
        assert "fit_seconds" not in rows[OURS].values


@pytest.mark.parametrize(("how", "allowed"), [("known", 0.06), ("hidden", 0.2)])
@pytest.mark.parametrize("text", ["demographic_parity <= 0.05", "equal_opportunity <= 0.05"])
@pytest.mark.parametrize("name", RIVALS)
def test_rivals_bring_the_gap_near_the_bound(name, text, how, allowed):
    pytest.importorskip(RIVALS[name].package)
    draw = two_groups(text, how=how)
    if not RIVALS[name].suits(draw):
        return
    chances = constraint_rivals.quietly(RIVALS[name].fit)(draw)(draw.population)
    found = draw.judged(draw.expected_confusion(draw.population, chances))
    plain = draw.judged(draw.confusion(draw.population, draw.population.eta.argmax(axis=1)))
    assert plain["miss_1"] > 0.2
    assert found["miss_1"] < 0.06
    assert found["objective"] > plain["objective"] - allowed


class TestWords:
    """On figures that are known, so that silence is no proof."""

    @staticmethod
    def results(misses, *, safe=None, price=0.0, task=ADULT, size=5000, rival=None, error=0.01):
        """Return results of one task: the misses of ours, with a margin, and of a rival."""

        def rows(method, values, objective):
            for seed, miss in enumerate(values):
                more = {"error_1": error, "price": price, "refused": 0.0} if method in (OURS, SAFE) else {}
                values = {"objective": objective, "miss_1": miss, **more}
                yield Row(task=task, size=size, method=method, seed=seed, seconds=0.1, values=values)

        every = {OURS: (misses, 0.8), SAFE: (misses if safe is None else safe, 0.7), "base": (misses, 0.6)}
        every["tuned weights"] = (misses, 0.75)
        if rival is not None:
            every[rival] = (misses, 0.9)
        return EXPERIMENT.results(
            row for method, (values, objective) in every.items() for row in rows(method, values, objective)
        )

    def test_a_cell_that_is_violated_too_often_is_named(self):
        bad = self.results([0.01] * 50, safe=[0.01] * 25 + [-0.01] * 25)
        assert significant(bad) == [Cell(ADULT, 5000, 1)]
        assert "5 %): Adult: precision given recall >= 0.9, 5,000 rows (50 %)" in margin_verdict(bad)
        good = self.results([0.01] * 50, safe=[0.01] * 8 + [-0.01] * 42)
        assert "none." in margin_verdict(good)
        assert "violated in 26 % of them" in margin_verdict(good)  # 13 of 50 has a p-value of 0.048, 12 one of 0.093

    def test_a_gap_that_few_rows_cannot_bound_is_named(self):
        task = "Adult: accuracy given demographic_parity <= 0.05, groups known"
        wide = self.results([0.0] * 5, task=task, size=300, error=0.05)
        assert least_shares(wide)[Cell(task, 300, 1)] == pytest.approx(2 * stats.norm.sf(1))
        assert "in: Adult: accuracy given demographic_parity <= 0.05, groups known, 300 rows (32 %)" in least_verdict(
            wide
        )
        harmed = self.results([-0.01] * 5, safe=[0.01] * 5, task=task, size=300, error=0.05)
        assert "300 rows (100 % instead of 0 %)" in least_verdict(harmed)
        assert least_verdict(self.results([0.0] * 5, task=task, size=300, error=0.03)) == ""
        assert least_verdict(self.results([0.0] * 5, error=0.5)) == ""  # a recall has one side

    def test_large_shortfalls_are_named(self):
        bad = self.results([0.03] * 5 + [0.01] * 45)
        assert "10.0 % of runs" in shortfall_verdict(bad)
        assert "(10 %, where the standard error is 0.010)" in shortfall_verdict(bad)
        assert "is not reached" in shortfall_verdict(bad)
        good = shortfall_verdict(self.results([0.01] * 50))
        assert "is reached" in good
        assert "none" in good
        assert shortfall_verdict(self.results([0.01] * 50, size=300)) == ""

    def test_the_price_is_told(self):
        assert "gain 0.0040 on average" in price_verdict(self.results([0.0] * 5, price=0.004))

    def test_a_rival_that_is_better_is_told(self):
        text = rivals_verdict(self.results([0.0] * 5, rival="OxonFair"))
        assert "OxonFair has 1 of 1 pairs" in text
        assert "-0.100 to -0.100, with the whole interval above 0 in 0 and below 0 in 1" in text

    def test_refused_runs_do_not_count(self):
        refused = Row(task=ADULT, size=5000, method=SAFE, seed=60, seconds=0.0, values={"refused": 1.0})
        found = EXPERIMENT.results([*self.results([0.01] * 50).rows, refused])
        assert subject_to_page.rates_of(found)[Cell(ADULT, 5000, 1)].n == 50


class TestWhatItMustShow:
    @pytest.fixture
    def stored(self):
        return runner.stored(EXPERIMENT, OUT)

    def test_at_least_50_seeds_of_every_cell(self, stored):
        for task, size in subject_to_page.settings(stored):
            assert len(stored.of(OURS, task=task, size=size)) >= 50

    def test_no_cell_is_violated_significantly_more_often_with_a_margin(self, stored, record_property):
        """But for gaps that so few rows cannot bound."""
        record_property("figure", margin_verdict(stored))
        assert set(significant(stored)) <= set(least_shares(stored))

    def test_shortfalls_at_5000_rows(self, stored, record_property):
        """The goal of 5 % is not reached where the labels cannot tell the value well enough: the page says so."""
        record_property("figure", shortfall_verdict(stored))
        known = {
            cell: share
            for cell, share in large_shares(stored).items()
            if cell.values(stored, OURS, "error").mean() <= subject_to_page.LARGE / 1.645
        }
        assert len(known) >= 6
        assert max(known.values()) <= subject_to_page.LARGE_SHARE
        assert "is not reached" in shortfall_verdict(stored)

    def test_determinism_costs_little(self, stored, record_property):
        record_property("figure", price_verdict(stored))
        assert np.mean(list(prices(stored, OURS, SAFE).values())) <= PRICE
