"""Loaders of the public data sets: found or downloaded, checked, split as the paper's experiments are."""

from postshift.datasets._location import cache_folder
from postshift.datasets.adience import adience_shift, load_adience
from postshift.datasets.adult import AdultTables, Part, Split, adult_fairness, adult_proxy, load_adult
from postshift.datasets.bundled import load_embedded
from postshift.datasets.cifar10 import Cifar10, cifar10_noise, load_cifar10
from postshift.datasets.compas import load_compas
from postshift.datasets.default_credit import load_default_credit
from postshift.datasets.images import Images, ImageSplit
from postshift.datasets.tables import Table

__all__ = [
    "AdultTables",
    "Cifar10",
    "ImageSplit",
    "Images",
    "Part",
    "Split",
    "Table",
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
