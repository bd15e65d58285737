"""Importance weighting: the ratio of two known densities, a peer's odds, and what it takes and refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from scipy.stats import multivariate_normal, spearmanr
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from postshift.baselines.importance import ImportanceWeighting, encoded, weight_parameter
from postshift.exceptions import InputError, SettingError, ShapeError, WeightError


def gaussian_classes(means, priors, n_rows, rng):
    """Rows of unit Gaussians, one for each class."""
    y = rng.choice(len(priors), p=priors, size=n_rows)
    return rng.normal(np.asarray(means)[y]), y


def joint_density(X, y, means, priors):
    return np.choose(y, [prior * multivariate_normal.pdf(X, mean) for mean, prior in zip(means, priors, strict=True)])


def shifted(seed=0, n_rows=1500, n_val=300):
    rng = np.random.default_rng(seed)
    X, X_val = rng.normal(size=(n_rows, 3)), rng.normal(0.5, size=(n_val, 3))
    return X, (X[:, 0] + X[:, 1] ** 2 > 1).astype(int), X_val, (X_val[:, 0] + X_val[:, 1] ** 2 > 1).astype(int)


def weighting(**params):
    return ImportanceWeighting(LogisticRegression(), **params)


# -- the weights ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_worlds():
    """Both classes move and change their shares: the log of the ratio is linear in x, with a slope for each class."""
    train = {"means": [[0.0, 0.0], [1.0, 1.0]], "priors": [0.7, 0.3]}
    val = {"means": [[0.5, 0.0], [0.5, 1.5]], "priors": [0.4, 0.6]}
    rng = np.random.default_rng(0)
    X, y = gaussian_classes(**train, n_rows=6000, rng=rng)
    X_val, y_val = gaussian_classes(**val, n_rows=4000, rng=rng)
    return X, y, X_val, y_val, joint_density(X, y, **val) / joint_density(X, y, **train)


def test_the_ratio_of_known_densities_is_found(two_worlds):
    *rows, truth = two_worlds
    found = weighting().fit(*rows).density_ratio_
    assert spearmanr(found, truth).statistic > 0.99
    assert np.abs(found / truth - 1).mean() < 0.08
    assert found.mean() == pytest.approx(1, abs=0.02)  # the mean of a ratio of densities


def test_without_products_of_features_and_labels_it_cannot_be_found(two_worlds):
    *rows, truth = two_worlds
    found = weighting(interactions=False).fit(*rows).density_ratio_
    assert np.abs(found / truth - 1).mean() > 0.2
    np.testing.assert_allclose(*_slopes(found, rows[0], rows[1]), rtol=1e-6)  # the same in both classes: g(x) c_y


def _slopes(ratio, X, y):
    """Return the gradient of log(ratio) in each class."""
    design = np.c_[X, np.ones(len(X))]
    return [np.linalg.lstsq(design[y == c], np.log(ratio[y == c]), rcond=None)[0][:2] for c in (0, 1)]


def test_covariate_shift_with_known_densities():
    rng = np.random.default_rng(1)
    X, X_val = rng.normal(size=(8000, 2)), rng.normal([0.8, -0.4], size=(3000, 2))
    y, y_val = (X[:, 0] > 0).astype(int), (X_val[:, 0] > 0).astype(int)
    truth = multivariate_normal.pdf(X, [0.8, -0.4]) / multivariate_normal.pdf(X, [0, 0])
    found = weighting(on="x").fit(X, y, X_val, y_val).density_ratio_
    assert spearmanr(found, truth).statistic > 0.99
    assert np.abs(found / truth - 1).mean() < 0.05


def test_a_label_shift_is_undone():
    rng = np.random.default_rng(2)
    X, y = gaussian_classes([[0.0], [0.0]], [0.8, 0.2], 4000, rng)
    X_val, y_val = gaussian_classes([[0.0], [0.0]], [0.3, 0.7], 2000, rng)
    model = weighting().fit(X, y, X_val, y_val)
    share = np.average(y, weights=model.sample_weight_)
    assert share == pytest.approx(y_val.mean(), abs=0.01)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y_val.mean(), abs=0.01)


def test_odds_of_a_logistic_regression_by_hand():
    X, y, X_val, y_val = shifted()
    model = weighting(embedding=np.asarray, clip=None).fit(X, y, X_val, y_val)

    def joined(X, y):
        return np.c_[X, y == 0, y == 1, X * (y == 0)[:, None], X * (y == 1)[:, None]]

    rows = np.r_[joined(X, y), joined(X_val, y_val)]
    discriminator = LogisticRegression(max_iter=1000).fit(rows, np.r_[np.zeros(len(X)), np.ones(len(X_val))])
    odds = np.exp(discriminator.decision_function(rows[: len(X)])) * len(X) / len(X_val)
    np.testing.assert_allclose(model.density_ratio_, odds, rtol=1e-6)
    np.testing.assert_allclose(model.sample_weight_, odds / odds.mean(), rtol=1e-6)
    by_hand = LogisticRegression().fit(X, y, sample_weight=odds / odds.mean())
    np.testing.assert_allclose(model.predict_proba(X_val), by_hand.predict_proba(X_val), atol=1e-5)


def test_a_peer_finds_the_same_weights():
    X, y, X_val, y_val = shifted()
    ours = weighting(on="x", embedding=np.asarray, clip=None).fit(X, y, X_val, y_val).sample_weight_
    rows, domain = np.r_[X, X_val], np.r_[np.ones(len(X)), -2 * np.ones(len(X_val))]
    with sklearn.config_context():  # the import of skada turns metadata routing on for everybody
        skada = pytest.importorskip("skada")
        adapter = skada.DiscriminatorReweightAdapter(LogisticRegression(max_iter=1000))
        adapter.fit(rows, sample_domain=domain)
        theirs = adapter.compute_weights(rows, sample_domain=domain)[: len(X)]
    # skada 0.6.0 has the odds of being a training row, the inverse; the densities above tell which way is right
    inverse = np.corrcoef(np.log(ours), np.log(theirs))[0, 1] < 0
    theirs = 1 / theirs if inverse else theirs
    np.testing.assert_allclose(ours, theirs / theirs.mean(), rtol=1e-6)


def test_clipped_weights():
    X, y, X_val, y_val = shifted()
    loose = weighting(clip=None).fit(X, y, X_val, y_val)
    tight = weighting(clip=1.5).fit(X, y, X_val, y_val)
    np.testing.assert_array_equal(loose.density_ratio_, tight.density_ratio_)
    cut = np.minimum(loose.density_ratio_, 1.5)
    np.testing.assert_allclose(tight.sample_weight_, cut / cut.mean())
    assert loose.sample_weight_.mean() == pytest.approx(1)


def test_equal_samples_get_equal_weights():
    X, y, *_ = shifted()
    model = weighting().fit(X, y, X, y)
    np.testing.assert_allclose(model.sample_weight_, 1, atol=1e-3)


def test_it_beats_the_model_where_labels_are_wrong_in_one_place():
    rng = np.random.default_rng(3)
    X, X_val, X_test = rng.normal(size=(4000, 2)), rng.normal(size=(600, 2)), rng.normal(size=(4000, 2))
    clean = [(each[:, 0] > 0).astype(int) for each in (X, X_val, X_test)]
    shown = np.where((X[:, 1] > 0) & (rng.random(len(X)) < 0.6), 0, clean[0])
    model = weighting().fit(X, shown, X_val, clean[1])
    base = LogisticRegression().fit(X, shown)
    assert model.score(X_test, clean[2]) > base.score(X_test, clean[2]) + 0.1


# -- what it takes -------------------------------------------------------------------------------------------


def test_sparse_indicators_weigh_as_dense_ones():
    rng = np.random.default_rng(4)
    X, X_val = (rng.random((n, 12)) < 0.3 for n in (800, 200))
    y, y_val = X[:, 0] | X[:, 1], X_val[:, 0]
    dense = weighting().fit(X.astype(float), y, X_val.astype(float), y_val)
    light = weighting().fit(sp.csr_array(X.astype(float)), y, sp.csr_matrix(X_val.astype(float)), y_val)
    np.testing.assert_allclose(light.sample_weight_, dense.sample_weight_, rtol=1e-3)
    np.testing.assert_array_equal(light.predict(X_val.astype(float)), dense.predict(X_val.astype(float)))


def test_the_scale_of_a_number_does_not_matter_whether_dense_or_sparse():
    X, y, X_val, y_val = shifted()
    factors = np.array([1.0, 1000.0, 0.01])
    for form in (np.asarray, sp.csr_array):
        plain = weighting().fit(form(X), y, form(X_val), y_val)
        scaled = weighting().fit(form(X * factors), y, form(X_val * factors), y_val)
        np.testing.assert_allclose(plain.sample_weight_, scaled.sample_weight_, rtol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_columns_of_zeros_and_ones_stay_as_they_are(form):
    X = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 4.0], [0.0, 0.0, 6.0], [1.0, 1.0, 8.0]])
    train, val = (sp.csr_array(table).toarray() for table in encoded(form(X), form(X[:2] + 1), owner=None))
    np.testing.assert_array_equal(train[:, :2], X[:, :2])
    np.testing.assert_array_equal(val[:, :2], X[:2, :2] + 1)
    assert train[:, 2].std() == pytest.approx(1)


@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_with_categories_and_a_pipeline(library):
    X, y, X_val, y_val = shifted()

    def frame(X, colours):
        columns = {"age": X[:, 0] * 10 + 40, "height": X[:, 1], "colour": np.take(colours, np.arange(len(X)) % 3)}
        return library.DataFrame(columns)

    rows, rows_val = frame(X, ["red", "green", "blue"]), frame(X_val, ["red", "green", "unseen"])
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), remainder=StandardScaler())
    names = np.array(["no", "yes"])
    pipeline = make_pipeline(encoder, LogisticRegression())
    model = ImportanceWeighting(pipeline).fit(rows, names[y], rows_val, names[y_val])
    blue = np.arange(len(y)) % 3 == 2
    assert model.sample_weight_[blue].mean() < 0.3 * model.sample_weight_[~blue].mean()
    assert set(model.predict(rows_val)) == {"no", "yes"}
    assert model.feature_names_in_.tolist() == ["age", "height", "colour"]
    np.testing.assert_allclose(model.predict_proba(rows_val).sum(axis=1), 1)
    by_hand = clone(pipeline).fit(rows, names[y], logisticregression__sample_weight=model.sample_weight_)
    np.testing.assert_array_equal(model.predict(rows_val), by_hand.predict(rows_val))


def test_texts_with_an_embedding():
    words = ["good film", "bad film", "good book", "bad book"]
    texts, labels = words * 30, [1, 0, 1, 0] * 30
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = ImportanceWeighting(pipeline, embedding=TfidfVectorizer()).fit(texts, labels, words[:2] * 10, [1, 0] * 10)
    films = np.array(["film" in text for text in texts])
    assert model.sample_weight_[films].mean() > 1.5 * model.sample_weight_[~films].mean()
    assert model.predict(["a good film"]).tolist() == [1]
    with pytest.raises(ShapeError, match=r"compares rows of a table. Got shape \(120,\): give embedding"):
        ImportanceWeighting(pipeline).fit(texts, labels, words, labels[:4])


def test_metadata_routing_gets_the_weights_to_the_last_step():
    X, y, X_val, y_val = shifted()
    plain = ImportanceWeighting(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y, X_val, y_val)
    with sklearn.config_context(enable_metadata_routing=True):
        last = LogisticRegression().set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = ImportanceWeighting(make_pipeline(scaler, last)).fit(X, y, X_val, y_val)
    np.testing.assert_allclose(plain.predict_proba(X_val), routed.predict_proba(X_val))


def test_a_model_without_probabilities_gives_labels_only():
    X, y, X_val, y_val = shifted()
    model = ImportanceWeighting(LinearSVC()).fit(X, y, X_val, y_val)
    by_hand = LinearSVC().fit(X, y, sample_weight=model.sample_weight_)
    np.testing.assert_array_equal(model.predict(X_val), by_hand.predict(X_val))
    assert not hasattr(model, "predict_proba")


def test_a_class_missing_on_one_side():
    X, y, X_val, y_val = shifted()
    extra, only_val = np.where(X[:, 2] > 1, 2, y), np.where(X_val[:, 2] > 1, 3, y_val)
    model = weighting().fit(X, extra, X_val, only_val)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.sample_weight_[extra == 2].mean() < 0.2
    proba = model.predict_proba(X_val)
    np.testing.assert_array_equal(proba[:, 3], 0)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_a_fifth_is_held_out_without_validation_rows():
    X, y, *_ = shifted()
    model = weighting().fit(X, y)
    assert len(model.sample_weight_) == 0.8 * len(X)


def test_the_seed_goes_to_the_discriminator():
    X, y, X_val, y_val = shifted()
    forest = RandomForestClassifier(20, min_samples_leaf=50)
    first, again, other = (
        weighting(discriminator=forest, random_state=seed).fit(X, y, X_val, y_val).sample_weight_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert forest.random_state is None
    assert weighting(discriminator=clone(forest).set_params(random_state=7)).fit(
        X, y, X_val, y_val
    ).discriminator_.random_state == 7  # fmt: skip


def test_parameters_are_kept_as_given():
    discriminator = LogisticRegression(C=0.1)
    model = weighting(discriminator=discriminator, clip=5.0, on="x")
    assert model.get_params(deep=False)["discriminator"] is discriminator
    copy = clone(model)
    assert copy.get_params()["discriminator__C"] == 0.1
    assert (copy.clip, copy.on, copy.interactions, copy.random_state) == (5.0, "x", True, 0)


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ImportanceWeighting(KNeighborsClassifier()), "KNeighborsClassifier takes no sample_weight in fit"),
        (
            ImportanceWeighting(make_pipeline(StandardScaler(), KNeighborsClassifier())),
            "KNeighborsClassifier takes no sample_weight in fit",
        ),
        (
            ImportanceWeighting(FrozenEstimator(LogisticRegression())),
            "estimator is frozen, so it cannot be fitted with weights",
        ),
        (weighting(on="y"), "there is no value of on 'y'"),
        (weighting(clip=0.5), r"clip must be a number in \[1, inf\). Got 0.5 instead"),
    ],
)
def test_bad_settings(model, message):
    with pytest.raises(SettingError, match=message):
        model.fit(*shifted(n_rows=60, n_val=30))


def test_a_discriminator_that_knows_its_rows_by_heart():
    with pytest.raises(WeightError, match="the 60 weights have mean 0: no training row resembles"):
        weighting(discriminator=DecisionTreeClassifier()).fit(*shifted(n_rows=60, n_val=30))


def test_a_discriminator_without_probabilities():
    with pytest.raises(InputError, match="has no predict_proba"):
        weighting(discriminator=LinearSVC()).fit(*shifted(n_rows=60, n_val=30))


def test_missing_numbers():
    X, y, X_val, y_val = shifted(n_rows=60, n_val=30)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN"):
        weighting().fit(X, y, X_val, y_val)


def test_nested_pipelines_name_the_parameter():
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    assert weight_parameter(make_pipeline(StandardScaler(), inner)) == "pipeline__logisticregression__sample_weight"
