"""The public files, one table: where each comes from, its checksum, its licence.

The checksums of Adult are those of the files that were tested with. UCI's ``data.csv`` of Default was written again
from Kaggle's edition and had this very checksum. The published COMPAS and the archive of CIFAR-10 have the one under
which many projects know them, and what is read from them must also have the checksum of what was tested with.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One public file.

    Attributes
    ----------
    folder : str
        The data set's own folder in a data folder, e.g. ``"adult"``.
    name : str
        The file's name in that folder.
    page : str
        Where a person reads about the data set.
    licence : str
        What its authors allow.
    url : str
        Where the file is downloaded from; empty where it is given out on request only.
    sha256 : str
        Checksum of the file as published; empty where none is known, and what is read is checked instead.
    """

    folder: str
    name: str
    page: str
    licence: str
    url: str = ""
    sha256: str = ""


def _adult(name: str, sha256: str) -> Source:
    """Return one of the two files of Adult."""
    return Source(
        folder="adult",
        name=name,
        page="https://archive.ics.uci.edu/dataset/2/adult",
        licence="CC BY 4.0",
        url=f"https://archive.ics.uci.edu/ml/machine-learning-databases/adult/{name}",
        sha256=sha256,
    )


ADULT_TRAIN = _adult("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d")
ADULT_TEST = _adult("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05")

COMPAS = Source(
    folder="compas",
    name="compas-scores-two-years.csv",
    page="https://github.com/propublica/compas-analysis",
    licence="none stated; public records",
    url="https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv",
    sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
)

DEFAULT_CREDIT = Source(
    folder="default_credit",
    name="data.csv",
    page="https://archive.ics.uci.edu/dataset/350/default+of+credit+card+clients",
    licence="CC BY 4.0",
    url="https://archive.ics.uci.edu/static/public/350/data.csv",
    sha256="45bcf4df62ff2e237a74eb155cabfb4bbbc171219a0637daef44fdad07503dd0",
)

CIFAR10 = Source(
    folder="cifar10",
    name="cifar-10-python.tar.gz",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="none stated; the authors ask to be cited",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
)

ADIENCE = Source(
    folder="adience",
    name="fold_0_data.txt",
    page="https://talhassner.github.io/home/projects/Adience/Adience-data.html",
    licence="research use; the authors ask to be cited",
)

SOURCES = (ADULT_TRAIN, ADULT_TEST, COMPAS, DEFAULT_CREDIT, CIFAR10, ADIENCE)
