"""Random problems: a noisy training sample and a clean validation sample over hard, overlapping or soft bases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from postshift import Rows
from postshift.core.frank_wolfe import Newest
from tests.paper.transcription import Rows as PlainRows

BASES = ("hard", "overlapping", "soft")


@dataclass(frozen=True)
class Problem:
    train: Rows
    val: Rows
    radius: float

    @property
    def n_classes(self) -> int:
        return self.train.n_classes


@st.composite
def problems(draw, *, bases=BASES, max_classes=6, max_bases=5, min_radius=0.01):
    return make_problem(
        seed=draw(st.integers(0, 10**6)),
        n_classes=draw(st.integers(2, max_classes)),
        n_bases=draw(st.integers(1, max_bases)),
        basis=draw(st.sampled_from(bases)),
        weighted=draw(st.booleans()),
        radius=draw(st.sampled_from([r for r in (0.01, 0.1, 0.4, 1.0) if r >= min_radius])),
    )


def make_problem(
    *, seed, n_classes=3, n_bases=2, basis="hard", weighted=False, radius=0.1, n_train=90, n_val=60
) -> Problem:
    rng = np.random.default_rng(seed)
    kind = {"n_bases": n_bases, "basis": basis, "weighted": weighted}
    train = _sample(rng, n_train, n_classes, **kind, noise=0.3)
    val = _sample(rng, n_val, n_classes, **kind, noise=0.0)
    return Problem(train=train, val=val, radius=radius)


def newest_of(table) -> Newest:
    """The start of a run that gives this table on the validation rows."""

    class Tabulated:
        def distribution(self, eta, phi):  # noqa: ARG002
            return table

    return Newest(iteration=0, classifier=Tabulated(), step=1.0, last=False)


def rows_of(sample: Rows) -> PlainRows:
    """The same sample for the transcription."""
    return PlainRows(sample.eta, sample.phi, sample.labels, sample.row_weights)


def _sample(rng, n, n_classes, *, n_bases, basis, weighted, noise) -> Rows:
    eta = rng.dirichlet(np.ones(n_classes), size=n)
    labels = np.array([rng.choice(n_classes, p=row) for row in eta])
    labels[: 2 * n_classes] = np.arange(2 * n_classes) % n_classes  # every class occurs
    flipped = rng.random(n) < noise
    flipped[: 2 * n_classes] = False
    labels[flipped] = rng.integers(n_classes, size=int(flipped.sum()))
    weights = rng.integers(1, 4, size=n).astype(float) if weighted else None
    return Rows.of(eta, phi=_basis(rng, n, n_bases, basis), labels=labels, weights=weights)


def _basis(rng, n, n_bases, basis):
    if basis == "hard":
        group = rng.integers(n_bases, size=n)
        group[:n_bases] = np.arange(n_bases)
        return np.eye(n_bases)[group]
    if basis == "overlapping":
        phi = (rng.random((n, n_bases)) < 0.5).astype(float)
        phi[:, 0] = 1
        return phi
    return rng.uniform(0.05, 1, size=(n, n_bases))
