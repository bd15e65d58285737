"""Processes that train one network together: each sends its gradient to the first, which sends back the sum.

Gradients are sent through pipes. They need no port and no host name, and both sides notice at once when a process ends.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pickle import PicklingError
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from postshift.exceptions import SettingError

Vector = npt.NDArray[np.float32]
Work = Callable[["Follower", Any], None]

GONE = (EOFError, ConnectionError)  # raised by a pipe when the other side has ended
SECONDS = 10.0  # timeout for a process to end


class Member:
    """One of the processes that train together; by default the only one."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    def part(self, rows: Any) -> Any:
        """Return this process's part of the rows of a batch."""
        return np.array_split(rows, self.size)[self.rank]

    def summed(self, vector: Vector) -> Vector:
        """Return the sum of the vectors of all processes."""
        return vector


class Follower(Member):
    """A process started by the leader."""

    def __init__(self, connection: Connection, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._connection = connection

    def summed(self, vector: Vector) -> Vector:
        """Send the vector to the leader and return the sum that comes back."""
        self._connection.send_bytes(vector.tobytes())
        return _received(self._connection)


class Leader(Member):
    """The calling process: it starts the others, sums their vectors, and ends them.

    ``size`` processes, including this one, train together. The others run ``work(follower, job)``.
    """

    def __init__(self, size: int, work: Work, job: Any) -> None:
        super().__init__(0, size)
        self._work, self._job = work, job
        self._started: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Self:
        """Start the other processes."""
        try:
            for rank in range(1, self.size):
                self._started.append(self._start(rank))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the other processes."""
        self._end()

    def summed(self, vector: Vector) -> Vector:
        """Add the vectors of the others in the order of their ranks, and send the sum to all."""
        total = vector.copy()
        for process, connection in self._started:
            try:
                total += _received(connection)
            except GONE as error:
                raise _died(process) from error
        for process, connection in self._started:
            try:
                connection.send_bytes(total.tobytes())
            except GONE as error:
                raise _died(process) from error
        return total

    def _start(self, rank: int) -> tuple[Any, Connection]:
        """Start one process."""
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that torch's threads hold
        mine, its = context.Pipe()
        follower = Follower(its, rank, self.size)
        process = context.Process(target=self._work, args=(follower, self._job), daemon=True)
        try:
            process.start()
        except GONE as error:
            mine.close()
            raise _died(process) from error
        except (PicklingError, AttributeError, TypeError) as error:
            mine.close()
            raise SettingError(
                f"the training cannot be sent to another process ({error}): with n_processes > 1 the network must "
                "be a name or a function of a module that can be imported, not a lambda or a local function"
            ) from error
        finally:
            its.close()
        return process, mine

    def _end(self) -> None:
        """Close the pipes and end the processes."""
        for process, connection in self._started:
            connection.close()
            process.terminate()
            process.join(SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._started = []


def _received(connection: Connection) -> Vector:
    """Return the next vector from a pipe."""
    return np.frombuffer(connection.recv_bytes(), dtype=np.float32)


def _died(process: Any) -> ChildProcessError:
    """Return the error for a process that has ended early."""
    if process.pid is not None:
        process.join(SECONDS)
    return ChildProcessError(
        f"a process that trained the network has ended (exit code {process.exitcode}); its own message is above. "
        "With n_processes > 1 a script needs the guard `if __name__ == '__main__':` around what it runs"
    )
