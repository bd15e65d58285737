"""The block engine: held to the contract over every kind of source, and to the in-memory engine."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from itertools import count
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postshift import MemoryEngine, Rows, fw_eg
from postshift.engines import ArraySource, ArrowSource, BlockEngine, ParquetSource
from postshift.exceptions import LabelError, SettingError, WeightError
from postshift.metrics import GMean, MacroF1
from tests.contracts.engine import EngineContract, random_classifiers
from tests.engines.files import as_array_source, as_arrow_source, as_parquet_source
from tests.problems import make_problem, problems

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


class _OfBlocks(EngineContract):
    kernels: ClassVar = "numpy"
    numbers: ClassVar = count()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _folder(cls, tmp_path_factory):
        cls.folder = tmp_path_factory.mktemp("blocks")
        yield
        shutil.rmtree(cls.folder)  # thousands of small files

    def source(self, sample, folder):
        raise NotImplementedError("a subclass writes the files")

    def make(self, sample, n_blocks, **more):
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        block_rows = -(-sample.n_rows // n_blocks)
        return BlockEngine(self.source(sample, folder), block_rows=block_rows, kernels=self.kernels, **more)


class TestArrays(_OfBlocks):
    kernels: ClassVar = "numba" if find_spec("numba") else "numpy"

    def source(self, sample, folder):
        return as_array_source(sample, folder)


class TestParquet(_OfBlocks):
    def source(self, sample, folder):
        return as_parquet_source(sample, folder)


class TestArrow(_OfBlocks):
    def source(self, sample, folder):
        return as_arrow_source(sample, folder, compression="uncompressed")


@settings(max_examples=10)
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("kernels", ["numpy", pytest.param("numba", marks=needs_numba)])
@given(problem=problems(), seed=st.integers(0, 99), block_rows=st.integers(7, 100))
def test_sums_are_those_of_the_memory_engine(kernels, n_threads, problem, seed, block_rows):
    sample = problem.train
    source = ArraySource(sample.eta, phi=sample.phi, labels=sample.labels, weights=sample.weights)
    blocks = BlockEngine(source, block_rows=block_rows, kernels=kernels, n_threads=n_threads)
    memory = MemoryEngine(sample)
    for classifier in random_classifiers(sample, seed):
        for confusions in (False, True):
            found, expected = (
                engine.classifier_sums(classifier, confusions=confusions).pair for engine in (blocks, memory)
            )
            np.testing.assert_allclose(found, expected, **CLOSE)
    np.testing.assert_allclose(blocks.gram_sums().gram, memory.gram_sums().gram, **CLOSE)
    np.testing.assert_array_equal(blocks.label_sums().classes, memory.label_sums().classes)


@pytest.mark.parametrize("metric", [GMean(), MacroF1()], ids=["gmean", "macro_f1"])
@pytest.mark.parametrize("make", [as_array_source, as_parquet_source, as_arrow_source])
def test_a_whole_fit_is_that_of_the_memory_engine(make, metric, tmp_path):
    problem = make_problem(seed=8, n_classes=3, n_bases=2, n_train=3000, n_val=500)
    engine = BlockEngine(make(problem.train, tmp_path), memory_limit="1 MB", block_rows=701)
    found = fw_eg(engine, problem.val, metric, max_iter=12)
    expected = fw_eg(problem.train, problem.val, metric, max_iter=12)
    np.testing.assert_array_equal(found.mixture.shares, expected.mixture.shares)
    for one, other in zip(found.mixture.members, expected.mixture.members, strict=True):
        np.testing.assert_array_equal(one.alpha, other.alpha)
    assert found.score == expected.score


class _Counting:
    """A source that says how it is read."""

    def __init__(self, source):
        self._source, self.sizes, self.kinds = source, [], set()

    def __getattr__(self, name):
        return getattr(self._source, name)

    def blocks(self, block_rows):
        for block in self._source.blocks(block_rows):
            self.sizes.append(len(block.rows.eta))
            self.kinds.add(block.converted().eta.dtype)
            yield block


def test_a_smaller_limit_makes_smaller_blocks_and_the_same_sums():
    sample = make_problem(seed=1, n_classes=5, n_bases=3, n_train=20_000).train
    sums, largest = [], []
    for limit in ("100 MB", "1 MB", 100_000):
        source = _Counting(ArraySource(sample.eta.astype(np.float32), phi=sample.phi, labels=sample.labels))
        sums.append(BlockEngine(source, memory_limit=limit).label_sums().pair)
        largest.append(max(source.sizes))
        assert source.kinds == {np.dtype(np.float32)}
    assert largest[0] > largest[1] > largest[2]
    np.testing.assert_array_equal(sums[1:], [sums[0]] * 2)


def test_rows_are_checked_in_the_first_pass_alone(monkeypatch):
    sample = make_problem(seed=1).train
    engine = BlockEngine(ArraySource(sample.eta, labels=sample.labels), block_rows=20)
    engine.label_sums()
    monkeypatch.setattr("postshift.engines.blocks.row_block.check_eta", None)
    engine.label_sums()


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (1000, "at least .* kB"),
        ("1 kB", "at least .* kB"),
        ("much", "text such as '512 MB'"),
        ("5 stone", "text such as '512 MB'"),
        (0, "memory_limit must be"),
        (1.5, "memory_limit must be"),
    ],
)
def test_limits_that_cannot_be_kept(limit, problem):
    source = ArraySource(np.full((5000, 4), 0.25), labels=np.arange(5000) % 4)
    with pytest.raises(SettingError, match=problem):
        BlockEngine(source, memory_limit=limit)


def test_the_limit_that_an_error_names_is_enough():
    source = ArraySource(np.full((5000, 4), 0.25), labels=np.arange(5000) % 4)
    with pytest.raises(SettingError) as caught:
        BlockEngine(source, memory_limit="1 kB")
    named = str(caught.value).split("at least ")[1].split(" for")[0]
    assert BlockEngine(source, memory_limit=named).label_sums().count == 5000


def test_a_pass_that_needs_more_than_the_limit():
    source = ArraySource(np.full((200, 40), 1 / 40), labels=np.arange(200) % 40)
    engine = BlockEngine(source, memory_limit="1 MB")
    assert engine.label_sums().count == 200
    with pytest.raises(SettingError, match="at least"):
        engine.look(random_classifiers(Rows.of(np.full((200, 40), 1 / 40)), 0)[0], influence=True)


@pytest.mark.parametrize("name", ["block_rows", "n_threads", "n_categories"])
@pytest.mark.parametrize("value", [0, 1.5, "all"])
def test_counts_among_the_settings(name, value):
    with pytest.raises(SettingError, match=name):
        BlockEngine(ArraySource(np.full((3, 2), 0.5), labels=[0, 1, 1]), **{name: value})


def test_unknown_kernels():
    with pytest.raises(SettingError, match="kernels must be"):
        BlockEngine(ArraySource(np.full((3, 2), 0.5)), kernels="fortran")


def test_labels_are_needed():
    with pytest.raises(LabelError, match="have no labels"):
        BlockEngine(ArraySource(np.full((3, 2), 0.5))).label_sums()


def test_a_block_may_weigh_nothing_but_not_all_of_them():
    eta, labels = np.full((4, 2), 0.5), [0, 1, 0, 1]
    some = BlockEngine(ArraySource(eta, labels=labels, weights=[0.0, 0, 1, 1]), block_rows=2)
    np.testing.assert_array_equal(some.label_sums().classes, [1, 1])
    none = BlockEngine(ArraySource(eta, labels=labels, weights=np.zeros(4)), block_rows=2)
    with pytest.raises(WeightError, match="at least one weight must be above 0"):
        none.label_sums()


def test_row_groups_count_against_the_limit(tmp_path):
    sample = make_problem(seed=1, n_classes=4, n_train=20_000).train
    whole = as_parquet_source(sample, tmp_path, row_group_size=20_000)
    assert isinstance(whole, ParquetSource)
    with pytest.raises(SettingError, match="largest row group"):
        BlockEngine(whole, memory_limit="300 kB")
    (tmp_path / "cut").mkdir()
    cut = as_parquet_source(sample, tmp_path / "cut", row_group_size=500)
    assert BlockEngine(cut, memory_limit="300 kB").label_sums().count == 20_000


def test_record_batches_count_only_where_they_are_compressed(tmp_path):
    sample = make_problem(seed=1, n_classes=4, n_train=20_000).train
    packed = as_arrow_source(sample, tmp_path, compression="lz4", batch_rows=20_000)
    assert isinstance(packed, ArrowSource)
    with pytest.raises(SettingError, match="record batch"):
        BlockEngine(packed, memory_limit="300 kB")
    (tmp_path / "plain").mkdir()
    plain = as_arrow_source(sample, tmp_path / "plain", compression="uncompressed", batch_rows=20_000)
    assert BlockEngine(plain, memory_limit="300 kB").label_sums().count == 20_000


@needs_numba
def test_the_kernels_are_chosen_by_all_rows_and_not_by_those_of_a_block():
    many = ArraySource(np.broadcast_to(np.float32(0.01), (20_000, 100)), labels=np.zeros(20_000, dtype=int))
    assert BlockEngine(many, block_rows=100)._kernels == "numba"
    assert BlockEngine(ArraySource(np.full((100, 2), 0.5)))._kernels == "numpy"
