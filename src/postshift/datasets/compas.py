"""COMPAS: ProPublica's table of Broward County defendants, by ProPublica's own filter.

Two editions are read: the file as published, and the same without the columns that name a person. These columns are
dropped on reading, and what is left must be the published values: one checksum serves both editions.
Only what was known at the screening is a feature; race is a group and never one.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.datasets._location import PathLike, find_file
from postshift.exceptions import InputError

FILE = "compas-scores-two-years.csv"
SHA256 = "a5e5c34bfd2d1f065bb12a44c0323421baf74b98b97d585915a0c2e1513ecaba"  # without the columns of PERSON

PERSON = frozenset({"name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number"})
NUMBERS = ("age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
CATEGORIES = ("c_charge_degree", "sex", "age_cat")
GROUPS = ("race", "sex")
TARGET = "two_year_recid"
FILTER = ("days_b_screening_arrest", "is_recid", "c_charge_degree", "score_text")
MAX_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """One table of features, labels and groups.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Features: numbers as they are, categories one-hot.
    y : ndarray of shape (n,)
        Labels, 0 or 1.
    groups : mapping of str to ndarray of shape (n,)
        Group of every row, as a position in `group_names`.
    feature_names : tuple of str
        Names of the columns of `X`, such as ``"age"`` or ``"age_cat=25 - 45"``.
    group_names : mapping of str to tuple of str
        Names of the groups, under the keys of `groups`.

    Examples
    --------
    >>> table = load_compas()  # doctest: +SKIP
    >>> table.X.shape, table.group_names["sex"]  # doctest: +SKIP
    ((6172, 12), ('Female', 'Male'))
    """

    X: FloatArray
    y: IntArray
    groups: Mapping[str, IntArray]
    feature_names: tuple[str, ...]
    group_names: Mapping[str, tuple[str, ...]]


def load_compas(*, data_dir: PathLike | None = None) -> Table:
    """Return the 6,172 defendants that ProPublica's filter leaves: who is charged again within two years.

    Features are age, age category, sex, charge degree and the counts of earlier and juvenile offences: what was known
    before the outcome. Groups are ``"race"``, never a feature, and ``"sex"``, which is one as well.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``compas/``. Without it (or where it has no such file) the folder named by the
        environment variable ``POSTSHIFT_DATA`` is looked in, then ``shared/data`` beside the checkout.

    Returns
    -------
    Table

    Raises
    ------
    DataNotFoundError
        When the file is in none of these folders.
    InputError
        When a column is missing, or the file is not the published one. Whether it has the columns that name a person
        makes no difference.

    Examples
    --------
    >>> table = load_compas()  # doctest: +SKIP
    >>> table.X.shape, round(float(table.y.mean()), 3)  # doctest: +SKIP
    ((6172, 12), 0.455)
    """
    path = find_file("compas", FILE, data_dir=data_dir)
    header, rows = _anonymous(path)
    _verify(header, rows, path=path)
    return _table(header, rows)


def one_hot(values: Sequence[str], *, name: str) -> tuple[tuple[str, ...], FloatArray]:
    """Return column names ``name=value`` and the indicators of a column's sorted values."""
    labels, codes = np.unique(values, return_inverse=True)
    return tuple(f"{name}={label}" for label in labels.tolist()), np.eye(len(labels))[codes]


def check_columns(header: Sequence[str], needed: Sequence[str], *, path: Path) -> None:
    """Refuse a file without all the columns that are read."""
    missing = sorted(set(needed) - set(header))
    if missing:
        raise InputError(
            f"{path} must have the columns {', '.join(sorted(set(needed)))}. Got {len(header)} columns without "
            f"{', '.join(missing)} instead; it is another edition: replace it by the original"
        )


def _anonymous(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return header and rows without the columns that name a person."""
    with path.open(encoding="utf-8", errors="replace", newline="") as lines:  # the checksum finds what was replaced
        reader = csv.reader(lines)
        published = next(reader, [])
        check_columns(published, (*NUMBERS, *CATEGORIES, *GROUPS, *FILTER, TARGET), path=path)
        kept = [place for place, name in enumerate(published) if name not in PERSON]
        width = len(published)
        rows = [[row[place] for place in kept] for row in reader if len(row) == width]
    return [published[place] for place in kept], rows


def _verify(header: Sequence[str], rows: Sequence[Sequence[str]], *, path: Path) -> None:
    """Refuse values that are not the published ones."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    found = hashlib.sha256(text.getvalue().encode()).hexdigest()
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
