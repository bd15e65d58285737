"""Prediction by a mixture of 100 plug-in classifiers, against the probe loop's."""

from __future__ import annotations

import numpy as np

from benchmarks.data import draw
from benchmarks.opponents import ProbeLoop
from benchmarks.timing import FailedError, Outcome, check_close, interleaved
from postshift import Mixture, Rows, fw_eg
from postshift.core.mixture import reduced
from postshift.engines.memory.mixture_votes import mixture_table
from postshift.metrics import GMean

N_MEMBERS = 100


def by_mixture(*, n: int, n_val: int, smaller: bool, m: int = 10, n_bases: int = 5, repeats: int = 3) -> Outcome:
    """Compare the labels of n rows; ``smaller`` reduces the mixture first, to the same confusion matrix."""
    val, rows = draw(n_val, m, n_bases=n_bases), draw(n, m, n_bases=n_bases, seed=1)
    mixture = fw_eg(val, val, GMean(), max_iter=N_MEMBERS).mixture
    if len(mixture.members) != N_MEMBERS:
        raise FailedError(f"the mixture has {len(mixture.members)} members, not {N_MEMBERS}")
    ours = reduced(mixture, val, keeps="diagonal") if smaller else mixture
    theirs = ProbeLoop(rows, radius=0.1)
    mixture_table(ours, rows.eta, rows.phi)  # compiles
    sides = {
        "theirs": lambda: theirs.predict(mixture),
        "ours": lambda: np.argmax(mixture_table(ours, rows.eta, rows.phi), axis=1),
    }
    least, _ = interleaved(sides, repeats=repeats)
    if smaller:
        # The linear program keeps its equations to 1e-7 of all rows.
        check_close("hits on the validation rows", _hits(ours, val), _hits(mixture, val), tolerance=1e-5)
    else:
        check_close("the distribution", mixture_table(ours, rows.eta, rows.phi), theirs.distribution(mixture))
    return Outcome(ours=least["ours"], theirs=least["theirs"], note=f"{len(ours.members)} members")


def _hits(mixture: Mixture, rows: Rows) -> np.ndarray:
    """Return the expected number of hits of each class."""
    table = mixture.distribution(rows.eta, rows.phi)
    own = table[np.arange(len(table)), rows.labels]
    return np.bincount(rows.labels, weights=own, minlength=rows.n_classes)
