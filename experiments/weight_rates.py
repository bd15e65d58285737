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

Run ``python -m experiments.weight_rates``; it writes the table, the plot and the report to ``docs/results``.
"""

from __future__ import annotations

import argparse
import csv
import io
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from textwrap import fill
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

from experiments.opening import opened_text
from experiments.output import OUT, write_text
from postshift import Accuracy, ExpectedReward, FitResult, Mixture, PlugIn, Sample, pi_ew
from postshift.core.psi import ConfusionMetric
from postshift.core.weighting import weighting_named

FloatArray = NDArray[np.float64]
Versions = tuple[tuple[str, str], ...]

COMMAND: Final = "python -m experiments.weight_rates"
N_CLASSES: Final = 3
SIZES: Final = (1_000, 2_154, 4_642, 10_000, 21_544, 46_416, 100_000)
SEEDS: Final = tuple(range(20))
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


def draw_sample(model: Model, rng: np.random.Generator, n: int, *, side: Literal["train", "val"]) -> Sample:
    """Return n rows of mu (noisy labels, x uniform) or of D; eta is the true conditional under mu on both."""
    x = rng.random(n) if side == "train" else model.draw_val(rng, n)
    clean = clean_probabilities(x, rng.normal(size=(n, 2)))
    noisy = np.einsum("ni,nij->nj", clean, model.transition(x))
    law = noisy if side == "train" else clean
    below = np.triu(np.ones((N_CLASSES, N_CLASSES)))[:, :-1]  # law @ below: the cumulative law without its last column
    labels = np.count_nonzero(law @ below <= rng.random((n, 1)), axis=1)
    return Sample.of(noisy, phi=model.basis(x), labels=labels)


def fit_weights(model: Model, train: Sample, val: Sample) -> FitResult:
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


# -- the experiment -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: n training rows and n validation rows."""

    model: str
    n: int
    seed: int
    error: float


def run_once(model: Model, n: int, seed: int) -> Row:
    """Draw both samples, elicit, compare."""
    rng = np.random.default_rng([seed, n, *model.name.encode()])
    train, val = draw_sample(model, rng, n, side="train"), draw_sample(model, rng, n, side="val")
    (rule,) = fit_weights(model, train, val).mixture.members  # the step has size 1: nothing of the start is left
    return Row(model=model.name, n=n, seed=seed, error=relative_error(model, rule.weight_matrices()))


def run_all(
    *, sizes: Sequence[int] = SIZES, seeds: Sequence[int] = SEEDS, progress: Callable[[str], None] | None = None
) -> list[Row]:
    """Return the rows of every model, size and seed.

    One BLAS thread: the products have three columns, and threads that wait for each other on a busy machine
    make them three times slower.
    """
    rows: list[Row] = []
    for model in models():
        for n in sizes:
            with threadpool_limits(limits=1, user_api="blas"):
                rows += [run_once(model, n, seed) for seed in seeds]
            if progress is not None:
                progress(f"{model.name:>4}  n = {n:>6}  median error {medians(rows, model.name)[-1]:.4f}")
    return rows


def errors(rows: Iterable[Row], name: str) -> dict[int, FloatArray]:
    """Return the errors of one model by n, n ascending."""
    own = [row for row in rows if row.model == name]
    return {n: np.array([row.error for row in own if row.n == n]) for n in sorted({row.n for row in own})}


def medians(rows: Iterable[Row], name: str) -> FloatArray:
    """Return the median error over the seeds for each n, n ascending."""
    return np.array([np.median(values) for values in errors(rows, name).values()])


def slope(rows: Iterable[Row], name: str) -> float:
    """Return the least-squares slope of log median error against log n."""
    found = errors(rows, name)
    logs = np.log([np.median(values) for values in found.values()])
    return float(np.polyfit(np.log(list(found)), logs, deg=1)[0])


# -- the outputs ----------------------------------------------------------------------------------------


def versions() -> Versions:
    """Return the versions of what produced the numbers."""
    packages = tuple((name, version(name)) for name in ("postshift", "numpy", "scipy"))
    return (*packages, ("python", platform.python_version()))


def write_csv(path: Path, rows: Iterable[Row], made_with: Versions) -> None:
    """Write the rows, below commented lines with the command and the versions."""
    text = io.StringIO()
    text.write(f"# {COMMAND}\n")
    text.writelines(f"# {package} {number}\n" for package, number in made_with)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "n", "seed", "error"])
    writer.writerows([row.model, row.n, row.seed, f"{row.error:.8f}"] for row in rows)
    write_text(path, text.getvalue())


def read_csv(path: Path) -> tuple[list[Row], Versions]:
    """Return the rows and the versions of a file made by :func:`write_csv`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    notes = [line[2:].split() for line in lines if line.startswith("# ")]
    table = csv.DictReader(line for line in lines if not line.startswith("#"))
    rows = [
        Row(model=line["model"], n=int(line["n"]), seed=int(line["seed"]), error=float(line["error"])) for line in table
    ]
    return rows, tuple((note[0], note[1]) for note in notes if len(note) == 2)


def write_plot(folder: Path, rows: Sequence[Row]) -> None:
    """Draw median and interquartile band per model on log-log axes, as PNG and SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for model, colour, marker in zip(models(), ("#0072b2", "#d55e00", "#009e73", "#cc79a7"), "osD^", strict=True):
        found = errors(rows, model.name)
        low, middle, high = np.transpose([np.quantile(values, [0.25, 0.5, 0.75]) for values in found.values()])
        sizes = list(found)
        axes.fill_between(sizes, low, high, color=colour, alpha=0.18, linewidth=0)
        label = f"{model.name}: slope {_number(slope(rows, model.name))}"
        axes.plot(sizes, middle, color=colour, marker=marker, markersize=5, linewidth=1.6, label=label)
    ends = np.array([min(row.n for row in rows), max(row.n for row in rows)], dtype=np.float64)
    lowest = min(medians(rows, model.name)[0] for model in models())
    axes.plot(ends, 0.55 * lowest * np.sqrt(ends[0] / ends), "k--", linewidth=1.2, label="reference: slope −1/2")
    axes.set(xscale="log", yscale="log", xlabel="n: rows of the training sample, and of the validation sample")
    axes.set(ylabel="error of the elicited weights\n(% of the norm of the true ones)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"Elicited weights approach the true ones (median and quartiles of {_n_seeds(rows)} seeds)", size=11)
    axes.grid(visible=True, which="major", color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", framealpha=1, edgecolor="none")
    with mpl.rc_context({"svg.hashsalt": "weight_rates"}):
        figure.savefig(folder / "weight_rates.svg", metadata={"Date": None})
    figure.savefig(folder / "weight_rates.png", dpi=160)


def render_report(rows: Sequence[Row], made_with: Versions) -> str:
    """Return the report; every number of a run in it comes from the rows."""
    sizes = sorted({row.n for row in rows})
    numbers = ", ".join(f"{package} {number}" for package, number in made_with)
    page = _REPORT.format(
        command=COMMAND,
        numbers=numbers,
        n_seeds=_n_seeds(rows),
        first=f"{sizes[0]:,}",
        last=f"{sizes[-1]:,}",
        n_sizes=len(sizes),
        low=_number(SLOPE_RANGE[0]),
        high=_number(SLOPE_RANGE[1]),
        table="\n".join([*_table_head(sizes), *(_table_line(rows, model) for model in models())]),
    )
    found = [slope(rows, model.name) for model in models()]
    lead = (
        "Weights that PI-EW elicits from n rows of a known distribution, compared with the true ones. On log-log axes "
        f"the error falls with slopes from {_number(min(found))} to {_number(max(found))}, as the bound 1/√n has it."
    )
    picture = next(each for each in page.split("\n\n") if each.startswith("!["))
    return opened_text(page, picture=picture, lead=fill(lead, 120))


def _table_head(sizes: Sequence[int]) -> tuple[str, str]:
    """Return the two lines that open the table."""
    columns = ("model", "weights", "basis", f"error, n = {sizes[0]:,}", f"error, n = {sizes[-1]:,}", "slope", "printed")
    return "| " + " | ".join(columns) + " |", "|---|---|---|---:|---:|---:|---:|"


def _table_line(rows: Sequence[Row], model: Model) -> str:
    """Return one line of the table."""
    middle = medians(rows, model.name)
    cells = (
        f"{model.name}: {model.title}",
        model.weighting,
        model.basis_text,
        f"{middle[0]:.4f}",
        f"{middle[-1]:.4f}",
        _number(slope(rows, model.name)),
        f"{relative_error(model, model.printed):.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def _number(value: float) -> str:
    """Return two decimals with a proper minus sign."""
    return f"{value:.2f}".replace("-", "−")


def _n_seeds(rows: Iterable[Row]) -> int:
    """Return the number of different seeds."""
    return len({row.seed for row in rows})


_REPORT = """\
# How fast the elicited weights approach the true ones

<!-- Made by `{command}` from weight_rates.csv; do not edit. -->

Table 1 of the paper gives, for four models of what differs between the training distribution µ and the true
distribution D, the example weights that turn a linear metric on D into a weighted metric on µ. Here PI-EW
elicits them from n training rows of µ and n validation rows of D, on synthetic distributions whose true weights
are known and lie in the span of the basis functions. The paper's error bound is of order 1/√n, a slope of −1/2 on
log-log axes; the slope must lie in [{low}, {high}].

{table}

*error*: ‖elicited − true‖ / ‖true‖ of the coefficients, median of {n_seeds} fixed seeds. *slope*: least squares of
log median error on log n, {n_sizes} sizes from {first} to {last}. *printed*: the same distance for the weights as the
paper prints them, which no amount of data removes (see below).

![Median error with quartiles against n on log-log axes, one line per model](weight_rates.png)

To repeat it: `{command}`, made with {numbers}.
The rows behind it: [weight_rates.csv](weight_rates.csv); the plot as vectors: [weight_rates.svg](weight_rates.svg).

## What is compared

* Three classes, x uniform on [0, 1] under µ, two normal features that carry the class. The probabilities given to
  PI-EW are the true ones under µ, and the base classifier is their argmax: what is measured is elicitation, not
  the training of a model.
* **Label noise** (ILN, CDLN, IDLN): a general reward matrix L, all nine weights per basis function. The row sums of
  a confusion matrix do not depend on the classifier, so adding a constant to W_ij for all j shifts the metric
  of every classifier alike, and no question about predictions can reveal it. The mean over j is therefore
  removed for each basis function and each i before comparing.
* **IDLN**: with probability ρ(x) the label is drawn anew from q, that is T(x) = (1 − ρ) I + ρ 1qᵀ. Because 1qᵀ is a
  projection, T(x)⁻¹ = a I + (1 − a) 1qᵀ with a = 1/(1 − ρ); an a(x) linear in x puts it in the span of x, 1 − x.
* **DS**: the metric is accuracy and only the diagonal is weighed, W_ii(x) = P_D(x)/P_µ(x), linear in x. Diagonal
  weights have no such free constant: with a base that is better than chance the equations have full rank (a test
  checks it), so all six coefficients are compared as they are, level included.

## Where Table 1 is not followed

Table 1 prints W = L ∘ T⁻¹, entry by entry. With T_ij = P(noisy = j | clean = i), the confusion matrix under noise
is C^µ = Tᵀ C^D, hence ⟨L, C^D⟩ = ⟨T⁻¹ L, C^µ⟩: the weights are the **matrix product W = T⁻¹ L**. The two agree
where L and T are both diagonal, and not in general; a T whose rows sum to 1 is diagonal only if it is I, that is,
if there is no noise. The column *printed* shows how far apart they are here. The test
`tests/experiments/test_weight_rates.py` computes both sides exactly on finite distributions: the product holds for
random classifiers to 1e-12, the entry-by-entry one does not, not even up to a constant.

For DS the table prints W_ij(x) = P_D(x)/P_µ(x) for all i and j. Read as weights on the whole matrix this is constant
over j and gives every classifier the same value; a general linear metric needs W_ij(x) = L_ij P_D(x)/P_µ(x).
On the diagonal, for accuracy, the printed weights are right, and they are what is compared here.
"""


def write_page(folder: Path = OUT) -> list[Row]:
    """Make page and plot from the stored results, and return these."""
    stored, made_with = read_csv(folder / "weight_rates.csv")
    write_plot(folder, stored)
    write_text(folder / "weight_rates.md", render_report(stored, made_with))
    return stored


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and write the four files, or make three of them again from the stored CSV."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="How fast the elicited weights approach the true ones.")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results (default: %(default)s)")
    parser.add_argument("--render", action="store_true", help="only rebuild page and plot from the stored CSV")
    args = parser.parse_args(arguments)
    folder: Path = args.out
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    if not args.render:
        rows = run_all(progress=lambda text: print(text, file=sys.stderr, flush=True))
        write_csv(folder / "weight_rates.csv", rows, versions())
    stored = write_page(folder)
    for model in models():
        print(f"{model.name:>4}  slope {slope(stored, model.name):.3f}")
    print(f"{time.perf_counter() - begin:.0f} s; results in {folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
