"""Requests from the OpenAPI description, and arrays of every form: never an error of the service itself."""

from __future__ import annotations

import json
import string

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postshift.oracle.refusals import STATUS
from postshift.oracle.wire import GRID, KINDS, encoded
from tests.oracle.servers import code_of, make_service, serving

EXAMPLES = 60  # valid ones and as many others, of each operation, token and mode
QUIET = {"deadline": None, "database": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
MODES = ("trusted", "private")
WHO = ("learner", "owner", None)


@pytest.fixture(scope="module", params=MODES)
def service(request, tmp_path_factory):
    """A service over a real socket, with a budget that ends during the tests."""
    folder = tmp_path_factory.mktemp(request.param)
    made = make_service(f"sqlite:///{folder / 'ledger.db'}", folder, mode=request.param, budget=50)
    with serving(made, failures=10**9) as running:
        yield running


def check(response):
    """Check a response: an answer, or a refusal of the table of codes."""
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert STATUS[code_of(response)] == response.status_code


@pytest.mark.parametrize("who", WHO)
def test_requests_from_the_description(service, who):
    """What schemathesis makes of it: valid and invalid bodies, parameters and headers."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is installed by make test-oracle")
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = schemathesis.checks.not_a_server_error, content_type_conformance, response_schema_conformance
    schema = schemathesis.openapi.from_url(f"{service.url}/v1/openapi.json")
    headers = {} if who is None else {"Authorization": f"Bearer {service.tokens.get(who, who)}"}
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    assert {(each.method.upper(), each.path) for each in operations} == {
        ("GET", "/v1/about"),
        ("GET", "/v1/rows"),
        ("POST", "/v1/quote"),
        ("POST", "/v1/answers"),
        ("GET", "/v1/owner/summary"),
        ("GET", "/v1/owner/log"),
    }
    for operation in operations:
        n_sent = 0
        for mode in modes:
            try:
                cases = operation.as_strategy(generation_mode=mode)
            except schemathesis.errors.SchemathesisError:
                continue

            @settings(max_examples=EXAMPLES, **QUIET)
            @given(case=cases)
            def run(case):
                nonlocal n_sent
                n_sent += 1
                response = case.call(headers=headers)
                assert response.status_code < 500, response.text
                case.validate_response(response, checks=[*checks, status_code_conformance], headers=headers)
                if response.status_code >= 400:
                    assert STATUS[response.json()["error"]["code"]] == response.status_code

            run()
        assert n_sent > 0


ARRAYS = st.one_of(
    st.builds(
        lambda rows, kind, seed: encoded(np.random.default_rng(seed).integers(0, 2, rows), kind),
        st.sampled_from([60, 60, 60, 59, 61, 0, 1]),
        st.sampled_from(sorted(KINDS)),
        st.integers(0, 5),
    ),
    st.builds(
        lambda columns, top, kind: encoded(np.full((60, columns), top // columns).astype(kind), kind),
        st.integers(1, 4),
        st.sampled_from([1, GRID, 0, -GRID, 2**62]),
        st.sampled_from(["u2", "f8", "i8"]),
    ),
    st.sampled_from(sorted(KINDS)).flatmap(
        lambda kind: hnp.arrays(
            KINDS[kind], st.sampled_from([(60,), (60, 1), (60, 2), (60, 2, 2), (2, 60), ()])
        ).map(lambda array: encoded(array, kind))
    ),
    st.fixed_dictionaries({
        "dtype": st.sampled_from([*sorted(KINDS), "O", "f4", ""]),
        "shape": st.lists(st.integers(-2, 2**32), max_size=4),
        "data": st.text(string.ascii_letters + string.digits + "+/=?é\0", max_size=20),
    }),
)  # fmt: skip
BODIES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["table", "confusion", "value", "labels"]),
        "cost": st.sampled_from([1, 1, 1, 2, 0, -1, 10**12, 2**63, 1.5, None, "1"]),
    },
    optional={
        "predictions": ARRAYS,
        "cells": ARRAYS,
        "columns": ARRAYS,
        "ids": st.one_of(st.permutations([f"row{place}" for place in range(60)]), st.lists(st.text(max_size=5))),
    },
)


def test_arrays_of_every_form(service):
    """Bodies that get past the description, as far as the arrays themselves; charges are those of the answers."""
    with service.client() as client:

        @settings(max_examples=600, **QUIET)
        @given(body=BODIES, path=st.sampled_from(["/v1/answers", "/v1/quote"]))
        def run(body, path):
            before = service.spent()
            response = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
            check(response)
            answered = response.status_code == 200 and path == "/v1/answers"
            assert service.spent() - before == (response.json()["cost"] if answered else 0)

        run()
    assert service.service.ledger.audit().problems == ()
