"""Databases: settings, full disks, damaged files, and files that are taken away."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys

import pytest

from postshift.exceptions import DamagedLedgerError, LedgerError, SettingError
from postshift.oracle.database import Database
from tests.oracle.ledgers import ask, create, learner, problems, reopen
from tests.oracle.servers import ROOT, environment, make_service, serving
from tests.oracle.trouble import answers, copied, small_disk

PAGE = 4096  # bytes


class TestSettings:
    def test_what_is_committed_is_on_disk(self, sqlite_url, tmp_path):
        create(sqlite_url, tmp_path).close()
        database = Database(sqlite_url)
        with database.reading() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
            }
        database.close()
        assert found == {"journal_mode": "wal", "synchronous": 2}

    def test_only_the_owner_can_read_the_file(self, sqlite_url, tmp_path):
        with create(sqlite_url, tmp_path) as ledger:
            ask(ledger, "a", learner(ledger))
            assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("ledger.db*")} == {"0o600"}

    @pytest.mark.parametrize(
        "url", ["mysql://host/name", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=1", "://"]
    )
    def test_an_address_that_cannot_be_used(self, url):
        with pytest.raises(SettingError, match="ledger"):
            Database(url)

    def test_a_password_is_not_shown(self):
        pytest.importorskip("psycopg")
        shown = str(Database("postgresql://ann:secret@nowhere.invalid/name"))
        assert "secret" not in shown
        assert "ann" in shown

    def test_a_server_that_is_away(self):
        pytest.importorskip("psycopg")
        with pytest.raises(LedgerError, match="cannot be used now"), Database("postgresql://u@127.0.0.1:1/x").reading():
            pass

    def test_a_folder_that_cannot_be_written(self, tmp_path):
        with pytest.raises(LedgerError, match="cannot be created"):
            create(f"sqlite:///{tmp_path / 'missing' / 'ledger.db'}", tmp_path)

    def test_a_reader_cannot_write(self, url, tmp_path):
        create(url, tmp_path).close()
        database = Database(url)
        if database.kind == "postgresql":
            with pytest.raises(LedgerError), database.reading() as connection:
                connection.exec_driver_sql("CREATE TABLE x (y int)")
        database.close()


class TestFullDisk:
    def test_a_full_disk_is_a_refusal_and_nothing_is_lost_or_given_twice(self, tmp_path):
        with small_disk(tmp_path / "disk", kilobytes=2000) as folder:
            service = make_service(f"sqlite:///{folder / 'ledger.db'}", folder, budget=1000)
            with serving(service) as running, running.client() as client:
                first = answers(client, range(20))
                filler = folder / "filler"
                filler.write_bytes(b"\0" * shutil.disk_usage(folder).free)
                while_full = answers(client, range(60))
                charged = running.spent()
                assert while_full[:20] == first  # these are stored
                assert "ledger" in while_full
                given = {seed: each for seed, each in enumerate(while_full) if each != "ledger"}
                assert charged >= len(given)  # an answer may be charged and stored, and refused: then it is free later
                assert charged <= len(given) + 1
                filler.unlink()
                later = answers(client, range(60))
                assert "ledger" not in later
                assert {seed: later[seed] for seed in given} == given
                assert running.spent() == 60
                assert service.ledger.audit().problems == ()

    def test_a_disk_that_is_full_for_the_watermark_only(self, sqlite_url, tmp_path):
        """The answer is charged and stored, but not given out before its watermark is on disk."""
        with small_disk(tmp_path / "disk", kilobytes=40) as folder:
            service = make_service(sqlite_url, folder)
            with serving(service) as running, running.client() as client:
                first = answers(client, range(3))
                filler = folder / "filler"
                filler.write_bytes(b"\0" * shutil.disk_usage(folder).free)
                assert answers(client, [3, 3, 3, 4, 0]) == ["ledger"] * 4 + first[:1]
                filler.unlink()
                spent = running.spent()
                assert answers(client, range(3)) == first
                assert "ledger" not in answers(client, [3, 4])
                assert spent == running.spent() == 5
                assert service.ledger.audit().problems == ()

    def test_a_limit_of_file_sizes(self, tmp_path):
        """The same where no disk can be mounted: the system refuses to let files grow."""
        found = subprocess.run(
            [sys.executable, "-c", _GROWING, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY)),
        )
        assert found.returncode == 0, found.stderr
        given, refused = (int(each) for each in found.stdout.split())
        assert given > 5
        assert refused > 0
        with reopen(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path) as ledger:
            assert given <= ledger.budget().n_answers <= given + 1
            assert problems(ledger) == ()


_GROWING = """
import sys
from pathlib import Path
from postshift.exceptions import LedgerError
from tests.oracle.ledgers import charge_of, create, learner

folder, given, refused = Path(sys.argv[1]), 0, 0
with create(f"sqlite:///{folder / 'ledger.db'}", folder, budget=1000) as ledger:
    token = learner(ledger)
    for query in range(60):
        try:
            ledger.charge(charge_of(query, token), bytes(20_000))
            given += 1
        except LedgerError:
            refused += 1
print(given, refused)
"""


class TestDamage:
    @pytest.mark.parametrize("where", ["start", "a page", "every page"])
    def test_bytes_that_are_overwritten_are_noticed_at_the_start(self, sqlite_url, tmp_path, where):
        with create(sqlite_url, tmp_path) as ledger:
            token = learner(ledger)
            for query in range(10):
                ask(ledger, query, token)
        overwrite(tmp_path / "ledger.db", where)
        with pytest.raises(DamagedLedgerError, match=r"damaged|not a ledger"):
            reopen(sqlite_url, tmp_path)

    def test_bytes_that_are_overwritten_while_it_runs(self, sqlite_url, tmp_path):
        """Answers that can still be read are the right ones; everything else is refused."""
        service = make_service(sqlite_url, tmp_path)
        with serving(service) as running, running.client() as client:
            given = answers(client, range(20))
            with service.ledger._database.reading() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            service.ledger.close()  # the pool opens new connections, which have no pages in memory
            overwrite(tmp_path / "ledger.db", "every page")
            found = answers(client, range(25))
            assert set(found[20:]) == {"damaged_database"}
            assert all(each in ("damaged_database", right) for each, right in zip(found, given, strict=False))
            assert service.ledger.audit().problems

    @pytest.mark.parametrize("how", ["removed", "replaced"])
    def test_a_file_that_is_taken_away_while_it_is_in_use(self, sqlite_url, tmp_path, how):
        """SQLite would go on with the file that has no name any more, and lose it when the server ends."""
        service = make_service(sqlite_url, tmp_path)
        with serving(service) as running, running.client() as client:
            answers(client, range(3))
            copied(tmp_path / "ledger.db", tmp_path / "backup.db")
            answers(client, range(3, 5))
            if how == "replaced":
                (tmp_path / "backup.db").replace(tmp_path / "ledger.db")
            else:
                (tmp_path / "ledger.db").unlink()
            assert answers(client, [0, 4, 9]) == ["damaged_database"] * 3


def overwrite(path, where):
    """Overwrite bytes of a file."""
    content = bytearray(path.read_bytes())
    every = range(PAGE, len(content), PAGE)
    places = {"start": [0], "a page": every[len(every) // 2 :][:1], "every page": every}[where]
    for place in places:
        content[place : place + 400] = b"\xa5" * 400
    with path.open("r+b") as stream:
        stream.write(content)
