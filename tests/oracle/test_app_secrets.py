"""What a response must not show."""

from __future__ import annotations

import shutil

import pytest

from postshift.oracle.ledger import Ledger
from postshift.oracle.service import Service, Terms
from tests.oracle.owned import holdings

testclient = pytest.importorskip("fastapi.testclient", reason="the web application needs the extra oracle")


def test_a_learner_does_not_see_why_the_ledger_stopped(tmp_path):
    """The reason has a digest of the labels, with which a learner who knows all other rows could confirm a guess."""
    from postshift.oracle.app import create_app

    held = holdings()
    ours, other = (tmp_path / name for name in ("ours.db", "other.db"))
    Ledger.create(other, about="other data", budget=10).close()
    ledger = Ledger.create(ours, about=held.digest, budget=10)
    _, secret = ledger.create_token("a learner", scope="learner")
    service = Service(held, Terms(mode="private", kinds=("table",), budget=10), ledger)
    with testclient.TestClient(create_app(service)) as learner:
        about = {"url": "/v1/about", "headers": {"Authorization": f"Bearer {secret}"}}
        assert learner.get(**about).status_code == 200
        ledger.close()
        shutil.copy(other, ours)
        refused = learner.get(**about)
    ledger.close()
    assert refused.status_code == 423
    assert refused.json()["error"]["code"] == "other_data"
    for secret_text in (held.digest[:8], str(tmp_path)):
        assert secret_text not in refused.text
