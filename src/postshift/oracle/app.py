"""The web application: ``/v1``, and the owner's page at ``/``.

Every error is ``{"error": {"code": ..., "message": ...}}``. Texts and times of errors depend on what was sent and on
the ledger, never on labels; an error charges nothing.

======================  ======  ====================================================================================
code                    status  meaning
======================  ======  ====================================================================================
``not_json``            400     the body is not JSON, or nested too deeply
``no_token``            401     there is no token in the header ``Authorization``
``unknown_token``       401     no token of this ledger
``expired_token``       401     its time is over
``revoked_token``       401     the owner revoked it
``wrong_scope``         403     a learner's token, where an owner's is needed
``kind_not_allowed``    403     the owner does not allow this kind of query
``not_found``           404     there is no such path
``method_not_allowed``  405     the path has no such method
``over_budget``         409     the budget of the data set does not cover the cost
``token_budget``        409     the budget of the token does not cover the cost
``body_too_large``      413     the body is larger than any query about these rows; it is not read to its end
``wrong_content_type``  415     the body of a query is not ``application/json``
``invalid_body``        422     a field is missing, unknown, or of another type
``invalid_parameter``   422     a parameter in the URL is not a number in its range
``unknown_kind``        422     there is no such kind of query
``bad_cost``            422     the cost is not a whole number from 1, or not 1 in trusted mode
``bad_dtype``           422     there is no such kind of number
``bad_shape``           422     lengths are negative or too large, or the bytes do not have this shape
``bad_base64``          422     the data of an array are not base64
``wrong_arrays``        422     the query does not have the arrays that its kind needs
``wrong_length``        422     an array, or ``ids``, does not have one entry for each row
``unknown_row``         422     ``ids`` names a row that does not exist
``repeated_row``        422     ``ids`` names a row twice
``not_finite``          422     an array has NaN or infinite numbers
``bad_cells``           422     cells are not whole numbers from 0
``too_many_cells``      422     the answer would have too many counts
``bad_labels``          422     labels are not positions of classes
``bad_distributions``   422     rows are not distributions over the classes
``bad_columns``         422     columns are not ones, then basis functions between 0 and 1
``bad_query``           422     the query cannot be answered for another reason
``damaged_database``    423     the ledger was damaged or changed; the owner has to act
``restored_database``   423     the ledger is an older copy; the owner has to act
``clock_set_back``      423     the clock is before the last line of the ledger; the owner has to act
``other_data``          423     the ledger belongs to other data; the owner has to act
``too_fast``            429     too many answers, requests or wrong tokens in a minute; see ``Retry-After``
``internal``            500     an error of the service itself
``ledger``              503     the ledger cannot be used now (a full disk, a database that is away); try again
======================  ======  ====================================================================================
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib.resources import files
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, FailFast, Field, field_validator, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

import postshift
from postshift.exceptions import BadQueryError, InputError, OracleError
from postshift.oracle.answers import MOST_COLUMNS, ServiceQuery
from postshift.oracle.charges import Answered
from postshift.oracle.gate import FAILURES, LARGEST_BODY, MEGABYTE, REQUESTS, Gate, token_of
from postshift.oracle.holdings import Holdings
from postshift.oracle.refusals import response, response_of
from postshift.oracle.repeats import Repeats, route_of
from postshift.oracle.service import Service, log_line, token_line
from postshift.oracle.tokens import Token
from postshift.oracle.wire import decoded

PADDED_TO = 0.05  # seconds: answers with noise are sent at multiples of it, so that times tell nothing about the noise


class _Given(BaseModel):
    """A part of a body. The first error is enough: to collect a million of them takes memory and time."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Raise one error for all unknown fields."""
        unknown = given.keys() - cls.model_fields.keys() if isinstance(given, dict) else ()
        if unknown:
            raise ValueError(f"there is no field {min(map(str, unknown))[:100]!r}: {', '.join(cls.model_fields)}")
        return given


class Array(_Given):
    """An array: base64 of its little-endian bytes in C order."""

    dtype: Literal["u1", "u2", "u4", "i8", "f8"]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**31)]], Field(max_length=3), FailFast()]
    data: str


class Asked(_Given):
    """A query about all validation rows, in the order of the identifiers, or in the order of ``ids``."""

    kind: Literal["table", "confusion", "value"]
    cost: Annotated[int, Field(ge=1, le=10**12, description="micro-rho in private mode, 1 in trusted mode")]
    predictions: Array | None = None
    cells: Array | None = None
    columns: Array | None = None
    ids: list[str] | None = None

    @field_validator("ids", mode="before")
    @classmethod
    def _are_texts(cls, given: Any) -> Any:
        """Raise one error for all identifiers that are no texts."""
        if isinstance(given, list) and not all(isinstance(each, str) for each in given):
            raise ValueError("identifiers must be texts")
        return given


class Refusal(BaseModel):
    """An error: a code for programs, a message for people, and what is left of a budget that is too small."""

    code: str
    message: str
    left: int | None = None


class Refused(BaseModel):
    """The body of every error."""

    error: Refusal


class Answer(BaseModel):
    """An answer, and what it cost."""

    number: int
    cost: int
    repeated: bool
    answer: Array


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused} for status in (400, 401, 403, 404, 405, 409, 413, 415, 422, 423, 429, 503)
}
_AS_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}


def create_app(
    service: Service, *, largest_body: int | None = None, requests: int = REQUESTS, failures: int = FAILURES
) -> FastAPI:
    """Return the web application of a service.

    Parameters
    ----------
    service : Service
        The service.
    largest_body : int, optional
        In bytes; by default that of a query about the rows of the service.
    requests, failures : int
        The most requests of a token, and wrong tokens from an address, in a minute.
    """
    app = FastAPI(
        title="postshift oracle",
        version=postshift.__version__,
        description="Scores predictions for rows whose labels stay here.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
        responses=_ERRORS,
    )
    most = largest_body_of(service.holdings) if largest_body is None else largest_body
    app.add_middleware(Gate, ledger=service.ledger, most=most, requests=requests, failures=failures)
    _add_errors(app)
    _add_learner(app, service)
    _add_owner(app, service)
    return app


def largest_body_of(holdings: Holdings) -> int:
    """Return the size of the largest body that a query about these rows can have, in bytes."""
    numbers = holdings.n_rows * (holdings.n_classes + 1 + MOST_COLUMNS)  # of 8 bytes, as base64
    names = sum(6 * len(each) + 4 for each in holdings.ids)
    return min(LARGEST_BODY, MEGABYTE + 11 * numbers + names)


# -- who asks -----------------------------------------------------------------------------------------

_BEARER = HTTPBearer(auto_error=False, description="The token that the owner created.")


def _token(*scopes: str) -> Callable[..., Awaitable[Token]]:
    """Return a dependency: the token that the gate let in, if it has one of these scopes."""

    async def check(
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],  # for the description
    ) -> Token:
        return token_of(request.state, *scopes)

    return check


# -- the learner --------------------------------------------------------------------------------------


def _add_learner(app: FastAPI, service: Service) -> None:
    """Add what learners use."""
    learner = Depends(_token("learner", "owner"))
    repeats = Repeats()
    queries = APIRouter(route_class=route_of(repeats, "learner", "owner"))

    @app.get("/v1/about")
    def about(token: Token = learner) -> dict[str, Any]:
        """Return what is scored, which kinds of query are answered, the budget, and the token's part of it."""
        budget = service.budget()
        return {**service.about, "budget": budget, "allowance": min(budget["total"], token.most or budget["total"])}

    @app.get("/v1/rows", dependencies=[learner], response_class=Response, responses=_AS_CSV)
    def rows() -> Response:
        """Return the identifiers of the rows and the released features, as CSV."""
        return Response(service.holdings.released, media_type="text/csv")

    @app.post("/v1/quote", dependencies=[learner])
    async def quote(asked: Asked) -> dict[str, Any]:
        """Return what a query would cost; nothing is charged."""
        return await run_in_threadpool(lambda: service.quote(_query(asked, service)))

    @queries.post("/v1/answers", response_model=Answer)
    async def answers(request: Request, asked: Asked, token: Token = learner) -> Response:
        """Return the answer to a query; the same query again is free."""
        started = time.monotonic()
        found = await run_in_threadpool(lambda: service.answer(_query(asked, service), token))
        if not found.repeated and service.terms.mode == "private":
            spent = time.monotonic() - started
            await asyncio.sleep(math.ceil(spent / PADDED_TO) * PADDED_TO - spent)
        repeats.keep(await request.body(), _answer(replace(found, cost=0, repeated=True)))
        return Response(_answer(found), media_type="application/json")

    app.include_router(queries)


def _answer(found: Answered) -> bytes:
    """Return the body of an answer."""
    head = json.dumps({"number": found.number, "cost": found.cost, "repeated": found.repeated})
    return head[:-1].encode() + b', "answer": ' + found.payload + b"}"


def _query(asked: Asked, service: Service) -> ServiceQuery:
    """Return the query in a body, with its rows in the order of the identifiers."""
    fields = {"predictions": asked.predictions, "cells": asked.cells, "columns": asked.columns}
    arrays = {name: None if each is None else decoded(each.model_dump(), name=name) for name, each in fields.items()}
    if asked.ids is not None:
        order = _places(asked.ids, service)
        arrays = {name: _in_order(array, order, name=name) for name, array in arrays.items()}
    return ServiceQuery(kind=asked.kind, cost=asked.cost, **arrays)


def _places(ids: list[str], service: Service) -> Any:
    """Return where each row of the service is among the given identifiers; raise if they are not all of them."""
    places = {name: place for place, name in enumerate(ids)}
    known = set(service.holdings.ids)
    for name in places:
        if name not in known:
            raise BadQueryError(f"there is no row {name[:100]!r}: GET /v1/rows has the identifiers", code="unknown_row")
    if len(places) != len(ids):
        raise BadQueryError(f"ids names {len(ids) - len(places)} rows more than once", code="repeated_row")
    if len(ids) != len(known):
        raise BadQueryError(f"ids must name each of the {len(known)} rows. Got {len(ids)}", code="wrong_length")
    return np.array([places[name] for name in service.holdings.ids])


def _in_order(array: Any, order: Any, *, name: str) -> Any:
    """Return the rows of an array in another order."""
    if array is None:
        return None
    if array.ndim == 0 or len(array) != len(order):
        raise BadQueryError(f"{name} must have {len(order)} rows. Got shape {array.shape}", code="wrong_length")
    return array[order]


# -- the owner ----------------------------------------------------------------------------------------


def _add_owner(app: FastAPI, service: Service) -> None:
    """Add what the owner uses."""
    owner = Depends(_token("owner"))
    page = files("postshift.oracle") / "page"

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def index() -> str:
        return (page / "owner.html").read_text("utf-8")

    @app.get("/owner.css", include_in_schema=False)
    def style() -> Response:
        return Response((page / "owner.css").read_bytes(), media_type="text/css")

    @app.get("/owner.js", include_in_schema=False)
    def script() -> Response:
        return Response((page / "owner.js").read_bytes(), media_type="text/javascript")

    @app.get("/owner.svg", include_in_schema=False)
    def icon() -> Response:
        return Response((page / "owner.svg").read_bytes(), media_type="image/svg+xml")

    @app.get("/v1/owner/summary", dependencies=[owner])
    def summary() -> dict[str, Any]:
        """Return the budget, the tokens and the last lines of the log."""
        return {
            "about": service.about,
            "budget": service.budget(),
            "tokens": [token_line(use) for use in service.ledger.tokens()],
            "lines": [log_line(line) for line in service.ledger.lines(limit=50)],
        }

    @app.get("/v1/owner/log", dependencies=[owner])
    def log(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, before: Annotated[int | None, Query(ge=0, le=2**62)] = None
    ) -> list[dict[str, Any]]:
        """Return lines of the log, the newest first."""
        return [log_line(line) for line in service.ledger.lines(limit=limit, before=before)]


# -- errors -------------------------------------------------------------------------------------------

_OF_STATUS = {400: "not_json", 404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}
_OF_FIELD = {"kind": "unknown_kind", "cost": "bad_cost", "dtype": "bad_dtype", "shape": "bad_shape"}


def _add_errors(app: FastAPI) -> None:
    """Turn errors into bodies with a code."""

    @app.exception_handler(OracleError)
    async def of_oracle(_: Request, error: OracleError) -> JSONResponse:
        return response_of(error)

    @app.exception_handler(InputError)
    async def of_input(_: Request, error: InputError) -> JSONResponse:
        return response("bad_query", str(error))

    @app.exception_handler(RequestValidationError)
    async def of_body(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return response(_code_of(first), f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def of_http(_: Request, error: HTTPException) -> JSONResponse:
        code = _OF_STATUS.get(error.status_code, "bad_query")
        return response(code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def of_service(_: Request, __: Exception) -> JSONResponse:
        return response("internal", "the service failed, and nothing was given out: ask the owner of the data")


def _code_of(problem: Any) -> str:
    """Return the code of a problem that pydantic found."""
    if problem["type"] == "json_invalid":
        return "not_json"
    if problem["loc"][0] != "body":
        return "invalid_parameter"
    names = [part for part in problem["loc"] if isinstance(part, str)]
    return "invalid_body" if problem["type"] == "missing" else _OF_FIELD.get(names[-1], "invalid_body")
