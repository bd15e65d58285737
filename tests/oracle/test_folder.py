"""The owner's folder: what is written comes back, and what was damaged or changed is refused."""

from __future__ import annotations

import contextlib
import json
import stat

import numpy as np
import pytest

from postshift.exceptions import ArchiveError, LedgerError, OtherDataError, PostshiftWarning, SettingError
from postshift.metrics import from_labels
from postshift.oracle.folder import LEDGER, OWNER, RELEASED, ROWS, WATERMARK, OwnerFolder, OwnersMetric, check_database
from postshift.oracle.service import Terms
from tests.oracle.owned import holdings

METRIC = OwnersMetric(text="group_g_mean", kind="name")


def terms(**changes):
    return Terms(**{"mode": "trusted", "kinds": ("value",), "budget": 10, **changes})


def write(path, *, held=None, metric=METRIC, **more):
    return OwnerFolder.create(path, holdings() if held is None else held, more.pop("terms", terms()), metric, **more)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "owner")


def change(folder, **changes):
    """Change owner.json."""
    file = folder.path / OWNER
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def names(path):
    return {file.name for file in path.iterdir() if not file.name.startswith((".", f"{LEDGER}-"))}


class TestCreate:
    def test_what_is_written_comes_back(self, tmp_path):
        held = holdings(n_classes=3, metadata={"amount": np.linspace(0, 1, 60), "place": np.array(["a", "b"] * 30)})
        made = write(tmp_path / "owner", held=held, terms=terms(title='Ärzte, "quoted"', kinds=("value", "confusion")))
        found = OwnerFolder.open(tmp_path / "owner")
        assert found == made
        again = found.holdings("group_g_mean")
        assert again.digest == held.digest == found.about
        assert (list(again.ids), again.released, list(again.classes)) == (held.ids, held.released, held.classes)
        np.testing.assert_array_equal(again.labels, held.labels)
        np.testing.assert_array_equal(again.metadata["place"], held.metadata["place"])

    def test_its_files(self, tmp_path):
        metric = OwnersMetric(text="my.py:f", kind="file", copy="metric.py", digest="abc")
        write(tmp_path / "owner", metric=metric, copy=b"def f(): ...")
        assert names(tmp_path / "owner") == {OWNER, ROWS, RELEASED, LEDGER, WATERMARK, "metric.py"}
        assert (tmp_path / "owner" / "metric.py").read_bytes() == b"def f(): ..."

    def test_only_its_owner_can_read_it(self, tmp_path):
        (tmp_path / "owner").mkdir(mode=0o755)
        write(tmp_path / "owner")
        assert stat.S_IMODE((tmp_path / "owner").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "owner" / LEDGER).stat().st_mode) == 0o600

    def test_the_ledger_has_the_budget(self, folder):
        with contextlib.closing(folder.ledger()) as ledger:
            assert (ledger.budget().total, ledger.budget().spent) == (10, 0)

    @pytest.mark.parametrize("name", ["a file", ".hidden"])
    def test_a_folder_that_is_not_empty_stays_as_it_is(self, tmp_path, name):
        (tmp_path / name).write_text("mine")
        with pytest.raises(SettingError, match="is not empty: name a new folder"):
            write(tmp_path)
        assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "mine")]

    def test_a_path_that_is_a_file(self, tmp_path):
        (tmp_path / "rows.csv").touch()
        with pytest.raises(SettingError, match="is a file: name a new folder"):
            write(tmp_path / "rows.csv")

    def test_a_symbolic_link_to_a_folder(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        write(tmp_path / "link")
        assert OwnerFolder.open(tmp_path / "real").terms == terms()
        with pytest.raises(SettingError, match="is not empty"):
            write(tmp_path / "link")

    def test_terms_that_cannot_be_used_write_nothing(self, tmp_path):
        with pytest.raises(SettingError, match="budget"):
            write(tmp_path / "owner", terms=terms(budget=0))
        assert not (tmp_path / "owner").exists()

    def test_no_labels_stay_behind_if_it_cannot_be_completed(self, tmp_path):
        pytest.importorskip("psycopg")
        with pytest.raises(LedgerError, match="cannot be used now"):
            write(tmp_path / "owner", database="postgresql://nobody@127.0.0.1:1/none")
        assert list((tmp_path / "owner").iterdir()) == []
        write(tmp_path / "owner")  # the same name can be used

    def test_values_that_cannot_be_stored_leave_nothing_behind(self, tmp_path):
        with pytest.raises(ValueError, match="Object arrays"):
            write(tmp_path / "owner", held=holdings(metadata={"place": np.array(["a", 1] * 30, dtype=object)}))
        assert list((tmp_path / "owner").iterdir()) == []


class TestOpen:
    def test_a_folder_of_something_else(self, tmp_path):
        for path in (tmp_path, tmp_path / "missing"):
            with pytest.raises(ArchiveError, match=r"is not a folder of postshift oracle init: it has no owner\.json"):
                OwnerFolder.open(path)
        (tmp_path / "file").touch()
        with pytest.raises(ArchiveError, match="is not a folder of postshift oracle init"):
            OwnerFolder.open(tmp_path / "file")

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"\0" * 50])
    def test_an_owner_file_that_is_damaged(self, folder, content):
        (folder.path / OWNER).write_bytes(content)
        with pytest.raises(ArchiveError, match=r"owner\.json is damaged: restore it from a copy"):
            OwnerFolder.open(folder.path)

    def test_an_owner_file_that_was_cut_short(self, folder):
        content = (folder.path / OWNER).read_bytes()
        for length in range(0, len(content), 50):
            (folder.path / OWNER).write_bytes(content[:length])
            with pytest.raises(ArchiveError, match="is damaged"):
                OwnerFolder.open(folder.path)

    @pytest.mark.parametrize("version", [2, "1", None])
    def test_a_folder_of_a_newer_version(self, folder, version):
        change(folder, format=version)
        with pytest.raises(
            ArchiveError, match=rf"has format {version!r}; this version of postshift reads format 1: use"
        ):
            OwnerFolder.open(folder.path)

    @pytest.mark.parametrize("content", ["[]", "1", "null", '"text"', "{}"])
    def test_json_of_another_kind(self, folder, content):
        (folder.path / OWNER).write_text(content)
        with pytest.raises(ArchiveError, match="has format None"):
            OwnerFolder.open(folder.path)

    @pytest.mark.parametrize(
        "changes",
        [
            {"terms": None},
            {"terms": {"kinds": 3}},
            {"terms": {"mode": "private", "kinds": ["value"], "budget": 1, "more": 1}},
            {"metric": "g_mean"},
            {"metric": {"text": "g_mean"}},
            {"classes": 2},
            {"groups": None},
        ],
    )
    def test_parts_that_do_not_fit_together(self, folder, changes):
        change(folder, **changes)
        with pytest.raises(ArchiveError, match="its parts do not fit together"):
            OwnerFolder.open(folder.path)


class TestHoldings:
    @pytest.mark.parametrize("name", [ROWS, RELEASED])
    def test_a_file_that_is_missing(self, folder, name):
        (folder.path / name).unlink()
        with pytest.raises(ArchiveError, match=f"{name} is missing: restore it from a copy"):
            folder.holdings("group_g_mean")

    @pytest.mark.parametrize("how", ["cut short", "a changed byte", "empty", "text"])
    def test_rows_that_are_damaged(self, folder, how):
        file = folder.path / ROWS
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        new = {"cut short": content[:-100], "a changed byte": content, "empty": b"", "text": b"id,label\n1,0\n"}[how]
        file.write_bytes(new)
        with pytest.raises(ArchiveError, match=r"rows\.npz"):
            folder.holdings("group_g_mean")

    def test_rows_that_would_be_unpickled(self, folder):
        with (folder.path / ROWS).open("wb") as stream:
            np.savez(stream, header=np.array("{}"), labels=np.array([print], dtype=object))
        with pytest.raises(ArchiveError, match="is not a postshift oracle rows file"):
            folder.holdings("group_g_mean")

    def test_rows_of_another_folder(self, folder, tmp_path):
        held = holdings()
        other = write(tmp_path / "other", held=holdings(labels=1 - held.labels))
        (other.path / ROWS).replace(folder.path / ROWS)
        with pytest.raises(ArchiveError, match="were changed, but its ledger belongs to the old ones"):
            folder.holdings("group_g_mean")

    def test_another_metric(self, folder):
        with pytest.raises(ArchiveError, match=r"the rows or the metric in .* were changed"):
            folder.holdings("worst_group_accuracy")

    def test_classes_that_were_removed(self, folder):
        change(folder, classes=[0])
        with pytest.raises(ArchiveError, match="was changed after it was written: the number of classes"):
            OwnerFolder.open(folder.path).holdings("group_g_mean")


class TestLedger:
    def test_the_ledger_of_another_folder(self, folder, tmp_path):
        held = holdings()
        other = write(tmp_path / "other", held=holdings(labels=1 - held.labels))
        for name in (LEDGER, WATERMARK):
            (other.path / name).replace(folder.path / name)
        with pytest.raises(OtherDataError, match="is the ledger of other data"):
            folder.ledger()

    def test_a_watermark_that_is_missing(self, folder):
        (folder.path / WATERMARK).unlink()
        with pytest.warns(PostshiftWarning, match=r"watermark\.json is missing, so an older copy"):
            folder.ledger().close()

    def test_a_ledger_that_is_missing(self, folder):
        (folder.path / LEDGER).unlink()
        with pytest.raises(LedgerError, match="there is no ledger"):
            folder.ledger()

    def test_the_service_answers_from_the_folder(self, folder):
        service = folder.service("group_g_mean")
        with contextlib.closing(service.ledger):
            assert (service.about["rows"], service.about["groups"]) == (60, ["group0", "group1"])
            assert service.budget()["left"] == 10

    def test_a_function_of_rows(self, tmp_path):
        def profit(y_true, y_pred, amount):
            return float(((y_true == y_pred) * amount).mean())

        held = holdings(metric=from_labels(profit), metadata={"amount": np.ones(60)})
        made = write(tmp_path / "owner", held=held)
        assert made.holdings(from_labels(profit)).digest == held.digest


class TestDatabase:
    @pytest.mark.parametrize("url", [None, "postgresql://ann@host/name", "postgresql+psycopg://host:5432/name"])
    def test_urls_that_can_be_used(self, url):
        check_database(url)

    @pytest.mark.parametrize("url", ["mysql://ann@host/name", "ledger.db", "sqlite:///x", ""])
    def test_urls_of_another_kind(self, url):
        with pytest.raises(SettingError, match=r"the database must be a URL postgresql://USER@HOST/NAME. Got"):
            check_database(url)

    @pytest.mark.parametrize("url", ["postgresql://ann:{}@host/name", "postgresql://host/name?user=ann&password={}"])
    def test_a_password_is_refused_and_not_shown(self, url):
        with pytest.raises(SettingError, match="has a password: leave it out, and set PGPASSWORD") as refused:
            check_database(url.format("tell-nobody"))
        assert "tell-nobody" not in str(refused.value)

    @pytest.mark.parametrize("name", ["who?", "a%20b", "a b#c"])
    def test_the_ledger_is_in_the_folder_whatever_its_name(self, tmp_path, name):
        write(tmp_path / name)
        with OwnerFolder.open(tmp_path / name).ledger() as ledger:
            assert ledger.budget().total == 10
        assert (tmp_path / name / LEDGER).exists()
        assert [path.name for path in tmp_path.iterdir()] == [name]

    def test_the_url_of_the_folder(self, folder):
        assert folder.url == folder.path / LEDGER


TERMS = Terms(mode="private", kinds=("table",), budget=1000, title="loans")


NAME = OwnersMetric(text="group_g_mean", kind="name")


@pytest.fixture
def kept(tmp_path):
    return OwnerFolder.create(tmp_path / "labels", holdings(), TERMS, NAME)


def changed(kept, **changes):
    """Write other content into ``owner.json``, and open the kept."""
    content = json.loads((kept.path / "owner.json").read_text())
    (kept.path / "owner.json").write_text(json.dumps({**content, **changes}))
    return OwnerFolder.open(kept.path)


def test_it_comes_back(kept):
    found = OwnerFolder.open(kept.path)
    assert found == kept
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o700
    again, held = found.holdings("group_g_mean"), holdings()
    assert again.digest == held.digest
    np.testing.assert_array_equal(again.labels, held.labels)
    service = found.service("group_g_mean")
    assert service.about["title"] == "loans"
    service.ledger.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, "use the version that wrote it"),
        ({"terms": {"mode": "private"}}, "owner.json"),
        ({"metric": {"text": "a", "kind": "file", "copy": "../metric.py", "digest": "x"}}, "outside of the folder"),
        ({"metric": {"text": "a", "kind": "file", "copy": "/etc/passwd", "digest": "x"}}, "outside of the folder"),
        ({"classes": 3}, "owner.json"),
    ],
)
def test_another_owner_json(kept, changes, words):
    with pytest.raises(ArchiveError, match=words):
        changed(kept, **changes)


@pytest.mark.parametrize("url", ["sqlite:////tmp/elsewhere.db", "postgresql://ann:secret@host/name"])
def test_another_database(kept, url):
    with pytest.raises((SettingError, ArchiveError)) as refused:
        changed(kept, database=url)
    assert "secret" not in str(refused.value)


def test_a_lower_budget_in_owner_json_is_not_the_budget(kept):
    """The ledger has the budget: a text cannot raise it."""
    found = changed(kept, terms={"mode": "private", "kinds": ["table"], "budget": 10**9, "title": "a", "delta": 1e-5})
    service = found.service("group_g_mean")
    assert service.budget()["total"] == 1000
    service.ledger.close()


def test_other_rows_or_another_metric_do_not_belong_to_the_ledger(kept):
    with pytest.raises(ArchiveError, match="were changed, but its ledger belongs to the old ones"):
        kept.holdings("worst_group_accuracy")
    other = OwnerFolder.create(kept.path.parent / "other", holdings(seed=5), TERMS, NAME)
    (kept.path / "rows.npz").write_bytes((other.path / "rows.npz").read_bytes())
    with pytest.raises(ArchiveError, match="were changed"):
        kept.holdings("group_g_mean")


def test_pickles_are_not_read(kept):
    np.savez(kept.path / "rows.npz", ids=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ArchiveError):
        kept.holdings("group_g_mean")


def test_nothing_is_written_over(kept):
    with pytest.raises(SettingError, match="is not empty"):
        OwnerFolder.create(kept.path, holdings(), TERMS, NAME)


def test_a_missing_watermark_is_a_warning(kept):
    (kept.path / "watermark.json").unlink()
    with pytest.warns(PostshiftWarning, match="an older copy of the ledger would not be recognised"):
        kept.ledger().close()


def test_a_missing_ledger(kept):
    (kept.path / "ledger.db").unlink()
    with pytest.raises(LedgerError, match="there is no ledger"):
        kept.ledger()


def test_rows_that_are_sorted_are_refused_in_private_mode(tmp_path):
    held = holdings(labels=np.arange(60) // 30, groups=np.arange(60) % 2)
    with pytest.raises(SettingError, match="sorted by label"):
        OwnerFolder.create(tmp_path / "labels", held, TERMS, NAME)
    assert not (tmp_path / "labels").exists()
