"""Table 1: which weights are the right ones, exactly, and how fast elicitation finds them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from experiments.harness import runner
from experiments.harness.experiment import Results
from experiments.harness.files import OUT
from experiments.paper.weight_rates import (
    EXPERIMENT,
    N_SEEDS,
    SIZES,
    SLOPE_RANGE,
    FloatArray,
    Model,
    clean_probabilities,
    draw_sample,
    fit_weights,
    identified,
    measure,
    medians,
    models,
    relative_error,
    slope,
)

NAMES = ("ILN", "CDLN", "IDLN", "DS")
NOISE = NAMES[:3]
N_POINTS = 30


def named(name: str) -> Model:
    (found,) = (model for model in models() if model.name == name)
    return found


def random_laws(rng: np.random.Generator, n: int, m: int = 3) -> FloatArray:
    """Return n distributions over m classes: probabilities, classifiers, rows of T."""
    return rng.dirichlet(np.ones(m), size=n)


def confusion(mass: FloatArray, labels: FloatArray, h: FloatArray) -> FloatArray:
    """Return C_ij = sum_x mass(x) P(y = i | x) h_j(x)."""
    return np.einsum("n,ni,nj->ij", mass, labels, h)


# ------------------------------------------------------------------ the population identity


class TestWhichWeights:
    """Exact computation on a finite distribution."""

    @pytest.fixture(params=range(20))
    def rng(self, request: pytest.FixtureRequest) -> np.random.Generator:
        return np.random.default_rng(request.param)

    @pytest.fixture
    def gaps(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return weighted metric under noise less metric without, for 50 random classifiers and both weights."""
        mass, clean = rng.dirichlet(np.ones(N_POINTS)), random_laws(rng, N_POINTS)
        T, L = 0.6 * np.eye(3) + 0.4 * random_laws(rng, 3), rng.random((3, 3))
        inverse = np.linalg.inv(T)
        found = []
        for _ in range(50):
            h = random_laws(rng, N_POINTS)
            on_clean, on_noisy = confusion(mass, clean, h), confusion(mass, clean @ T, h)
            weighed = [(weights * on_noisy).sum() for weights in (inverse @ L, inverse * L)]
            found.append(np.array(weighed) - (L * on_clean).sum())
        product, hadamard = np.transpose(found)
        return product, hadamard

    def test_the_matrix_product_is_exact(self, gaps: tuple[FloatArray, FloatArray]) -> None:
        assert np.abs(gaps[0]).max() < 1e-12

    def test_the_printed_product_is_not(self, gaps: tuple[FloatArray, FloatArray]) -> None:
        """Nor is it up to a constant: the gap differs from classifier to classifier."""
        assert np.abs(gaps[1]).max() > 1e-2
        assert np.ptp(gaps[1]) > 1e-3

    def test_they_agree_where_both_are_diagonal(self, rng: np.random.Generator) -> None:
        L, T = np.diag(rng.random(3)), np.diag(0.5 + rng.random(3))
        np.testing.assert_allclose(np.linalg.inv(T) @ L, L * np.linalg.inv(T), rtol=0, atol=1e-15)

    def test_domain_shift_needs_the_reward(self, rng: np.random.Generator) -> None:
        """W_ij = ratio, as printed, gives every classifier the value 1; W_ij = L_ij ratio is exact."""
        true, train = rng.dirichlet(np.ones(N_POINTS)), rng.dirichlet(np.ones(N_POINTS))
        labels, h, L = random_laws(rng, N_POINTS), random_laws(rng, N_POINTS), rng.random((3, 3))
        reweighted = confusion(train * (true / train), labels, h)
        assert reweighted.sum() == pytest.approx(1, abs=1e-12)
        assert (L * reweighted).sum() == pytest.approx((L * confusion(true, labels, h)).sum(), abs=1e-12)


class TestModels:
    """The models of the experiment, at points of [0, 1] instead of all of it."""

    x = (np.arange(N_POINTS) + 0.5) / N_POINTS
    uniform = np.full(N_POINTS, 1 / N_POINTS)

    def gaps(self, model: Model, weights: FloatArray) -> FloatArray:
        """Return the weighted metric on mu less the metric on D, for 50 random classifiers."""
        rng = np.random.default_rng(0)
        clean = clean_probabilities(self.x, rng.normal(size=(N_POINTS, 2)))
        noisy = np.stack([law @ T for law, T in zip(clean, model.transition(self.x), strict=True)])
        phi, true = model.basis(self.x), self.uniform * model.ratio(self.x)
        found = []
        for _ in range(50):
            h = random_laws(rng, N_POINTS)
            parts = [confusion(self.uniform * column, noisy, h) for column in phi.T]
            weighed = sum((matrix * part).sum() for matrix, part in zip(weights, parts, strict=True))
            found.append(weighed - model.metric.value(confusion(true, clean, h)))
        return np.array(found)

    @pytest.mark.parametrize("name", NAMES)
    def test_true_weights_are_exact(self, name: str) -> None:
        model = named(name)
        assert np.abs(self.gaps(model, model.truth)).max() < 1e-12

    @pytest.mark.parametrize("name", NOISE)
    def test_a_constant_per_row_is_not_identified(self, name: str) -> None:
        model = named(name)
        gaps = self.gaps(model, identified(model, model.truth))
        assert np.ptp(gaps) < 1e-12
        assert np.abs(gaps).min() > 0.1

    @pytest.mark.parametrize("name", NOISE)
    def test_printed_weights_are_wrong(self, name: str) -> None:
        model = named(name)
        assert np.ptp(self.gaps(model, model.printed)) > 1e-2
        assert relative_error(model, model.printed) > 0.3

    @pytest.mark.parametrize("name", NAMES)
    def test_they_are_distributions(self, name: str) -> None:
        model = named(name)
        T = model.transition(self.x)
        assert T.min() >= 0
        np.testing.assert_allclose(T.sum(axis=2), 1, atol=1e-12)
        assert model.ratio(self.x).min() > 0
        assert model.ratio(self.x).mean() == pytest.approx(1)
        np.testing.assert_allclose(model.basis(self.x).sum(axis=1), 1, atol=1e-12)

    @pytest.mark.parametrize("name", NOISE)
    def test_noise_is_general(self, name: str) -> None:
        """Every entry of T is above 0 and T is not symmetric."""
        T = named(name).transition(self.x)
        assert T.min() > 0
        assert np.abs(T - np.swapaxes(T, 1, 2)).max(axis=(1, 2)).min() > 0.01

    def test_validation_rows_follow_the_ratio(self) -> None:
        model, n = named("DS"), 100_000
        x = model.draw_val(np.random.default_rng(0), n)
        share, edges = np.histogram(x, bins=20, range=(0, 1))
        expected = n / 20 * model.ratio((edges[1:] + edges[:-1]) / 2)  # exact: the density is linear
        assert (((share - expected) ** 2 / expected).sum()) < 43.8  # chi-squared, 19 degrees, 0.1 %

    @pytest.mark.parametrize("side", ["train", "val"])
    def test_labels_follow_their_law(self, side: str) -> None:
        """Training labels are noisy, validation labels clean; eta is that of the noisy ones on both sides."""
        model, n = named("ILN"), 100_000
        sample = draw_sample(model, np.random.default_rng(1), n, side=side)
        law = sample.eta if side == "train" else sample.eta @ np.linalg.inv(model.transition(np.zeros(1))[0])
        counts = np.bincount(sample.labels, minlength=3)
        assert np.abs(counts / n - law.mean(axis=0)).max() < 4 * np.sqrt(0.25 / n)


# ------------------------------------------------------------------ the rate


@pytest.fixture(scope="module")
def stored() -> Results:
    return runner.stored(EXPERIMENT, OUT)


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_is_compared_was_determined(name: str) -> None:
    """The rank is that of the identified part: all on the diagonal, all but one per (l, i) on the full matrix."""
    model, rng = named(name), np.random.default_rng(0)
    train, val = (draw_sample(model, rng, 1_000, side=side) for side in ("train", "val"))
    looked = fit_weights(model, train, val).trace[0]
    per_basis = 3 if model.weighting == "diagonal" else 9 - 3
    assert looked.rank == per_basis * len(model.truth)
    assert looked.condition < 1e3


def test_error_of_one_run_is_repeatable() -> None:
    assert measure("CDLN", 1_000, 3, False) == measure("CDLN", 1_000, 3, False)


@pytest.mark.slow
def test_slopes(stored: Results, record_property: Callable[[str, object], None]) -> None:
    """The whole experiment, run again; one test, so that parallel workers do not run it several times."""
    rows = runner.run(EXPERIMENT, folder=None).results
    assert rows.seeds == list(range(20))
    assert (min(SIZES), max(SIZES), SLOPE_RANGE) == (1_000, 100_000, (-0.65, -0.35))
    slopes = {name: slope(rows, name) for name in NAMES}
    for name, value in slopes.items():
        record_property("figure", f"Table 1, {name}: the elicited weights' error falls with slope {value:.3f}")
    assert all(SLOPE_RANGE[0] <= value <= SLOPE_RANGE[1] for value in slopes.values()), slopes
    if f"numpy {np.__version__}," in stored.made_with:  # other versions may draw other random numbers
        for name in NAMES:
            np.testing.assert_allclose(medians(rows, name), medians(stored, name), rtol=1e-3)


# ------------------------------------------------------------------ the files


class TestFiles:
    @pytest.mark.parametrize("name", NAMES)
    def test_stored_slopes(self, name: str, stored: Results) -> None:
        assert SLOPE_RANGE[0] <= slope(stored, name) <= SLOPE_RANGE[1]

    def test_stored_rows_are_complete(self, stored: Results) -> None:
        expected = [(name, n, seed) for name in NAMES for n in SIZES for seed in range(N_SEEDS)]
        assert [(row.method, row.size, row.seed) for row in stored.rows] == expected

    @pytest.mark.parametrize("name", NAMES)
    def test_table_shows_the_slope(self, name: str, stored: Results) -> None:
        """Read back from the table, not through the code that wrote it."""
        lines = (OUT / "weight_rates.md").read_text(encoding="utf-8").splitlines()
        (line,) = (line for line in lines if line.startswith(f"| {name}: "))
        cells = [cell.strip().replace("−", "-") for cell in line.strip("|").split("|")]
        errors = {n: [r.values["error"] for r in stored.rows if (r.method, r.size) == (name, n)] for n in SIZES}
        by_size = {n: np.median(values) for n, values in errors.items()}
        fitted = np.polyfit(np.log10(SIZES), np.log10(list(by_size.values())), deg=1)[0]
        assert [float(cell) for cell in cells[3:6]] == pytest.approx(
            [by_size[SIZES[0]], by_size[SIZES[-1]], fitted], abs=5.1e-3
        )

    def test_plot(self, stored: Results) -> None:
        pytest.importorskip("matplotlib")
        (axes,) = EXPERIMENT.figure(stored).axes
        lines = {line.get_label(): line for line in axes.lines}
        assert [label.partition(":")[0] for label in lines] == [*NAMES, "reference"]
        for name, line in zip(NAMES, axes.lines, strict=False):
            np.testing.assert_array_equal(line.get_xdata(), SIZES)
            np.testing.assert_allclose(line.get_ydata(), medians(stored, name))
        for suffix, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            assert (OUT / f"weight_rates.{suffix}").read_bytes().startswith(magic)
