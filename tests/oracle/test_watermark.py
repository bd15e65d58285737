"""Restored databases, watermarks that are missing or damaged, and clocks that are set back."""

from __future__ import annotations

import contextlib
import json

import pytest

from postshift.exceptions import ClockError, DamagedLedgerError, LedgerError, RestoredError
from postshift.oracle.ledger import Ledger
from postshift.oracle.watermark import NOTHING, Mark, Watermark
from tests.oracle.ledgers import ask, create, learner, payload_of, problems, reopen, settings
from tests.oracle.servers import code_of, make_service, serving
from tests.oracle.trouble import answers, copied


def mark_of(number):
    return Mark(number=number, digest=f"line {number}", n_answers=number, spent=number, time=number)


class TestFile:
    def test_it_only_goes_up(self, tmp_path):
        mark = Watermark(tmp_path / "mark")
        assert mark.mark == NOTHING
        high, low = mark_of(5), mark_of(3)
        mark.raise_to(high)
        mark.raise_to(low)
        assert mark.mark == mark.written == Watermark(tmp_path / "mark").mark == high
        mark.replace(low)
        assert mark.mark == Watermark(tmp_path / "mark").mark == low

    def test_two_processes_share_it(self, tmp_path):
        one, two = Watermark(tmp_path / "mark"), Watermark(tmp_path / "mark")
        one.raise_to(mark_of(9))
        assert two.mark == NOTHING
        assert two.newest() == mark_of(9)
        two.raise_to(mark_of(7))
        assert Watermark(tmp_path / "mark").mark == mark_of(9)

    def test_an_accepted_copy_lowers_the_file_and_not_what_was_seen(self, tmp_path):
        one, two = Watermark(tmp_path / "mark"), Watermark(tmp_path / "mark")
        one.raise_to(mark_of(9))
        assert two.newest() == mark_of(9)
        one.replace(mark_of(4))
        assert (one.newest(), two.newest()) == (mark_of(4), mark_of(9))

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"number": 1}', b"\xff", b"null", b"[" * 5000])
    def test_a_damaged_file(self, tmp_path, content):
        (tmp_path / "mark").write_bytes(content)
        with pytest.raises(DamagedLedgerError, match=r"the watermark .*mark is damaged"):
            Watermark(tmp_path / "mark")

    def test_numbers_of_the_wrong_kind(self, tmp_path):
        (tmp_path / "mark").write_text(
            json.dumps({"number": True, "digest": "a", "n_answers": 1, "spent": 1.5, "time": 1})
        )
        with pytest.raises(DamagedLedgerError, match="is damaged"):
            Watermark(tmp_path / "mark")

    def test_a_folder_that_is_missing(self, tmp_path):
        mark = Watermark(tmp_path / "missing" / "mark")
        with pytest.raises(LedgerError, match="cannot be used"):
            mark.raise_to(mark_of(1))
        assert (mark.mark.number, mark.written.number) == (1, 0)


TABLES = ("postshift_account", "postshift_log", "postshift_answers", "postshift_tokens")
SAVE = "CREATE TABLE saved_{0} AS SELECT * FROM {0}"
RESTORE = (
    "ALTER TABLE {0} DISABLE TRIGGER USER; TRUNCATE {0}; INSERT INTO {0} SELECT * FROM saved_{0}; "
    "ALTER TABLE {0} ENABLE TRIGGER USER"
)


def in_postgres(url, statement):
    """Do the same to every table of a ledger in PostgreSQL."""
    import psycopg

    with psycopg.connect(url) as connection:
        for table in TABLES:
            connection.execute(statement.format(table))


class Backup:
    """A backup of a database of either kind."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        if url.startswith("sqlite"):
            copied(folder / "ledger.db", folder / "backup.db")
        else:
            in_postgres(url, SAVE)

    def restore(self):
        if not self.url.startswith("sqlite"):
            in_postgres(self.url, RESTORE)
            return
        for end in ("-wal", "-shm"):
            (self.folder / f"ledger.db{end}").unlink(missing_ok=True)
        (self.folder / "ledger.db").write_bytes((self.folder / "backup.db").read_bytes())


class TestRestored:
    def test_a_copy_that_is_restored_while_nothing_runs(self, url, tmp_path):
        with create(url, tmp_path) as ledger:
            token = learner(ledger)
            ask(ledger, "a", token, cost=2)
        backup = Backup(url, tmp_path)
        with reopen(url, tmp_path) as ledger:
            ask(ledger, "b", token, cost=3)
            ask(ledger, "c", token, cost=1)
        backup.restore()
        with pytest.raises(RestoredError, match=r"an older copy: 2 answers .* are missing, which cost 4") as refused:
            reopen(url, tmp_path)
        assert (refused.value.n_missing, refused.value.spent) == (2, 4)
        with Ledger.accept_restored(url, **settings(tmp_path)) as ledger:
            assert (ledger.budget().spent, ledger.budget().left) == (6, 4)
            assert ledger.lines()[0].event == "restored"
            assert ask(ledger, "a", token, cost=2).repeated
            ask(ledger, "b", token, cost=3)  # it was forgotten, so it is charged again: the first one was accepted too
            assert problems(ledger) == ()
        with reopen(url, tmp_path) as ledger:
            assert ledger.budget().spent == 9

    def test_a_copy_that_is_restored_while_the_server_runs(self, url, tmp_path):
        service = make_service(url, tmp_path)
        with serving(service) as running, running.client() as client:
            answers(client, range(5))
            backup = Backup(url, tmp_path)
            answers(client, range(5, 10))
            if url.startswith("sqlite"):
                with service.ledger._database.reading() as connection:
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                service.ledger.close()
            backup.restore()
            assert set(answers(client, [0, 5, 20])) == {"restored_database"}  # stored, forgotten and new ones
            assert code_of(client.get("/v1/about")) == "restored_database"
            assert running.spent() == 5
        with pytest.raises(RestoredError, match="5 answers that were given out are missing"):
            Ledger.open(url, about=service.holdings.digest, watermark=tmp_path / "watermark")

    def test_a_copy_that_went_on_elsewhere(self, url, tmp_path):
        """Its history is another one, so that the cost of what is missing is not known: everything is charged."""
        with create(url, tmp_path) as ledger:
            token = learner(ledger)
        backup = Backup(url, tmp_path)
        with reopen(url, tmp_path) as ledger:
            ask(ledger, "a", token)
        backup.restore()
        elsewhere = {"about": settings(tmp_path)["about"], "watermark": tmp_path / "elsewhere"}
        with Ledger.open(url, **elsewhere) as ledger:
            for query in "bcd":
                ask(ledger, query, token)
        with pytest.raises(RestoredError, match="has lines of its own") as refused:
            reopen(url, tmp_path)
        assert (refused.value.n_missing, refused.value.spent) == (None, None)
        with Ledger.accept_restored(url, **settings(tmp_path)) as ledger:
            assert ledger.budget().left == 0
            assert problems(ledger) == ()

    def test_a_running_server_notices_a_copy_that_went_on_elsewhere(self, url, tmp_path):
        """Also if the copy is ahead of what this server gave out."""
        with create(url, tmp_path) as ledger:
            token = learner(ledger)
            backup = Backup(url, tmp_path)
            ask(ledger, "a", token)
            if url.startswith("sqlite"):
                ledger.close()
            backup.restore()
            with Ledger.open(url, about=settings(tmp_path)["about"], watermark=tmp_path / "elsewhere") as other:
                for query in "bcd":
                    ask(other, query, token)
            with pytest.raises(RestoredError, match="has lines of its own"):
                ask(ledger, "e", token)
            assert ledger.budget().spent == 3

    def test_a_copy_that_went_on_and_is_still_shorter(self, url, tmp_path):
        """What it sold since then is missing too, so everything is charged."""
        with create(url, tmp_path, budget=100) as ledger:
            token = learner(ledger)
            backup = Backup(url, tmp_path)
            for query in range(10):
                ask(ledger, query, token, cost=5)
        backup.restore()
        with Ledger.open(url, about=settings(tmp_path)["about"], watermark=tmp_path / "elsewhere") as other:
            ask(other, "sold elsewhere", token, cost=25)
        with pytest.raises(RestoredError, match="has lines of its own"):
            reopen(url, tmp_path)
        with Ledger.accept_restored(url, **settings(tmp_path)) as ledger:
            assert ledger.budget().left == 0

    def test_a_stored_answer_does_not_hide_a_copy_that_went_on(self, url, tmp_path):
        """A repeated answer with a high number must not raise the mark above the lines that are missing."""
        with create(url, tmp_path, budget=100) as ledger:
            token = learner(ledger)
            ask(ledger, "first", token)
            backup = Backup(url, tmp_path)
            for query in range(3):
                ask(ledger, query, token)
            before = ledger._watermark.mark
            if url.startswith("sqlite"):
                ledger.close()
            backup.restore()
            with Ledger.open(url, about=settings(tmp_path)["about"], watermark=tmp_path / "elsewhere") as other:
                for query in "abcdef":
                    ask(other, query, token)
            for query in ("f", "new"):
                with pytest.raises(RestoredError, match="has lines of its own"):
                    ask(ledger, query, token)
            assert ledger._watermark.mark == before

    def test_another_process_gave_out_what_the_copy_forgot(self, url, tmp_path):
        """A running server reads the watermark that another process wrote: tokens that it revoked stay revoked."""
        with create(url, tmp_path) as server:
            identifier, secret = server.create_token("eve", scope="learner")
            backup = Backup(url, tmp_path)
            with reopen(url, tmp_path) as terminal:
                terminal.revoke_token(identifier)
            if url.startswith("sqlite"):
                server.close()
            backup.restore()
            for refused in (lambda: server.verify(secret), lambda: ask(server, "a", identifier)):
                with pytest.raises(RestoredError, match="an older copy"):
                    refused()
        with pytest.raises(RestoredError, match="an older copy"):
            reopen(url, tmp_path)


class TestMissing:
    def test_it_is_written_again(self, url, tmp_path):
        with create(url, tmp_path) as ledger:
            token = learner(ledger)
            ask(ledger, "a", token)
            (tmp_path / "watermark").unlink()
            ask(ledger, "b", token)
        assert Watermark(tmp_path / "watermark").mark.n_answers == 2
        (tmp_path / "watermark").unlink()
        reopen(url, tmp_path).close()
        assert Watermark(tmp_path / "watermark").mark.n_answers == 2

    def test_damaged_while_the_server_runs(self, url, tmp_path):
        """Nothing is given out until it is repaired."""
        service = make_service(url, tmp_path)
        with serving(service) as running, running.client() as client:
            given = answers(client, range(2))
            (tmp_path / "watermark").write_text("?")
            assert answers(client, [2, 2, 0]) == ["damaged_database"] * 3
            (tmp_path / "watermark").unlink()
            assert answers(client, [0, 1]) == given
            assert "damaged_database" not in answers(client, [2])
            assert running.spent() == 3
            assert service.ledger.audit().problems == ()


class TestClock:
    def test_nothing_is_charged_while_the_clock_is_set_back(self, served, clock):
        with served.client() as client:
            given = answers(client, range(3))
            clock.turn(hours=-1)
            assert answers(client, [0, 5, 1, 6]) == [given[0], "clock_set_back", given[1], "clock_set_back"]
            assert served.spent() == 3
            assert client.get("/v1/about").status_code == 200
            clock.turn(hours=1)
            assert "clock_set_back" not in answers(client, [5])
            assert served.service.ledger.audit().problems == ()

    def test_a_little_is_no_trouble_and_times_do_not_go_back(self, ledger, clock):
        token = learner(ledger)
        clock.turn(seconds=-200)
        ask(ledger, "a", token)
        assert [line.time for line in ledger.lines()] == sorted((line.time for line in ledger.lines()), reverse=True)
        assert problems(ledger) == ()

    def test_the_owner_accepts_it(self, ledger, clock):
        token = learner(ledger)
        clock.turn(days=-3)
        for refused in (lambda: ask(ledger, "a", token), ledger.check_clock, lambda: learner(ledger)):
            with pytest.raises(ClockError, match=r"259200 seconds before .* nothing was charged.* accept --clock"):
                refused()
        ledger.accept_clock()
        ledger.check_clock()
        ask(ledger, "a", token)
        assert ledger.lines()[1].event == "clock"
        assert problems(ledger) == ()

    def test_an_expired_token_stays_expired(self, ledger, clock):
        identifier, secret = ledger.create_token("brief", scope="learner", expires=clock.now.replace(hour=8))
        clock.turn(hours=2)
        ask(ledger, "a", learner(ledger))
        clock.turn(hours=-2)
        for refused in (lambda: ledger.verify(secret), lambda: ask(ledger, "b", identifier)):
            with pytest.raises(Exception, match=r"expired|seconds before"):
                refused()

    def test_a_token_can_be_revoked(self, ledger, clock):
        token = learner(ledger)
        clock.turn(days=-3)
        ledger.revoke_token(token)
        assert problems(ledger) == ()


def test_a_crash_between_the_charge_and_the_watermark(url, tmp_path):
    """The answer was charged and not given out: it is free, and the watermark follows before it is."""
    with create(url, tmp_path) as ledger:
        token = learner(ledger)
        before = (tmp_path / "watermark").read_bytes()
        ask(ledger, "a", token)
    (tmp_path / "watermark").write_bytes(before)
    with contextlib.closing(reopen(url, tmp_path)) as ledger:
        assert ask(ledger, "a", token).payload == payload_of("a")
        assert ledger.budget().spent == 1
    assert Watermark(tmp_path / "watermark").mark.n_answers == 1
