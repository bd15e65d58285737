"""Dataclasses from JSON types."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pytest

from postshift.report.codec import from_plain


@dataclass(frozen=True)
class Inner:
    name: str
    size: int | None = None


@dataclass(frozen=True)
class Outer:
    flag: bool
    inner: tuple[Inner, ...]
    limits: tuple[float, float]


def test_plain_values_become_dataclasses():
    outer = Outer(flag=True, inner=(Inner("a", 1), Inner("b")), limits=(0.5, 1.0))
    plain = {**asdict(outer), "inner": [{"name": "a", "size": 1}, {"name": "b"}], "limits": [0.5, 1]}
    assert from_plain(Outer, plain) == outer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flag": 1}, r"Outer.flag must be of type bool\. Got 1"),
        ({"inner": {}}, r"Outer.inner must be a list"),
        ({"inner": [{"size": 1}]}, "Outer.inner lacks 'name'"),
        ({"inner": [{"name": "a", "size": True}]}, r"Outer.inner.size must be of type int\. Got True"),
        ({"limits": [1]}, r"Outer.limits must have 2 values\. Got 1"),
        ({"other": 1}, r"Outer must be an object with \['flag', 'inner', 'limits'\]"),
    ],
)
def test_values_that_do_not_fit_are_refused(change, message):
    with pytest.raises(TypeError, match=message):
        from_plain(Outer, {"flag": True, "inner": [], "limits": [0, 1], **change})
