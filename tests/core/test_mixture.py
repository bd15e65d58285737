from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import Mixture, PlugIn, Rows
from postshift.core.mixture import reduced
from postshift.core.sums import weighted_confusions
from postshift.core.weighting import COLUMNS, DIAGONAL, FULL
from postshift.exceptions import ArchiveError, BasisError, LabelError, ProbabilityError, SettingError
from tests.problems import make_problem, problems


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


def confusion(mixture, val):
    table = mixture.distribution(val.eta, val.phi)
    return weighted_confusions(val.row_weights[:, None], val.labels, table, n_categories=val.n_classes)[0]


def random_mixture(val, n_members, seed):
    rng = np.random.default_rng(seed)
    shape = (val.n_bases, val.n_classes)
    members = [
        PlugIn(weighting="diagonal", alpha=rng.uniform(0.3, 3, size=shape), n_classes=val.n_classes)
        for _ in range(n_members)
    ]
    return Mixture.of(members, rng.dirichlet(np.ones(n_members)))


@given(problem=problems(max_classes=4), seed=st.integers(0, 99), keeps=st.sampled_from(["diagonal", "columns", "full"]))
def test_what_is_kept_is_kept_with_few_members(problem, seed, keeps):
    val, m = problem.val, problem.n_classes
    mixture = random_mixture(val, 40, seed)
    few = reduced(mixture, val, keeps=keeps)
    one, two = confusion(mixture, val), confusion(few, val)
    np.testing.assert_allclose(np.diag(two), np.diag(one), atol=1e-7 * val.row_weights.sum())
    if keeps != "diagonal":
        np.testing.assert_allclose(two.sum(axis=0), one.sum(axis=0), atol=1e-7 * val.row_weights.sum())
    if keeps == "full":
        np.testing.assert_allclose(two, one, atol=1e-7 * val.row_weights.sum())
    assert len(few.members) <= {"diagonal": m + 1, "columns": 2 * m, "full": m * m - m + 1}[keeps]


def test_what_it_refuses():
    val = make_problem(seed=0).val
    mixture = random_mixture(val, 3, 0)
    with pytest.raises(LabelError, match="need labels"):
        reduced(mixture, Rows.of(val.eta, phi=val.phi))
    with pytest.raises(SettingError):
        reduced(mixture, val, keeps="everything")
