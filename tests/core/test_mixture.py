from __future__ import annotations

import pickle

import numpy as np
import pytest

from postshift import Mixture, PlugIn
from postshift.core.weighting import COLUMNS, DIAGONAL, FULL
from postshift.exceptions import ArchiveError, BasisError, ProbabilityError, SettingError
from tests.problems import make_problem


def member(weighting, seed, n_bases=2, n_classes=3):
    alpha = np.random.default_rng(seed).normal(size=(n_bases, weighting.n_terms(n_classes)))
    return PlugIn(weighting=weighting, alpha=alpha, n_classes=n_classes)


@pytest.fixture
def mixture():
    return Mixture.of([member(DIAGONAL, 0), member(COLUMNS, 1), member(FULL, 2)], [0.5, 0.3, 0.2])


@pytest.fixture
def rows():
    return make_problem(seed=4, n_bases=2, basis="soft").val


def test_distribution_and_labels(mixture, rows):
    table = mixture.distribution(rows.eta, rows.phi)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    expected = sum(
        share * rule.distribution(rows.eta, rows.phi)
        for rule, share in zip(mixture.members, mixture.shares, strict=True)
    )
    np.testing.assert_allclose(table, expected)
    labels = mixture.predict(rows.eta, rows.phi)
    np.testing.assert_array_equal(labels, table.argmax(axis=1))
    np.testing.assert_array_equal(labels, mixture.predict(rows.eta, rows.phi))


def test_sampled_labels_follow_the_distribution(mixture, rows):
    rng = np.random.default_rng(0)
    draws = np.stack([mixture.sample(rows.eta, rows.phi, rng=rng) for _ in range(4000)])
    frequencies = np.stack([(draws == label).mean(axis=0) for label in range(3)], axis=1)
    np.testing.assert_allclose(frequencies, mixture.distribution(rows.eta, rows.phi), atol=0.04)


def test_the_same_seed_draws_the_same_labels(mixture, rows):
    one, two = (mixture.sample(rows.eta, rows.phi, rng=np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_equal_members_are_merged_and_empty_ones_dropped():
    rules = [member(DIAGONAL, 0), member(DIAGONAL, 0), member(DIAGONAL, 1), member(DIAGONAL, 2)]
    mixture = Mixture.of(rules, [0.25, 0.5, 0.0, 0.25])
    np.testing.assert_allclose(mixture.shares, [0.75, 0.25])


@pytest.mark.parametrize("shares", [[0.5], [0.5, 0.6], [1.5, -0.5], [np.nan, 1]])
def test_shares(shares):
    with pytest.raises(SettingError, match="sum to 1"):
        Mixture.of([member(DIAGONAL, 0), member(DIAGONAL, 1)], shares)


def test_saved_and_loaded(mixture, rows, tmp_path):
    mixture.save(tmp_path / "rule.npz")
    loaded = Mixture.load(tmp_path / "rule.npz")
    np.testing.assert_array_equal(loaded.distribution(rows.eta, rows.phi), mixture.distribution(rows.eta, rows.phi))
    loaded.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "rule.npz").read_bytes()


def test_a_file_cut_short(mixture, tmp_path):
    path = tmp_path / "rule.npz"
    mixture.save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ArchiveError, match="cut short"):
        Mixture.load(path)


def test_a_pickle_is_not_loaded(tmp_path):
    path = tmp_path / "rule.npz"
    path.write_bytes(pickle.dumps({"evil": 1}))
    with pytest.raises(ArchiveError, match="not a postshift mixture"):
        Mixture.load(path)
    np.savez(path, header=np.array([{"kind": "mixture"}], dtype=object))
    with pytest.raises(ArchiveError, match="not a postshift mixture"):
        Mixture.load(path)


def test_a_failed_write_keeps_the_old_file(mixture, tmp_path, monkeypatch):
    path = tmp_path / "rule.npz"
    mixture.save(path)
    before = path.read_bytes()

    def full_disk(*_args, **_kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="no space"):
        mixture.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["rule.npz"]


def test_user_input_is_validated(mixture, rows):
    with pytest.raises(ProbabilityError):
        mixture.predict(rows.eta * 2, rows.phi)
    with pytest.raises(BasisError):
        mixture.predict(rows.eta, rows.phi * 0)
