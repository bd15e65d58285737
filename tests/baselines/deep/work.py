"""What other processes are given to do; they import this module and need no torch for it."""

from __future__ import annotations

import os

import numpy as np


def add(follower, sums):
    """Send a vector for each sum that is to come back."""
    for step, total in enumerate(sums):
        found = follower.summed(np.full(3, 10.0**follower.rank + step, np.float32))
        assert np.array_equal(found, np.full(3, total, np.float32))


def end(follower, code):
    """End before anything is sent."""
    os._exit(code + follower.rank)
