"""Loaders of public data sets, with the splits of the paper's experiments.

A file is searched in these folders, in this order: ``data_dir``; the folder that the environment variable
``POSTSHIFT_DATA`` names; ``shared/data`` next to a developer's checkout; the cache (:func:`cache_folder`). A file that
is in none of them is downloaded into the cache. Every file is checked: its content must be the published one.
"""

from postshift.datasets._location import cache_folder
from postshift.datasets.adience import adience_shift, load_adience
from postshift.datasets.adult import AdultTables, adult_fairness, adult_proxy, load_adult
from postshift.datasets.bundled import load_embedded
from postshift.datasets.cifar10 import Cifar10, cifar10_noise, load_cifar10
from postshift.datasets.compas import load_compas
from postshift.datasets.dataset import Dataset, Split
from postshift.datasets.default_credit import load_default_credit

__all__ = [
    "AdultTables",
    "Cifar10",
    "Dataset",
    "Split",
    "adience_shift",
    "adult_fairness",
    "adult_proxy",
    "cache_folder",
    "cifar10_noise",
    "load_adience",
    "load_adult",
    "load_cifar10",
    "load_compas",
    "load_default_credit",
    "load_embedded",
]
