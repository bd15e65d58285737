"""Table 1 of the paper: the elicited weights approach the true ones at the rate ``1 / sqrt(n)``.

Four synthetic pairs of distributions, D (validation) and mu (training), with known true weights in the span of
the basis functions. x is uniform on [0, 1] under mu and decides about noise and shift; two normal features z
carry the class. Notation as in the paper: ``T_ij(x) = P(noisy = j | clean = i, x)``, reward matrix L, basis phi.

=====  =============================  ==================  ===============================
model  what differs                   phi(x)              true weights, coefficient of phi_l
=====  =============================  ==================  ===============================
ILN    one T                          1                   inverse(T) L
CDLN   one T per third of [0, 1]      the three thirds    inverse(T_l) L
IDLN   T(x) = (1-rho) I + rho 1 q'    x, 1 - x            (a_l I + (1 - a_l) 1 q') L
DS     density of x is r(x)           x, 1 - x            r_l on the diagonal (accuracy)
=====  =============================  ==================  ===============================

For IDLN ``inverse(T(x)) = a(x) I + (1 - a(x)) 1 q'`` with ``a = 1 / (1 - rho) = a_1 x + a_2 (1 - x)``, because
``1 q'`` is a projection.

``python -m experiments weight_rates``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import COLOURS, MARKERS, plain_axes
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown
from postshift import FitResult, Mixture, PlugIn, Rows, pi_ew
from postshift.core.psi import ConfusionMetric
from postshift.core.weighting import weighting_named
from postshift.metrics import Accuracy, ExpectedReward

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

N_CLASSES: Final = 3
SIZES: Final = (1_000, 2_154, 4_642, 10_000, 21_544, 46_416, 100_000)
N_SEEDS: Final = 20
SLOPE_RANGE: Final = (-0.65, -0.35)


# -- the models -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """One row of Table 1; ``truth`` and ``printed`` are coefficients (L, m, m) of the basis functions."""

    name: str
    title: str
    basis_text: str
    weighting: Literal["diagonal", "full"]
    metric: ConfusionMetric
    basis: Callable[[FloatArray], FloatArray]  # x (n,) -> phi (n, L)
    transition: Callable[[FloatArray], FloatArray]  # x (n,) -> T(x) (n, m, m)
    ratio: Callable[[FloatArray], FloatArray]  # x (n,) -> P_D(x) / P_mu(x)
    draw_val: Callable[[np.random.Generator, int], FloatArray]  # x from P_D
    truth: FloatArray
    printed: FloatArray  # what Table 1 prints


def models() -> tuple[Model, ...]:
    """Return the four models, in the order of Table 1."""
    return independent_noise(), cluster_noise(), instance_noise(), domain_shift()


def reward() -> FloatArray:
    """Return the reward matrix L of the models with label noise: no zeros, no symmetry."""
    return np.array([[1.0, 0.2, 0.1], [0.3, 0.8, 0.4], [0.1, 0.5, 1.2]])


def independent_noise() -> Model:
    """Return ILN: one transition matrix everywhere, the constant basis."""
    T = np.array([[0.70, 0.20, 0.10], [0.10, 0.80, 0.10], [0.15, 0.25, 0.60]])
    return _label_noise(
        name="ILN",
        title="independent label noise",
        basis_text="1",
        basis=lambda x: np.ones((len(x), 1)),
        transition=lambda x: np.broadcast_to(T, (len(x), *T.shape)),
        inverses=np.linalg.inv(T)[None],
    )


def cluster_noise() -> Model:
    """Return CDLN: one transition matrix per third of [0, 1], the indicators of the thirds."""
    T = np.array([
        [[0.80, 0.15, 0.05], [0.10, 0.80, 0.10], [0.05, 0.20, 0.75]],
        [[0.75, 0.10, 0.15], [0.20, 0.70, 0.10], [0.10, 0.10, 0.80]],
        [[0.85, 0.05, 0.10], [0.05, 0.75, 0.20], [0.20, 0.10, 0.70]],
    ])  # fmt: skip
    return _label_noise(
        name="CDLN",
        title="cluster-dependent label noise",
        basis_text="indicators of 3 clusters",
        basis=lambda x: np.eye(3)[_third(x)],
        transition=lambda x: T[_third(x)],
        inverses=np.linalg.inv(T),
    )


def instance_noise() -> Model:
    """Return IDLN: with probability rho(x) the label is drawn anew from q, ``1 / (1 - rho)`` linear in x."""
    a, q = np.array([1.6, 1.1]), np.array([0.5, 0.3, 0.2])
    redrawn = np.tile(q, (N_CLASSES, 1))  # 1 q'

    def transition(x: FloatArray) -> FloatArray:
        kept = 1 / (_soft(x) @ a)[:, None, None]
        return np.asarray(kept * np.eye(N_CLASSES) + (1 - kept) * redrawn)

    return _label_noise(
        name="IDLN",
        title="instance-dependent label noise",
        basis_text="x, 1 − x",
        basis=_soft,
        transition=transition,
        inverses=a[:, None, None] * np.eye(N_CLASSES) + (1 - a[:, None, None]) * redrawn,
    )


def domain_shift() -> Model:
    """Return DS: the density of x goes from uniform to ``r_1 x + r_2 (1 - x)``, a mixture of two Beta laws."""
    r = np.array([1.5, 0.5])  # mean 1, so that r(x) is a density

    def draw_val(rng: np.random.Generator, n: int) -> FloatArray:
        rising = rng.random(n) < r[0] / 2
        return np.where(rising, rng.beta(2, 1, size=n), rng.beta(1, 2, size=n))

    weights = r[:, None, None] * np.eye(N_CLASSES)
    return Model(
        name="DS",
        title="domain shift",
        basis_text="x, 1 − x",
        weighting="diagonal",
        metric=Accuracy(),
        basis=_soft,
        transition=lambda x: np.broadcast_to(np.eye(N_CLASSES), (len(x), N_CLASSES, N_CLASSES)),
        ratio=lambda x: _soft(x) @ r,
        draw_val=draw_val,
        truth=weights,
        printed=weights,
    )


def _label_noise(
    *,
    name: str,
    title: str,
    basis_text: str,
    basis: Callable[[FloatArray], FloatArray],
    transition: Callable[[FloatArray], FloatArray],
    inverses: FloatArray,
) -> Model:
    """Return a model of label noise with ``inverse(T(x)) = sum_l phi_l(x) inverses_l``."""
    return Model(
        name=name,
        title=title,
        basis_text=basis_text,
        weighting="full",
        metric=ExpectedReward(reward()),
        basis=basis,
        transition=transition,
        ratio=lambda x: np.ones(len(x)),
        draw_val=lambda rng, n: rng.random(n),
        truth=inverses @ reward(),
        printed=inverses * reward(),
    )


def _soft(x: FloatArray) -> FloatArray:
    """Return the basis functions x and 1 - x."""
    return np.column_stack([x, 1 - x])


def _third(x: FloatArray) -> NDArray[np.intp]:
    """Return the cluster of each x: its third of [0, 1]."""
    return np.minimum((3 * x).astype(np.intp), 2)


# -- sampling and eliciting -----------------------------------------------------------------------------


def clean_probabilities(x: FloatArray, z: FloatArray) -> FloatArray:
    """Return P(y | x, z) under D: a softmax with one direction of z per class, tilted along x."""
    angles = 2 * np.pi * np.arange(N_CLASSES) / N_CLASSES
    scores = 3 * z @ np.stack([np.cos(angles), np.sin(angles)]) + np.outer(x - 0.5, [1.0, 0.0, -1.0])
    powers = np.exp(scores)
    return np.asarray(powers / (powers @ np.ones((N_CLASSES, 1))))


def draw_sample(model: Model, rng: np.random.Generator, n: int, *, side: Literal["train", "val"]) -> Rows:
    """Return n rows of mu (noisy labels, x uniform) or of D; eta is the true conditional under mu on both."""
    x = rng.random(n) if side == "train" else model.draw_val(rng, n)
    clean = clean_probabilities(x, rng.normal(size=(n, 2)))
    noisy = np.einsum("ni,nij->nj", clean, model.transition(x))
    law = noisy if side == "train" else clean
    below = np.triu(np.ones((N_CLASSES, N_CLASSES)))[:, :-1]  # law @ below: the cumulative law without its last column
    labels = np.count_nonzero(law @ below <= rng.random((n, 1)), axis=1)
    return Rows.of(noisy, phi=model.basis(x), labels=labels)


def fit_weights(model: Model, train: Rows, val: Rows) -> FitResult:
    """Run PI-EW around ``argmax eta``; its one member holds the elicited weights."""
    ones = np.ones((train.n_bases, train.n_classes))
    argmax = PlugIn(weighting=weighting_named("diagonal"), alpha=ones, n_classes=train.n_classes)
    start = Mixture.of([argmax], [1.0])
    return pi_ew(train, val, model.metric, weighting=model.weighting, start=start)


def identified(model: Model, weights: FloatArray) -> FloatArray:
    """Return the part of the weights that predictions can reveal: full ones less their mean over j."""
    return weights if model.weighting == "diagonal" else weights - weights.mean(axis=2, keepdims=True)


def relative_error(model: Model, weights: FloatArray) -> float:
    """Return the distance to the true coefficients, relative to their norm, on the identified part."""
    truth = identified(model, model.truth)
    return float(np.linalg.norm(identified(model, weights) - truth) / np.linalg.norm(truth))


# -- one run ---------------------------------------------------------------------------------------------


def measure(name: str, n: int, seed: int, quick: bool) -> Row:
    """Draw n training rows and n validation rows, elicit, compare.

    One BLAS thread: the products have three columns, and threads that wait for each other on a busy machine make them
    three times slower.
    """
    (model,) = (model for model in models() if model.name == name)
    rng = np.random.default_rng([seed, n, *name.encode()])
    with threadpool_limits(limits=1, user_api="blas"):
        train, val = draw_sample(model, rng, n, side="train"), draw_sample(model, rng, n, side="val")
        (rule,) = fit_weights(model, train, val).mixture.members  # the step has size 1: nothing of the start is left
    return Row(method=name, size=n, values={"error": relative_error(model, rule.weight_matrices())})


def errors(results: Results, name: str) -> dict[int, FloatArray]:
    """Return the errors of one model by n, n ascending."""
    sizes = sorted({row.size for row in results.rows if row.method == name})
    return {n: results.values(name, "error", size=n) for n in sizes}


def medians(results: Results, name: str) -> FloatArray:
    """Return the median error over the seeds for each n, n ascending."""
    return np.array([np.median(values) for values in errors(results, name).values()])


def slope(results: Results, name: str) -> float:
    """Return the least-squares slope of log median error against log n."""
    sizes = list(errors(results, name))
    return float(np.polyfit(np.log(sizes), np.log(medians(results, name)), deg=1)[0])


# -- what it shows --------------------------------------------------------------------------------------


def draw(results: Results) -> Figure:
    """Draw median and interquartile band per model on log-log axes."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    plain_axes(axes)
    for name, colour, marker in zip(results.methods, COLOURS, MARKERS, strict=False):
        found = errors(results, name)
        low, middle, high = np.transpose([np.quantile(values, [0.25, 0.5, 0.75]) for values in found.values()])
        axes.fill_between(list(found), low, high, color=colour, alpha=0.18, linewidth=0)
        label = f"{name}: slope {_number(slope(results, name))}"
        axes.plot(list(found), middle, color=colour, marker=marker, markersize=5, linewidth=1.6, label=label)
    ends = np.array(_sizes(results)[:: len(_sizes(results)) - 1], dtype=np.float64)
    lowest = min(medians(results, name)[0] for name in results.methods)
    axes.plot(ends, 0.55 * lowest * np.sqrt(ends[0] / ends), "k--", linewidth=1.2, label="reference: slope −1/2")
    axes.set(xscale="log", yscale="log", xlabel="n: rows of the training sample, and of the validation sample")
    axes.set(ylabel="error of the elicited weights\n(% of the norm of the true ones)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(
        f"Elicited weights approach the true ones (median and quartiles of {len(results.seeds)} seeds)", size=11
    )
    axes.legend(loc="upper right", framealpha=1, edgecolor="none")
    return figure


def table(results: Results) -> str:
    """Return one line for each model."""
    first, *_, last = _sizes(results)
    head = ["model", "weights", "basis", f"error, n = {first:,}", f"error, n = {last:,}", "slope", "printed"]
    return markdown(head, [_line(results, model) for model in models() if model.name in results.methods], n_texts=3)


def _line(results: Results, model: Model) -> list[str]:
    """Return the cells of a model."""
    middle = medians(results, model.name)
    return [
        f"{model.name}: {model.title}",
        model.weighting,
        model.basis_text,
        f"{middle[0]:.4f}",
        f"{middle[-1]:.4f}",
        _number(slope(results, model.name)),
        f"{relative_error(model, model.printed):.2f}",
    ]


def _sizes(results: Results) -> list[int]:
    """Return the sizes that have results, ascending."""
    return sorted({row.size for row in results.rows})


def _number(value: float) -> str:
    """Return two decimals with a proper minus sign."""
    return f"{value:.2f}".replace("-", "−")


ABOUT = """Table 1 of the paper has four models of the difference between the training distribution µ and the true
distribution D. For each it gives the example weights that turn a linear metric on D into a weighted metric on µ. Here
PI-EW elicits these weights from n training rows of µ and n validation rows of D, on synthetic distributions whose true
weights are known and lie in the span of the basis functions. The paper's error bound is of order 1/√n, a slope of −1/2
on log-log axes; the slope must lie in {range}."""
LEGEND = """*error*: ‖elicited − true‖ / ‖true‖ of the coefficients, median of {n_seeds} fixed seeds. *slope*: least
squares of log median error on log n, {n_sizes} sizes from {first} to {last}. *printed*: the same distance for the
weights as the paper prints them. More data do not remove this distance (see below)."""
MORE = """\
## What is compared

* Three classes, x uniform on [0, 1] under µ, two normal features that carry the class. The probabilities given to
  PI-EW are the true ones under µ, and the base classifier is their argmax. So the error is that of elicitation,
  not of the training of a model.
* **Label noise** (ILN, CDLN, IDLN): a general reward matrix L, all nine weights per basis function. The row sums of
  a confusion matrix do not depend on the classifier, so adding a constant to W_ij for all j shifts the metric
  of every classifier alike, and no query can reveal it. The mean over j is therefore
  removed for each basis function and each i before comparing.
* **IDLN**: with probability ρ(x) the label is drawn again from q: T(x) = (1 − ρ) I + ρ 1qᵀ. Because 1qᵀ is a
  projection, T(x)⁻¹ = a I + (1 − a) 1qᵀ with a = 1/(1 − ρ); an a(x) linear in x puts it in the span of x, 1 − x.
* **DS**: the metric is accuracy and only the diagonal has weights, W_ii(x) = P_D(x)/P_µ(x), linear in x. Diagonal
  weights have no such free constant: if the base is better than chance, the equations have full rank (a test checks
  this), so all six coefficients are compared directly.

## Differences from Table 1

Table 1 prints W = L ∘ T⁻¹, entry by entry. With T_ij = P(noisy = j | clean = i), the confusion matrix under noise
is C^µ = Tᵀ C^D, hence ⟨L, C^D⟩ = ⟨T⁻¹ L, C^µ⟩: the weights are the **matrix product W = T⁻¹ L**. The two agree if
L and T are both diagonal, but not in general. A T whose rows sum to 1 is diagonal only if it is I, that is, if there
is no noise. The column *printed* shows how much they differ here. The test
`tests/experiments/paper/test_weight_rates.py` computes both sides exactly on finite distributions. For random
classifiers the matrix product holds to 1e-12. The entry-by-entry product does not hold, not even up to a constant.

For DS the table prints W_ij(x) = P_D(x)/P_µ(x) for all i and j. As weights on the whole matrix, this is constant
over j and gives every classifier the same value; a general linear metric needs W_ij(x) = L_ij P_D(x)/P_µ(x).
On the diagonal, for accuracy, the printed weights are right, and they are compared here.
"""


def make_page(results: Results) -> str:
    """Return the page."""
    sizes, slopes = _sizes(results), [slope(results, name) for name in results.methods]
    low, high = map(_number, SLOPE_RANGE)
    legend = LEGEND.format(n_seeds=len(results.seeds), n_sizes=len(sizes), first=f"{sizes[0]:,}", last=f"{sizes[-1]:,}")
    lead = (
        "Weights that PI-EW elicits from n rows of a known distribution, compared with the true ones. On log-log axes "
        f"the error falls with slopes from {_number(min(slopes))} to {_number(max(slopes))}; the bound is −0.5."
    )
    return whole_page(results, [ABOUT.format(range=f"[{low}, {high}]"), table(results), legend, MORE], lead=lead)


EXPERIMENT = Experiment(
    name="weight_rates",
    title="How fast the elicited weights approach the true ones",
    methods={f"{model.name}: {n}": partial(measure, model.name, n) for model in models() for n in SIZES},
    page=make_page,
    by=("method", "size"),
    columns=("method", "size", "seed", "error"),
    digits=8,
    seeds=N_SEEDS,
    figure=draw,
    picture="Median error with quartiles against n on log-log axes, one line per model",
    quick_methods=[f"{model.name}: {n}" for model in models() for n in SIZES[:3]],
)
