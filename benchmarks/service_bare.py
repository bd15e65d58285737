"""The server to compare with: one FastAPI endpoint that parses a query as the service does, and does nothing else."""

from __future__ import annotations

import socket
import sys

from fastapi import FastAPI

from postshift.oracle.app import Asked
from postshift.oracle.server import server_of

app = FastAPI()


@app.post("/v1/answers")
async def answers(asked: Asked) -> dict[str, str]:
    """Return the kind of a query."""
    return {"kind": asked.kind}


def main(port: int) -> None:
    """Serve on this machine until the process is stopped."""
    with socket.socket(proto=socket.IPPROTO_TCP) as place:  # with it, asyncio sends without delay
        place.bind(("127.0.0.1", port))
        server_of(app).run(sockets=[place])


if __name__ == "__main__":
    main(int(sys.argv[1]))
