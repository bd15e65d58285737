"""Blocks of rows: their checks name the file and the rows; a fingerprint finds files that were changed."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.engines.blocks.row_block import FileFingerprint, RowBlock, in_file, reading
from postshift.exceptions import DataNotFoundError, InputError, LabelError, ProbabilityError, SettingError
from tests.engines.files import N

FILES = {"eta": "eta.npy", "labels": "labels.npy", "weights": "weights.npy"}


def block(eta, *, first=0, **parts):
    return RowBlock.of({"eta": eta, **parts}, FILES, first=first)


def test_without_phi_the_basis_is_constant(eta):
    found = block(eta)
    np.testing.assert_array_equal(found.rows.phi, np.ones((N, 1)))
    assert found.files == {"eta": "eta.npy"}
    found.check(n_labels=3)


def test_checks_name_the_file_and_the_rows(eta):
    wrong = eta.copy()
    wrong[3, 0] = np.nan
    with pytest.raises(ProbabilityError, match=r"eta\.npy, rows 200 to 299: eta has .*\[rows counted from row 200\]"):
        block(wrong, first=200).check(n_labels=3)
    with pytest.raises(LabelError, match=r"labels\.npy, rows 0 to 99: labels"):
        block(eta, labels=np.full(N, 7)).check(n_labels=3)


def test_a_block_may_weigh_nothing(eta):
    found = block(eta, weights=np.zeros(N))
    found.check(n_labels=3)
    assert not found.has_weight
    assert block(eta).has_weight


def test_rows_in_the_types_of_the_kernels(eta):
    found = block(eta.astype(">f8"), labels=np.arange(N, dtype=np.int8) % 3).converted()
    assert (found.eta.dtype, found.labels.dtype) == (np.float64, np.intp)
    assert block(eta).converted().eta.dtype == np.float32


def fingerprint(*blocks):
    found = FileFingerprint()
    for each in blocks:
        found.add(each)
    return found


def test_a_fingerprint_does_not_depend_on_the_size_of_blocks(eta):
    whole = fingerprint(block(eta))
    assert fingerprint(*(block(some) for some in np.array_split(eta, 7))) == whole
    whole.check_rows(N)
    with pytest.raises(InputError, match="the files have 100 rows, but had 120 rows"):
        whole.check_rows(120)


def test_a_fingerprint_finds_one_changed_number(eta):
    before, changed = fingerprint(block(eta)), eta.copy()
    fingerprint(block(eta)).check_same(before)
    changed[5, 1] = np.nextafter(changed[5, 1], np.float32(1))
    with pytest.raises(InputError, match=r"eta\.npy, rows 0 to 99: eta was changed between two passes"):
        fingerprint(block(changed)).check_same(before)


def test_errors_of_other_libraries():
    with pytest.raises(DataNotFoundError, match=r"a\.npy: no such file"), reading("a.npy"):
        raise FileNotFoundError
    with pytest.raises(InputError, match=r"a\.npy: cannot be read; the file is damaged"), reading("a.npy"):
        raise EOFError
    with pytest.raises(SettingError, match=r"^radius$"), in_file("a.npy"), reading("a.npy"):
        raise SettingError("radius")
