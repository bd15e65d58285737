"""The web server: uvicorn, with the settings that the service needs."""

from __future__ import annotations

from pathlib import Path

import uvicorn
from starlette.types import ASGIApp


def server_of(
    app: ASGIApp, *, certificate: Path | None = None, key: Path | None = None, behind_proxy: bool = False
) -> uvicorn.Server:
    """Return the web server; ``run(sockets=[...])`` serves until it is stopped.

    Parameters
    ----------
    app : ASGI application
        The web application (:func:`postshift.oracle.app.create_app`).
    certificate, key : path, optional
        The files of the TLS certificate and of its private key.
    behind_proxy : bool
        Whether a proxy on this machine says who asks (``X-Forwarded-For``).
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=behind_proxy,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)
