"""Queries that were answered lately: a body that comes again is answered without being read again.

The ledger has every answer, and is what counts: this only saves time. A body is recognised by its SHA-256, so the same
query in other words (other spaces, another type of number) is found in the ledger instead.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from postshift.oracle.gate import MEGABYTE, token_of
from postshift.oracle.tokens import Scope

_OVERHEAD = 300  # bytes that an entry needs beside its answer
Handler = Callable[[Request], Awaitable[Response]]


class Repeats:
    """Keeps the answers to the last bodies; it is used in one thread only.

    Parameters
    ----------
    most : int
        The memory for answers in bytes; the oldest are forgotten first.

    Examples
    --------
    >>> repeats = Repeats(most=1000)
    >>> repeats.keep(b"a query", b"42")
    >>> repeats.find(b"a query"), repeats.find(b"another")
    (b'42', None)
    """

    def __init__(self, most: int = 4 * MEGABYTE) -> None:
        self._most, self._size = most, 0
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()

    def find(self, body: bytes) -> bytes | None:
        """Return the answer to a body, or None."""
        digest = _digest(body)
        if digest in self._answers:
            self._answers.move_to_end(digest)
        return self._answers.get(digest)

    def keep(self, body: bytes, answer: bytes) -> None:
        """Keep the answer to a body."""
        digest = _digest(body)
        self._size -= _size(self._answers.pop(digest, None))
        self._answers[digest] = answer
        self._size += _size(answer)
        while self._size > self._most:
            self._size -= _size(self._answers.popitem(last=False)[1])


def route_of(repeats: Repeats, *scopes: Scope) -> type[APIRoute]:
    """Return a kind of route that answers what ``repeats`` has, to tokens of these scopes."""

    class Route(APIRoute):
        """A route that looks at the body before FastAPI reads it."""

        def get_route_handler(self) -> Any:
            """Return the handler of a request."""
            read: Handler = super().get_route_handler()

            async def handle(request: Request) -> Response:
                token_of(request.state, *scopes)
                try:
                    found = repeats.find(await request.body())
                except ClientDisconnect:
                    found = None
                return await read(request) if found is None else Response(found, media_type="application/json")

            return handle

    return Route


def _digest(body: bytes) -> bytes:
    """Return the digest of a body."""
    return hashlib.sha256(body).digest()


def _size(answer: bytes | None) -> int:
    """Return the memory of an entry in bytes."""
    return 0 if answer is None else len(answer) + _OVERHEAD
