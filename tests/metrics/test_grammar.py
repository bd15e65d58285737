from __future__ import annotations

import numpy as np
import pytest

from postshift.exceptions import SettingError
from postshift.metrics.grammar import MetricText, class_position, positive_position, read_term

TEXTS = {
    "g_mean": MetricText("g_mean"),
    "f1[spam]": MetricText("f1", "spam"),
    "f1[a[0] - b]": MetricText("f1", "a[0] - b"),
    "f1[]": MetricText("f1", ""),
    "accuracy - equalized_odds": MetricText("accuracy", gap="equalized_odds"),
    "accuracy - 0.5 * equalized_odds": MetricText("accuracy", gap="equalized_odds", strength="0.5"),
    "f1[a] - 2 * equal_opportunity[b]": MetricText("f1", "a", "equal_opportunity", "b", "2"),
    "f1[a - equal_opportunity]": MetricText("f1", "a - equal_opportunity"),
    "f1[a - b] - equal_opportunity[c * d]": MetricText("f1", "a - b", "equal_opportunity", "c * d"),
    "accuracy - parity": MetricText("accuracy", gap="parity"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_and_written(text):
    assert MetricText.read(text) == TEXTS[text]
    assert str(TEXTS[text]) == text


def test_spaces_around_a_strength_do_not_matter():
    assert MetricText.read("g_mean - 1e-3*equalized_odds").strength == "1e-3"


def test_a_bracket_that_is_not_closed():
    with pytest.raises(SettingError, match=r"must end with a bracket: write f1\[CLASS\]"):
        read_term("f1[spam")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f1", "f1[x]"),
        ("f1[a]", "f1[a]"),
        ("accuracy", "accuracy"),
        ("f1 - equal_opportunity", "f1[x] - equal_opportunity[x]"),
        ("f1[a] - 0.5 * equal_opportunity", "f1[a] - 0.5 * equal_opportunity[x]"),
        ("accuracy - equal_opportunity[a]", "accuracy - equal_opportunity[a]"),
    ],
)
def test_a_class_is_given_where_one_is_open(text, expected):
    parts = MetricText.read(text)
    assert str(parts.with_class("x")) == expected
    assert any(parts.open_classes) == (text != expected)


@pytest.mark.parametrize(
    ("label", "classes", "expected"),
    [
        ("b", ["a", "b"], 1),
        ("B", ["a", "b"], 1),
        ("B", ["b", "B"], 1),
        ("3", [1, 2, 3], 2),
        ("3.0", [1, 2, 3], 2),
        (2.0, [1, 2, 3], 1),
        ("0.1", np.array([0.1, 0.2], dtype=np.float32), 0),
        (True, [False, True], 1),
        ("1", np.array(["1", 1], dtype=object)[:1], 0),
        (1, np.array(["1", 1], dtype=object), 1),
    ],
)
def test_the_position_of_a_class(label, classes, expected):
    assert class_position(label, classes) == expected


@pytest.mark.parametrize(
    ("label", "classes", "message"),
    [
        ("spma", ["ham", "spam"], "there is no class 'spma'; did you mean 'spam'"),
        ("x", [1, 2], "there is no class 'x'; choose from '1', '2'"),
        ("1", np.array(["1", 1], dtype=object), "2 of the classes are printed as '1': give pos_label"),
    ],
)
def test_a_class_that_is_unknown_or_ambiguous(label, classes, message):
    with pytest.raises(SettingError, match=message):
        class_position(label, classes)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([0, 1], 1),
        ([1, 2], 0),
        ([False, True], 1),
        (["No", "YES"], 1),
        (["pos", "yes"], None),
        (["ham", "spam"], None),
        ([0, 2], None),
    ],
)
def test_the_usual_positive_class(classes, expected):
    assert positive_position(classes) == expected
