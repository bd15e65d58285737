"""The tree of errors: each is an error of the library and of the kind that Python's own code expects."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from postshift import exceptions
from postshift.exceptions import (
    InfeasibleError,
    NotCertifiedError,
    PostshiftError,
    PostshiftWarning,
    UnknownQueryError,
    UntrustedError,
)

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


def test_limits_that_exclude_each_other():
    error = InfeasibleError("two limits", conflict=["a", "b"], nearest="a solution")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (again.conflict, again.nearest, str(again)) == (("a", "b"), "a solution", "two limits")
    assert isinstance(error, ValueError)
    assert (InfeasibleError("no names").conflict, InfeasibleError("no names").nearest) == ((), None)


def test_what_was_closest_to_a_certificate():
    error = NotCertifiedError("not certified", rule="a rule", p_value=0.2, rows_needed=900)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (again.rule, again.p_value, again.rows_needed) == ("a rule", 0.2, 900)
    nothing = NotCertifiedError("not certified")
    assert (nothing.rule, nothing.p_value, nothing.rows_needed) == (None, 1.0, None)
