"""What a command does to the machine: code that it runs, files outside of its folder that it opens."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

# Events of https://docs.python.org/3/library/audit_events.html that start something.
STARTS = frozenset((
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "pickle.find_class",
    "pty.spawn", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "urllib.Request", "webbrowser.open",
))  # fmt: skip
CHANGES = frozenset(("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"))
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What was seen of forbidden things.

    Parameters
    ----------
    inside : Path
        The only folder in which files may be written or removed; no code in it may be run.
    secret : Path
        A folder of which no file may be opened.
    """

    def __init__(self, inside, secret):
        self.inside, self.secret = str(inside), str(secret)
        self.seen = []

    def look(self, event, arguments):
        """Note an event that must not be."""
        if event in ("exec", "compile"):
            name = getattr(arguments[0], "co_filename", arguments[-1])
            forbidden = isinstance(name, str) and (self.inside in name or self.secret in name)
        elif event == "open":
            forbidden = self._opens(*arguments)
        elif event in CHANGES:
            forbidden = any(self._is_elsewhere(each) for each in arguments[:2])
        else:
            forbidden = event in STARTS
        if forbidden:
            self.seen.append((event, arguments))

    def _opens(self, path, mode, flags):
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        writes = bool(flags & _WRITING) if mode is None else any(letter in mode for letter in "wax+")
        return os.path.realpath(os.fsdecode(path)).startswith(self.secret) or (writes and self._is_elsewhere(path))

    def _is_elsewhere(self, path):
        if not isinstance(path, str | bytes | os.PathLike):
            return False  # a number: a file that was opened before
        place = str(Path(os.fsdecode(path)).absolute())
        return not (place.startswith((self.inside, "/dev/")) or "__pycache__" in place)


_ACTIVE: list[Watch] = []


def _hook(event, arguments):
    for watch in tuple(_ACTIVE):
        watch.look(event, arguments)


sys.addaudithook(_hook)  # for good: Python has no way to remove one


@contextlib.contextmanager
def watched(inside, secret, *, allowed=()):
    """Assert that nothing forbidden happens, and that the state of the process stays as it is.

    ``allowed`` are the programs that the user of the command names.
    """
    watch = Watch(inside, secret)
    before = os.getcwd(), list(warnings.filters), tempfile.tempdir  # noqa: PTH109
    tempfile.tempdir = str(inside)
    _ACTIVE.append(watch)
    try:
        yield
    finally:
        _ACTIVE.remove(watch)
        tempfile.tempdir = before[2]
    seen = [each for each in watch.seen if not _is_allowed(each, allowed)]
    assert not seen, seen
    assert (os.getcwd(), list(warnings.filters)) == before[:2]  # noqa: PTH109


def _is_allowed(seen, programs):
    """Whether an event is the start of a program of the user's."""
    event, arguments = seen
    return event in ("subprocess.Popen", "os.posix_spawn", "os.fork") and str(arguments[0]) in programs
