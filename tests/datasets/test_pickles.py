"""Pickled arrays: hostile files call nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from postshift.datasets._pickles import unpickle


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'false'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n(S'x'\ntR.",
        b"cpostshift.datasets._pickles\nunpickle\n(S'x'\ntR.",
        b"ccopyreg\n_reconstructor\n(S'x'\ntR.",
    ],
)
def test_other_names(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="which is not part of an array"):
        unpickle(content)


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}], dtype=object),
        np.zeros(3, dtype=np.float64),
        np.zeros(3, dtype="S5"),
        np.zeros(3, dtype=[("a", "u1")]),
    ],
)
def test_arrays_of_anything_but_bytes(value: np.ndarray) -> None:
    with pytest.raises(pickle.UnpicklingError, match="must have bytes as entries"):
        unpickle(pickle.dumps({"data": value}, protocol=2))


@pytest.mark.parametrize("shape", [b"\x8a\x06\x00\x00\x00\x00\x00\x01\x85", b"J\xff\xff\xff\xff\x85", b"U\x01a\x85"])
def test_a_shape_that_does_not_fit_the_bytes(shape: bytes) -> None:
    """2 ** 40 entries, -1 entries, and a text as their number, of two bytes of content."""
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1\x85R"
    state = b"(K\x01" + shape + kind + b"\x89U\x02abtb"
    with pytest.raises(pickle.UnpicklingError, match="cannot have 2 entries"):
        unpickle(b"\x80\x02}U\x04data" + array + state + b"s.")


def test_the_same_with_a_shape_that_fits() -> None:
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    state = b"(K\x01K\x02\x85cnumpy\ndtype\nU\x02u1\x85R\x89U\x02abtb"
    assert unpickle(b"\x80\x02}U\x04data" + array + state + b"s.")[b"data"].tolist() == [97, 98]


def test_no_dict() -> None:
    with pytest.raises(pickle.UnpicklingError, match="a list instead of a dict"):
        unpickle(pickle.dumps([1]))


def test_codecs_are_not_chosen_by_the_file() -> None:
    found = unpickle(b"\x80\x02}X\x01\x00\x00\x00ac_codecs\nencode\nX\x02\x00\x00\x00abX\x03\x00\x00\x00hex\x86Rs.")
    assert found == {b"a": b"ab"}
