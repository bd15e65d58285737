"""Every comparison: its name, what it compares, its goal, how the ratio is read, its full and its quick sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from benchmarks import engine, files, fit, growth, imports, peak, prediction, rates, threads
from benchmarks.timing import Outcome

Reading = Literal["theirs / ours", "ours / theirs", "value"]
Run = Callable[[bool], list[Outcome]]  # told whether to be quick


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound of the ratio (or, where there is none, of the value itself)."""

    bound: float
    unit: Literal["x", "%", " GB"] = "x"
    at_most: bool = False

    def met(self, found: float) -> bool:
        """Say whether a figure keeps the bound."""
        return found <= self.bound if self.at_most else found >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One line of a table, or one panel of the plot."""

    name: str
    title: str
    run: Run
    goal: Goal | None = None
    reading: Reading = "theirs / ours"
    table: Literal["ratios", "threads", "growth"] = "ratios"


def _single(function: Callable[..., Outcome], *, full: dict[str, Any], quick: dict[str, Any], **always: Any) -> Run:
    """Return a run of one line, with the sizes of a full or of a quick run."""
    return lambda is_quick: [function(**always, **(quick if is_quick else full))]


def _several(function: Callable[..., list[Outcome]], *, full: dict[str, Any], quick: dict[str, Any]) -> Run:
    """Return a run of several lines."""
    return lambda is_quick: function(**(quick if is_quick else full))


_PROBE_LOOP: dict[str, Any] = {"full": {"n": 100_000}, "quick": {"n": 2_000, "repeats": 1}}
_passes = partial(_single, engine.against_probe_loop)
_MANY: dict[str, Any] = {
    "full": {"n": 1_000_000, "tolerance": 1e-4},
    "quick": {"n": 3_000, "tolerance": 0.05, "repeats": 1},
}
_ON_NEW_ROWS: dict[str, Any] = {size: {**sizes, "n_new": sizes["n"]} for size, sizes in _MANY.items()}
_THREADS: dict[str, Any] = {"full": {"n": 1_000_000}, "quick": {"n": 3_000, "repeats": 1}}
_PREDICTION: dict[str, Any] = {
    "full": {"n": 100_000, "n_val": 20_000},
    "quick": {"n": 2_000, "n_val": 2_000, "repeats": 1},
}
_TITLES = {
    "defaults": "its defaults",
    "start": "started from the model",
    "steps": "started from the model, steps 2/(t + 1)",
}

COMPARISONS: tuple[Comparison, ...] = (
    Comparison(
        name="numpy-hard",
        title="NumPy engine against the probe loop, n 1e5, m 10, L 5, hard clusters",
        run=_passes(kernels="numpy", n_bases=5, **_PROBE_LOOP),
        goal=Goal(bound=200),
    ),
    Comparison(
        name="numpy-soft",
        title="NumPy engine against the probe loop, n 1e5, m 10, L 5, soft basis",
        run=_passes(kernels="numpy", n_bases=5, basis="soft", **_PROBE_LOOP),
        goal=Goal(bound=150),
    ),
    Comparison(
        name="numba-hard",
        title="numba engine against the probe loop, n 1e5, m 10, L 5, hard clusters",
        run=_passes(kernels="numba", n_bases=5, **_PROBE_LOOP),
        goal=Goal(bound=1500),
    ),
    Comparison(
        name="numba-soft",
        title="numba engine against the probe loop, n 1e5, m 10, L 5, soft basis",
        run=_passes(kernels="numba", n_bases=5, basis="soft", **_PROBE_LOOP),
        goal=Goal(bound=200),
    ),
    Comparison(
        name="numba-constant",
        title="numba engine against the probe loop, n 1e6, m 10, L 1",
        run=_passes(kernels="numba", n_bases=1, full={"n": 1_000_000, "repeats": 4}, quick={"n": 2_000, "repeats": 1}),
        goal=Goal(bound=300),
    ),
    Comparison(
        name="sorted",
        title="iteration time, m 2, hard clusters, n 1e6 against n 1e4",
        run=_single(
            engine.iteration_on_sorted_rows,
            full={"n": 1_000_000, "n_few": 10_000},
            quick={"n": 4_000, "n_few": 2_000, "repeats": 1},
        ),
        goal=Goal(bound=1.5, at_most=True),
        reading="ours / theirs",
    ),
    Comparison(
        name="bandwidth",
        title="fused pass against a plain read of the same bytes, n 1e6, m 10 float64, hard clusters",
        run=_single(engine.against_plain_read, full={"n": 1_000_000}, quick={"n": 3_000, "repeats": 2}),
        goal=Goal(bound=60, unit="%"),
    ),
    *(
        Comparison(
            name=f"{method}-{metric.replace('_', '-')}",
            title=f'method="{method}" whole fit against TunedThresholdClassifierCV, binary, n 1e6, {metric}',
            run=_single(fit.against_tuned_threshold, method=method, metric=metric, **_MANY),
            goal=Goal(bound=bound),
        )
        for method, bound in (("paper", 50), ("auto", 20))
        for metric in fit.METRICS
    ),
    *(
        Comparison(
            name=f"xcolumns-{variant}",
            title=f"whole fit (columns) against xCOLUMNs ({_TITLES[variant]}), macro-F1 of new rows, m 10, n 1e6",
            run=_single(fit.against_xcolumns, variant=variant, **_ON_NEW_ROWS),
            goal=Goal(bound=10),
        )
        for variant in fit.XCOLUMNS
    ),
    Comparison(
        name="sparse",
        title="sparse rows, whole fit (auto) against xCOLUMNs from both starts, macro-F1 of new rows, n 1e5, m 1e5, "
        "20 entries a row",
        run=_single(fit.on_sparse_rows, full={"n": 100_000, "m": 100_000}, quick={"n": 3_000, "m": 500, "repeats": 1}),
        goal=Goal(bound=3),
    ),
    Comparison(
        name="evolution",
        title="plug-in search against differential evolution over class weights, macro-F1, m 10, n 2e4",
        run=_single(
            fit.against_evolution,
            full={"n": 20_000, "max_iter": 30},
            quick={"n": 1_000, "max_iter": 2, "repeats": 1},
        ),
        goal=Goal(bound=20),
    ),
    *(
        Comparison(
            name=f"default-{m}",
            title=f"the default, macro-F1, m {m}, n {n:,}, against one logistic regression on log eta",
            run=_single(fit.against_regression, full={"n": n, "m": m}, quick={"n": 400, "m": 5, "repeats": 1}),
            goal=Goal(bound=bound, at_most=True),
            reading="ours / theirs",
        )
        for n, m, bound in ((1_000, 50, 30), (5_000, 100, 20))
    ),
    Comparison(
        name="opaque",
        title="the default against TunedThresholdClassifierCV, a function of labels that takes 5 ms, n 2,000",
        run=_single(
            fit.with_an_opaque_function,
            full={"n": 2_000, "seconds": 5e-3},
            quick={"n": 400, "seconds": 1e-5},
        ),
        goal=Goal(bound=2, at_most=True),
        reading="ours / theirs",
    ),
    Comparison(
        name="xcolumns-100",
        title="whole fit (columns) against xCOLUMNs as it is, macro-F1 of new rows, m 100, n 5,000",
        run=_single(
            fit.against_xcolumns,
            variant="defaults",
            full={"n": 5_000, "n_new": 100_000, "m": 100, "tolerance": 0},
            quick={"n": 1_000, "n_new": 1_000, "m": 5, "tolerance": 0.05, "repeats": 1},
        ),
        goal=Goal(bound=1),
    ),
    *(
        Comparison(
            name=f"rates-{n_bases}",
            title=f"rate program, n 1e5, against HiGHS on all rows, n 5e4, m 10, L {n_bases}, hard clusters, "
            f"{n_bases * n_limited} limits",
            run=_single(
                rates.against_all_rows,
                n_bases=n_bases,
                n_limited=n_limited,
                full={"n": 100_000, "n_few": 50_000},
                quick={"n": 6_000, "n_few": 4_000, "repeats": 1},
            ),
            goal=Goal(bound=10),
        )
        for n_bases, n_limited in ((5, 10), (20, 5))
    ),
    Comparison(
        name="prediction",
        title="prediction by a 100-member mixture against the probe loop's, n 1e5, m 10",
        run=_single(prediction.by_mixture, smaller=False, **_PREDICTION),
        goal=Goal(bound=50),
    ),
    Comparison(
        name="prediction-reduced",
        title="the same, the mixture reduced to few members with the same recalls on the validation rows",
        run=_single(prediction.by_mixture, smaller=True, **_PREDICTION),
    ),
    Comparison(
        name="memory",
        title="peak anonymous memory (RssAnon) above the interpreter, fit on a 3 GB memory-mapped eta (float32, m 100)",
        run=_single(peak.of_a_fit, full={"n": 7_500_000}, quick={"n": 20_000}),
        goal=Goal(bound=0.5, unit=" GB", at_most=True),
        reading="value",
    ),
    Comparison(
        name="many-classes",
        title="m 1000, n 1e5, constant basis, 30 iterations, diagonal, against reading eta 60 times",
        run=_single(
            engine.many_classes,
            full={"n": 100_000, "m": 1000},
            quick={"n": 2_000, "m": 20, "n_iter": 3, "repeats": 1},
        ),
        goal=Goal(bound=3, at_most=True),
        reading="ours / theirs",
    ),
    Comparison(
        name="import",
        title="`import postshift` against `import sklearn`",
        run=_single(imports.against_sklearn, full={"repeats": 15}, quick={"repeats": 1}),
        goal=Goal(bound=1.2, at_most=True),
        reading="ours / theirs",
    ),
    *(
        Comparison(
            name=f"{command}-file",
            title=f"`postshift {called}` on 1e6 x 10 Parquet against reading it with pandas, whole processes",
            run=_single(files.against_pandas, command=command, full={"n": 1_000_000}, quick={"n": 2_000, "repeats": 1}),
            goal=Goal(bound=bound, at_most=True),
            reading="ours / theirs",
        )
        for command, called, bound in (("evaluate", "evaluate", 4), ("fit", 'fit --method "smoothed plug-in"', 6))
    ),
    *(
        Comparison(
            name=f"threads-{kernels}-{basis}",
            title=f"{kernels} engine, all cores against one thread, n 1e6, m 10, L 5, {basis}",
            run=_single(threads.on_all_cores, kernels=kernels, basis=basis, **_THREADS),
            table="threads",
        )
        for kernels in ("numba", "numpy")
        for basis in ("hard", "soft")
    ),
    Comparison(
        name="growth-rows",
        title="rows n",
        run=_several(
            growth.by_rows,
            full={"sizes": (10_000, 100_000, 1_000_000, 10_000_000)},
            quick={"sizes": (1_000, 2_000)},
        ),
        table="growth",
    ),
    Comparison(
        name="growth-classes",
        title="classes m (n 1e5, diagonal)",
        run=_several(
            growth.by_classes,
            full={"sizes": (2, 5, 10, 30, 100, 300, 1000), "n": 100_000},
            quick={"sizes": (2, 5), "n": 1_000},
        ),
        table="growth",
    ),
    Comparison(
        name="growth-functions",
        title="basis functions L (n 1e5, m 10)",
        run=_several(
            growth.by_functions,
            full={"sizes": (1, 2, 5, 10, 20, 50), "n": 100_000},
            quick={"sizes": (1, 2), "n": 1_000},
        ),
        table="growth",
    ),
)
BY_NAME = {comparison.name: comparison for comparison in COMPARISONS}
