"""The public files, one table: where each comes from, its checksum, its licence.

The checksums of Adult are those of the tested files. That of UCI's ``data.csv`` of Default was confirmed by writing it
again from Kaggle's edition. COMPAS and the archive of CIFAR-10 have the checksums that many projects publish; the
values read from them must also have the checksum of the tested values.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFile:
    """One public file."""

    folder: str  # of the data set in a data folder, e.g. "adult"
    name: str
    page: str  # describes the data set
    licence: str
    url: str = ""  # empty: the authors send the file on request
    sha256: str = ""  # of the published file; empty: the values are checked instead


def _adult(name: str, sha256: str) -> PublicFile:
    """Return one of the two files of Adult."""
    return PublicFile(
        folder="adult",
        name=name,
        page="https://archive.ics.uci.edu/dataset/2/adult",
        licence="CC BY 4.0",
        url=f"https://archive.ics.uci.edu/ml/machine-learning-databases/adult/{name}",
        sha256=sha256,
    )


ADULT_TRAIN = _adult("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d")
ADULT_TEST = _adult("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05")

COMPAS = PublicFile(
    folder="compas",
    name="compas-scores-two-years.csv",
    page="https://github.com/propublica/compas-analysis",
    licence="none stated; public records",
    url="https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv",
    sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
)

DEFAULT_CREDIT = PublicFile(
    folder="default_credit",
    name="data.csv",
    page="https://archive.ics.uci.edu/dataset/350/default+of+credit+card+clients",
    licence="CC BY 4.0",
    url="https://archive.ics.uci.edu/static/public/350/data.csv",
    sha256="45bcf4df62ff2e237a74eb155cabfb4bbbc171219a0637daef44fdad07503dd0",
)

CIFAR10 = PublicFile(
    folder="cifar10",
    name="cifar-10-python.tar.gz",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="none stated; the authors ask to be cited",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
)

ADIENCE = PublicFile(
    folder="adience",
    name="fold_0_data.txt",
    page="https://talhassner.github.io/home/projects/Adience/Adience-data.html",
    licence="research use; the authors ask to be cited",
)

SOURCES = (ADULT_TRAIN, ADULT_TEST, COMPAS, DEFAULT_CREDIT, CIFAR10, ADIENCE)
