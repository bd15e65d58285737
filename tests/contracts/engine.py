"""The conformance suite of engines: subclass it, give ``make``, and every engine is held to the same sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postshift import Mixture, PlugIn, Rows
from postshift.core.influence import SoftInversePrior
from postshift.core.rows import PHI
from postshift.core.sums import (
    confusion_sums,
    hit_sums,
    influence_features,
    influence_sums,
    label_sums,
    pair_hits,
    weighted_confusions,
)
from postshift.core.weighting import DIAGONAL, weighting_named
from postshift.exceptions import SettingError, ShapeError
from tests.problems import make_problem, problems

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
# Every engine runs the same test functions: that is the point of a contract.
for_every_engine = settings(suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow])
few_for_every_engine = settings(for_every_engine, max_examples=8)


def random_rules(sample, seed):
    """One plug-in of each weighting, with weights of either sign."""
    rng = np.random.default_rng(seed)
    return [
        PlugIn(
            weighting=weighting_named(name),
            alpha=rng.normal(size=(sample.n_bases, weighting_named(name).n_terms(sample.n_classes))),
            n_classes=sample.n_classes,
        )
        for name in ("diagonal", "columns", "full", "entries 0-1 1-1")
    ]


def random_classifiers(sample, seed):
    """A classifier of each kind that engines may treat in a way of its own, and one that no engine knows."""
    rules = random_rules(sample, seed)
    return (*rules, Mixture.of(rules, [0.4, 0.3, 0.2, 0.1]), SoftInversePrior(sample.eta.mean(axis=0)))


def expected_look(sample, classifier, *, influence, n_categories):
    """The tensor of a look, by definition."""
    features = influence_features(sample.eta, sample.phi) if influence else sample.phi
    columns = np.column_stack([np.ones(sample.n_rows), features]) * sample.row_weights[:, None]
    table = classifier.distribution(sample.eta, sample.phi)
    return weighted_confusions(columns, sample.labels, table, n_categories=n_categories)


def taken(sample, rows):
    """Return rows of a sample, in this order."""
    weights = None if sample.weights is None else sample.weights[rows]
    bases = {PHI: sample.phi[rows]}
    return replace(sample, eta=sample.eta[rows], bases=bases, labels=sample.labels[rows], weights=weights)


def in_precision(sample, dtype):
    """Return rows with eta and phi of this type."""
    return replace(sample, eta=sample.eta.astype(dtype), bases={PHI: sample.phi.astype(dtype)})


def all_sums(engine, classifier):
    """Every sum that an engine gives of a plug-in, by name; each is linear in the weights of the rows."""
    labels, grams = engine.label_sums(), engine.gram_sums()
    hits, confusions = (engine.classifier_sums(classifier, confusions=each) for each in (False, True))
    pairs = engine.pair_hits(np.abs(classifier.alpha), reference=0)
    return {
        "mass": labels.single, "pair mass": labels.pair, "classes": labels.classes, "gram": grams.gram,
        "cross": grams.cross, "hits": hits.single, "pair hits": hits.pair, "confusions": confusions.single,
        "pair confusions": confusions.pair, "look": engine.look(classifier, influence=False),
        "influence": engine.influence_sums(classifier).pair, "own": pairs.own, "reference": pairs.reference,
    }  # fmt: skip


def in_class_order(sums, order, n_bases):
    """Return the sums of the same rows with the classes in another order; those against a reference class left out."""
    n_classes = len(order)
    features = (np.arange(n_bases)[:, None] * n_classes + order).ravel()
    found = {name: sums[name][..., order] for name in ("mass", "pair mass", "classes", "hits", "pair hits")}
    found |= {name: sums[name][..., order, :][..., order] for name in ("confusions", "pair confusions", "look")}
    return found | {"gram": sums["gram"][features][:, features], "cross": sums["cross"][features][:, order]}


@st.composite
def two_class_problems(draw):
    """Few distinct probabilities, 0 and 1 among them, and weights that make their products tie or nearly tie."""
    n, n_bases, seed = draw(st.integers(5, 60)), draw(st.integers(1, 3)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    share = draw(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.25, 1e-310, 1 / 3]), min_size=1, max_size=6))
    one = rng.choice(share, size=n)
    sample = Rows.of(
        np.column_stack([1 - one, one]),
        phi=np.eye(n_bases)[rng.integers(n_bases, size=n)],
        labels=rng.integers(2, size=n),
        weights=rng.uniform(0.1, 3, size=n) if draw(st.booleans()) else None,
    )
    # On a row with eta_0 > 0, the weights (eta_1, eta_0) tie exactly; a rounding more or less nearly ties.
    rows = rng.integers(n, size=n_bases)
    alpha = np.maximum(sample.eta[rows][:, ::-1], draw(st.sampled_from([1e-300, 1e-9, 0.3])))
    return sample, alpha * (1 + np.finfo(float).eps * rng.integers(-3, 4, size=alpha.shape))


class EngineContract:
    """What every engine must do. ``make(sample, n_blocks)`` returns an engine over the rows, cut into blocks."""

    def make(self, sample, n_blocks, **more):
        raise NotImplementedError("a subclass says how its engine is made")

    def test_shape(self):
        engine = self.make(make_problem(seed=0, n_classes=4, n_bases=3).train, 2)
        assert (engine.n_classes, engine.n_bases) == (4, 3)

    @for_every_engine
    @given(problem=problems(), n_blocks=st.sampled_from([1, 3, 7]))
    def test_label_sums(self, problem, n_blocks):
        found, expected = self.make(problem.train, n_blocks).label_sums(), label_sums(problem.train)
        np.testing.assert_allclose(found.pair, expected.pair, **CLOSE)
        np.testing.assert_allclose(found.single, expected.single, **CLOSE)
        np.testing.assert_array_equal(found.classes, expected.classes)
        assert (found.total, found.count) == (expected.total, expected.count)

    @for_every_engine
    @given(problem=problems(), n_blocks=st.sampled_from([1, 3, 7]), seed=st.integers(0, 99))
    def test_classifier_sums(self, problem, n_blocks, seed):
        sample = problem.train
        engine = self.make(sample, n_blocks)
        for classifier in random_classifiers(sample, seed):
            table = classifier.distribution(sample.eta, sample.phi)
            for confusions, summed in ((False, hit_sums), (True, confusion_sums)):
                found = engine.classifier_sums(classifier, confusions=confusions)
                expected = summed(sample, table)
                np.testing.assert_allclose(found.pair, expected.pair, **CLOSE)
                np.testing.assert_allclose(found.single, expected.single, **CLOSE)

    @for_every_engine
    @given(problem=problems(), n_blocks=st.sampled_from([1, 3, 7]), seed=st.integers(0, 99))
    def test_look(self, problem, n_blocks, seed):
        sample = problem.val
        engine = self.make(sample, n_blocks)
        for classifier in random_classifiers(sample, seed):
            for influence in (False, True):
                expected = expected_look(sample, classifier, influence=influence, n_categories=sample.n_classes)
                np.testing.assert_allclose(engine.look(classifier, influence=influence), expected, **CLOSE)

    @for_every_engine
    @given(problem=problems(max_classes=3), extra=st.sampled_from([-1, 1, 5]), seed=st.integers(0, 99))
    def test_look_by_categories(self, problem, extra, seed):
        n_categories = problem.n_classes + extra
        labels = np.random.default_rng(seed).integers(n_categories, size=problem.val.n_rows)
        sample = replace(problem.val, labels=labels)
        engine = self.make(sample, 3, n_categories=n_categories)
        for classifier in random_classifiers(sample, seed):
            for influence in (False, True):
                expected = expected_look(sample, classifier, influence=influence, n_categories=n_categories)
                np.testing.assert_allclose(engine.look(classifier, influence=influence), expected, **CLOSE)
        with pytest.raises(SettingError, match="categories"):
            engine.label_sums()
        with pytest.raises(SettingError, match="categories"):
            engine.classifier_sums(classifier, confusions=False)
        np.testing.assert_allclose(engine.gram_sums().total, sample.row_weights.sum(), **CLOSE)

    @few_for_every_engine
    @given(problem=problems(), seed=st.integers(0, 99), scale=st.floats(1e-9, 1e9))
    def test_sums_in_another_order_repeated_and_scaled(self, problem, seed, scale):
        sample, rng = problem.train, np.random.default_rng(seed)
        rule = random_rules(sample, seed)[0]
        times = rng.integers(1, 4, size=sample.n_rows)
        rows, order = rng.permutation(sample.n_rows), rng.permutation(sample.n_classes)
        weighted = replace(sample, weights=sample.row_weights * times)
        whole = all_sums(self.make(weighted, 3), rule)
        for other, factor in (
            (taken(weighted, rows), 1.0),
            (taken(sample, np.repeat(np.arange(sample.n_rows), times)), 1.0),
            (replace(weighted, weights=weighted.weights * scale), scale),
        ):
            found = all_sums(self.make(other, 3), rule)
            for name, expected in whole.items():
                np.testing.assert_allclose(found[name], factor * expected, rtol=1e-11, atol=1e-11 * factor)
        turned = replace(weighted, eta=weighted.eta[:, order], labels=np.argsort(order)[weighted.labels])
        found = all_sums(self.make(turned, 3), replace(rule, alpha=rule.alpha[:, order]))
        for name, expected in in_class_order(whole, order, sample.n_bases).items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-11, atol=1e-11, err_msg=name)

    @for_every_engine
    @given(problem=problems(), seed=st.integers(0, 99))
    def test_single_precision(self, problem, seed):
        narrow = in_precision(problem.train, np.float32)
        wide = in_precision(narrow, np.float64)
        engine, expected = self.make(narrow, 3), self.make(wide, 2)
        np.testing.assert_allclose(engine.gram_sums().gram, expected.gram_sums().gram, **CLOSE)
        np.testing.assert_allclose(engine.label_sums().pair, expected.label_sums().pair, **CLOSE)
        for classifier in random_classifiers(wide, seed):
            for confusions in (False, True):
                found = engine.classifier_sums(classifier, confusions=confusions)
                wanted = expected.classifier_sums(classifier, confusions=confusions)
                np.testing.assert_allclose(found.pair, wanted.pair, **CLOSE)
            for influence in (False, True):
                seen = engine.look(classifier, influence=influence)
                np.testing.assert_allclose(seen, expected.look(classifier, influence=influence), **CLOSE)
            sums = engine.influence_sums(classifier)
            np.testing.assert_allclose(sums.pair, expected.influence_sums(classifier).pair, **CLOSE)

    @for_every_engine
    @given(problem=two_class_problems(), n_blocks=st.sampled_from([1, 3]))
    def test_two_classes_with_ties_and_zeros(self, problem, n_blocks):
        sample, alpha = problem
        engine = self.make(sample, n_blocks)
        for weights in (alpha, alpha[:, ::-1], -alpha, np.zeros_like(alpha), np.ones_like(alpha)):
            rule = PlugIn(weighting=DIAGONAL, alpha=weights, n_classes=2)
            expected = confusion_sums(sample, rule.distribution(sample.eta, sample.phi))
            same = np.testing.assert_allclose if sample.weights is not None else np.testing.assert_array_equal
            same(engine.classifier_sums(rule, confusions=True).pair, expected.pair)
            same(engine.classifier_sums(rule, confusions=False).single, np.einsum("lii->li", expected.single))
            same(engine.look(rule, influence=False)[1:], expected.single)

    @pytest.mark.parametrize("n_classes", [2, 3, 7])
    def test_ties_go_to_the_first_class(self, n_classes):
        rng = np.random.default_rng(n_classes)
        counts = rng.multinomial(4, np.full(n_classes, 1 / n_classes), size=200)
        sample = Rows.of(counts / 4, phi=np.eye(3)[rng.integers(3, size=200)], labels=rng.integers(n_classes, size=200))
        for name in ("diagonal", "columns"):
            n_terms = weighting_named(name).n_terms(n_classes)
            rule = PlugIn(weighting=name, alpha=rng.integers(1, 3, size=(3, n_terms)), n_classes=n_classes)
            expected = confusion_sums(sample, rule.distribution(sample.eta, sample.phi))
            engine = self.make(sample, 3)
            np.testing.assert_array_equal(engine.classifier_sums(rule, confusions=True).pair, expected.pair)
            hits = engine.classifier_sums(rule, confusions=False).single
            np.testing.assert_array_equal(hits, np.einsum("lii->li", expected.single))

    @pytest.mark.parametrize("basis", ["hard", "soft"])
    def test_sums_are_laid_out_row_by_row(self, basis):  # else the bytes of a saved run depend on the engine
        sample = make_problem(seed=3, n_classes=4, n_bases=3, basis=basis).train
        engine = self.make(sample, 2)
        for classifier in random_classifiers(sample, 0):
            sums = [engine.classifier_sums(classifier, confusions=confusions) for confusions in (False, True)]
            sums.append(engine.influence_sums(classifier))
            looks = [engine.look(classifier, influence=influence) for influence in (False, True)]
            for table in (*looks, *(part for found in sums for part in (found.pair, found.single))):
                assert table.flags.c_contiguous

    def test_a_rule_of_another_shape(self):
        engine = self.make(make_problem(seed=0, n_classes=4, n_bases=3).train, 2)
        rule = PlugIn(weighting=DIAGONAL, alpha=np.ones((2, 4)), n_classes=4)
        for call in (
            lambda: engine.classifier_sums(rule, confusions=False),
            lambda: engine.influence_sums(rule),
            lambda: engine.look(rule, influence=True),
        ):
            with pytest.raises(ShapeError, match="as in the fit"):
                call()

    @pytest.mark.parametrize("n_blocks", [2, 5])
    def test_counts_of_hard_clusters_are_exact(self, n_blocks):
        sample = make_problem(seed=5, n_classes=3, n_bases=3).train
        rule = PlugIn(weighting=DIAGONAL, alpha=np.ones((3, 3)), n_classes=3)
        one, many = self.make(sample, 1), self.make(sample, n_blocks)
        for confusions in (False, True):
            whole = one.classifier_sums(rule, confusions=confusions)
            np.testing.assert_array_equal(whole.pair, np.round(whole.pair))
            np.testing.assert_array_equal(whole.pair, many.classifier_sums(rule, confusions=confusions).pair)

    @for_every_engine
    @given(problem=problems(bases=("hard",)), n_blocks=st.sampled_from([1, 4]))
    def test_pair_hits(self, problem, n_blocks):
        sample = problem.train
        ratios = np.random.default_rng(1).uniform(0, 3, size=(sample.n_bases, sample.n_classes))
        found = self.make(sample, n_blocks).pair_hits(ratios, reference=sample.n_classes - 1)
        expected = pair_hits(sample, ratios, reference=sample.n_classes - 1)
        np.testing.assert_allclose(found.own, expected.own, **CLOSE)
        np.testing.assert_allclose(found.reference, expected.reference, **CLOSE)

    @for_every_engine
    @given(problem=problems(), n_blocks=st.sampled_from([1, 3, 7]), seed=st.integers(0, 99))
    def test_sums_of_influence_regression(self, problem, n_blocks, seed):
        sample = Rows.of(problem.train.eta, phi=problem.train.phi, weights=problem.train.weights)
        engine = self.make(sample, n_blocks)
        features = np.einsum("nl,ni->nli", sample.phi, sample.eta).reshape(sample.n_rows, -1)
        weights = sample.row_weights[:, None]
        found = engine.gram_sums()
        np.testing.assert_allclose(found.gram, features.T @ (weights * features), **CLOSE)
        np.testing.assert_allclose(found.cross, features.T @ (weights * sample.eta), **CLOSE)
        assert found.total == pytest.approx(weights.sum())
        for classifier in random_classifiers(sample, seed):
            expected = influence_sums(sample, classifier.distribution(sample.eta, sample.phi))
            sums = engine.influence_sums(classifier)
            np.testing.assert_allclose(sums.pair, expected.pair, **CLOSE)
            np.testing.assert_allclose(sums.single, expected.single, **CLOSE)

    def test_a_class_that_never_occurs(self):
        sample = Rows.of(np.full((4, 3), 1 / 3), labels=[0, 0, 1, 1])
        assert self.make(sample, 2).label_sums().single[0, 2] == 0
