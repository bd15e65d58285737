"""Which experiments there are, the cheapest first: ``python -m experiments all`` runs them in this order.

A module is imported only when its experiment is asked for, so that torch is imported only where networks are trained.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.harness.experiment import Experiment

EXPERIMENTS: dict[str, str] = {  # name -> module that has EXPERIMENT
    "weight_rates": "experiments.paper.weight_rates",
    "adult_paper": "experiments.paper.adult_paper",
    "runtime": "experiments.paper.runtime",
    "base-quality": "experiments.paper.base_quality",
    "adult-proxy": "experiments.paper.adult_proxy",
    "adult-fairness": "experiments.paper.adult_fairness",
    "macro-f": "experiments.paper.macro_f",
    "validation-size": "experiments.paper.validation_size",
    "baselines": "experiments.studies.baselines",
    "menu_figures": "experiments.studies.menu_figures",
    "classifier_table": "experiments.studies.classifier_table",
    "constrained_probes": "experiments.studies.constrained_probes",
    "threshold_comparison": "experiments.studies.threshold_comparison",
    "xcolumns_comparison": "experiments.studies.xcolumns_comparison",
    "menu_study": "experiments.studies.menu_study",
    "default_study": "experiments.studies.default_study",
    "brute_force": "experiments.studies.brute_force",
    "penalties": "experiments.studies.penalties",
    "power_check": "experiments.studies.power_check",
    "weekly_digits": "experiments.studies.weekly_digits",
    "oracle_games": "experiments.studies.oracle_games",
    "guarantee": "experiments.studies.guarantee",
    "oracle_adult": "experiments.studies.oracle_adult",
    "verdicts": "experiments.studies.verdicts",
    "subject_to": "experiments.studies.subject_to",
    "adience-shift": "experiments.paper.adience_shift",
    "adience-better": "experiments.studies.adience_better",
    "adience-albums": "experiments.studies.adience_albums",
    "adience-size": "experiments.paper.adience_size",
    "cifar10-noise": "experiments.paper.cifar10_noise",
    "weights": "experiments.paper.cifar10_weights",
}


def load(name: str) -> Experiment:
    """Return an experiment; its module is imported now."""
    found: Experiment = importlib.import_module(EXPERIMENTS[name]).EXPERIMENT
    if found.name != name:
        raise ImportError(f"{EXPERIMENTS[name]} has the experiment {found.name!r}: correct experiments/registry.py")
    return found


def described(name: str) -> str:
    """Return the first line of the docstring of an experiment's module, without importing the module."""
    module = EXPERIMENTS[name]
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return f"({module} is missing)"
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
