"""Influence regression against a slow transcription of its definition, row by row and probe by probe."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import MemoryEngine, Rows, Session
from postshift.core.influence import InfluenceSettings, influence_fit
from postshift.core.plugin import onehot
from postshift.core.queries import kind_named
from postshift.exceptions import BasisError, MetricError, SettingError, ShapeError
from postshift.metrics import Accuracy, ConfusionOracle, GMean, MacroF1, SoftOracle
from tests.problems import make_problem, problems


def unit(sample):
    phi = sample.phi / sample.phi.sum(axis=1, keepdims=True)
    return Rows.of(sample.eta, phi=phi, labels=sample.labels, weights=sample.weights)


def features(sample):
    return np.array([[f * p for f in phi for p in eta] for phi, eta in zip(sample.phi, sample.eta, strict=True)])


def mean_over(train, val, function):
    """E_R: half the weight on training, half on validation rows."""
    parts = []
    for sample in (train, val):
        weights = sample.row_weights / sample.row_weights.sum()
        parts.append(sum(w * function(sample, n) for n, w in enumerate(weights)))
    return 0.5 * parts[0] + 0.5 * parts[1]


def slow_influence(train, val, metric, *, radius, n_iter):
    """The steps of the method as they are written down, with explicit probes."""
    m, z_val = train.n_classes, features(val)
    z = {id(train): features(train), id(val): z_val}
    gram = mean_over(train, val, lambda s, n: np.outer(z[id(s)][n], z[id(s)][n]))
    rho = 3 * np.trace(gram) / val.n_rows
    prior = np.average(train.eta, axis=0, weights=train.row_weights)

    def value(table):
        weights = val.row_weights / val.row_weights.sum()
        confusion = np.zeros((m, m))
        for n, w in enumerate(weights):
            confusion[val.labels[n]] += w * table[n]
        return float(metric.value(confusion))

    def start(sample):
        raised = sample.eta / prior + 1e-3
        return raised / raised.sum(axis=1, keepdims=True)

    h = {id(train): start(train), id(val): start(val)}
    alphas = []
    for t in range(n_iter):
        base = value(h[id(val)])
        gains = np.zeros((z_val.shape[1], m))
        for q in range(z_val.shape[1]):
            for k in range(m):
                probe = h[id(val)] + radius * z_val[:, [q]] * (np.eye(m)[k] - h[id(val)])
                gains[q, k] = (value(probe) - base) / radius
        matrix = np.zeros((z_val.shape[1], m, m))
        for k in range(m):
            for i in range(m):
                matrix[:, k, i] = mean_over(
                    train,
                    val,
                    lambda s, n, k=k, i=i: z[id(s)][n] * ((k == i) * s.eta[n, i] - h[id(s)][n, i] * s.eta[n, i]),
                )
        flat = matrix.reshape(-1, m)
        a = np.linalg.lstsq(flat, gains.reshape(-1), rcond=1e-3)[0]
        rest = np.linalg.solve(gram + rho * np.eye(len(gram)), gains - (flat @ a).reshape(gains.shape))
        step = 2 / (t + 3)
        for sample in (train, val):
            scores = a * sample.eta + z[id(sample)] @ rest
            h[id(sample)] = (1 - step) * h[id(sample)] + step * onehot(scores.argmax(axis=1), n_classes=m)
        alphas.append((a, rest))
    return alphas


def run_of(train, val, metric, oracle, *, kind="confusion", journal=None, **settings):
    """The result of a run, by an oracle."""
    engine = None if train is None else MemoryEngine(train, block_rows=17)
    rows = Rows.of(val.eta, phi=val.phi, weights=val.weights)
    how = {"kind": kind_named(kind), "metric": metric, "settings": InfluenceSettings(**settings)}
    return Session(lambda: influence_fit(engine, rows, **how), journal=journal).run(oracle)


@given(problem=problems(max_classes=4, max_bases=3), metric=st.sampled_from([Accuracy(), GMean(), MacroF1()]))
def test_the_definition(problem, metric):
    train, val = unit(problem.train), unit(problem.val)
    expected = slow_influence(train, val, metric, radius=0.1, n_iter=2)
    oracle = ConfusionOracle(val.labels, n_classes=val.n_classes, weights=val.weights)
    fit = run_of(train, val, metric, oracle, max_iter=2)
    m = train.n_classes
    for found, (a, rest) in zip(fit.vertices, expected, strict=False):
        full = rest.reshape(-1, m, m) + np.diag(a)
        np.testing.assert_allclose(found.alpha.reshape(full.shape), full, rtol=1e-6, atol=1e-8)


def test_the_start_is_dropped_and_the_shares_sum_to_one():
    problem = next_problem()
    mixture = run_of(*problem, GMean(), ConfusionOracle(problem[1].labels, n_classes=3), max_iter=5).mixture
    assert mixture.shares.sum() == pytest.approx(1)
    assert all(member.weighting.name == "full" for member in mixture.members)


def next_problem():
    problem = make_problem(seed=1, n_bases=2, basis="soft")
    return unit(problem.train), unit(problem.val)


def test_where_nothing_changes_the_inverse_prior_is_returned():
    train, val = next_problem()
    fit = run_of(train, val, None, SoftOracle(lambda _: 0.5), kind="soft")
    assert fit.status == "flat"
    expected = (val.eta / train.eta.mean(axis=0)).argmax(axis=1)
    np.testing.assert_array_equal(fit.mixture.labels(val.eta, val.phi), expected)


def test_without_training_rows():
    _, val = next_problem()
    oracle = ConfusionOracle(val.labels, n_classes=3)
    one, two = (run_of(train, val, GMean(), oracle, max_iter=3) for train in (None, val))
    np.testing.assert_allclose(one.vertices[-1].alpha, two.vertices[-1].alpha, rtol=1e-9)


def test_no_training_label_is_needed():
    train, val = next_problem()
    bare = Rows.of(train.eta, phi=train.phi)
    oracle = ConfusionOracle(val.labels, n_classes=3)
    one, two = (run_of(each, val, GMean(), oracle, max_iter=3).vertices for each in (train, bare))
    np.testing.assert_allclose([v.alpha for v in one], [v.alpha for v in two], rtol=1e-9)  # labels sort the rows


def test_what_it_refuses():
    train, val = next_problem()
    uneven = Rows.of(val.eta, phi=val.phi * 0.5)
    with pytest.raises(BasisError, match="rows sum to 1"):
        influence_fit(None, uneven, kind=kind_named("soft"))
    with pytest.raises(ShapeError, match="same model and the same basis"):
        influence_fit(MemoryEngine(Rows.of(train.eta)), val, kind=kind_named("soft"))
    with pytest.raises(MetricError, match="need metric"):
        influence_fit(None, val, kind=kind_named("confusion"))
    with pytest.raises(SettingError, match="ridge"):
        InfluenceSettings(ridge=0)


def test_resumed_after_any_answer(tmp_path):
    train, val = next_problem()
    oracle = ConfusionOracle(val.labels, n_classes=3)
    whole = run_of(train, val, GMean(), oracle, max_iter=3, journal=tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines)):
        (tmp_path / f"{count}.jsonl").write_bytes(b"".join(lines[:count]))
        again = run_of(train, val, GMean(), oracle, max_iter=3, journal=tmp_path / f"{count}.jsonl")
        np.testing.assert_array_equal([v.alpha for v in again.vertices], [v.alpha for v in whole.vertices])
