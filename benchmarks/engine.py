"""One pass over the training rows: the engine against the probe loop, against a plain read, and against itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from typing import Any, Literal

import numpy as np

from benchmarks.data import Basis, draw
from benchmarks.opponents import ProbeLoop, plain_read
from benchmarks.timing import Outcome, Side, SkippedError, check_close, clocked, interleaved
from postshift import MemoryEngine, PlugIn, Rows
from postshift.core.elicit import probe_matrix
from postshift.core.frank_wolfe import FitResult
from postshift.core.fw_eg import FwEgRun, Settings
from postshift.core.queries import Fit, kind_named, without_queries
from postshift.core.weighting import DIAGONAL
from postshift.metrics import GMean

RADIUS, STEP = 0.1, 0.25
N_ITER = 30  # of a run, over which the preparation is spread in the notes
N_TURN = 10  # iterations of ours in a row, as a run makes them; one of the probe loop takes longer than all of them
Kernels = Literal["numpy", "numba"]


class EngineLoop:
    """The same iteration as that of the probe loop, by sums that are linear in the classifier."""

    def __init__(self, rows: Rows, start: PlugIn, *, kernels: Kernels) -> None:
        self._engine = MemoryEngine(rows, kernels=kernels)
        self._labels = self._engine.label_sums()
        self._start = self._engine.classifier_sums(start, confusions=False)

    def iteration(self, rule: PlugIn) -> np.ndarray:
        """Return the equations after a step from the start towards a plug-in classifier."""
        sums = self._start.mixed(self._engine.classifier_sums(rule, confusions=False), STEP)
        return probe_matrix(DIAGONAL, labels=self._labels, anchor=sums)


def against_probe_loop(
    *, kernels: Kernels, n: int, n_bases: int, basis: Basis = "hard", m: int = 10, repeats: int = 7
) -> Outcome:
    """Compare an iteration of the training side: the vertex mixed in, and the equations of all probes."""
    need_numba(kernels)
    rows = draw(n, m, n_bases=n_bases, basis=basis)
    start, rules = random_rule(rows, 0), [random_rule(rows, 1 + turn) for turn in range(N_TURN)]
    EngineLoop(rows, start, kernels=kernels)  # compiles
    first, ours = clocked(lambda: EngineLoop(rows, start, kernels=kernels))
    h = ProbeLoop(rows, radius=RADIUS).vertex(start.alpha)
    theirs, tight = (_probe_loop(rows, h, tight=each) for each in (False, True))
    least, results = interleaved(
        {
            "theirs": lambda: theirs(rules[-1]),
            "tight": lambda: tight(rules[-1]),
            "ours": lambda: [ours.iteration(rule) for rule in rules][-1],
        },
        repeats=repeats,
    )
    least["ours"] = least["ours"].over(N_TURN)
    for name in ("theirs", "tight"):
        check_close("the equations of the probes", results["ours"], results[name])
    whole = N_ITER * least["theirs"].cpu / (first.cpu + N_ITER * least["ours"].cpu)
    note = (
        f"{least['tight'].cpu / least['ours'].cpu:.0f}x against the tight loop; with {1e3 * first.cpu:.1f} ms that "
        f"prepare the rows, over {N_ITER} iterations: {whole:.0f}x"
    )
    return Outcome(ours=least["ours"], theirs=least["theirs"], note=note)


def against_plain_read(*, n: int, m: int = 10, n_bases: int = 5, repeats: int = 15) -> Outcome:
    """Compare the compiled pass with reading eta, clusters and labels."""
    need_numba("numba")
    rows = draw(n, m, n_bases=n_bases)
    engines = {
        "ours": MemoryEngine(rows, kernels="numba", sort_rows=False),
        "sorted": MemoryEngine(rows, kernels="numba"),
    }
    rules = [random_rule(rows, turn) for turn in range(repeats)]
    codes = [np.asarray(each, dtype=np.uint32) for each in (rows.labels, np.argmax(rows.phi, axis=1))]
    read = plain_read(rows.eta, *codes)
    sides = {"theirs": read}
    for name, engine in engines.items():
        summed = partial(engine.classifier_sums, confusions=False)
        summed(random_rule(rows, repeats))  # compiles, prepares
        sides[name] = in_turn(summed, rules)
    least, results = interleaved(sides, repeats=repeats)
    check_close("the sum", results["theirs"], rows.eta.sum() + sum(int(code.sum()) for code in codes))
    hit = np.argmax((rows.phi @ rules[-1].alpha) * rows.eta, axis=1) == rows.labels
    for name in engines:
        check_close("the hits", results[name].single.sum(), np.count_nonzero(hit))
    size = rows.eta.nbytes + sum(code.nbytes for code in codes)
    note = (
        f"every row is read, {size / least['ours'].cpu / 1e9:.1f} of {size / least['theirs'].cpu / 1e9:.1f} GB/s; "
        f"rows sorted before: {1e3 * least['sorted'].cpu:.2f} ms"
    )
    return Outcome(ours=least["ours"], theirs=least["theirs"], note=note)


def iteration_on_sorted_rows(*, n: int, n_few: int, n_bases: int = 5, repeats: int = 9) -> Outcome:
    """Compare iterations of a whole run on many and on few rows of two classes; the rows are sorted before."""
    many, few = (draw(rows, 2, n_bases=n_bases) for rows in (n, n_few))
    sides = {"theirs": prepared_runs(few, repeats=repeats), "ours": prepared_runs(many, repeats=repeats)}
    least, results = interleaved(sides, repeats=repeats)
    counts = {name: len(result.trace) for name, result in results.items()}
    note = f"ours: {n:,} rows, the other: {n_few:,} rows"
    return Outcome(ours=least["ours"].over(counts["ours"]), theirs=least["theirs"].over(counts["theirs"]), note=note)


def many_classes(*, n: int, m: int, n_iter: int = N_ITER, repeats: int = 3) -> Outcome:
    """Compare a run over a constant basis, engine and all, with reading eta twice for every iteration."""
    rows = draw(n, m, separation=5.0)
    read = plain_read(rows.eta)
    settings = Settings(weighting="diagonal", linearise="gradient", max_iter=n_iter)
    without_queries(_run(draw(200, 3), MemoryEngine(draw(200, 3)), settings))  # compiles
    sides = {
        "theirs": lambda: [read() for _ in range(2 * n_iter)],
        "ours": lambda: without_queries(_run(rows, MemoryEngine(rows), settings)),
    }
    least, results = interleaved(sides, repeats=repeats)
    note = f"{len(results['ours'].trace) - 1} iterations, G-mean {results['ours'].score:.3f}"
    return Outcome(ours=least["ours"], theirs=least["theirs"], note=note)


def prepared_runs(rows: Rows, *, repeats: int, settings: Settings | None = None) -> Side:
    """Return a function that makes one run on prepared rows; it can be called ``repeats`` times."""
    engine, chosen = MemoryEngine(rows), settings or Settings()
    without_queries(_run(rows, engine, chosen))  # compiles, sorts
    runs = iter([_run(rows, engine, chosen) for _ in range(repeats)])
    return lambda: without_queries(next(runs))


def random_rule(rows: Rows, seed: int) -> PlugIn:
    """Return a plug-in classifier with weights between 1/2 and 2."""
    alpha = np.random.default_rng([seed, 1]).uniform(0.5, 2, size=(rows.n_bases, rows.n_classes))
    return PlugIn(weighting=DIAGONAL, alpha=alpha, n_classes=rows.n_classes)


def need_numba(kernels: Kernels) -> None:
    """Skip what needs numba where it is missing."""
    if kernels == "numba" and find_spec("numba") is None:
        raise SkippedError("the package numba is missing: pip install -e '.[fast]'")


def in_turn(function: Callable[[PlugIn], Any], rules: Sequence[PlugIn]) -> Side:
    """Return a call with another rule every time: the engine keeps the table of the last one."""
    turns = cycle(rules)
    return lambda: function(next(turns))


def _run(rows: Rows, engine: MemoryEngine, settings: Settings) -> Fit[FitResult]:
    """Return a run whose training and validation rows are the same."""
    return FwEgRun(engine, rows, kind=kind_named("confusion"), metric=GMean(), settings=settings, held=engine).fit()


def _probe_loop(rows: Rows, h: np.ndarray, *, tight: bool) -> Callable[[PlugIn], np.ndarray]:
    """Return an iteration of the probe loop."""
    loop = ProbeLoop(rows, radius=RADIUS, tight=tight)
    return lambda rule: loop.equations(loop.moved(h, rule.alpha, STEP))
