"""Constraints as people write them: texts, objects, margins, and what is refused."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.constraints import (
    F1,
    Constraint,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    Precision,
    Rate,
    Recall,
    Term,
    Value,
    read_constraints,
)
from postshift.exceptions import SettingError
from postshift.metrics import ExpectedCost

TEXTS = {
    "recall[fraud] >= 0.9": ("recall", "fraud", ">=", 0.9),
    "recall[fraud]>=.9": ("recall", "fraud", ">=", 0.9),
    "  precision [spam]   ≥ 9e-1 ": ("precision", "spam", ">=", 0.9),
    "rate[a[0] - b] ≤ 0.05": ("rate", "a[0] - b", "<=", 0.05),
    "recall[x >= 3] >= 0.5": ("recall", "x >= 3", ">=", 0.5),
    "recall[x ≤ 3]≤0.5": ("recall", "x ≤ 3", "<=", 0.5),
    "rate[two words] <= 1": ("rate", "two words", "<=", 1.0),
    "rate[two\nlines] <= 1": ("rate", "two\nlines", "<=", 1.0),
    "f1[] >= 0.5": ("f1", "", ">=", 0.5),
    "recall[]] >= 0.5": ("recall", "]", ">=", 0.5),
    "recall[été] >= 0.5": ("recall", "été", ">=", 0.5),
    "demographic_parity <= 0.05": ("demographic_parity", None, "<=", 0.05),
    "matthews_corrcoef >= -0.1": ("matthews_corrcoef", None, ">=", -0.1),
}
WRONG = (
    "",
    "recall",
    "recall[fraud]",
    "recall[fraud] > 0.9",
    "recall[fraud] = 0.9",
    "recall[fraud] == 0.9",
    "recall[fraud] =< 0.9",
    "recall[fraud] >= ",
    "recall[fraud] >= 90 %",
    "recall[fraud] >= high",
    "0.9 <= recall[fraud]",
    ">= 0.9",
)


def parts(constraint):
    return constraint.term.metric, constraint.term.label, constraint.sense, constraint.bound


@pytest.mark.parametrize(("text", "expected"), TEXTS.items())
def test_texts(text, expected):
    assert parts(Constraint.read(text)) == expected


@given(
    label=st.text(min_size=1, max_size=12),
    sense=st.sampled_from([">=", "<="]),
    bound=st.floats(-1e6, 1e6, allow_nan=False).map(lambda bound: float(f"{bound:g}")),
)
def test_a_text_is_read_as_it_is_printed_whatever_the_class_is_called(label, sense, bound):
    written = Constraint(term=Term("recall", label), sense=sense, bound=bound)
    assert parts(Constraint.read(str(written))) == parts(written)


@pytest.mark.parametrize("text", WRONG)
def test_other_texts_are_refused_with_the_form(text):
    with pytest.raises(SettingError, match=re.escape("must have the form 'recall[CLASS] >= 0.9'")):
        Constraint.read(text)


def test_a_bracket_that_is_not_closed():
    with pytest.raises(SettingError, match="must end with a bracket"):
        Constraint.read("recall[fraud >= 0.9")


@pytest.mark.parametrize("bound", ["nan", "inf", "-inf"])
def test_bounds_are_finite(bound):
    with pytest.raises(SettingError, match=r"the bound of recall\[a\] must be a number"):
        Constraint.read(f"recall[a] >= {bound}")


@pytest.mark.parametrize("bound", ["0.9", None, True, [0.9]])
def test_bounds_of_objects_are_numbers(bound):
    with pytest.raises(SettingError, match="the bound of recall must be a number"):
        Recall() >= bound  # noqa: B015


def test_objects():
    cost = ExpectedCost([[0, 1], [2, 0]])
    cases = {
        "recall[fraud] >= 0.9": Recall("fraud") >= 0.9,
        "precision[3] >= 0.5": np.float32(0.5) <= Precision(3),
        "f1[a] <= 0.5": F1("a") <= 0.5,
        "rate[True] <= 0": Rate(True) <= 0,
        "demographic_parity <= 0.1": DemographicParity() <= 0.1,
        "equal_opportunity[yes] <= 0.1": EqualOpportunity("yes") <= 0.1,
        "equalized_odds <= 0.1": EqualizedOdds() <= 0.1,
        "g_mean >= 0.7": Value("g_mean") >= 0.7,
        f"{cost.name} <= 0.3": Value(cost) <= 0.3,
    }
    for text, constraint in cases.items():
        assert str(constraint) == text
        assert type(constraint.bound) is float
        assert str(pickle.loads(pickle.dumps(constraint))) == text  # noqa: S301


def test_a_function_gives_its_name():
    def profit(confusion):
        return confusion[0, 0]

    assert str(Value(profit) >= 1) == "profit >= 1"


def test_signs():
    assert (Recall() >= 0.5).sign == -1
    assert (Recall() <= 0.5).sign == 1


def test_one_or_several():
    text, made = "recall[a] >= 0.9", Rate("a") <= 0.1
    assert [str(each) for each in read_constraints(text)] == [text]
    assert [str(each) for each in read_constraints(made)] == [str(made)]
    for several in ([text, made], (text, made), iter([text, made]), np.array([text, str(made)])):
        assert [str(each) for each in read_constraints(several)] == [text, "rate[a] <= 0.1"]


@pytest.mark.parametrize("given", [[], (), 3, None])
def test_nothing_is_no_constraint(given):
    with pytest.raises(SettingError, match="subject_to must be a constraint"):
        read_constraints(given)


@pytest.mark.parametrize("given", [[Recall("a")], [Recall("a") == 0.9], [0.9], ["recall[a] >= 0.9", None]])
def test_what_is_not_a_constraint_is_shown(given):
    with pytest.raises(SettingError, match=r"must be a text such as .* Got (Term|False|0.9|None)"):
        read_constraints(given)


def test_one_margin_for_all_and_margins_of_their_own():
    own = Constraint(term=Recall("a"), sense=">=", bound=0.9, margin=3)
    found = read_constraints([own, "rate[a] <= 0.1"], margin=1)
    assert [each.margin for each in found] == [3, 1]
    found = read_constraints(["recall[a] >= 0.9", "rate[a] <= 0.1"], margin={"rate[a]<=.1": 2})
    assert [each.margin for each in found] == [0, 2]
    found = read_constraints(["recall[a] >= 0.9", "rate[a] <= 0.1"], margin={Rate("a") <= 0.1: 2})
    assert [each.margin for each in found] == [0, 2]


def test_a_margin_for_another_constraint_is_refused():
    with pytest.raises(SettingError, match=r"margin is given for \['recall\[b\] >= 0.9'\]"):
        read_constraints("recall[a] >= 0.9", margin={"recall[b] >= 0.9": 1})


@pytest.mark.parametrize("margin", [-1, "1", np.nan, 1000, None])
def test_margins_are_numbers(margin):
    with pytest.raises(SettingError, match=r"the margin of recall\[a\] must be a number"):
        read_constraints("recall[a] >= 0.9", margin=margin)
    with pytest.raises(SettingError, match=r"the margin of recall\[a\] must be a number"):
        read_constraints("recall[a] >= 0.9", margin={"recall[a] >= 0.9": margin})
