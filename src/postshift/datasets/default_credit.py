"""Default of credit card clients (Taiwan, 2005): the label is 1 for a default in the next month.

Two editions are read, with the same values: Kaggle's, and UCI's, where the columns are called X1 to X23 and Y.
Amounts, repayment states and age are numbers. Education and marriage are one-hot; their undocumented codes (0, 5, 6
and 0) are separate categories. Sex is a group and not a feature.
"""

from __future__ import annotations

import csv
import io

import numpy as np

from postshift.datasets._location import PathLike, obtain, read_verified
from postshift.datasets._public_files import DEFAULT_CREDIT
from postshift.datasets.dataset import Dataset, one_hot

FILE = "UCI_Credit_Card.csv"
SHA256 = "a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1"

CATEGORIES = ("EDUCATION", "MARRIAGE")
SEX = {"1": "male", "2": "female"}
TARGET = "default.payment.next.month"
NO_NUMBERS = frozenset({"ID", "SEX", TARGET, *CATEGORIES})
MONTHS = (1, 2, 3, 4, 5, 6)
# The names that UCI's description gives to X1, ..., X23, Y; there is no PAY_1.
NAMES = (
    "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0", *(f"PAY_{month}" for month in MONTHS[1:]),
    *(f"BILL_AMT{month}" for month in MONTHS), *(f"PAY_AMT{month}" for month in MONTHS), TARGET,
)  # fmt: skip
CODES = dict(zip((*(f"X{number}" for number in range(1, len(NAMES))), "Y"), NAMES, strict=True))


def load_default_credit(*, data_dir: PathLike | None = None, download: bool = True) -> Dataset:
    """Return 30,000 clients; the label is 1 for a default in the next month (22 %).

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``default_credit/`` with ``UCI_Credit_Card.csv`` or ``data.csv``. It is searched before
        the other folders of :mod:`postshift.datasets`.
    download : bool, default=True
        Whether a file that is in none of these folders is downloaded from UCI into the cache (3 MB).

    Returns
    -------
    Dataset
        With the group ``"sex"``, which is not a feature.

    Raises
    ------
    DataNotFoundError
        If the file is in none of these folders and cannot be downloaded.
    InputError
        If the file is not the published one.

    Examples
    --------
    >>> data = load_default_credit()  # doctest: +SKIP
    >>> data.X.shape, data.group_names  # doctest: +SKIP
    ((30000, 31), {'sex': ('male', 'female')})
    """
    path = obtain(DEFAULT_CREDIT, FILE, data_dir=data_dir, download=download)
    return _dataset(read_verified(path, sha256=SHA256 if path.name == FILE else DEFAULT_CREDIT.sha256))


def _dataset(content: bytes) -> Dataset:
    """Return features, labels and groups from the content of a file."""
    published, *rows = csv.reader(io.StringIO(content.decode("ascii"), newline=""))
    header = [CODES.get(name, name) for name in published]
    column = dict(zip(header, zip(*rows, strict=True), strict=True))
    numbers = [name for name in header if name not in NO_NUMBERS]
    encoded = [one_hot(column[name], name=name) for name in CATEGORIES]
    sexes = list(SEX)
    return Dataset(
        # Some amounts are written as 2e+05.
        X=np.column_stack([np.array([column[name] for name in numbers], dtype=np.float64).T, *(b for _, b in encoded)]),
        y=np.array(column[TARGET], dtype=np.intp),
        rows=np.arange(len(rows)),
        groups={"sex": np.array([sexes.index(code) for code in column["SEX"]], dtype=np.intp)},
        feature_names=(*numbers, *(label for labels, _ in encoded for label in labels)),
        group_names={"sex": tuple(SEX.values())},
    )
