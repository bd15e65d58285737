"""Refusals: the code of every error, its status, and its body ``{"error": {"code": ..., "message": ...}}``."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi.responses import JSONResponse

from postshift.exceptions import LedgerError, OracleError

# The codes; the docstring of postshift.oracle.app says what they mean.
STATUS = {
    "no_token": 401,
    "unknown_token": 401,
    "expired_token": 401,
    "revoked_token": 401,
    "wrong_scope": 403,
    "kind_not_allowed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "over_budget": 409,
    "token_budget": 409,
    "body_too_large": 413,
    "wrong_content_type": 415,
    "not_json": 400,
    "invalid_body": 422,
    "invalid_parameter": 422,
    "unknown_kind": 422,
    "bad_cost": 422,
    "bad_dtype": 422,
    "bad_shape": 422,
    "bad_base64": 422,
    "wrong_arrays": 422,
    "wrong_length": 422,
    "unknown_row": 422,
    "repeated_row": 422,
    "not_finite": 422,
    "bad_cells": 422,
    "too_many_cells": 422,
    "bad_labels": 422,
    "bad_distributions": 422,
    "bad_columns": 422,
    "bad_query": 422,
    "damaged_database": 423,
    "restored_database": 423,
    "clock_set_back": 423,
    "other_data": 423,
    "too_fast": 429,
    "internal": 500,
    "ledger": 503,
}
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}
# What learners read when the ledger cannot be used. The owner's terminal shows the error itself, which names files.
_OUTSIDE = {
    "damaged_database": "the ledger of this service is damaged",
    "restored_database": "the ledger of this service is an older copy, which lacks answers that were given out",
    "clock_set_back": "the clock of this service was set back",
    "other_data": "the ledger of this service belongs to other data",
    "ledger": "the ledger of this service cannot be used now",
}
_LOG = logging.getLogger("postshift.oracle")
_BRIEFLY = 5  # seconds to wait for a ledger that cannot be used now


def refusal(code: str, message: str) -> OracleError:
    """Return an error with this code."""
    error = OracleError(message)
    error.code = code
    return error


def response(
    code: str, message: str, *, headers: Any = None, wait: float | None = None, left: int | None = None
) -> JSONResponse:
    """Return the response with this code; ``left`` is what is left of a budget that does not cover a query."""
    status = STATUS.get(code, 400)
    added = {**HEADERS, **(headers or {})}
    if status == 401:
        added["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        added["Retry-After"] = str(math.ceil(_BRIEFLY if wait is None else max(1, wait)))
    about = {} if left is None else {"left": left}
    return JSONResponse({"error": {"code": code, "message": message, **about}}, status, headers=added)


def response_of(error: OracleError) -> JSONResponse:
    """Return the response for an error of the service."""
    if isinstance(error, LedgerError):
        _LOG.error("%s: %s", error.code, error)
        remedy = "try again" if error.code == "ledger" else "tell the owner of the data, whose terminal says more"
        return response(error.code, f"{_OUTSIDE[error.code]}; nothing was given out: {remedy}")
    return response(error.code, str(error), wait=getattr(error, "wait", None), left=getattr(error, "left", None))
