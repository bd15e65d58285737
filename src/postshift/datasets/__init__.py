"""Loaders of the public data sets: found in a local folder, checked, split as the paper's experiments are."""

from postshift.datasets.adult import AdultTables, Part, Split, adult_fairness, adult_proxy, load_adult
from postshift.datasets.compas import Table, load_compas
from postshift.datasets.default_credit import load_default_credit

__all__ = [
    "AdultTables",
    "Part",
    "Split",
    "Table",
    "adult_fairness",
    "adult_proxy",
    "load_adult",
    "load_compas",
    "load_default_credit",
]
