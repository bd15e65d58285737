"""What an owner holds, for the tests: 60 rows or more, two classes, two groups."""

from __future__ import annotations

import numpy as np

from postshift.oracle.holdings import Holdings


def holdings(n_rows=60, *, metric="group_g_mean", n_classes=2, n_groups=2, seed=0, **changes):
    """Return random holdings in which every (group, class) pair has rows."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(np.arange(n_rows) % (n_classes * n_groups))
    given = {
        "ids": [f"row{place}" for place in range(n_rows)],
        "classes": list(range(n_classes)),
        "labels": pairs % n_classes,
        "groups": pairs // n_classes,
        "group_names": [f"group{place}" for place in range(n_groups)],
        "released": "id\n" + "".join(f"row{place}\n" for place in range(n_rows)),
    }
    return Holdings(metric=metric, **{**given, **changes})


def distributions(n_rows, n_classes=2, *, seed=0):
    """Return random class distributions."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=n_rows)
