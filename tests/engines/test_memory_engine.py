from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import MemoryEngine, Rows
from postshift.core.rows import PHI
from postshift.core.sums import hit_sums
from postshift.exceptions import LabelError, SettingError
from tests.contracts.engine import EngineContract, random_rules
from tests.problems import make_problem, problems

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")


class _OfMemory(EngineContract):
    settings: ClassVar[dict]

    def make(self, sample, n_blocks, **more):
        return MemoryEngine(sample, block_rows=-(-sample.n_rows // n_blocks), **self.settings, **more)


class TestNumPy(_OfMemory):
    settings: ClassVar = {"kernels": "numpy"}


class TestNumPyOnTwoThreads(_OfMemory):
    settings: ClassVar = {"kernels": "numpy", "n_threads": 2}


@needs_numba
class TestNumba(_OfMemory):
    settings: ClassVar = {"kernels": "numba"}


@needs_numba
class TestNumbaOnTwoThreads(_OfMemory):
    settings: ClassVar = {"kernels": "numba", "n_threads": 2}


@needs_numba
@given(problem=problems(bases=("hard",)), seed=st.integers(0, 99))
def test_kernels_threads_and_blocks_agree_in_every_count(problem, seed):
    sample = problem.train
    settings = [
        {"kernels": "numpy"},
        {"kernels": "numba"},
        {"kernels": "numpy", "n_threads": 2, "block_rows": 7},
        {"kernels": "numba", "n_threads": 2, "block_rows": 11},
    ]
    engines = [MemoryEngine(sample, **chosen) for chosen in settings]
    for rule in random_rules(sample, seed):
        found = [engine.look(rule, influence=False) for engine in engines]
        hits = [engine.classifier_sums(rule, confusions=False).single for engine in engines]
        for other in range(1, len(engines)):
            np.testing.assert_array_equal(found[other], found[0])
            np.testing.assert_array_equal(hits[other], hits[0])


@pytest.mark.parametrize("kernels", ["numpy", pytest.param("numba", marks=needs_numba)])
@pytest.mark.parametrize("basis", ["hard", "soft"])
def test_more_rows_than_a_chunk(kernels, basis):
    sample = make_problem(seed=1, n_classes=12, n_bases=3, basis=basis, n_train=20_000).train
    one = MemoryEngine(sample, kernels=kernels, block_rows=20_000)
    many = MemoryEngine(sample, kernels=kernels, block_rows=777, n_threads=2)
    for rule in random_rules(sample, 0):
        for influence in (False, True):
            found, expected = (engine.look(rule, influence=influence) for engine in (many, one))
            np.testing.assert_allclose(found, expected, **CLOSE)
        for confusions in (False, True):
            found, expected = (engine.classifier_sums(rule, confusions=confusions).pair for engine in (many, one))
            np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("kernels", ["numpy", pytest.param("numba", marks=needs_numba)])
def test_many_small_clusters(kernels):
    sample = make_problem(seed=4, n_classes=3, n_bases=80, n_train=400, n_val=100).train
    engine = MemoryEngine(sample, kernels=kernels, block_rows=50)
    for rule in random_rules(sample, 0):
        expected = hit_sums(sample, rule.distribution(sample.eta, sample.phi))
        np.testing.assert_array_equal(engine.classifier_sums(rule, confusions=False).single, expected.single)


def test_columns_in_any_memory_order():
    sample = make_problem(seed=2).train
    turned = Rows(eta=np.asfortranarray(sample.eta), bases={PHI: np.asfortranarray(sample.phi)}, labels=sample.labels)
    for rule in random_rules(sample, 0):
        found, expected = (MemoryEngine(rows).influence_sums(rule).pair for rows in (turned, sample))
        np.testing.assert_allclose(found, expected, **CLOSE)


def test_labels_are_needed():
    engine = MemoryEngine(Rows.of(np.full((3, 2), 0.5)))
    with pytest.raises(LabelError, match="have no labels"):
        engine.label_sums()


def test_labels_beyond_the_categories():
    sample = Rows(eta=np.full((3, 2), 0.5), bases={PHI: np.ones((3, 1))}, labels=np.array([0, 1, 5]))
    rule = random_rules(sample, 0)[0]
    with pytest.raises(LabelError, match="n_categories"):
        MemoryEngine(sample).look(rule, influence=False)


@pytest.mark.parametrize("name", ["block_rows", "n_threads", "n_categories"])
@pytest.mark.parametrize("value", [0, 1.5, "all"])
def test_counts_among_the_settings(name, value):
    with pytest.raises(SettingError, match=name):
        MemoryEngine(Rows.of(np.full((3, 2), 0.5), labels=[0, 1, 1]), **{name: value})


def test_unknown_kernels():
    with pytest.raises(SettingError, match="kernels must be"):
        MemoryEngine(Rows.of(np.full((3, 2), 0.5)), kernels="fortran")


_WITHOUT_NUMBA = """
import sys
import postshift
assert "numba" not in sys.modules, "importing postshift imports numba"
sys.modules["numba"] = None
from postshift import MemoryEngine, PlugIn, Rows
from postshift.exceptions import SettingError
sample = Rows.of([[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
rule = PlugIn(weighting="diagonal", alpha=[[1.0, 1.0]], n_classes=2)
assert MemoryEngine(sample).influence_sums(rule).single.sum() > 0
try:
    MemoryEngine(sample, kernels="numba")
except SettingError as error:
    assert ".[fast]" in str(error)
else:
    raise AssertionError
"""


def test_numba_is_optional():
    subprocess.run([sys.executable, "-c", _WITHOUT_NUMBA], check=True)
