"""Run against the installed wheel in an environment with the required packages only: import, fit, save, load."""

from __future__ import annotations

import importlib.util
import tempfile
from importlib.metadata import files
from pathlib import Path

import numpy as np

import postshift
from postshift import Mixture, PostShifter, Rows, fw_eg
from postshift.metrics import GMean, HardOracle


def main() -> None:
    """Fit a small problem in two ways, and say so."""
    assert "site-packages" in postshift.__file__, postshift.__file__
    for absent in ("pandas", "matplotlib", "numba", "pytest"):
        assert importlib.util.find_spec(absent) is None, f"{absent} is installed here"
    assert any(str(file) == "postshift/py.typed" for file in files("postshift") or ())
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, size=3000)
    labels = (rng.random(3000) < p).astype(int)
    eta = np.column_stack([1 - p, p])
    train, val = (Rows.of(eta[rows], labels=labels[rows]) for rows in (slice(0, 2000), slice(2000, None)))
    fit = fw_eg(train, val, GMean(), max_iter=10)

    def g_mean(predicted: np.ndarray) -> float:
        truth = labels[2000:]
        return float(np.sqrt(np.mean(predicted[truth == 1] == 1) * np.mean(predicted[truth == 0] == 0)))

    blind = fw_eg(train, Rows.of(eta[2000:]), HardOracle(g_mean), radius=0.4, max_iter=10)
    base = g_mean(np.argmax(eta[2000:], axis=1))
    with tempfile.TemporaryDirectory() as folder:
        fit.mixture.save(Path(folder) / "rule.npz")
        labels_again = Mixture.load(Path(folder) / "rule.npz").predict(eta[2000:])
    assert g_mean(labels_again) > base + 0.05
    assert blind.score > base + 0.05
    found = g_mean(labels_again)
    shifter = PostShifter("g_mean").fit(eta[:2000], labels[:2000])
    assert g_mean(shifter.predict(eta[2000:])) > base + 0.05
    print(f"postshift {postshift.__version__}: G-mean {base:.3f} -> {found:.3f}, by labels only {blind.score:.3f}")


if __name__ == "__main__":
    main()
