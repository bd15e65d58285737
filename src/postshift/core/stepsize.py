"""The step rules of the Frank-Wolfe loop."""

from __future__ import annotations


def harmonic(iteration: int) -> float:
    """Return ``2 / (t + 2)`` for iteration t = 0, 1, ...

    Algorithm 3 prints ``2 / (t + 1)``, which is 2 at t = 0: not a classifier. The first step here is 1,
    so the start has no share in the result.

    Examples
    --------
    >>> [harmonic(t) for t in range(3)]
    [1.0, 0.6666666666666666, 0.5]
    """
    return 2 / (iteration + 2)


def cautious(iteration: int) -> float:
    """Return ``2 / (t + 3)``: the start keeps a share, so that no class loses its recall at a stroke.

    Examples
    --------
    >>> [cautious(t) for t in range(2)]
    [0.6666666666666666, 0.5]
    """
    return 2 / (iteration + 3)
