"""A proxy on loopback that loses answers: the service has answered, and the connection breaks."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class Dropping:
    """Passes bytes on in both directions; every so many-th answer to a POST is read and thrown away."""

    def __init__(self, target, *, every):
        self._target, self._every = target, every
        self._lock, self.n_posts, self.n_dropped = threading.Lock(), 0, 0
        self._place = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._place.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self):
        self._place.shutdown(socket.SHUT_RDWR)
        self._place.close()
        self._thread.join(timeout=30)

    def _accept(self):
        while True:
            try:
                client, _ = self._place.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        """Serve one connection; its requests come one after the other."""
        with client, socket.create_connection(self._target) as server:
            state = {"drops": False}
            up = threading.Thread(target=self._upwards, args=(client, server, state), daemon=True)
            up.start()
            with contextlib.suppress(OSError):
                while found := server.recv(1 << 16):
                    if state["drops"]:  # the service has answered
                        self.n_dropped += 1
                        break
                    client.sendall(found)
            for place in (client, server):
                with contextlib.suppress(OSError):
                    place.shutdown(socket.SHUT_RDWR)
            up.join()

    def _upwards(self, client, server, state):
        """Pass on what the client sends, and see which answers are to be lost."""
        with contextlib.suppress(OSError):
            while found := client.recv(1 << 16):
                if found.startswith(b"POST "):
                    with self._lock:
                        self.n_posts += 1
                        state["drops"] = self.n_posts % self._every == 0
                server.sendall(found)
            server.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def dropping(url, *, every):
    """Yield a proxy in front of a server."""
    target = urlsplit(url)
    proxy = Dropping((target.hostname, target.port), every=every)
    with contextlib.closing(proxy):
        yield proxy
