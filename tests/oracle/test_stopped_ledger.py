"""A ledger that stopped: what a learner may not see of it."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from postshift.exceptions import RemoteError
from postshift.oracle.client import RemoteMetric
from postshift.oracle.ledger import Ledger
from tests.oracle.loopback import serving
from tests.oracle.owned import holdings


def test_a_learner_does_not_see_whose_ledger_it_is(tmp_path):
    """The digest is of the labels: a learner who knows all other rows could confirm a guess of one with it."""
    held = holdings()
    ours, other = (tmp_path / name for name in ("ours.db", "other.db"))
    Ledger.create(other, about="other data", budget=10).close()
    with (
        serving(held, ours, tmp_path, mode="private", kinds=("table",), budget=10) as served,
        contextlib.closing(RemoteMetric(served.url, token=served.token, patience=1)) as metric,
    ):
        assert metric.about.n_rows == held.n_rows
        served.service.ledger.close()
        shutil.copy(other, ours)
        with pytest.raises(RemoteError, match="other_data") as refused:
            metric.budget()
    assert held.digest[:8] not in str(refused.value)
    assert str(tmp_path) not in str(refused.value)
