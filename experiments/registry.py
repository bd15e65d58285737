"""Which experiments there are, the cheapest first: ``python -m experiments all`` runs them in this order.

A module is imported only when its experiment is asked for, so that torch is imported only where networks are trained.
"""

from __future__ import annotations

EXPERIMENTS: dict[str, str] = {  # name -> module that has EXPERIMENT
    "runtime": "experiments.runtime",
    "base-quality": "experiments.base_quality",
    "adult-proxy": "experiments.adult_proxy_table",
    "adult-fairness": "experiments.adult_fairness_table",
    "macro-f": "experiments.macro_f",
    "validation-size": "experiments.validation_size",
    "adience-shift": "experiments.adience_shift_table",
    "adience-better": "experiments.adience_better_table",
    "adience-albums": "experiments.adience_albums",
    "adience-size": "experiments.adience_size",
    "cifar10-noise": "experiments.cifar10_noise_table",
    "weights": "experiments.cifar10_weights",
}
STUDIES: tuple[str, ...] = (  # modules with a command of their own, whose pages ``all --render`` makes too
    "experiments.adult_paper",
    "experiments.baselines",
    "experiments.baselines_why",
    "experiments.classifier_table",
    "experiments.menu_figures",
    "experiments.menu_study",
    "experiments.threshold_comparison",
    "experiments.weight_rates",
)
