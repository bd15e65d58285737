"""Influence regression against a slow transcription of its definition, row by row and probe by probe."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import Accuracy, ConfusionOracle, FrankWolfe, GMean, MacroF1, MemoryEngine, Rows, SoftOracle, converse
from postshift.core.influence import InfluenceRegression, InfluenceSettings
from postshift.core.plugin import onehot
from postshift.exceptions import ArchiveError, BasisError, MetricError, SettingError, ShapeError
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
    rho = 3 * np.trace(gram) / val.n_samples
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


def run_of(train, val, metric, kind="confusion", **settings):
    return InfluenceRegression(
        MemoryEngine(train, block_rows=17),
        Rows.of(val.eta, phi=val.phi, weights=val.weights),
        kind=kind,
        metric=metric if kind == "confusion" else None,
        settings=InfluenceSettings(**settings),
    )


@given(problem=problems(max_classes=4, max_bases=3), metric=st.sampled_from([Accuracy(), GMean(), MacroF1()]))
def test_the_definition(problem, metric):
    train, val = unit(problem.train), unit(problem.val)
    expected = slow_influence(train, val, metric, radius=0.1, n_iter=2)
    run = run_of(train, val, metric, max_iter=2)
    converse(run, ConfusionOracle(val.labels, n_classes=val.n_classes, weights=val.weights))
    m = train.n_classes
    for found, (a, rest) in zip(run.state.vertices, expected, strict=False):
        full = rest.reshape(-1, m, m) + np.diag(a)
        np.testing.assert_allclose(found.reshape(full.shape), full, rtol=1e-6, atol=1e-8)


def test_the_start_is_dropped_and_the_shares_sum_to_one():
    problem = next_problem()
    run = run_of(problem[0], problem[1], GMean(), max_iter=5)
    converse(run, ConfusionOracle(problem[1].labels, n_classes=3))
    mixture = run.result().mixture
    assert mixture.shares.sum() == pytest.approx(1)
    assert all(member.weighting.name == "full" for member in mixture.members)


def next_problem():
    problem = make_problem(seed=1, n_bases=2, basis="soft")
    return unit(problem.train), unit(problem.val)


def test_where_nothing_changes_the_inverse_prior_is_returned():
    train, val = next_problem()
    run = run_of(train, val, None, kind="soft")
    converse(run, SoftOracle(lambda _: 0.5))
    fit = run.result()
    assert fit.status == "flat"
    expected = (val.eta / train.eta.mean(axis=0)).argmax(axis=1)
    np.testing.assert_array_equal(fit.mixture.labels(val.eta, val.phi), expected)


def test_without_training_rows():
    _, val = next_problem()
    run = InfluenceRegression(
        None, Rows.of(val.eta, phi=val.phi), kind="confusion", metric=GMean(), settings=InfluenceSettings(max_iter=3)
    )
    converse(run, ConfusionOracle(val.labels, n_classes=3))
    twice = run_of(val, val, GMean(), max_iter=3)
    converse(twice, ConfusionOracle(val.labels, n_classes=3))
    np.testing.assert_allclose(run.state.vertices[-1], twice.state.vertices[-1], rtol=1e-9)


def test_no_training_label_is_needed():
    train, val = next_problem()
    bare = Rows.of(train.eta, phi=train.phi)
    one, two = run_of(train, val, GMean(), max_iter=3), run_of(bare, val, GMean(), max_iter=3)
    for run in (one, two):
        converse(run, ConfusionOracle(val.labels, n_classes=3))
    np.testing.assert_allclose(one.state.vertices, two.state.vertices, rtol=1e-9)  # rows with labels are sorted by them


def test_what_it_refuses():
    train, val = next_problem()
    uneven = Rows.of(val.eta, phi=val.phi * 0.5)
    with pytest.raises(BasisError, match="rows sum to 1"):
        InfluenceRegression(None, uneven, kind="soft")
    with pytest.raises(ShapeError, match="same model and the same basis"):
        InfluenceRegression(MemoryEngine(Rows.of(train.eta)), val, kind="soft")
    with pytest.raises(MetricError, match="need metric"):
        InfluenceRegression(None, val, kind="confusion")
    with pytest.raises(SettingError, match="ridge"):
        InfluenceSettings(ridge=0)


def test_saved_and_resumed(tmp_path):
    train, val = next_problem()
    oracle = ConfusionOracle(val.labels, n_classes=3)
    whole = run_of(train, val, GMean(), max_iter=3)
    converse(whole, oracle, on_answer=lambda *_: whole.save(tmp_path / f"{whole.n_queries}.npz"))
    for saved in sorted(tmp_path.iterdir()):
        rows = Rows.of(val.eta, phi=val.phi)
        run = InfluenceRegression.load(saved, MemoryEngine(train), rows, kind="confusion", metric=GMean())
        converse(run, oracle)
        np.testing.assert_allclose(run.state.vertices, whole.state.vertices, rtol=1e-9)  # other blocks of rows
    with pytest.raises(ArchiveError, match="begun with other data"):
        InfluenceRegression.load(saved, None, rows, kind="confusion", metric=GMean())
    with pytest.raises(ArchiveError, match="another method"):
        FrankWolfe.load(saved, MemoryEngine(train), rows, kind="confusion", metric=GMean())
