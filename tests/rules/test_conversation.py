"""Saved interviews: they are resumed by the same problem only, and no answer in a file is overwritten unknown."""

from dataclasses import replace

import numpy as np
import pytest

from postshift.exceptions import ArchiveError
from postshift.metrics import GMean, WorstGroup
from postshift.rules import Choice, Interview, Problem, Table
from tests.core.test_runfile import rewritten
from tests.rules.helpers import tables, value_of


@pytest.fixture
def sides():
    return tables(9, n_val=100)


def asked(sides, **how):
    train, val = sides
    return Problem.queried(train, val, kind="soft", **how)


def interview_of(problem, budget=None):
    return Interview(lambda: Choice().fit(problem), budget=budget, about=problem.digest())


def tell(interview, val, count=1, place=0):
    for _ in range(count):
        query = interview.ask()[place]
        interview.tell(query.key, value_of(GMean(), val.labels, query.predictions))


def other_labels(table):
    return replace(table, labels=(table.labels + 1) % table.n_classes)


def weighted(table, factor=1.0):
    return replace(table, weights=factor * np.linspace(1, 2, table.n_rows))


def renamed(table):
    return replace(table, bases={"constant": table.bases["constant"], "other": table.bases["user"]})


OTHERS = {
    "training labels": lambda train, val: Problem.queried(other_labels(train), val, kind="soft", reads_labels=True),
    "validation labels": lambda train, val: Problem.queried(train, other_labels(val), kind="soft", reads_labels=True),
    "no labels": lambda train, val: Problem.queried(train, val, kind="soft"),
    "training weights": lambda train, val: Problem.queried(weighted(train), val, kind="soft", reads_labels=True),
    "validation weights": lambda train, val: Problem.queried(train, weighted(val), kind="soft", reads_labels=True),
    "scale": lambda train, val: Problem.queried(train, val, kind="soft", reads_labels=True, scale=100.0),
    "subsets": lambda train, val: Problem.queried(train, val, kind="soft", reads_labels=True, takes_subsets=True),
    "hard": lambda train, val: Problem.queried(train, val, kind="hard", reads_labels=True),
    "no training rows": lambda _, val: Problem.queried(None, val, kind="soft", reads_labels=True),
    "names of bases": lambda train, val: Problem.queried(renamed(train), renamed(val), kind="soft", reads_labels=True),
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_an_interview_is_not_resumed_by_another_problem(other, sides, tmp_path):
    path = tmp_path / "interview.npz"
    begun = interview_of(asked(sides, reads_labels=True))
    tell(begun, sides[1])
    begun.save(path)
    with pytest.raises(ArchiveError, match="take it up with the data"):
        interview_of(other(*sides)).resume(path)
    same = interview_of(asked(tables(9, n_val=100), reads_labels=True))
    same.resume(path)
    assert same.n_queries == 1


def test_labelled_problems_of_other_groups_differ(sides):
    train, val = sides
    groups = np.arange(val.n_rows) % 2
    metric = WorstGroup("accuracy", n_classes=val.n_classes, n_groups=2)
    problems = [Problem.labelled(train, val, metric, groups=each) for each in (groups, 1 - groups)]
    assert problems[0].digest() != problems[1].digest()


def test_answers_that_another_process_saved_are_not_overwritten(sides, tmp_path):
    path, val = tmp_path / "interview.npz", sides[1]
    first, second = interview_of(asked(sides)), interview_of(asked(sides))
    while len(first.ask()) < 2:
        tell(first, val)
    first.save(path)
    second.resume(path)
    tell(second, val)
    second.save(path)
    tell(first, val, place=-1)
    whole = path.read_bytes()
    with pytest.raises(ArchiveError, match=r"interview\.npz has 1 answers that this run does not know.*Load it"):
        first.save(path)
    assert path.read_bytes() == whole
    tell(second, val, count=2)
    second.save(path)


CHANGES = {
    "no about": lambda header, _: header.pop("about"),
    "no digests": lambda header, _: header.pop("digests"),
    "few digests": lambda header, _: header.update(digests=[]),
    "lists": lambda header, _: header.update(digests=[["a"], ["b"]]),
    "number": lambda header, _: header.update(digests=3),
    "no answers": lambda _, arrays: arrays.pop("answers"),
    "texts": lambda _, arrays: arrays.update(answers=np.array(["a", "b"])),
    "nan": lambda _, arrays: arrays.update(answers=np.array([0.5, np.nan])),
    "matrix": lambda _, arrays: arrays.update(answers=np.zeros((2, 2))),
    "more": lambda _, arrays: arrays.update(answers=np.zeros(3)),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_was_changed_by_hand_is_refused_in_words(change, sides, tmp_path):
    path = tmp_path / "interview.npz"
    begun = interview_of(asked(sides))
    tell(begun, sides[1], count=2)
    begun.save(path)
    rewritten(path, change)
    later = interview_of(asked(sides))
    with pytest.raises(ArchiveError, match=r"interview\.npz"):
        later.resume(path)
    assert later.n_queries == 0
    assert isinstance(later.ask(), tuple)


def test_tables_keep_their_digest(sides):
    again = [
        Table.of(side.eta, bases={"user": side.bases["user"]}, labels=side.labels, weights=side.weights)
        for side in sides
    ]
    assert asked(again).digest() == asked(sides).digest()
