"""Labels of several kinds in one array: refused by name, before anything is fitted or turned into strings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from postshift import PostShiftClassifier, PostShifter
from postshift.baselines.plugin_search import CoordinatePlugin
from postshift.exceptions import LabelError

RNG = np.random.default_rng(0)
ETA = RNG.dirichlet(np.ones(3), size=60)
CODES = np.argmax(ETA, axis=1)
STRINGS = np.array(["1", "a", "b"])
KINDS = {
    "numbers and strings": [1, "a", "b"],
    "truth values and strings": [True, "a", "b"],
    "dates and strings": [pd.Timestamp("2020-01-01"), "a", "b"],
    "a number that is no whole one": [2.5, "a", "b"],
}
each_kind = pytest.mark.parametrize("classes", KINDS.values(), ids=KINDS)
each_form = pytest.mark.parametrize("form", [list, tuple, lambda values: np.array(values, dtype=object), pd.Series])


def of(classes):
    return [classes[code] for code in CODES]


@each_kind
@each_form
def test_classes(classes, form):
    with pytest.raises(LabelError, match=r"classes must be of one kind.*such as"):
        PostShifter(classes=form(classes)).fit(ETA, of(classes))


@each_kind
@each_form
def test_labels(classes, form):
    mixed, frozen = form(of(classes)), FrozenEstimator(GaussianNB().fit(ETA, STRINGS[CODES]))
    fitted = PostShifter(method="base", classes=STRINGS).fit(np.tile(ETA, (6, 1)), np.tile(STRINGS[CODES], 6))
    calls = {
        "y_val": lambda: PostShifter(classes=STRINGS).fit(ETA, mixed),
        "y_train": lambda: PostShifter(classes=STRINGS).fit(ETA, STRINGS[CODES], ETA, mixed),
        "y": lambda: PostShiftClassifier(GaussianNB()).fit(ETA, mixed),
        "y ": lambda: PostShiftClassifier(frozen).fit(ETA, mixed),
        "y_val ": lambda: PostShiftClassifier(frozen).fit(ETA, STRINGS[CODES], ETA, mixed),
        " y": lambda: CoordinatePlugin(GaussianNB()).fit(ETA, mixed),
        " y_val": lambda: CoordinatePlugin(GaussianNB()).fit(ETA, STRINGS[CODES], ETA, mixed),
        "y_new rows": lambda: fitted.score(ETA, mixed),
    }
    for name, call in calls.items():
        with pytest.raises(LabelError, match=rf"^{name.strip()} must be of one kind, all strings or all numbers"):
            call()


def test_classes_that_are_missing():
    with pytest.raises(LabelError, match="classes is missing in 1 of 3 rows"):
        PostShifter(classes=[None, "a", "b"]).fit(ETA, CODES)


@pytest.mark.parametrize("labels", [[np.nan, "a", "b"], [None, "a", "b"], [None, 1, 2]])
def test_labels_that_are_missing_are_not_the_string_nan(labels):
    with pytest.raises(LabelError, match="y is missing in"):
        PostShiftClassifier(GaussianNB()).fit(ETA, of(labels))


@pytest.mark.parametrize("classes", [[0, 1.0, np.int8(2)], [False, 1, 2], ["x", np.str_("y"), "z"]], ids=str)
def test_labels_of_one_kind_in_several_types(classes):
    model = PostShiftClassifier(GaussianNB(), method="inverse prior").fit(np.tile(ETA, (6, 1)), of(classes) * 6)
    assert len(model.classes_) == 3
    assert set(model.predict(ETA).tolist()) <= set(classes)
