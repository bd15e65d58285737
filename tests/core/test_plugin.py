"""Plug-in rules: coefficients and rows of the wrong shape; the inverse prior."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import PlugIn
from postshift.exceptions import ShapeError

ETA = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("alpha", "weighting"),
    [
        (np.ones((1, 1)), "diagonal"),
        (np.full((1, 3), np.nan), "diagonal"),
        (np.full((1, 3), 1e200), "diagonal"),  # scores would overflow
        (np.ones((1, 3)), "full"),
        (np.ones((0, 3)), "diagonal"),
    ],
)
def test_coefficients_that_are_no_rule(alpha, weighting):
    with pytest.raises(ShapeError, match="alpha must hold finite numbers"):
        PlugIn(weighting=weighting, alpha=alpha, n_classes=3)


def test_predicting_with_another_shape():
    rule = PlugIn(weighting="diagonal", alpha=np.ones((2, 2)), n_classes=2)
    with pytest.raises(ShapeError, match=r"shapes \(n, 2\) and \(n, 2\)"):
        rule.labels(ETA, np.ones((4, 1)))
