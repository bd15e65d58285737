"""Table 3: G-mean on Adult with proxy labels, every rival of the paper, FW-EG as the paper runs it, and our default.

``python -m experiments adult-proxy``. Gender is predicted, training rows have "is a husband" in its place, 163 rows are
clean.
"""

from __future__ import annotations

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import dots_figure
from experiments.paper.adult.methods import METHODS, Method, TunedThreshold
from experiments.paper.adult.splits import PROXY, PROXY_BASES
from experiments.paper.adult.tables import CONFIG, Goal, from_baselines, of_paper, on_task, page, quick_of, surrogates
from experiments.paper.adult_paper import KNOWN, OF_PAPER, UNKNOWN, UNKNOWN_FIXED

DEFAULT = "ours: average of the rules (the default)"
SURROGATES = "adaptive surrogates, basis and rates by CV"
PREFIXES = ("FW-EG", "ours: paper", "ours: influence", "ours: stack + influence", "ours: best", DEFAULT)

TUNED = Method(name="tuned threshold", make=lambda _: TunedThreshold(metric="g_mean"), reads_metric=False)

RUNS = {
    **{method.name: from_baselines(method) for method in (TUNED, *METHODS) if PROXY in method.tasks},
    SURROGATES: surrogates(PROXY_BASES),
    **{name: of_paper(OF_PAPER[PROXY][name]) for name in (UNKNOWN, UNKNOWN_FIXED, KNOWN)},
}
GOALS = (
    Goal(method=UNKNOWN, least=0.681),
    Goal(method=KNOWN, least=0.681),
    Goal(method=DEFAULT, least=0.700),
)
ABOUT = """The model predicts gender, but its training labels are "is a husband". 163 rows have clean labels. The metric
is the G-mean: the geometric mean of both recalls."""
AFTER = """[baselines_why.md](baselines_why.md) examines the rows that are far from the paper's. With the authors'
gradient descent, cross-entropy on validation rows and learn-to-reweight come close to the paper's figures. Nothing that
we tried explains the paper's figure for forward correction."""


def make_page(results: Results) -> str:
    """Return the page."""
    what = 'The model predicts gender from training labels "is a husband", and 163 rows have clean labels.'
    return page(results, what=what, about=ABOUT, prefixes=PREFIXES, goals=GOALS, after=AFTER)


PAPER = {  # mean and standard deviation over 5 splits
    "cross-entropy [train]": (0.654, 0.002),
    "cross-entropy [val]": (0.394, 0.064),
    "opt-metric [val]": (0.652, 0.027),
    "learn-to-reweight": (0.668, 0.003),
    "plug-in [train-val], spacing 1e-4": (0.672, 0.013),
    "forward correction, anchors": (0.214, 0.004),
    "fine-tuning": (0.631, 0.017),
    "importance weights": (0.662, 0.024),
    SURROGATES: (0.682, 0.002),
    UNKNOWN: (0.685, 0.002),
    KNOWN: (0.685, 0.001),
}

EXPERIMENT = Experiment(
    name="adult-proxy",
    title="Proxy labels on Adult (Table 3): G-mean",
    methods=on_task(PROXY, RUNS),
    paper=PAPER,
    page=make_page,
    figure=dots_figure(PREFIXES, metric="G-mean", n_methods=len(RUNS)),
    config=CONFIG,
    quick_methods=quick_of(RUNS),
)
