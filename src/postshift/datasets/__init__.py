"""Loaders of the public data sets: found in a local folder, checked, split as the paper's experiments are."""

from postshift.datasets.adult import AdultTables, Part, Split, adult_fairness, adult_proxy, load_adult

__all__ = ["AdultTables", "Part", "Split", "adult_fairness", "adult_proxy", "load_adult"]
