from __future__ import annotations

import json

import pytest

from postshift import exceptions
from postshift.exceptions import OracleError, TooFastError
from postshift.oracle.refusals import STATUS, refusal, response, response_of


def test_every_error_of_a_service_has_a_status():
    """Those of the base classes and of the learner are never sent."""
    found = {
        each.code for each in vars(exceptions).values() if isinstance(each, type) and issubclass(each, OracleError)
    }
    assert found - STATUS.keys() == {"oracle", "token", "remote"}


@pytest.mark.parametrize("code", STATUS)
def test_a_response_has_its_code_status_and_headers(code):
    found = response(code, "words")
    assert found.status_code == STATUS[code]
    assert json.loads(bytes(found.body)) == {"error": {"code": code, "message": "words"}}
    assert found.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(("wait", "seconds"), [(0.2, "1"), (7.0, "7"), (7.1, "8"), (None, "5")])
def test_how_long_to_wait_is_rounded_up(wait, seconds):
    assert response_of(TooFastError("words", wait=wait)).headers["retry-after"] == seconds


def test_an_error_of_another_code_is_a_bad_request():
    assert response_of(refusal("new", "words")).status_code == 400
