"""Models with parts that cannot be saved: the error names the part."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest

from postshift.exceptions import ExportError
from postshift.metrics import ExpectedReward
from postshift.persistence import dump
from postshift.persistence.checks import check_savable, parts_of
from tests.persistence.test_files import SUFFIXES, Holder, module_metric


def local_metric():
    def inner(confusion):
        return confusion.trace()

    return inner


def local_object():
    class Metric:
        pass

    return Metric()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("model", "place"),
    [
        (Holder(metric=lambda confusion: confusion.trace()), "metric is a lambda"),
        (Holder(metric=local_metric()), r"metric is defined inside a function \(local_metric.<locals>.inner\)"),
        (Holder(groups={"region": lambda X: X}), r"groups\['region'\] is a lambda"),
        (Holder(groups=[partial(lambda X, k: X[k], k=1)]), r"groups\[0\].func is a lambda"),
        (Holder(metric=local_object()), r"metric is defined inside a function \(local_object.<locals>.Metric\)"),
        (Holder(metric=ExpectedReward(np.eye(2)), groups=Holder(groups=(lambda X: X,))), r"groups.groups\[0\] is a"),
        (lambda X: X, "the model is a lambda"),
    ],
)
def test_parts_that_cannot_be_saved_are_named(tmp_path, model, place, suffix):
    with pytest.raises(ExportError, match=f"{place}.*define it in a module.*compute phi outside"):
        dump(model, tmp_path / f"model.{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("part", [threading.Lock(), (row for row in [1])], ids=["lock", "generator"])
def test_errors_of_pickle_and_skops_are_export_errors(tmp_path, part, suffix):
    with pytest.raises(ExportError, match=f"cannot be saved as .{suffix}"):
        dump(Holder(metric=part), tmp_path / f"model.{suffix}")


class Slotted:
    """Has slots only."""

    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held

    def method(self):
        return self.held


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (Slotted(lambda: 0), "held"),
        (Holder(metric=Slotted(lambda: 0).method), "metric.held"),
        (np.array([1, lambda: 0], dtype=object), r"\[1\]"),
        ({(lambda: 0): 1}, r"\[<function.*\]"),
    ],
    ids=["slot", "method", "array", "key"],
)
def test_every_part_is_checked(model, place):
    with pytest.raises(ExportError, match=f"^{place} is a lambda and cannot be saved"):
        check_savable(model)


def test_parts_of_objects_and_containers():
    holder = Holder(metric=module_metric, groups=np.ones(3))
    assert dict(parts_of(holder)) == {".metric": module_metric, ".groups": holder.groups}
    assert list(parts_of(holder.groups)) == list(parts_of(module_metric)) == list(parts_of(Holder)) == []
    assert dict(parts_of((1, "a"))) == {"[0]": 1, "[1]": "a"}
    check_savable([holder, holder])
