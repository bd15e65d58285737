"""What the authors' own program answered on seven problems (tests/data/reference/README.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from postshift import MemoryEngine, Mixture, PlugIn, Rows, fw_eg_session
from postshift.core.weighting import DIAGONAL
from postshift.metrics import Accuracy, ConfusionOracle, GMean, MacroF1

FOLDER = Path(__file__).parents[1] / "data" / "reference"


class DiagonalPartOfF1(MacroF1):
    """The authors' linearisation of the F-measure: its gradient's diagonal."""

    def gradient(self, confusion):
        return np.diag(np.diag(MacroF1.gradient(self, confusion)))


METRICS = {"G-mean": GMean(), "F-measure": DiagonalPartOfF1(), "Accuracy": Accuracy()}


class Reference:
    def __init__(self, number):
        with np.load(FOLDER / f"fweg_{number:02d}.npz") as data:
            self.data = dict(data)
        self.n_classes = self.data["eta_train"].shape[1]
        self.train = self._sample("train")
        self.val = self._sample("val")
        self.metric = METRICS[self.data["metric"].item()]
        # The program divides by sum(phi_l), we by n.
        self.alphas = self.data["weights"] * (len(self.train.eta) / self.train.phi.sum(axis=0))[:, None]

    def _sample(self, part):
        return Rows.of(self.data[f"eta_{part}"], phi=self.data[f"phi_{part}"], labels=self.data[f"y_{part}"])

    def plugin(self, alpha):
        return PlugIn(weighting=DIAGONAL, alpha=alpha, n_classes=self.n_classes)

    def run(self, *, start, n_iter):
        run = fw_eg_session(
            MemoryEngine(self.train),
            self.val,
            kind="confusion",
            metric=self.metric,
            weighting="diagonal",
            start=start,
            radius=self.data["radius"].item(),
            max_iter=n_iter,
            linearise="gradient" if self.data["known_psi"] else "probes",
        )
        return run.run(ConfusionOracle(self.val.labels, n_classes=self.n_classes))

    def program_iterate(self, t):
        """The program's own h^t: its plug-ins with its own coefficients."""
        members, shares = [self.plugin(self.data["weights"][0])], np.ones(1)
        for s in range(t):
            members.append(self.plugin(self.data["weights"][s + 1]))
            shares = np.append((1 - 2 / (s + 2)) * shares, 2 / (s + 2))
        return Mixture.of(members, shares)

    def tolerance(self):
        return 1e-4 if self.data["radius"] < 0.01 else 5e-6


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_whole_run(number):
    """Coefficients to what the program's ridge of -1e-8 leaves, validation metrics to 1e-12, all ten iterations."""
    problem = Reference(number)
    run = problem.run(start=problem.program_iterate(0), n_iter=10)
    for ours, theirs in zip(run.vertices, problem.alphas[1:], strict=True):
        assert np.abs(ours.alpha - theirs).max() <= problem.tolerance() * np.abs(theirs).max()
    np.testing.assert_allclose([line.score for line in run.trace], problem.data["val_metric"], rtol=1e-12)


@pytest.mark.parametrize("number", range(1, 8))
def test_every_iteration_from_the_programs_own_iterate(number):
    """All seven: from the program's h^t, our next coefficients are the program's.

    In 06 the program's ridge tips one near-tied validation row in iteration 1, and in 07 (soft basis) its
    normalisation moves the argmax, so whole runs part; single steps do not.
    """
    problem = Reference(number)
    for t in range(10):
        start = problem.program_iterate(t)
        expected = problem.data["val_metric"][t]
        run = problem.run(start=start, n_iter=1)
        assert run.trace[0].score == pytest.approx(expected, rel=1e-12)
        theirs = problem.alphas[t + 1]
        assert np.abs(run.vertices[0].alpha - theirs).max() <= problem.tolerance() * np.abs(theirs).max()
