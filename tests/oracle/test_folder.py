"""The owner's folder: what is written, and files that were changed."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest

from postshift.exceptions import ArchiveError, LedgerError, PostshiftWarning, SettingError
from postshift.oracle.folder import MetricText, OwnerFolder
from postshift.oracle.service import Terms
from tests.oracle.owned import holdings

TERMS = Terms(mode="private", kinds=("table",), budget=1000, title="loans")
NAME = MetricText(text="group_g_mean", kind="name")


@pytest.fixture
def folder(tmp_path):
    return OwnerFolder.create(tmp_path / "labels", holdings(), TERMS, NAME)


def changed(folder, **changes):
    """Write other content into ``owner.json``, and open the folder."""
    content = json.loads((folder.path / "owner.json").read_text())
    (folder.path / "owner.json").write_text(json.dumps({**content, **changes}))
    return OwnerFolder.open(folder.path)


def test_it_comes_back(folder):
    found = OwnerFolder.open(folder.path)
    assert found == folder
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    again, held = found.holdings("group_g_mean"), holdings()
    assert again.digest == held.digest
    np.testing.assert_array_equal(again.labels, held.labels)
    service = found.service("group_g_mean")
    assert service.about["title"] == "loans"
    service.ledger.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, "not written by this version"),
        ({"terms": {"mode": "private"}}, "owner.json"),
        ({"metric": {"text": "a", "kind": "file", "copy": "../metric.py", "digest": "x"}}, "outside of the folder"),
        ({"metric": {"text": "a", "kind": "file", "copy": "/etc/passwd", "digest": "x"}}, "outside of the folder"),
        ({"classes": 3}, "owner.json"),
    ],
)
def test_another_owner_json(folder, changes, words):
    with pytest.raises(ArchiveError, match=words):
        changed(folder, **changes)


@pytest.mark.parametrize("url", ["sqlite:////tmp/elsewhere.db", "postgresql://ann:secret@host/name"])
def test_another_database(folder, url):
    with pytest.raises((SettingError, ArchiveError)) as refused:
        changed(folder, database=url)
    assert "secret" not in str(refused.value)


def test_a_lower_budget_in_owner_json_is_not_the_budget(folder):
    """The ledger has the budget: a text cannot raise it."""
    found = changed(folder, terms={"mode": "private", "kinds": ["table"], "budget": 10**9, "title": "a", "delta": 1e-5})
    service = found.service("group_g_mean")
    assert service.budget()["total"] == 1000
    service.ledger.close()


def test_other_rows_or_another_metric_do_not_belong_to_the_ledger(folder):
    with pytest.raises(ArchiveError, match="were changed, but its ledger belongs to the old ones"):
        folder.holdings("worst_group_accuracy")
    other = OwnerFolder.create(folder.path.parent / "other", holdings(seed=5), TERMS, NAME)
    (folder.path / "rows.npz").write_bytes((other.path / "rows.npz").read_bytes())
    with pytest.raises(ArchiveError, match="were changed"):
        folder.holdings("group_g_mean")


def test_pickles_are_not_read(folder):
    np.savez(folder.path / "rows.npz", ids=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ArchiveError):
        folder.holdings("group_g_mean")


def test_nothing_is_written_over(folder):
    with pytest.raises(SettingError, match="is not empty"):
        OwnerFolder.create(folder.path, holdings(), TERMS, NAME)


def test_a_missing_watermark_is_a_warning(folder):
    (folder.path / "watermark.json").unlink()
    with pytest.warns(PostshiftWarning, match="an older copy of the ledger would not be recognised"):
        folder.ledger().close()


def test_a_missing_ledger(folder):
    (folder.path / "ledger.db").unlink()
    with pytest.raises(LedgerError, match="there is no ledger"):
        folder.ledger()


def test_rows_that_are_sorted_are_refused_in_private_mode(tmp_path):
    held = holdings(labels=np.arange(60) // 30, groups=np.arange(60) % 2)
    with pytest.raises(SettingError, match="sorted by label"):
        OwnerFolder.create(tmp_path / "labels", held, TERMS, NAME)
    assert not (tmp_path / "labels").exists()
