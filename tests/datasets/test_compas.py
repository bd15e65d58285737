"""COMPAS: both editions load alike, filtered, without what is known later; skipped, with the reason, without data."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import FrozenInstanceError, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from postshift.datasets import Dataset, compas, load_compas
from postshift.datasets._location import find_file
from postshift.datasets._public_files import COMPAS
from postshift.datasets.compas import PERSON, SHA256
from postshift.datasets.compas import _dataset as make_dataset
from postshift.exceptions import DataNotFoundError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.datasets.conftest import Source

N_ROWS = 6_172
FEATURES = (
    "age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count",
    "c_charge_degree=F", "c_charge_degree=M", "sex=Female", "sex=Male",
    "age_cat=25 - 45", "age_cat=Greater than 45", "age_cat=Less than 25",
)  # fmt: skip
HEADER = (
    "age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count", "c_charge_degree", "sex", "age_cat",
    "race", "two_year_recid", "days_b_screening_arrest", "is_recid", "score_text", "priors_count",
)  # fmt: skip
GOOD = {
    "age": "30", "priors_count": "2", "juv_fel_count": "0", "juv_misd_count": "1", "juv_other_count": "0",
    "c_charge_degree": "F", "sex": "Male", "age_cat": "25 - 45", "race": "Other", "two_year_recid": "1",
    "days_b_screening_arrest": "-1", "is_recid": "1", "score_text": "Low",
}  # fmt: skip


@pytest.fixture(scope="module")
def path() -> Path:
    """Return the file, or skip and say what is missing."""
    try:
        return find_file("compas", COMPAS.name)
    except DataNotFoundError as error:
        pytest.skip(f"COMPAS is not tested: {error}")


@pytest.fixture(scope="module")
def data(path: Path) -> Dataset:
    return load_compas(data_dir=path.parent.parent)


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines))


def write(root: Path, rows: list[list[str]]) -> Path:
    path = root / "compas" / COMPAS.name
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows(rows)
    return root


def with_person_columns(rows: list[list[str]]) -> list[list[str]]:
    """Return the published edition's columns, filled with made-up values; they stand among the others."""
    names = sorted(PERSON)
    header, *body = rows
    return [
        [header[0], *names, *header[1:]],
        *([row[0], *(f"nobody, {name} {i}" for name in names), *row[1:]] for i, row in enumerate(body)),
    ]


class TestDataset:
    def test_shapes_and_types(self, data: Dataset) -> None:
        assert data.X.shape == (N_ROWS, len(FEATURES))
        assert data.X.dtype == np.float64
        for labels in (data.y, *data.groups.values()):
            assert labels.shape == (N_ROWS,)
            assert labels.dtype == np.intp

    def test_recidivists(self, data: Dataset) -> None:
        assert set(np.unique(data.y)) == {0, 1}
        assert data.y.mean() == pytest.approx(0.455, abs=5e-4)

    def test_only_what_was_known_before_is_a_feature(self, data: Dataset) -> None:
        assert data.feature_names == FEATURES
        assert np.isfinite(data.X).all()

    def test_every_category_is_one_hot(self, data: Dataset) -> None:
        sources = np.array([name.partition("=")[0] for name in data.feature_names])
        for source in ("c_charge_degree", "sex", "age_cat"):
            assert (data.X[:, sources == source].sum(axis=1) == 1).all()

    def test_age_categories_are_those_of_age(self, data: Dataset) -> None:
        """Whatever its name says, the oldest category starts at 45."""
        age = data.X[:, 0]
        np.testing.assert_array_equal(data.X[:, FEATURES.index("age_cat=Greater than 45")] == 1, age >= 45)
        np.testing.assert_array_equal(data.X[:, FEATURES.index("age_cat=Less than 25")] == 1, age < 25)

    def test_groups(self, data: Dataset) -> None:
        assert set(data.groups) == set(data.group_names) == {"race", "sex"}
        for name, codes in data.groups.items():
            counts = np.bincount(codes)
            assert len(counts) == len(data.group_names[name])
            assert counts.min() > 0
        race = dict(zip(data.group_names["race"], np.bincount(data.groups["race"]).tolist(), strict=True))
        assert race["African-American"] == 3_175
        assert race["Caucasian"] == 2_103
        np.testing.assert_array_equal(data.groups["sex"], data.X[:, FEATURES.index("sex=Male")])

    def test_frozen(self, data: Dataset) -> None:
        with pytest.raises(FrozenInstanceError):
            data.y = data.y  # type: ignore[misc]


class TestFilter:
    @pytest.mark.parametrize(
        ("column", "value", "stays"),
        [
            ("days_b_screening_arrest", "30", True),
            ("days_b_screening_arrest", "-30", True),
            ("days_b_screening_arrest", "31", False),
            ("days_b_screening_arrest", "-31", False),
            ("days_b_screening_arrest", "", False),
            ("is_recid", "0", True),
            ("is_recid", "-1", False),
            ("c_charge_degree", "M", True),
            ("c_charge_degree", "O", False),
            ("score_text", "N/A", False),
        ],
    )
    def test_one_row(self, column: str, value: str, stays: bool) -> None:
        rows = [[row[name] for name in HEADER] for row in (GOOD, {**GOOD, column: value})]
        assert len(make_dataset(HEADER, rows).y) == 1 + stays

    def test_values_and_the_repeated_column(self) -> None:
        data = make_dataset(HEADER, [[GOOD[name] for name in HEADER]])
        assert data.X.tolist() == [[30, 2, 0, 1, 0, 1, 1, 1]]
        assert data.feature_names[5:] == ("c_charge_degree=F", "sex=Male", "age_cat=25 - 45")
        assert data.y.tolist() == [1]
        assert data.group_names == {"race": ("Other",), "sex": ("Male",)}


class TestFiles:
    def test_the_published_edition_loads_alike(self, path: Path, data: Dataset, tmp_path: Path) -> None:
        published = load_compas(data_dir=write(tmp_path, with_person_columns(read(path))))
        assert published.feature_names == data.feature_names
        assert published.X.tobytes() == data.X.tobytes()
        np.testing.assert_array_equal(published.y, data.y)
        for name, codes in data.groups.items():
            np.testing.assert_array_equal(published.groups[name], codes)

    @pytest.mark.parametrize("published", [False, True])
    def test_a_changed_value_is_refused(self, path: Path, tmp_path: Path, published: bool) -> None:
        rows = with_person_columns(read(path)) if published else read(path)
        place = rows[0].index("age")
        rows[100][place] = str(int(rows[100][place]) + 1)
        with pytest.raises(InputError, match=r"must be the published file.*sha256 a5e5c34b"):
            load_compas(data_dir=write(tmp_path, rows))

    def test_a_truncated_copy_is_refused(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="7,213 rows"):
            load_compas(data_dir=write(tmp_path, read(path)[:-1]))

    def test_a_missing_column_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="without race, two_year_recid instead"):
            load_compas(data_dir=write(tmp_path, [[n for n in HEADER if n not in {"race", "two_year_recid"}]]))

    def test_an_empty_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="Got 0 columns"):
            load_compas(data_dir=write(tmp_path, []))

    @pytest.mark.usefixtures("nowhere")
    def test_a_download_is_stored_without_persons(
        self, path: Path, data: Dataset, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = write(tmp_path / "published", with_person_columns(read(path)))
        published = (folder / "compas" / COMPAS.name).read_bytes()
        assert b"nobody" in published
        url = source.give(COMPAS.name, published)
        monkeypatch.setattr(compas, "COMPAS", replace(COMPAS, url=url, sha256=hashlib.sha256(published).hexdigest()))
        for _ in range(2):
            fetched = load_compas()
            assert fetched.X.tobytes() == data.X.tobytes()
        assert len(source.asked) == 1
        stored = tmp_path / "cache" / "data" / "compas" / COMPAS.name
        assert hashlib.sha256(stored.read_bytes()).hexdigest() == SHA256
        assert b"nobody" not in stored.read_bytes()

    @pytest.mark.usefixtures("nowhere")
    def test_missing_everywhere(self, tmp_path: Path) -> None:
        with pytest.raises(DataNotFoundError, match="compas-scores-two-years"):
            load_compas(data_dir=tmp_path, download=False)
