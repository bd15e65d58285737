"""The simulated verdicts: what is stored, the page, and settings that are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import verdicts, verdicts_page
from experiments.output import OUT
from experiments.verdict_settings import settings


@pytest.fixture(scope="module")
def stored():
    return verdicts.read_rows(OUT / "verdicts.csv")


def test_the_page_is_made_from_the_stored_results(stored):
    assert (OUT / "verdicts.md").read_text(encoding="utf-8") == verdicts_page.render(*stored)


def test_every_kind_size_and_setting_has_as_many_problems(stored, record_property):
    rows, _ = stored
    n_problems = len({row.seed for row in rows})
    assert len(rows) == n_problems * len(settings()) * sum(map(len, verdicts.KINDS.values()))
    for kind, n_rows, part in verdicts_page.parts(rows):
        if kind in ("default", "evaluate"):
            covered = [verdicts_page.averaged(part, field) for field in ("covered", "gain_covered")]
            record_property("figure", f"{kind}, {n_rows} rows: score and gain covered in {covered}")
            assert min(covered) > 0.88


def test_worth_it_is_rarely_said_on_noise(stored):
    rows, _ = stored
    for n_rows in verdicts.SIZES:
        noise = [row for row in verdicts_page.chosen(rows, "default", n_rows) if not row.gains]
        assert verdicts_page.averaged(noise, "worth_it") <= 0.04


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


def test_a_block_is_the_same_again(stored, monkeypatch):
    monkeypatch.setattr(verdicts, "BLOCK", 2)
    task = "evaluate|50|accuracy, 3 classes"
    again = verdicts.run_block(task, 0)
    kept = [row for row in stored[0] if (row.kind, row.rows, row.setting) == ("evaluate", 50, "accuracy, 3 classes")]
    assert [f"{row.score:.5f}" for row in again] == [f"{row.score:.5f}" for row in kept[:2]]
    assert [f"{row.gain_low:.4f}" for row in again] == [f"{row.gain_low:.4f}" for row in kept[:2]]
