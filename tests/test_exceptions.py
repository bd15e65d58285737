"""The tree of errors: each is an error of the library and of the kind that Python's own code expects."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from postshift import exceptions
from postshift.exceptions import PostshiftError, PostshiftWarning, UnknownQueryError, UntrustedError

CLASSES = [
    each for _, each in inspect.getmembers(exceptions, inspect.isclass) if each.__module__ == exceptions.__name__
]


def test_the_tree_in_the_docstring_has_every_class_with_its_builtin():
    for each in CLASSES:
        builtin = next(base for base in each.__mro__ if base.__module__ == "builtins")
        line = re.search(rf"\b{each.__name__}\b(?: \((\w+)\))?", exceptions.__doc__)
        assert line is not None, each.__name__
        assert line[1] is None or line[1] == builtin.__name__


@pytest.mark.parametrize("each", CLASSES, ids=lambda each: each.__name__)
def test_errors_are_documented_and_can_be_pickled(each):
    assert issubclass(each, (PostshiftError, PostshiftWarning))
    assert each.__doc__
    again = pickle.loads(pickle.dumps(each("what is wrong")))  # noqa: S301
    assert (type(again), str(again)) == (each, "what is wrong")


def test_a_message_is_not_quoted():
    assert str(UnknownQueryError("query '1' is not open")) == "query '1' is not open"


def test_names_that_are_not_trusted():
    assert UntrustedError("two types are not trusted", names=["a.B", "c.D"]).names == ("a.B", "c.D")
