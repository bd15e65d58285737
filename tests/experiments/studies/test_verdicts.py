"""The simulated verdicts: what is stored, the page, and settings that are what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.harness import runner
from experiments.harness.files import OUT
from experiments.harness.store import Row
from experiments.studies import verdicts
from experiments.studies.verdict_settings import settings


@pytest.fixture(scope="module")
def stored():
    return runner.stored(verdicts.EXPERIMENT, OUT)


def test_every_kind_size_and_setting_has_as_many_problems(stored, record_property):
    assert len(stored.rows) == len(stored.seeds) * len(settings()) * sum(map(len, verdicts.KINDS.values()))
    for kind, n_rows, part in verdicts.parts(stored):
        if kind in ("default", "evaluate"):
            covered = [verdicts.averaged(part, value) for value in (verdicts.covered, verdicts.gain_covered)]
            record_property("figure", f"{kind}, {n_rows} rows: score and gain covered in {covered}")
            assert min(covered) > 0.88


def test_worth_it_is_rarely_said_on_noise(stored):
    for n_rows in verdicts.SIZES:
        noise = [row for row in verdicts.chosen_rows(stored, "default", n_rows) if not verdicts.gains(row)]
        assert verdicts.averaged(noise, verdicts.worth_it) <= 0.04


@pytest.mark.parametrize("name", [name for name, each in settings().items() if not each.gains])
def test_a_model_that_is_already_optimal(name):
    """Other weights of the classes do not score higher than the model of a setting of noise."""
    setting = settings()[name]
    eta = setting.population.eta
    base = setting.truth(np.argmax(eta, axis=1))
    rng = np.random.default_rng(0)
    for scale in (0.05, 0.3):
        weights = np.exp(rng.normal(scale=scale, size=setting.n_classes))
        assert setting.truth(np.argmax(weights * eta, axis=1)) < base + 0.002


@pytest.mark.parametrize("kind", ["evaluate", "one rule", "queries"])
def test_a_problem_is_the_same_again(stored, kind):
    name, size = "accuracy, 3 classes", verdicts.KINDS[kind][0]
    for seed in (0, 1):
        again = runner.measure(verdicts.EXPERIMENT, f"{kind}: {size}: {name}", seed, quick=False)
        kept = stored.of(kind, task=name, size=size)[seed]
        assert [row.values for row in again] == [kept.values]


def test_what_is_made_of_a_problem():
    values = {"score": 0.7, "base_score": 0.6, "low": 0.6, "high": 0.8, "gain_low": 0.01, "gain_high": 0.2}
    row = Row(values={**values, "adopted": 1.0, "truth": 0.58, "base_truth": 0.61})
    assert verdicts.gain(row) == pytest.approx(0.1)
    assert verdicts.true_gain(row) == pytest.approx(-0.03)
    assert verdicts.error(row) == pytest.approx(0.12)
    assert not verdicts.covered(row)
    assert not verdicts.gain_covered(row)
    assert verdicts.worth_it(row)
    assert verdicts.harmed(row)
    kept = replace(row, values={**row.values, "adopted": 0.0})
    assert verdicts.error(kept) == pytest.approx(-0.01)
    assert not verdicts.worth_it(kept)
    assert not verdicts.harmed(kept)
