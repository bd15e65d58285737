"""Adult: found, verified, and split as the protocol says; skipped, with the reason, without the files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from postshift.datasets import AdultTables, Dataset, Split, adult, adult_fairness, adult_proxy, load_adult
from postshift.datasets._location import find_file
from postshift.datasets._public_files import ADULT_TEST, ADULT_TRAIN
from postshift.exceptions import DataNotFoundError, InputError, PostshiftError, SettingError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.datasets.conftest import Source

N_TRAIN = 32_561
N_POOL = 16_281
Maker = Callable[..., Split]


@pytest.fixture(scope="module")
def data_dir() -> Path:
    """Return the folder with ``adult/``, or skip and say what is missing."""
    try:
        paths = [find_file("adult", name) for name in ("adult.data", "adult.test")]
    except DataNotFoundError as error:
        pytest.skip(f"Adult is not tested: {error}")
    return paths[0].parent.parent


@pytest.fixture(scope="module")
def tables(data_dir: Path) -> AdultTables:
    return load_adult(data_dir=data_dir)


@pytest.fixture(scope="module")
def proxy(data_dir: Path) -> Split:
    return adult_proxy(seed=0, data_dir=data_dir)


@pytest.fixture(scope="module")
def fairness(data_dir: Path) -> Split:
    return adult_fairness(seed=0, data_dir=data_dir)


@pytest.fixture(params=["proxy", "fairness"])
def split(request: pytest.FixtureRequest) -> Split:
    made: Split = request.getfixturevalue(request.param)
    return made


def parts(split: Split) -> tuple[Dataset, Dataset, Dataset]:
    return split.train, split.validation, split.test


class TestTables:
    def test_rows_and_columns(self, tables: AdultTables) -> None:
        for table, n_rows in ((tables.train, N_TRAIN), (tables.test, N_POOL)):
            assert len(table) == 15
            assert {values.shape for values in table.values()} == {(n_rows,)}

    @pytest.mark.parametrize(
        ("column", "value", "n_train", "n_test"),
        [
            ("income", "<=50K", 24_720, 12_435),
            ("income", ">50K", 7_841, 3_846),
            ("sex", "Male", 21_790, 10_860),
            ("sex", "Female", 10_771, 5_421),
            ("relationship", "Husband", 13_193, 6_523),
        ],
    )
    def test_counts(self, tables: AdultTables, column: str, value: str, n_train: int, n_test: int) -> None:
        assert np.count_nonzero(tables.train[column] == value) == n_train
        assert np.count_nonzero(tables.test[column] == value) == n_test

    def test_missing_cells(self, tables: AdultTables) -> None:
        for table, expected in ((tables.train, 4_262), (tables.test, 2_203)):
            texts = [values for values in table.values() if values.dtype.kind == "U"]
            assert sum(np.count_nonzero(values == "?") for values in texts) == expected

    def test_numbers_are_numbers(self, tables: AdultTables) -> None:
        numbers = {name for name, values in tables.train.items() if values.dtype == np.int64}
        assert numbers == {
            "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"
        }  # fmt: skip
        assert tables.train["age"][:3].tolist() == [39, 50, 38]


class TestProtocol:
    def test_shapes(self, proxy: Split, fairness: Split) -> None:
        assert [part.X.shape for part in parts(proxy)] == [(N_TRAIN, 101), (163, 101), (N_POOL - 163, 101)]
        assert [part.X.shape for part in parts(fairness)] == [(N_TRAIN, 106), (1_629, 106), (14_652, 106)]

    def test_parts_have_one_length_and_binary_columns(self, split: Split) -> None:
        for part in parts(split):
            columns = [part.y, part.rows, *part.columns.values()]
            assert {len(column) for column in columns} == {len(part.X)}
            assert part.X.dtype == np.float64
            for values in (part.X, part.y, *part.columns.values()):
                assert set(np.unique(values)) <= {0, 1}

    def test_names(self, split: Split) -> None:
        assert len(set(split.train.feature_names)) == len(split.train.feature_names) == split.train.X.shape[1]
        sources = {name.split("=")[0] for name in split.train.feature_names}
        assert not sources & {"marital-status", "fnlwgt", "sex"}

    def test_relationship_or_income_is_a_feature(self, proxy: Split, fairness: Split) -> None:
        def count(split: Split, source: str) -> int:
            return sum(name.startswith(f"{source}=") for name in split.train.feature_names)

        assert (count(proxy, "relationship"), count(proxy, "income")) == (0, 1)
        assert (count(fairness, "relationship"), count(fairness, "income")) == (6, 0)

    def test_every_feature_is_one_hot(self, split: Split) -> None:
        """Each row has exactly one 1 among the columns of a source (income is a single column)."""
        sources = np.array([name.split("=")[0] for name in split.train.feature_names])
        for part in parts(split):
            for source in set(sources) - {"income"}:
                assert (part.X[:, sources == source].sum(axis=1) == 1).all(), source

    @pytest.mark.parametrize(
        ("source", "edges"),
        [
            ("age", (16, 28, 37, 48, 90)),
            ("capital-gain", (-1, 1, 4000, 10000, 100000)),
            ("capital-loss", (-1, 1, 1800, 1950, 4500)),
            ("hours-per-week", (0, 39, 41, 50, 100)),
            ("education-num", (0, 8, 9, 11, 16)),
        ],
    )
    def test_intervals(self, split: Split, tables: AdultTables, source: str, edges: tuple[int, ...]) -> None:
        files = ((split.train, tables.train), (split.validation, tables.test), (split.test, tables.test))
        for part, table in files:
            values = table[source][part.rows]
            for low, high in pairwise(edges):
                column = split.train.feature_names.index(f"{source}=({low}, {high}]")
                np.testing.assert_array_equal(part.X[:, column], (values > low) & (values <= high))

    def test_proxy_labels(self, proxy: Split, tables: AdultTables) -> None:
        assert proxy.train.y.sum() == 13_193
        np.testing.assert_array_equal(proxy.train.y, tables.train["relationship"] == "Husband")
        for part in (proxy.validation, proxy.test):
            assert not part.groups
            np.testing.assert_array_equal(part.y, tables.test["sex"][part.rows] == "Male")

    def test_fairness_labels_and_groups(self, fairness: Split, tables: AdultTables) -> None:
        assert fairness.train.y.sum() == 7_841
        for part, table in ((fairness.train, tables.train), (fairness.test, tables.test)):
            np.testing.assert_array_equal(part.y, table["income"][part.rows] == ">50K")
            np.testing.assert_array_equal(part.groups["sex"], table["sex"][part.rows] == "Male")

    def test_indicators(self, proxy: Split, fairness: Split, tables: AdultTables) -> None:
        assert set(proxy.test.columns) == {"private", "non_private", "income"}
        assert set(fairness.test.columns) == {"private", "non_private", "wife", "husband"}
        assert proxy.train.columns["income"].sum() == 7_841
        assert fairness.train.columns["husband"].sum() == 13_193
        wives = tables.test["relationship"][fairness.test.rows] == "Wife"
        np.testing.assert_array_equal(fairness.test.columns["wife"], wives)

    def test_private_and_non_private_cover_every_row_once(self, split: Split) -> None:
        for part in parts(split):
            both = part.columns["private"] + part.columns["non_private"]
            np.testing.assert_array_equal(both, 1)
            column = split.train.feature_names.index("workclass=private")
            np.testing.assert_array_equal(part.X[:, column], part.columns["private"])


class TestSplitting:
    def test_validation_and_test_share_out_the_file(self, split: Split) -> None:
        assert not np.intersect1d(split.validation.rows, split.test.rows).size
        rows = np.union1d(split.validation.rows, split.test.rows)
        np.testing.assert_array_equal(rows, np.arange(N_POOL))
        np.testing.assert_array_equal(split.train.rows, np.arange(N_TRAIN))

    def test_validation_is_stratified(self, split: Split) -> None:
        """Every stratum has its share of the validation rows, up to one row."""

        def strata(part: Dataset) -> np.ndarray:
            return np.bincount(2 * part.groups["sex"] + part.y if part.groups else part.y)

        pool = strata(split.validation) + strata(split.test)
        expected = pool * len(split.validation.y) / N_POOL
        assert len(pool) == (4 if split.validation.groups else 2)
        assert np.abs(strata(split.validation) - expected).max() < 1

    def test_a_third_of_train_stops_early(self, split: Split) -> None:
        stopping = split.train.columns["early_stopping"]
        assert stopping.dtype == np.bool_
        assert stopping.shape == (N_TRAIN,)
        assert stopping.sum() == 10_854
        held, fitted = split.train.y[stopping], split.train.y[~stopping]
        assert held.mean() == pytest.approx(fitted.mean(), abs=1e-4)

    @pytest.mark.parametrize("make", [adult_proxy, adult_fairness])
    def test_the_seed_decides(self, make: Maker, data_dir: Path) -> None:
        first, again, other = (make(seed=seed, data_dir=data_dir) for seed in (3, 3, 4))
        for one, two in zip(parts(first), parts(again), strict=True):
            assert one.X.tobytes() == two.X.tobytes()
            np.testing.assert_array_equal(one.y, two.y)
            np.testing.assert_array_equal(one.rows, two.rows)
            assert one.feature_names == two.feature_names == other.test.feature_names
        stopping = [each.train.columns["early_stopping"] for each in (first, again, other)]
        np.testing.assert_array_equal(stopping[0], stopping[1])
        assert not np.array_equal(first.validation.rows, other.validation.rows)
        assert not np.array_equal(stopping[0], stopping[2])

    @pytest.mark.parametrize("seed", [-1, 0.5, True, None])
    @pytest.mark.parametrize("make", [adult_proxy, adult_fairness])
    def test_bad_seed(self, make: Maker, seed: object) -> None:
        with pytest.raises(SettingError, match="seed must be a whole number >= 0"):
            make(seed=seed)

    def test_frozen(self, split: Split) -> None:
        with pytest.raises(FrozenInstanceError):
            split.train = split.test  # type: ignore[misc]


class TestFiles:
    def test_a_damaged_copy_is_refused(self, data_dir: Path, tmp_path: Path) -> None:
        shutil.copytree(data_dir / "adult", tmp_path / "adult", copy_function=shutil.copyfile)
        damaged = tmp_path / "adult" / "adult.test"
        content = bytearray(damaged.read_bytes())
        content[1000] ^= 1
        damaged.write_bytes(content)
        with pytest.raises(InputError, match=r"adult\.test must be the published file, with sha256 a2a9044b"):
            load_adult(data_dir=tmp_path)

    def test_missing_everywhere(self, nowhere: Path, tmp_path: Path) -> None:
        with pytest.raises(DataNotFoundError) as caught:
            load_adult(data_dir=tmp_path / "absent", download=False)
        message = str(caught.value)
        assert "'adult.data'" in message
        assert str(tmp_path / "absent" / "adult" / "adult.data") in message
        assert str(nowhere.parent / "shared" / "data" / "adult" / "adult.data") in message
        assert "pass data_dir" in message
        assert "POSTSHIFT_DATA" in message

    @pytest.mark.usefixtures("nowhere")
    def test_missing_is_also_a_builtin_error(self) -> None:
        with pytest.raises(FileNotFoundError):
            load_adult(download=False)
        with pytest.raises(PostshiftError):
            load_adult(download=False)

    @pytest.mark.usefixtures("nowhere")
    def test_downloaded_where_it_is_nowhere(
        self, data_dir: Path, tables: AdultTables, source: Source, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, known in (("ADULT_TRAIN", ADULT_TRAIN), ("ADULT_TEST", ADULT_TEST)):
            url = source.give(known.name, (data_dir / "adult" / known.name).read_bytes())
            monkeypatch.setattr(adult, name, replace(known, url=url))
        fetched = load_adult()
        np.testing.assert_array_equal(fetched.test["age"], tables.test["age"])
        assert sorted(source.asked) == ["/adult.data", "/adult.test"]
