"""The fast code against the slow transcription, on random problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tests.paper.transcription as slow
from postshift import MemoryEngine, Mixture, fw_eg_session
from postshift.core.constrained import constrained_probes
from postshift.core.elicit import probe_matrix, solve
from postshift.core.fw_eg import FwEgRun, Settings
from postshift.core.look import ConfusionLook
from postshift.core.plugin import PlugIn, inverse_prior
from postshift.core.probes import ProbePlan
from postshift.core.probing import DisplacedProbes
from postshift.core.queries import kind_named, without_queries
from postshift.core.score_look import ScoreLook
from postshift.core.sums import confusion_sums, hit_sums, label_sums
from postshift.core.weighting import weighting_named
from postshift.metrics import Accuracy, ConfusionOracle, GMean, MacroF1, SoftOracle
from tests.problems import make_problem, newest_of, problems, rows_of

TIGHT = {"rtol": 1e-12, "atol": 1e-14}
SOME = [(0, 1), (1, 1), (1, 0)]
WEIGHTINGS = st.sampled_from(["diagonal", "columns", "full", SOME])
METRICS = st.sampled_from([Accuracy(), GMean(), MacroF1()])


def soft_base(sample, seed=0):
    """A classifier that is neither hard nor eta itself."""
    scores = sample.eta + np.random.default_rng(seed).uniform(0.1, 1, size=sample.n_classes)
    return scores / scores.sum(axis=1, keepdims=True)


class Table:
    """A fixed table as a classifier."""

    def __init__(self, table):
        self.table = table

    def distribution(self, eta, phi):  # noqa: ARG002
        return self.table


@given(problem=problems())
def test_sums(problem):
    rows, base = rows_of(problem.train), soft_base(problem.train)
    expected = slow.phi_confusion(rows, base)
    total = label_sums(problem.train).total
    np.testing.assert_allclose(confusion_sums(problem.train, base).single / total, expected, **TIGHT)
    hits = hit_sums(problem.train, base)
    np.testing.assert_allclose(hits.single / total, np.einsum("lii->li", expected), **TIGHT)
    for basis in range(problem.train.n_bases):
        within = slow.Rows(rows.eta, rows.phi * rows.phi[:, [basis]], rows.labels, rows.weights)
        np.testing.assert_allclose(
            confusion_sums(problem.train, base).pair[basis] / total, slow.phi_confusion(within, base), **TIGHT
        )
        np.testing.assert_allclose(
            hits.pair[basis] / total, np.einsum("lii->li", slow.phi_confusion(within, base)), **TIGHT
        )


def fast_sigma(problem, name, base):
    weighting = weighting_named(name)
    summed = confusion_sums if weighting.needs_confusions else hit_sums
    return probe_matrix(weighting, labels=label_sums(problem.train), anchor=summed(problem.train, base))


@given(problem=problems(), name=WEIGHTINGS)
def test_sigma(problem, name):
    base = soft_base(problem.train)
    probes = slow.probing_classifiers(base, problem.train.phi, problem.radius, name)
    shared = slow.features(rows_of(problem.train), base, name)
    expected = slow.sigma(rows_of(problem.train), probes, name)
    np.testing.assert_allclose(shared + problem.radius * fast_sigma(problem, name, base), expected, **TIGHT)


def looked(look, base, answer):
    """The score of a look and the gains of its probes, by whoever answers."""
    fit = look.at(newest_of(base), None)
    try:
        fit.send([answer(query) for query in next(fit)])
    except StopIteration as done:
        return look.score(done.value), look.gains(done.value)
    raise AssertionError("a look asks once")


@given(problem=problems(), name=WEIGHTINGS, metric=METRICS)
def test_probe_values(problem, name, metric):
    """Through confusion matrices and through soft predictions: the same numbers as explicit probes."""
    val, base, rows = problem.val, soft_base(problem.val), rows_of(problem.val)
    probes = slow.probing_classifiers(base, val.phi, problem.radius, name)
    expected = [float(metric.value(slow.confusion(rows, probe))) for probe in probes]
    plan, family = ProbePlan(radius=problem.radius), weighting_named(name).probes
    oracle = ConfusionOracle(val.labels, n_classes=val.n_classes, weights=val.weights)
    how = {"functions": val.phi, "probes": DisplacedProbes(family=family, plan=plan)}
    by_matrix = ConfusionLook(val, metric, linearise="probes", **how)
    value, gains = looked(by_matrix, base, oracle.answer)
    np.testing.assert_allclose(value + problem.radius * gains, expected, **TIGHT)
    by_value = ScoreLook(val, kind=kind_named("soft"), rows=None, seed=0, **how)
    value, gains = looked(by_value, base, lambda query: float(metric.value(slow.confusion(rows, query.predictions))))
    np.testing.assert_allclose(value + problem.radius * gains, expected, **TIGHT)


@given(problem=problems(), name=WEIGHTINGS, metric=METRICS)
def test_gradient_values(problem, name, metric):
    val, base, rows = problem.val, soft_base(problem.val), rows_of(problem.val)
    beta = metric.gradient(slow.confusion(rows, base))
    linear = slow.linear_metric(rows, beta)
    probes = slow.probing_classifiers(base, val.phi, problem.radius, name)
    expected = np.array([linear(probe) - linear(base) for probe in probes])
    by_slope = ConfusionLook(
        val,
        metric,
        functions=val.phi,
        linearise="gradient",
        probes=DisplacedProbes(family=weighting_named(name).probes, plan=ProbePlan(radius=problem.radius)),
    )
    oracle = ConfusionOracle(val.labels, n_classes=val.n_classes, weights=val.weights)
    _, gains = looked(by_slope, base, oracle.answer)
    np.testing.assert_allclose(problem.radius * gains, expected, rtol=1e-11, atol=1e-12)


@given(problem=problems(min_radius=0.1), name=WEIGHTINGS, metric=METRICS)
def test_coefficients(problem, name, metric):
    """The same residual; at full rank, coefficients apart by at most 1e-13 times the condition number."""
    train, val = rows_of(problem.train), rows_of(problem.val)
    base_train, base_val = soft_base(problem.train), soft_base(problem.val)
    value = slow.queried_metric(val, lambda c: float(metric.value(c)))
    judged = slow.elicit_weights(train, val, value, base_train, base_val, problem.radius, name)
    sigma = fast_sigma(problem, name, base_train)
    gains = (judged.probe_values - judged.base_value) / problem.radius
    found = solve(sigma, gains, n_bases=problem.train.n_bases)
    theirs = judged.alpha
    residual = np.linalg.norm(sigma @ theirs - gains)
    assert abs(found.residual - residual) <= 1e-12 * max(1, np.linalg.norm(gains), found.condition * 1e-3)
    if found.rank == found.n_unknowns:
        apart = np.linalg.norm(found.alpha.reshape(-1) - theirs)
        assert apart <= 1e-13 * found.condition * np.linalg.norm(theirs)


@given(problem=problems(), name=WEIGHTINGS, seed=st.integers(0, 1000))
def test_vertices_from_equal_coefficients(problem, name, seed):
    train = problem.train
    n_terms = weighting_named(name).n_terms(train.n_classes)
    alpha = np.random.default_rng(seed).normal(size=(train.n_bases, n_terms))
    fast = PlugIn(weighting=weighting_named(name), alpha=alpha, n_classes=train.n_classes)
    expected = slow.plug_in(alpha.reshape(-1), train.phi, train.eta, name)
    np.testing.assert_array_equal(fast.distribution(train.eta, train.phi), expected)
    weights = slow.example_weights(alpha.reshape(-1), train.phi, name, train.n_classes)
    np.testing.assert_allclose(
        np.einsum("nl,lij->nij", train.phi, fast.weight_matrices()), weights, rtol=1e-12, atol=1e-12
    )


def transcribed_run(problem, metric, name, *, n_iter, known, halves):
    prior = np.bincount(problem.train.labels, weights=problem.train.row_weights)
    start = inverse_prior(prior, n_bases=problem.train.n_bases)
    return slow.fw_eg(
        rows_of(problem.train),
        rows_of(problem.val),
        lambda c: float(metric.value(c)),
        start.distribution(problem.train.eta, problem.train.phi),
        start.distribution(problem.val.eta, problem.val.phi),
        problem.radius,
        n_iter,
        name,
        gradient=metric.gradient if known else None,
        halves=halves,
    )


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", ["diagonal", "columns", "full", SOME], ids=str)
@pytest.mark.parametrize("basis", ["hard", "soft"])
def test_whole_run(basis, name, split, known):
    """Algorithm 3 and 3*, known and unknown psi: the same vertices and the same values."""
    problem = make_problem(seed=7, basis=basis, n_bases=2, weighted=not split)
    halves = (np.arange(0, 60, 2), np.arange(1, 60, 2)) if split else None
    metric = MacroF1()
    expected = transcribed_run(problem, metric, name, n_iter=3, known=known, halves=halves)
    run = fw_eg_session(
        MemoryEngine(problem.train, block_rows=13),
        problem.val,
        kind="confusion",
        metric=metric,
        weighting=name,
        radius=problem.radius,
        max_iter=3,
        linearise="gradient" if known else "probes",
        halves=halves,
    )
    fit = run.run(ConfusionOracle(problem.val.labels, n_classes=3, weights=problem.val.weights))
    for ours, theirs in zip(fit.vertices, expected.alphas, strict=True):
        np.testing.assert_allclose(ours.alpha.reshape(-1), theirs, rtol=1e-7, atol=1e-9)
    table = fit.mixture.distribution(problem.val.eta, problem.val.phi)
    np.testing.assert_allclose(table, expected.tables[-1], **TIGHT)
    if not split:
        np.testing.assert_allclose([line.score for line in fit.trace], expected.values, **TIGHT)


@pytest.mark.parametrize("name", ["diagonal", "columns", "full", SOME], ids=str)
def test_whole_run_by_values_alone(name):
    """An oracle that tells values only leads to the same vertices as confusion matrices do."""
    problem = make_problem(seed=3, basis="overlapping", n_bases=3)
    metric, rows = MacroF1(), rows_of(problem.val)
    expected = transcribed_run(problem, metric, name, n_iter=3, known=False, halves=None)
    run = fw_eg_session(
        MemoryEngine(problem.train),
        problem.val,
        kind="soft",
        weighting=name,
        radius=problem.radius,
        max_iter=3,
    )
    table = run.run(SoftOracle(lambda table: metric.value(slow.confusion(rows, table)))).mixture.distribution(
        problem.val.eta, problem.val.phi
    )
    np.testing.assert_allclose(table, expected.tables[-1], **TIGHT)


@given(problem=problems(bases=("hard",), max_bases=3))
def test_constrained_anchor(problem):
    """Bisection reaches what brute force over every distinct ratio reaches; the combined anchor leaks no more."""
    rows = rows_of(problem.train)
    assume(label_sums(problem.train).single.all())
    _, reached = slow.constrained_anchor(rows, problem.train.phi)
    found = constrained_probes(MemoryEngine(problem.train, block_rows=31), min_hit=0.5, max_leak=1e-6)
    weights = -found.anchor.alpha
    for group in range(problem.train.n_bases):
        inside = problem.train.phi[:, group] == 1
        for i in range(problem.n_classes - 1):
            pair = slow.pair_hits(rows, inside, i, weights[group, i])
            assert max(pair) == pytest.approx(reached[group, i], rel=1e-12, abs=1e-15)
    anchor = found.anchor.distribution(problem.train.eta, problem.train.phi)
    hits = np.einsum("lii->li", slow.phi_confusion(rows, anchor))
    worst = reached.max(axis=1)
    assert (hits.max(axis=1) <= worst + 1e-12).all()
    leak = 0 if problem.train.n_bases == 1 else hits.max()
    assert leak <= found.max_leak <= max(1e-6, leak / 0.9 * (1 + 1e-12))


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_constrained_elicitation(share):
    problem = make_problem(seed=11, n_bases=3, n_classes=3)
    train, val, metric = problem.train, problem.val, GMean()
    run = fw_eg_session(
        MemoryEngine(train),
        val,
        kind="confusion",
        metric=metric,
        radius=share,
        max_iter=1,
        min_hit=0.1,
        max_leak=0.01,
    )
    fit = run.run(ConfusionOracle(val.labels, n_classes=3))
    weights = -fit.probes.anchor.alpha
    start = inverse_prior(np.bincount(train.labels), n_bases=3)
    value = slow.queried_metric(rows_of(val), lambda c: float(metric.value(c)))

    def mixed(sample, table):
        return (1 - share) * start.distribution(sample.eta, sample.phi) + share * table

    def centre(sample):
        return mixed(sample, slow.anchor_table(rows_of(sample), weights))

    def probes(sample):
        return [mixed(sample, table) for table in slow.constrained_probes(rows_of(sample), weights)]

    left = slow.sigma(rows_of(train), probes(train), "diagonal") - slow.features(
        rows_of(train), centre(train), "diagonal"
    )
    right = np.array([value(table) for table in probes(val)]) - value(centre(val))
    alpha = np.linalg.lstsq(left, right, rcond=1e-10)[0]
    np.testing.assert_allclose(fit.vertices[0].alpha.reshape(-1), alpha, rtol=1e-9)
    values = fw_eg_session(
        MemoryEngine(train),
        val,
        kind="soft",
        radius=share,
        max_iter=1,
        min_hit=0.1,
        max_leak=0.01,
    )
    found = values.run(SoftOracle(lambda table: metric.value(slow.confusion(rows_of(val), table))))
    np.testing.assert_allclose(found.vertices[0].alpha, fit.vertices[0].alpha, rtol=1e-9)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    basis=st.sampled_from(["soft", "overlapping", "hard"]),
    name=WEIGHTINGS,
    n_classes=st.integers(2, 3),
    omega=st.sampled_from([0.001, 0.02, 0.1]),
)
def test_constrained_program(seed, basis, name, n_classes, omega):
    """The probes for any basis reach what a program over all rows reaches, and keep within its omega."""
    assume(name != "diagonal" or basis != "hard")  # groups have their own construction
    train = make_problem(seed=seed, basis=basis, n_bases=2, n_classes=n_classes, n_train=40, weighted=True).train
    rows = rows_of(train)
    entries = slow.expected_entries(rows, name)
    relaxed = slow.relaxed_omega(entries, omega)
    engine, weighting = MemoryEngine(train, block_rows=7), weighting_named(name)
    found = constrained_probes(engine, min_hit=0.2, max_leak=omega, weighting=weighting)
    anchor = found.anchor.distribution(train.eta, train.phi)
    highest = slow.expected_features(rows, anchor, name).max()
    assert highest <= relaxed + 1e-3 * omega
    assert relaxed == omega or highest >= 0.9 * relaxed - 1e-9
    tables = [probe.distribution(train.eta, train.phi) for probe in found.classifiers]
    for place, table in enumerate(tables):
        reached = slow.expected_features(rows, table, name)
        leak = np.delete(reached, place).max()
        _, largest = slow.rate_program(entries[place], np.delete(entries, place, axis=0), leak + 1e-9)
        gap = 1e-3 * entries[place].max(axis=1).sum()
        assert largest - 0.1 * leak - gap - 1e-7 <= reached[place] <= largest + 1e-7
    by_labels = slow.sigma(rows, tables, name)
    np.testing.assert_allclose(found.sigma, by_labels - slow.features(rows, anchor, name), atol=1e-12)
    leaks = by_labels[~np.eye(len(by_labels), dtype=bool)]
    assert found.min_hit <= np.diag(by_labels).min() + 1e-12
    assert leaks.max() <= found.max_leak + 1e-12


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", ["diagonal", "columns", pytest.param("full", marks=pytest.mark.slow), SOME], ids=str)
@pytest.mark.parametrize("basis", ["soft", "overlapping"])
def test_constrained_elicitation_for_any_basis(basis, name, known):
    """Explicit probes (1 - eps) h + eps g against the looks, by matrices here, by queries for them, and by scores."""
    problem = make_problem(seed=5, basis=basis, n_bases=2, n_classes=3)
    train, val, metric, share = problem.train, problem.val, MacroF1(), 0.3
    how = {"weighting": name, "radius": share, "max_iter": 2, "min_hit": 0.1, "max_leak": 0.01}
    linearise = "gradient" if known else "probes"
    run = fw_eg_session(MemoryEngine(train), val, kind="confusion", metric=metric, linearise=linearise, **how)
    fit = run.run(ConfusionOracle(val.labels, n_classes=3))
    held = FwEgRun(
        MemoryEngine(train),
        val,
        kind=kind_named("confusion"),
        metric=metric,
        settings=Settings(linearise=linearise, **how),
        held=MemoryEngine(val),
    )
    local = without_queries(held.fit())
    expected = [elicited_slowly(problem, fit, t, metric, name, share=share, known=known) for t in range(2)]
    for found in (fit, local):
        for ours, theirs in zip(found.vertices, expected, strict=True):
            sigma, right = theirs
            residual = np.linalg.norm(sigma @ np.linalg.lstsq(sigma, right, rcond=1e-10)[0] - right)
            ours_residual = np.linalg.norm(sigma @ ours.alpha.reshape(-1) - right)
            assert ours_residual == pytest.approx(residual, abs=1e-10)
    if not known:
        values = fw_eg_session(MemoryEngine(train), val, kind="soft", **how)
        by_scores = values.run(SoftOracle(lambda table: metric.value(slow.confusion(rows_of(val), table))))
        np.testing.assert_allclose(by_scores.vertices[0].alpha, fit.vertices[0].alpha, rtol=1e-6, atol=1e-8)


def elicited_slowly(problem, fit, t, metric, name, *, share, known):
    """Sigma and the gains of iteration t from explicit tables, in differences to the centre."""
    start = Mixture.of([inverse_prior(np.bincount(problem.train.labels), n_bases=2)], [1.0])
    iterate = start.after(fit.vertices[:t], [2 / (s + 2) for s in range(t)])

    def tables(sample):
        every = [fit.probes.anchor, *fit.probes.classifiers]
        return [
            (1 - share) * iterate.distribution(sample.eta, sample.phi)
            + share * each.distribution(sample.eta, sample.phi)
            for each in every
        ]

    train, val = rows_of(problem.train), rows_of(problem.val)
    centre, *probes = tables(problem.train)
    sigma = slow.sigma(train, probes, name) - slow.features(train, centre, name)
    if known:
        at = slow.confusion(val, iterate.distribution(problem.val.eta, problem.val.phi))
        value = slow.linear_metric(val, metric.gradient(at))
    else:
        value = slow.queried_metric(val, lambda c: float(metric.value(c)))
    values = np.array([value(table) for table in tables(problem.val)])
    return sigma / share, (values[1:] - values[0]) / share
