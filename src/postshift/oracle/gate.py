"""The gate before the web application: it refuses what can be refused before a body is read.

A request must have a valid token, a body of JSON, and not too large a body; and it must not come too soon after too
many others. These limits are counted in memory, by each server for itself; budgets, and the answers that a token may
have in a minute, are in the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postshift.exceptions import OracleError, TokenError, TooFastError
from postshift.oracle.ledger import Ledger
from postshift.oracle.refusals import HEADERS, refusal, response_of
from postshift.oracle.tokens import Token

MEGABYTE = 1 << 20
LARGEST_BODY = 256 * MEGABYTE  # whatever the data are
MINUTE = 60.0
REQUESTS = 3000  # of a token in a minute, or REQUESTS_PER_ANSWER times its answers in a minute, if that is more
REQUESTS_PER_ANSWER = 5
FAILURES = 60  # wrong tokens from an address in a minute
_OPEN = "/v1/openapi.json"
_MOST_NAMES = 10_000


class Meter:
    """Counts events of names, for a minute each.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, tuple[float, int]] = {}

    def wait(self, name: str, most: int) -> float:
        """Return for how many seconds a name has to wait that may have so many events in a minute; mostly 0."""
        since, count = self._counts.get(name, (0.0, 0))
        return max(0.0, since + MINUTE - self._clock()) if count >= most else 0.0

    def count(self, name: str) -> None:
        """Count an event."""
        now = self._clock()
        since, count = self._counts.get(name, (now, 0))
        if now - since >= MINUTE:
            since, count = now, 0
        if len(self._counts) >= _MOST_NAMES and name not in self._counts:
            self._forget(now)
        self._counts[name] = since, count + 1

    def _forget(self, now: float) -> None:
        """Forget the names whose minute is over; all, if that is not enough."""
        self._counts = {name: each for name, each in self._counts.items() if now - each[0] < MINUTE}
        if len(self._counts) >= _MOST_NAMES:
            self._counts = {}


class Gate:
    """Checks requests before their bodies are read, and adds the headers that every response has.

    Parameters
    ----------
    app : ASGI application
        The application; it finds the token in the state of the request.
    ledger : Ledger
        Where the tokens are.
    most : int
        The largest body in bytes.
    requests, failures : int
        The most requests of a token, and wrong tokens from an address, in a minute.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        ledger: Ledger,
        most: int = LARGEST_BODY,
        requests: int = REQUESTS,
        failures: int = FAILURES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._ledger, self._most = app, ledger, most
        self._most_requests, self._most_failures = requests, failures
        self._requests, self._failures = Meter(clock), Meter(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        body = _Body(receive, headers, most=self._most)
        answering = _with_headers(send, body)
        try:
            if scope["path"].startswith("/v1/") and scope["path"] != _OPEN:
                scope.setdefault("state", {})["token"] = await self._token(scope, headers)
            body.check_declared()
            _check_content_type(scope, headers)
        except OracleError as error:
            await response_of(error)(scope, receive, answering)
            return
        await self._app(scope, body.receive, answering)

    async def _token(self, scope: Scope, headers: Headers) -> Token:
        """Return the token of a request; raise unless it is valid, and not used too often."""
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise refusal("no_token", "send a token: Authorization: Bearer TOKEN")
        token = await self._verified(secret.strip(), address=(scope.get("client") or ("unknown",))[0])
        if token.per_minute is not None:
            most = max(self._most_requests, REQUESTS_PER_ANSWER * token.per_minute)
            wait = self._requests.wait(token.id, most)
            if wait:
                raise TooFastError(
                    f"the token {token.id} may send {most} requests in a minute: wait {wait:.0f} seconds", wait=wait
                )
            self._requests.count(token.id)
        return token

    async def _verified(self, secret: str, *, address: str) -> Token:
        """Return the token with this secret. After many failures, an address gets no reason for the next one.

        A valid token is always let in: others may share the address, and nobody guesses 256 bits.
        """
        try:
            return await run_in_threadpool(self._ledger.verify, secret)
        except TokenError:
            wait = self._failures.wait(address, self._most_failures)
            if wait:
                raise TooFastError(
                    f"{self._most_failures} requests from this address had no valid token: wait {wait:.0f} seconds",
                    wait=wait,
                ) from None
            self._failures.count(address)
            raise


class _Body:
    """The body of a request, which is not read beyond its largest size."""

    def __init__(self, receive: Receive, headers: Headers, *, most: int) -> None:
        self._receive, self._most, self._read = receive, most, 0
        self._declared = headers.get("content-length", "0")
        self.is_read = self._declared == "0" and "transfer-encoding" not in headers

    def check_declared(self) -> None:
        """Raise if the declared size is too large."""
        if self._declared.isdigit() and int(self._declared[:20]) > self._most:
            raise refusal("body_too_large", self._text)

    async def receive(self) -> Message:
        """Return the next part; raise if the parts are too large together."""
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read > self._most:
            raise HTTPException(413, self._text)  # FastAPI hides every other error here
        self.is_read = self.is_read or not message.get("more_body", False)
        return message

    @property
    def _text(self) -> str:
        """The message."""
        return f"a body has at most {self._most / MEGABYTE:g} MB: send fewer classes or narrower numbers"


def _with_headers(send: Send, body: _Body) -> Send:
    """Return ``send`` that adds headers; a connection whose request was not read to its end is closed."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if not body.is_read:
                headers["Connection"] = "close"
        await send(message)

    return sending


def _check_content_type(scope: Scope, headers: Headers) -> None:
    """Raise if the body of a query is said to be something else than JSON."""
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] == "POST" and given != "application/json":
        raise refusal("wrong_content_type", "send the query as JSON, with Content-Type: application/json")


def token_of(state: Any, *scopes: str) -> Token:
    """Return the token that the gate let in; raise unless it has one of these scopes."""
    token: Token = state.token
    if token.scope not in scopes:
        raise refusal(
            "wrong_scope", f"this needs the token of {' or '.join(scopes)}, and this one is a {token.scope}'s"
        )
    return token
