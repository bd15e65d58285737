"""The conformance suite of engines: subclass it, give ``make``, and every engine is held to the same sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import Mixture, PlugIn, Sample
from postshift.core.moments import confusion_sums, hit_sums, label_sums, pair_hits
from postshift.core.weighting import DIAGONAL, weighting_named
from tests.problems import make_problem, problems

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


class EngineContract:
    """What every engine must do. ``make(sample, n_blocks)`` returns an engine over the rows, cut into blocks."""

    def make(self, sample, n_blocks):
        raise NotImplementedError("a subclass says how its engine is made")

    def test_shape(self):
        engine = self.make(make_problem(seed=0, n_classes=4, n_bases=3).train, 2)
        assert (engine.n_classes, engine.n_bases) == (4, 3)

    @given(problem=problems(), n_blocks=st.sampled_from([1, 3, 7]))
    def test_label_sums(self, problem, n_blocks):
        found, expected = self.make(problem.train, n_blocks).label_sums(), label_sums(problem.train)
        np.testing.assert_allclose(found.pair, expected.pair, **CLOSE)
        np.testing.assert_allclose(found.single, expected.single, **CLOSE)
        np.testing.assert_array_equal(found.classes, expected.classes)
        assert (found.total, found.count) == (expected.total, expected.count)

    @given(problem=problems(), n_blocks=st.sampled_from([1, 3, 7]), seed=st.integers(0, 99))
    def test_classifier_sums(self, problem, n_blocks, seed):
        sample, rng = problem.train, np.random.default_rng(seed)
        members = [
            PlugIn(
                weighting=weighting_named(name),
                alpha=rng.normal(size=(sample.n_bases, weighting_named(name).n_terms(sample.n_classes))),
                n_classes=sample.n_classes,
            )
            for name in ("diagonal", "columns", "full")
        ]
        for classifier in (*members, Mixture.of(members, [0.5, 0.3, 0.2])):
            table = classifier.distribution(sample.eta, sample.phi)
            for confusions, summed in ((False, hit_sums), (True, confusion_sums)):
                found = self.make(sample, n_blocks).classifier_sums(classifier, confusions=confusions)
                expected = summed(sample, table)
                np.testing.assert_allclose(found.pair, expected.pair, **CLOSE)
                np.testing.assert_allclose(found.single, expected.single, **CLOSE)

    @pytest.mark.parametrize("n_blocks", [2, 5])
    def test_counts_of_hard_clusters_are_exact(self, n_blocks):
        sample = make_problem(seed=5, n_classes=3, n_bases=3).train
        rule = PlugIn(weighting=DIAGONAL, alpha=np.ones((3, 3)), n_classes=3)
        one, many = self.make(sample, 1), self.make(sample, n_blocks)
        for confusions in (False, True):
            whole = one.classifier_sums(rule, confusions=confusions)
            np.testing.assert_array_equal(whole.pair, np.round(whole.pair))
            np.testing.assert_array_equal(whole.pair, many.classifier_sums(rule, confusions=confusions).pair)

    @given(problem=problems(bases=("hard",)), n_blocks=st.sampled_from([1, 4]))
    def test_pair_hits(self, problem, n_blocks):
        sample = problem.train
        ratios = np.random.default_rng(1).uniform(0, 3, size=(sample.n_bases, sample.n_classes))
        found = self.make(sample, n_blocks).pair_hits(ratios, reference=sample.n_classes - 1)
        expected = pair_hits(sample, ratios, reference=sample.n_classes - 1)
        np.testing.assert_allclose(found.own, expected.own, **CLOSE)
        np.testing.assert_allclose(found.reference, expected.reference, **CLOSE)

    @given(problem=problems(), n_blocks=st.sampled_from([1, 3, 7]))
    def test_sums_of_influence_regression(self, problem, n_blocks):
        sample = Sample.of(problem.train.eta, phi=problem.train.phi, weights=problem.train.weights)
        engine = self.make(sample, n_blocks)
        features = np.einsum("nl,ni->nli", sample.phi, sample.eta).reshape(sample.n_samples, -1)
        weights = sample.row_weights[:, None]
        found = engine.gram_sums()
        np.testing.assert_allclose(found.gram, features.T @ (weights * features), **CLOSE)
        np.testing.assert_allclose(found.cross, features.T @ (weights * sample.eta), **CLOSE)
        assert found.total == pytest.approx(weights.sum())
        rule = PlugIn(weighting=DIAGONAL, alpha=np.ones((sample.n_bases, sample.n_classes)), n_classes=sample.n_classes)
        hits = weights * sample.eta * rule.distribution(sample.eta, sample.phi)
        np.testing.assert_allclose(engine.influence_sums(rule).pair, features.T @ hits, **CLOSE)

    def test_a_class_that_never_occurs(self):
        sample = Sample.of(np.full((4, 3), 1 / 3), labels=[0, 0, 1, 1])
        assert self.make(sample, 2).label_sums().single[0, 2] == 0
