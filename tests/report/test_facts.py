"""Facts: their parts agree, and they are kept as JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postshift.exceptions import ArchiveError
from postshift.report import Facts
from postshift.report.counts import matrices
from tests.report import cases
from tests.report.pages import CASES


def of_type(kind):
    """Values of a type that is a dataclass, a tuple, an optional or a plain one."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{field.name: of_type(hints[field.name]) for field in fields(kind)})
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if kinds[-1] is Ellipsis:
            return st.lists(of_type(kinds[0]), max_size=3).map(tuple)
        return st.tuples(*map(of_type, kinds))
    if get_origin(kind) is UnionType:
        (inner,) = (each for each in get_args(kind) if each is not NoneType)
        return st.none() | of_type(inner)
    plain = {
        str: st.text(max_size=8),
        bool: st.booleans(),
        int: st.integers(-(10**12), 10**12),
        float: st.floats(allow_nan=False, allow_infinity=False),
    }
    return plain[kind]


@settings(max_examples=20)
@given(of_type(Facts))
def test_any_facts_come_back_from_json(facts):
    again = Facts.from_json(facts.to_json())
    assert again == facts
    assert again.to_json() == facts.to_json()


@CASES
def test_facts_come_back_from_json(name):
    facts = cases.ALL[name]()
    assert Facts.from_json(facts.to_json()) == facts


@CASES
def test_the_parts_agree_with_each_other(name):
    facts = cases.ALL[name]()
    m = len(facts.classes)
    assert len(facts.weights.by_class) == m
    assert facts.changes.n_rows == facts.verdict.n_rows <= facts.verdict.n_val
    for shares in (facts.shares.before, facts.shares.after, facts.shares.by_model):
        assert len(shares) == m
        assert sum(shares) == pytest.approx(1)
    if facts.confusion is not None and not facts.confusion.weighted:
        before, after = matrices(facts.confusion.cells, n_classes=m)
        assert before.sum() == after.sum() == facts.verdict.n_rows
        np.testing.assert_allclose(before.sum(axis=0) / before.sum(), facts.shares.before)
        np.testing.assert_allclose(after.sum(axis=0) / after.sum(), facts.shares.after)
        assert np.trace(after) - np.trace(before) == facts.changes.n_right - facts.changes.n_wrong
    assert dict(facts.versions).keys() >= {"python", "postshift", "numpy", "scikit-learn"}
    assert facts.how_to_use


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a file of facts"),
        ('{"format": 2', "incomplete"),
        ("[]", "format None"),
        ('{"format": 99}', "format 99, but this version of postshift reads format 2"),
        ('{"format": 2}', "lacks 'title'"),
        ("[" * 100_000, "not a file of facts"),
        ("9" * 5000, "not a file of facts"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(ArchiveError, match=message):
        Facts.from_json(text)


@pytest.mark.parametrize(
    ("part", "value"),
    [("title", 3), ("classes", "ab"), ("n_queries", True), ("verdict", {}), ("used", [["a"]]), ("strange", 1)],
)
def test_facts_that_were_changed_are_refused(part, value):
    values = json.loads(cases.untouched().to_json())
    values[part] = value
    with pytest.raises(ArchiveError, match="damaged or changed"):
        Facts.from_json(json.dumps(values))


def test_a_number_beyond_all_floats_is_refused():
    values = json.loads(cases.untouched().to_json())
    values["verdict"]["before"] = 10**400
    with pytest.raises(ArchiveError, match="damaged or changed"):
        Facts.from_json(json.dumps(values))


def test_settings_given_by_the_caller_are_not_repeated():
    rows = cases.random_rows(3)
    shifter = cases.fitted(rows, method="base")
    facts = Facts.of(shifter, rows.eta_val, used=[("seed", "7"), ("rows", "val.csv")], how_to_use=[("go", "postshift")])
    assert facts.used == (("seed", "7"), ("rows", "val.csv"))
    assert facts.settings == (("method", "base"),)
    assert facts.how_to_use == (("go", "postshift"),)
