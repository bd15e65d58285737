"""Default of credit card clients (Taiwan, 2005): who defaults next month.

Amounts, repayment states and age are numbers; education and marriage are one-hot, their undocumented codes (0, 5, 6
and 0) categories of their own. Sex is a group and no feature.
"""

from __future__ import annotations

import csv
import io

import numpy as np

from postshift.datasets._location import PathLike, find_file, read_verified
from postshift.datasets.compas import Table, one_hot

FILE = "UCI_Credit_Card.csv"
SHA256 = "a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1"

CATEGORIES = ("EDUCATION", "MARRIAGE")
SEX = {"1": "male", "2": "female"}
TARGET = "default.payment.next.month"
NO_NUMBERS = frozenset({"ID", "SEX", TARGET, *CATEGORIES})


def load_default_credit(*, data_dir: PathLike | None = None) -> Table:
    """Return 30,000 clients: who defaults next month, of whom 22 % do.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``default_credit/``. Without it (or where it has no such file) the folder named by
        the environment variable ``POSTSHIFT_DATA`` is looked in, then ``shared/data`` beside the checkout.

    Returns
    -------
    Table
        With the group ``"sex"``, which is no feature.

    Raises
    ------
    DataNotFoundError
        When the file is in none of these folders.
    InputError
        When the file is not the published one.

    Examples
    --------
    >>> table = load_default_credit()  # doctest: +SKIP
    >>> table.X.shape, table.group_names  # doctest: +SKIP
    ((30000, 31), {'sex': ('male', 'female')})
    """
    content = read_verified(find_file("default_credit", FILE, data_dir=data_dir), sha256=SHA256)
    return _table(content)


def _table(content: bytes) -> Table:
    """Return features, labels and groups of a file's content."""
    header, *rows = csv.reader(io.StringIO(content.decode("ascii"), newline=""))
    column = dict(zip(header, zip(*rows, strict=True), strict=True))
    numbers = [name for name in header if name not in NO_NUMBERS]
    encoded = [one_hot(column[name], name=name) for name in CATEGORIES]
    sexes = list(SEX)
    return Table(
        # Some amounts are written as 2e+05.
        X=np.column_stack([np.array([column[name] for name in numbers], dtype=np.float64).T, *(b for _, b in encoded)]),
        y=np.array(column[TARGET], dtype=np.intp),
        groups={"sex": np.array([sexes.index(code) for code in column["SEX"]], dtype=np.intp)},
        feature_names=(*numbers, *(label for labels, _ in encoded for label in labels)),
        group_names={"sex": tuple(SEX.values())},
    )
