"""Table 4: F-measure on Adience under a shift of age, every rival of the paper, FW-EG, and our own rules.

``python -m experiments adience-shift``. The network is trained with the paper's rate, and as good as the paper's.
"""

from __future__ import annotations

from functools import partial

from experiments.harness.experiment import OLDER, Experiment, Results
from experiments.harness.figures import dots_figure
from experiments.paper.images import networks
from experiments.paper.images.adience import (
    KNOWN,
    MAX_ITER,
    PREFIXES,
    REGRESSION,
    SHIFTS,
    TASK,
    UNKNOWN,
    by_cv,
    method_text,
    of_task,
    on_coordinates,
    opt_metric_of_validation,
    over,
    own_places,
    page_of,
    scores,
)
from experiments.paper.images.embeddings import pixel_places
from experiments.paper.images.networks import COORDINATES
from experiments.paper.images.splits import ADIENCE, BETTER
from experiments.paper.images.tables import (
    config_of,
    of_network,
    recipe_text,
    seeds_text,
    tuning_text,
)
from postshift.metrics import MacroF1

SLOWLY = "fine-tuning, rate 1e-4"
REWEIGHTED = f"learn-to-reweight, {networks.SHORT} more epochs"
NETWORKS = {
    "cross-entropy [train]": networks.TRAIN,
    "cross-entropy [val]": networks.VALIDATION,
    "importance weights [KMM]": networks.MATCHED,
    REWEIGHTED: networks.REWEIGHTED,
    SLOWLY: networks.SLOWLY,
    "fine-tuning": networks.TUNED,
}
BETTER_NETWORK = "the better network [train]"
OTHERS = {
    "FW-EG [unknown psi], by CV, coordinates of the network itself": over(own_places, ADIENCE, by_cv),
    "FW-EG [unknown psi], by CV, coordinates of pixels": over(partial(pixel_places, COORDINATES), ADIENCE, by_cv),
}
OPT_METRIC = "opt-metric [val]"
OPT_METRIC_PAPER, PLUGIN, TUNED_PAPER = (0.760, 0.014), (0.759, 0.014), (0.781, 0.014)
PAPER = {
    "cross-entropy [train]": (0.760, 0.014),
    "cross-entropy [val]": (0.708, 0.022),
    OPT_METRIC: OPT_METRIC_PAPER,
    "opt-metric [val], base network": OPT_METRIC_PAPER,
    "plug-in [train-val], exact": PLUGIN,
    "plug-in [train-val], spacing 1e-4": PLUGIN,
    "importance weights [KMM]": (0.760, 0.013),
    REWEIGHTED: (0.773, 0.009),
    SLOWLY: TUNED_PAPER,
    "fine-tuning": TUNED_PAPER,
    UNKNOWN: (0.815, 0.013),
    KNOWN: (0.804, 0.015),
}


def make_page(results: Results) -> str:
    """Return the page."""
    rivals = [method for method in PAPER if method not in {UNKNOWN, KNOWN}]
    about = f"""{TASK} The rows and the network are drawn with {seeds_text(results)}. {recipe_text(ADIENCE)} {
        tuning_text(ADIENCE, slowly=True)
    } {method_text(results)} *Learn-to-reweight* starts from the network of the training rows, as in the authors'
    program, and trains it for {networks.SHORT} more epochs, each three times as long."""
    deviations = f"""**Differences from the paper.** Photographs have 32 x 32 pixels, not 256 x 256. The coordinates
    come from a better network trained on the same rows (the row *{BETTER_NETWORK}*; `adience-better` shifts a network
    trained in the same way). The paper uses a network trained on ImageNet, which is not available here. In both cases
    the bases see something that the shifted network does not see. The rows with other coordinates show that the gain
    comes from this. If you have such a network, use it, or fit a model to its coordinates: the row *{REGRESSION}* does
    this, with the log-odds of the shifted network as a further feature. The paper does not have these two rows. The
    ridge is ours. The paper fine-tunes with rates of 1e-6 to 1e-4, as in the row *{SLOWLY}*; *fine-tuning* uses
    rates that suit these networks. As in the paper, validation and test rows show the same persons. This favours
    methods that train a network on validation rows. The page `adience-albums` keeps persons apart."""
    what = "The network is trained on faces of up to 32 years and predicts the gender of older ones."
    return page_of(results, about, what=what, rivals=rivals, beside=deviations)


METHODS = {
    **{name: of_network(ADIENCE, method, scores) for name, method in NETWORKS.items()},
    BETTER_NETWORK: of_network(BETTER, networks.TRAIN, scores),
    OPT_METRIC: opt_metric_of_validation(ADIENCE),
    REGRESSION: of_task(ADIENCE, on_coordinates),
    **{name: of_task(ADIENCE, method) for name, method in {**SHIFTS, **OTHERS}.items()},
}
EXPERIMENT = Experiment(
    name=ADIENCE,
    title="Domain shift on Adience (Table 4): F-measure",
    methods=METHODS,
    paper=PAPER,
    page=make_page,
    remark=OLDER,
    figure=dots_figure(PREFIXES, metric="F-measure", n_methods=len(METHODS)),
    seeds=networks.SEEDS[ADIENCE],
    config=config_of(ADIENCE, NETWORKS.values(), COORDINATES, metric=MacroF1().name, iterations=MAX_ITER),
    packages=("torch", "umap-learn"),
)
