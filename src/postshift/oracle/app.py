"""The web application: ``/v1``, and the owner's page at ``/``.

Every error is ``{"error": {"code": ..., "message": ...}}`` with a status of 4xx. Texts and times of errors depend on
what was sent and on the ledger, never on labels.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import postshift
from postshift.exceptions import InputError, OracleError, QuestionError
from postshift.oracle.answers import Question
from postshift.oracle.service import Service, log_line, token_line
from postshift.oracle.tokens import Token
from postshift.oracle.wire import decoded

MEGABYTE = 1 << 20
LARGEST_BODY = 256 * MEGABYTE
PADDED_TO = 0.05  # seconds: answers with noise are sent at multiples of it, so that times tell nothing about the noise
_STATUS = {
    "no_token": 401,
    "unknown_token": 401,
    "expired_token": 401,
    "revoked_token": 401,
    "wrong_scope": 403,
    "kind_not_allowed": 403,
    "over_budget": 409,
    "token_budget": 409,
    "too_fast": 429,
    "body_too_large": 413,
}
_STOPPED = {"clock_set_back", "restored_database", "damaged_database", "ledger"}  # the owner has to act: 423
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}


class Array(BaseModel):
    """An array: base64 of its little-endian bytes in C order."""

    model_config = ConfigDict(extra="forbid")
    dtype: Literal["u1", "u2", "u4", "i8", "f8"]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**31)]], Field(max_length=3)]
    data: str


class Asked(BaseModel):
    """A question about all validation rows, in the order of the identifiers, or in the order of ``ids``."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["table", "confusion", "value"]
    cost: Annotated[int, Field(ge=1, le=10**12, description="micro-rho in private mode, 1 in trusted mode")]
    predictions: Array | None = None
    cells: Array | None = None
    columns: Array | None = None
    ids: list[str] | None = None


class Refusal(BaseModel):
    """An error: a code for programs, a message for people."""

    code: str
    message: str


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
    status: {"model": Refused} for status in (400, 401, 403, 404, 405, 409, 413, 422, 423, 429)
}


def create_app(service: Service) -> FastAPI:
    """Return the web application of a service."""
    app = FastAPI(
        title="postshift oracle",
        version=postshift.__version__,
        description="Scores predictions for rows whose labels stay here.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        responses=_ERRORS,
    )
    app.add_middleware(Bounded, most=LARGEST_BODY)
    _add_errors(app)
    _add_headers(app)
    _add_learner(app, service)
    _add_owner(app, service)
    return app


# -- who asks -----------------------------------------------------------------------------------------

_BEARER = HTTPBearer(auto_error=False, description="The token that the owner created.")


def _token(service: Service, *scopes: str) -> Callable[..., Token]:
    """Return a dependency that checks the token of a request."""

    def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]) -> Token:
        if given is None:
            raise _refusal("no_token", "send a token: Authorization: Bearer TOKEN")
        token = service.ledger.verify(given.credentials)
        if token.scope not in scopes:
            raise _refusal(
                "wrong_scope", f"this needs the token of {' or '.join(scopes)}, this one is a {token.scope}'s"
            )
        return token

    return check


# -- the learner --------------------------------------------------------------------------------------


def _add_learner(app: FastAPI, service: Service) -> None:
    """Add what learners use."""
    learner = Depends(_token(service, "learner", "owner"))

    @app.get("/v1/about")
    def about(token: Token = learner) -> dict[str, Any]:
        """Return what is scored, which kinds of question are answered, the budget, and the token's part of it."""
        budget = service.budget()
        return {**service.about, "budget": budget, "allowance": min(budget["total"], token.most or budget["total"])}

    @app.get("/v1/rows", dependencies=[learner], response_class=PlainTextResponse)
    def rows() -> str:
        """Return the identifiers of the rows and the released features, as CSV."""
        return service.holdings.released

    @app.post("/v1/quote", dependencies=[learner])
    async def quote(asked: Asked) -> dict[str, Any]:
        """Return what a question would cost; nothing is charged."""
        return await run_in_threadpool(lambda: service.quote(_question(asked, service)))

    @app.post("/v1/answers", response_model=Answer)
    async def answers(asked: Asked, token: Token = learner) -> Response:
        """Return the answer to a question; the same question again is free."""
        started = time.monotonic()
        found = await run_in_threadpool(lambda: service.answer(_question(asked, service), token))
        if not found.repeated and service.terms.mode == "private":
            spent = time.monotonic() - started
            await asyncio.sleep(math.ceil(spent / PADDED_TO) * PADDED_TO - spent)
        head = json.dumps({"number": found.number, "cost": found.cost, "repeated": found.repeated})
        body = head[:-1].encode() + b', "answer": ' + found.payload + b"}"
        return Response(body, media_type="application/json")


def _question(asked: Asked, service: Service) -> Question:
    """Return the question in a body, with its rows in the order of the identifiers."""
    fields = {"predictions": asked.predictions, "cells": asked.cells, "columns": asked.columns}
    arrays = {name: None if each is None else decoded(each.model_dump(), name=name) for name, each in fields.items()}
    if asked.ids is not None:
        order = _places(asked.ids, service)
        arrays = {name: _in_order(array, order, name=name) for name, array in arrays.items()}
    return Question(kind=asked.kind, cost=asked.cost, **arrays)


def _places(ids: list[str], service: Service) -> Any:
    """Return where each row of the service is among the given identifiers; raise if they are not all of them."""
    places = {name: place for place, name in enumerate(ids)}
    known = set(service.holdings.ids)
    for name in ids:
        if name not in known:
            raise QuestionError(f"there is no row {name[:100]!r}: GET /v1/rows has the identifiers", code="unknown_row")
    if len(places) != len(ids) or len(ids) != len(known):
        raise QuestionError(
            f"ids must name each of the {len(known)} rows once. Got {len(ids)}, {len(places)} of them distinct",
            code="wrong_length",
        )
    return np.array([places[name] for name in service.holdings.ids])


def _in_order(array: Any, order: Any, *, name: str) -> Any:
    """Return the rows of an array in another order."""
    if array is None:
        return None
    if array.ndim == 0 or len(array) != len(order):
        raise QuestionError(f"{name} must have {len(order)} rows. Got shape {array.shape}", code="wrong_length")
    return array[order]


# -- the owner ----------------------------------------------------------------------------------------


def _add_owner(app: FastAPI, service: Service) -> None:
    """Add what the owner uses."""
    owner = Depends(_token(service, "owner"))
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


# -- what is the same for all requests -------------------------------------------------------------------


class Bounded:
    """Refuses bodies above a size, before they are read whole.

    Parameters
    ----------
    app : ASGI application
        The application.
    most : int
        The largest body in bytes.
    """

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._most:
            await self._refuse(scope, receive, send)
            return
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise _refusal("body_too_large", self._text)
            return message

        await self._app(scope, bounded, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the refusal of a body that is too large."""
        await _response("body_too_large", self._text)(scope, receive, send)

    @property
    def _text(self) -> str:
        """The message."""
        return f"a body has at most {self._most // MEGABYTE} MB: send fewer classes or narrower numbers"


def _add_headers(app: FastAPI) -> None:
    """Add the headers that every response has."""

    @app.middleware("http")
    async def headers(request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await handle(request)
        response.headers.update(_HEADERS)
        return response


def _add_errors(app: FastAPI) -> None:
    """Turn errors into bodies with a code."""

    @app.exception_handler(OracleError)
    async def of_oracle(_: Request, error: OracleError) -> JSONResponse:
        return _response(error.code, str(error))

    @app.exception_handler(InputError)
    async def of_input(_: Request, error: InputError) -> JSONResponse:
        return _response("bad_question", str(error))

    @app.exception_handler(RequestValidationError)
    async def of_body(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _response("invalid_body", f"{where}: {first['msg']}", status=422)

    @app.exception_handler(HTTPException)
    async def of_http(_: Request, error: HTTPException) -> JSONResponse:
        codes = {404: "not_found", 405: "method_not_allowed"}
        return _response(
            codes.get(error.status_code, "bad_request"),
            str(error.detail),
            status=error.status_code,
            headers=error.headers,
        )


def _refusal(code: str, message: str) -> OracleError:
    """Return an error with this code."""
    error = OracleError(message)
    error.code = code
    return error


def _response(code: str, message: str, *, status: int | None = None, headers: Any = None) -> JSONResponse:
    """Return the body of an error."""
    found = status or _STATUS.get(code) or (423 if code in _STOPPED else 400)
    added = {"WWW-Authenticate": "Bearer"} if found == 401 else {"Retry-After": "1"} if found == 429 else {}
    return JSONResponse({"error": {"code": code, "message": message}}, found, headers={**added, **(headers or {})})
