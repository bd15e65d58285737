"""COMPAS: ProPublica's table of Broward County defendants, with ProPublica's own filter.

Two editions are read: the published file, and the same without the columns that name a person. These columns are
dropped on reading (and before a download is stored). One checksum of the other columns serves both editions. Only
information known at the screening is a feature; race is a group and never a feature.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from postshift.datasets._location import PathLike, check_sha256, obtain
from postshift.datasets._public_files import COMPAS
from postshift.datasets.dataset import Dataset, one_hot
from postshift.exceptions import InputError

SHA256 = "a5e5c34bfd2d1f065bb12a44c0323421baf74b98b97d585915a0c2e1513ecaba"  # without the columns of PERSON

PERSON = frozenset({"name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number"})
NUMBERS = ("age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
CATEGORIES = ("c_charge_degree", "sex", "age_cat")
GROUPS = ("race", "sex")
TARGET = "two_year_recid"
FILTER = ("days_b_screening_arrest", "is_recid", "c_charge_degree", "score_text")
MAX_DAYS = 30


def load_compas(*, data_dir: PathLike | None = None, download: bool = True) -> Dataset:
    """Return the 6,172 defendants that ProPublica's filter keeps; the label is 1 if charged again within two years.

    Features are age, age category, sex, charge degree and the counts of earlier and juvenile offences: they were known
    before the outcome. Groups are ``"race"``, which is not a feature, and ``"sex"``, which is one as well.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``compas/``. It is searched before the other folders of :mod:`postshift.datasets`.
    download : bool, default=True
        Whether a file that is in none of these folders is downloaded from ProPublica (2.5 MB). It is stored without the
        columns that name a person.

    Returns
    -------
    Dataset

    Raises
    ------
    DataNotFoundError
        If the file is in none of these folders and cannot be downloaded.
    InputError
        If a column is missing, or the file is not the published one.

    Examples
    --------
    >>> data = load_compas()  # doctest: +SKIP
    >>> data.X.shape, round(float(data.y.mean()), 3)  # doctest: +SKIP
    ((6172, 12), 0.455)
    """
    path = obtain(COMPAS, data_dir=data_dir, download=download, prepare=lambda content: _written(*_anonymous(content)))
    header, rows = _anonymous(path.read_bytes())
    _verify(header, rows, path=path)
    return _dataset(header, rows)


def _anonymous(content: bytes) -> tuple[list[str], list[list[str]]]:
    """Return header and rows without the columns that name a person."""
    text = content.decode("utf-8", errors="replace")  # the checksum finds what was replaced
    reader = csv.reader(io.StringIO(text, newline=""))
    published = next(reader, [])
    kept = [place for place, name in enumerate(published) if name not in PERSON]
    rows = [[row[place] for place in kept] for row in reader if len(row) == len(published)]
    return [published[place] for place in kept], rows


def _written(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    """Return header and rows as the content of a file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


def _verify(header: Sequence[str], rows: Sequence[Sequence[str]], *, path: Path) -> None:
    """Raise if columns are missing or the values are not the published ones."""
    needed = {*NUMBERS, *CATEGORIES, *GROUPS, *FILTER, TARGET}
    if missing := sorted(needed - set(header)):
        raise InputError(
            f"{path} must have the columns {', '.join(sorted(needed))}. Got {len(header)} columns without "
            f"{', '.join(missing)} instead; it is another edition: replace it with the original"
        )
    what = f"{path} must be the published file, whose columns other than {', '.join(sorted(PERSON))} have"
    check_sha256(_written(header, rows), SHA256, what=what, size=f"{len(rows):,} rows")


def _dataset(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Dataset:
    """Return features, labels and groups of the rows that ProPublica's filter keeps."""
    place = {name: header.index(name) for name in header}  # two names occur twice, with equal values: the first
    days, recid, degree, score = (place[name] for name in FILTER)
    # No screening date within 30 days of the arrest: the score may belong to another offence.
    kept = [
        number
        for number, row in enumerate(rows)
        if row[days]
        and abs(int(row[days])) <= MAX_DAYS
        and row[recid] != "-1"
        and row[degree] != "O"
        and row[score] != "N/A"
    ]
    column = {name: [rows[number][place[name]] for number in kept] for name in (*NUMBERS, *CATEGORIES, *GROUPS, TARGET)}
    encoded = [one_hot(column[name], name=name) for name in CATEGORIES]
    numbers = [np.array(column[name], dtype=np.float64) for name in NUMBERS]
    coded = {name: np.unique(column[name], return_inverse=True) for name in GROUPS}
    return Dataset(
        X=np.column_stack([*numbers, *(block for _, block in encoded)]),
        y=np.array(column[TARGET], dtype=np.intp),
        rows=np.array(kept, dtype=np.intp),
        groups={name: codes.astype(np.intp) for name, (_, codes) in coded.items()},
        feature_names=(*NUMBERS, *(label for labels, _ in encoded for label in labels)),
        group_names={name: tuple(labels.tolist()) for name, (labels, _) in coded.items()},
    )
