"""Beyond the paper: Table 4 with a better network, on which the paper's method and ours gain little.

``python -m experiments adience-better``. The rows are those of ``adience-shift``; images are moved and mirrored in
training, and the learning rate is higher.
"""

from __future__ import annotations

from experiments.harness.experiment import OLDER, Experiment, Results
from experiments.harness.figures import dots_figure
from experiments.paper.images import networks
from experiments.paper.images.adience import (
    MAX_ITER,
    PREFIXES,
    SHIFTS,
    TASK,
    method_text,
    of_task,
    opt_metric_of_validation,
    others,
    page_of,
    scores,
)
from experiments.paper.images.networks import COORDINATES
from experiments.paper.images.splits import BETTER
from experiments.paper.images.tables import (
    config_of,
    of_network,
    recipe_text,
    seeds_text,
    tuning_text,
)
from postshift.metrics import MacroF1

NETWORKS = {
    "cross-entropy [train]": networks.TRAIN,
    "cross-entropy [val]": networks.VALIDATION,
    "importance weights [KMM]": networks.MATCHED,
    "fine-tuning": networks.TUNED,
}


def make_page(results: Results) -> str:
    """Return the page."""
    about = f"""{TASK} The rows and the network are drawn with {seeds_text(results)}. {recipe_text(BETTER)} {
        tuning_text(BETTER)
    } {
        method_text(results)
    } Here the bases see no more than the network itself. Validation and test rows show the same persons. This favours
    methods that train a network on validation rows (the page `adience-albums` keeps persons apart)."""
    what = "The task is that of the page `adience-shift`, with a better network."
    return page_of(results, about, what=what, rivals=others(results))


METHODS = {
    **{name: of_network(BETTER, method, scores) for name, method in NETWORKS.items()},
    "opt-metric [val]": opt_metric_of_validation(BETTER),
    **{name: of_task(BETTER, method) for name, method in SHIFTS.items()},
}
EXPERIMENT = Experiment(
    name=BETTER,
    title="Domain shift on Adience with a better network: F-measure",
    methods=METHODS,
    page=make_page,
    remark=OLDER,
    figure=dots_figure(PREFIXES, metric="F-measure", n_methods=len(METHODS)),
    seeds=networks.SEEDS[BETTER],
    config=config_of(BETTER, NETWORKS.values(), COORDINATES, metric=MacroF1().name, iterations=MAX_ITER),
    packages=("torch", "umap-learn"),
)
