"""Default: verified, sex kept out of the features; skipped, with the reason, without the file."""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from postshift.datasets import Dataset, default_credit, load_default_credit
from postshift.datasets._location import find_file
from postshift.datasets._public_files import DEFAULT_CREDIT
from postshift.datasets.default_credit import FILE
from postshift.datasets.default_credit import _dataset as make_dataset
from postshift.exceptions import DataNotFoundError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.datasets.conftest import Source

N_ROWS = 30_000
SMALL = b""""ID","LIMIT_BAL","SEX","EDUCATION","MARRIAGE","AGE","default.payment.next.month"
7,2e+05,2,2,1,24,1
8,50000,1,0,1,30,0
"""


@pytest.fixture(scope="module")
def path() -> Path:
    """Return the file, or skip and say what is missing."""
    try:
        return find_file("default_credit", FILE)
    except DataNotFoundError as error:
        pytest.skip(f"Default is not tested: {error}")


def as_by_uci(content: bytes) -> bytes:
    """Return Kaggle's edition in UCI's form: other names, no number with an exponent, Windows' line ends."""
    _, *rows = csv.reader(io.StringIO(content.decode("ascii")))
    text = io.StringIO()
    names = ["ID", *(f"X{number}" for number in range(1, 24)), "Y"]
    csv.writer(text).writerows([names, *([int(float(value)) for value in row] for row in rows)])
    return text.getvalue().encode()


@pytest.fixture(scope="module")
def data(path: Path) -> Dataset:
    return load_default_credit(data_dir=path.parent.parent)


class TestDataset:
    def test_shapes_and_types(self, data: Dataset) -> None:
        assert data.X.shape == (N_ROWS, 20 + 7 + 4)
        assert data.X.dtype == np.float64
        for labels in (data.y, data.groups["sex"]):
            assert labels.shape == (N_ROWS,)
            assert labels.dtype == np.intp

    def test_counts(self, data: Dataset) -> None:
        assert np.bincount(data.y).tolist() == [23_364, 6_636]
        assert data.group_names == {"sex": ("male", "female")}
        assert np.bincount(data.groups["sex"]).tolist() == [11_888, 18_112]

    def test_features(self, data: Dataset) -> None:
        assert len(set(data.feature_names)) == len(data.feature_names) == data.X.shape[1]
        sources = {name.partition("=")[0] for name in data.feature_names}
        assert not sources & {"ID", "SEX", "default.payment.next.month"}
        assert {"LIMIT_BAL", "AGE", "PAY_0", "PAY_6", "BILL_AMT1", "PAY_AMT6", "EDUCATION", "MARRIAGE"} <= sources
        assert np.isfinite(data.X).all()

    def test_every_category_is_one_hot(self, data: Dataset) -> None:
        for source, n_codes in (("EDUCATION", 7), ("MARRIAGE", 4)):
            columns = [name.startswith(f"{source}=") for name in data.feature_names]
            assert sum(columns) == n_codes
            assert (data.X[:, columns].sum(axis=1) == 1).all()

    def test_two_rows(self) -> None:
        data = make_dataset(SMALL)
        assert data.feature_names == ("LIMIT_BAL", "AGE", "EDUCATION=0", "EDUCATION=2", "MARRIAGE=1")
        assert data.X.tolist() == [[200_000, 24, 0, 1, 1], [50_000, 30, 1, 0, 1]]
        assert data.y.tolist() == [1, 0]
        assert data.groups["sex"].tolist() == [1, 0]


class TestFiles:
    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        copy = tmp_path / "default_credit" / FILE
        copy.parent.mkdir()
        copy.write_bytes(SMALL)
        with pytest.raises(InputError, match="must be the published file, with sha256 a0f0ab49"):
            load_default_credit(data_dir=tmp_path)

    @pytest.mark.usefixtures("nowhere")
    def test_the_edition_of_uci_is_downloaded_and_loads_alike(
        self, path: Path, data: Dataset, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = as_by_uci(path.read_bytes())
        assert hashlib.sha256(content).hexdigest() == DEFAULT_CREDIT.sha256
        known = replace(DEFAULT_CREDIT, url=source.give("data.csv", content))
        monkeypatch.setattr(default_credit, "DEFAULT_CREDIT", known)
        fetched = load_default_credit()
        assert (tmp_path / "cache" / "data" / "default_credit" / "data.csv").is_file()
        assert fetched.feature_names == data.feature_names
        assert fetched.X.tobytes() == data.X.tobytes()
        np.testing.assert_array_equal(fetched.y, data.y)
        np.testing.assert_array_equal(fetched.groups["sex"], data.groups["sex"])

    @pytest.mark.usefixtures("nowhere")
    def test_missing_everywhere(self, tmp_path: Path) -> None:
        with pytest.raises(DataNotFoundError, match="UCI_Credit_Card"):
            load_default_credit(data_dir=tmp_path, download=False)
