"""COMPAS: ProPublica's table of Broward County defendants, by ProPublica's own filter.

Two editions are read: the file as published, and the same without the columns that name a person. These columns are
dropped on reading (and before a download is stored), and what is left must be the published values: one checksum serves
both editions.
Only what was known at the screening is a feature; race is a group and never one.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from postshift.datasets._location import PathLike, obtain
from postshift.datasets._sources import COMPAS
from postshift.datasets.tables import Table, check_columns, one_hot
from postshift.exceptions import InputError

SHA256 = "a5e5c34bfd2d1f065bb12a44c0323421baf74b98b97d585915a0c2e1513ecaba"  # without the columns of PERSON

PERSON = frozenset({"name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number"})
NUMBERS = ("age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
CATEGORIES = ("c_charge_degree", "sex", "age_cat")
GROUPS = ("race", "sex")
TARGET = "two_year_recid"
FILTER = ("days_b_screening_arrest", "is_recid", "c_charge_degree", "score_text")
MAX_DAYS = 30


def load_compas(*, data_dir: PathLike | None = None, download: bool = True) -> Table:
    """Return the 6,172 defendants that ProPublica's filter leaves: who is charged again within two years.

    Features are age, age category, sex, charge degree and the counts of earlier and juvenile offences: what was known
    before the outcome. Groups are ``"race"``, never a feature, and ``"sex"``, which is one as well.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``compas/``. Without it (or where it has no such file) the folder named by the
        environment variable ``POSTSHIFT_DATA`` is looked in, then ``shared/data`` beside the checkout, then the cache.
    download : bool, default=True
        Whether the file, where it is in none of these folders, is downloaded from ProPublica (2.5 MB); the cache keeps
        it without the columns that name a person.

    Returns
    -------
    Table

    Raises
    ------
    DataNotFoundError
        When the file is in none of these folders and is not to be had from the source.
    InputError
        When a column is missing, or the file is not the published one. Whether it has the columns that name a person
        makes no difference.

    Examples
    --------
    >>> table = load_compas()  # doctest: +SKIP
    >>> table.X.shape, round(float(table.y.mean()), 3)  # doctest: +SKIP
    ((6172, 12), 0.455)
    """
    path = obtain(COMPAS, data_dir=data_dir, download=download, prepare=_without_persons)
    header, rows = _anonymous(path.read_bytes())
    check_columns(header, (*NUMBERS, *CATEGORIES, *GROUPS, *FILTER, TARGET), path=path)
    _verify(header, rows, path=path)
    return _table(header, rows)


def _without_persons(content: bytes) -> bytes:
    """Return a file's content without the columns that name a person."""
    return _written(*_anonymous(content))


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
    """Refuse values that are not the published ones."""
    found = hashlib.sha256(_written(header, rows)).hexdigest()
    if found != SHA256:
        raise InputError(
            f"{path} must be the published file, whose columns other than {', '.join(sorted(PERSON))} have "
            f"sha256 {SHA256}. Got {len(rows):,} rows with sha256 {found} instead; the copy is damaged or another "
            "edition: replace it by the original"
        )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return features, labels and groups of the rows that ProPublica's filter leaves."""
    place = {name: header.index(name) for name in header}  # two names occur twice, with equal values: the first
    days, recid, degree, score = (place[name] for name in FILTER)
    # No screening date within 30 days of the arrest: the score may belong to another offence.
    left = [
        row
        for row in rows
        if row[days]
        and abs(int(row[days])) <= MAX_DAYS
        and row[recid] != "-1"
        and row[degree] != "O"
        and row[score] != "N/A"
    ]
    column = {name: [row[place[name]] for row in left] for name in (*NUMBERS, *CATEGORIES, *GROUPS, TARGET)}
    encoded = [one_hot(column[name], name=name) for name in CATEGORIES]
    numbers = [np.array(column[name], dtype=np.float64) for name in NUMBERS]
    coded = {name: np.unique(column[name], return_inverse=True) for name in GROUPS}
    return Table(
        X=np.column_stack([*numbers, *(block for _, block in encoded)]),
        y=np.array(column[TARGET], dtype=np.intp),
        groups={name: codes.astype(np.intp) for name, (_, codes) in coded.items()},
        feature_names=(*NUMBERS, *(label for labels, _ in encoded for label in labels)),
        group_names={name: tuple(labels.tolist()) for name, (labels, _) in coded.items()},
    )
