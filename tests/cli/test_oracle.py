"""``postshift oracle`` in the terminal: what the owner sees, and the remedy for every mistake."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sqlite3
import subprocess
import sys

import httpx
import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import environment, inside
from tests.oracle.servers import process

SECRET = re.compile(r"ps[lo]_[0-9a-f]{8}_[A-Za-z0-9_-]{43}")
PROFIT = "def profit(y_true, y_pred, amount):\n    return float(((y_true == y_pred) * amount).mean())\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with rows.csv and profit.py."""
    folder = tmp_path_factory.mktemp("owner")
    place = np.arange(40)
    mixed = np.random.default_rng(0).permutation(place)
    label, sex = np.where(mixed % 2, "ill", "well"), np.where(mixed % 4 < 2, "f", "m")
    rows = pd.DataFrame({"row": place + 100, "label": label, "sex": sex, "amount": place / 4, "age": place})
    rows.to_csv(folder / "rows.csv", index=False)
    (folder / "profit.py").write_text(PROFIT)
    return folder


def init(folder, *options, metric="group_g_mean", cwd):
    given = ("--label", "label", "--metric", metric, "--id", "row")
    groups = ("--groups", "sex") if metric == "group_g_mean" else ()
    return inside("oracle", "init", folder, "rows.csv", *given, *groups, *options, cwd=cwd)


@pytest.fixture
def folder(work, tmp_path):
    """A folder in private mode with a budget of rho 0.1."""
    done = init(tmp_path / "labels", "--quiet", cwd=work)
    assert (done.code, done.out, done.err) == (0, "", "")
    return tmp_path / "labels"


@pytest.fixture
def own(work, tmp_path):
    """A folder in trusted mode with a function in a Python file."""
    options = ("--mode", "trusted", "--kind", "value", "--queries", "9", "--quiet")
    assert init(tmp_path / "own", *options, metric="profit.py:profit", cwd=work).code == 0
    return tmp_path / "own"


def oracle(*words):
    return inside("oracle", *words)


def refused(done, code, *texts):
    """Check that a command ended with this code and one line of error, which has these texts."""
    assert done.code == code, done
    assert done.out == ""
    for text in texts:
        assert text in done.error
    assert "unexpected" not in done.error


class TestInit:
    def test_what_it_says(self, work, tmp_path):
        done = init(tmp_path / "labels", cwd=work)
        assert done.code == 0, done.err
        for text in (
            "40 rows, metric group_g_mean, private mode",
            "answered: table, confusion; budget: rho 0.1 (epsilon 1.91 at delta 1e-05)",
            "right in at most 58.8% of cases",
            "your token (it is shown only now): pso_",
            "next: postshift oracle token create",
        ):
            assert text in done.out

    def test_trusted_mode_warns(self, work, tmp_path):
        done = init(tmp_path / "labels", "--mode", "trusted", "--queries", "1", cwd=work)
        assert "budget: 1 query\n" in done.out
        assert "warning: exact answers give labels away" in done.out

    def test_json(self, work, tmp_path):
        found = init(tmp_path / "labels", "--json", "--rho", "0.5", cwd=work).json
        assert (found["rows"], found["mode"], found["budget"]) == (40, "private", 500_000)
        assert SECRET.fullmatch(found["token"])

    def test_the_title_is_the_name_of_the_folder(self, work, tmp_path, monkeypatch):
        (tmp_path / "hospital").mkdir()
        monkeypatch.chdir(tmp_path / "hospital")
        rows = ("--label", "label", "--metric", "g_mean", "--quiet")
        assert oracle("init", ".", work / "rows.csv", *rows).code == 0
        assert json.loads((tmp_path / "hospital" / "owner.json").read_text())["terms"]["title"] == "hospital"

    @pytest.mark.parametrize(
        ("options", "metric", "wanted"),
        [
            (("--rho", "0"), "group_g_mean", (2, "--rho is the budget and must be above 0")),
            (("--kind", "values"), "group_g_mean", (2, "--kind must be one of table, confusion, value")),
            (("--database", "mysql://x/y"), "group_g_mean", (2, "the database must be a URL postgresql://")),
            (("--title", "x", "--pos-label", "il"), "f1", (2, "did you mean 'ill'")),
            ((), "f1", (2, "--pos-label")),
            ((), "profit.py:profit", (2, "give --mode trusted --kind value")),
            (("--mode", "trusted"), "profit.py:profit", (2, "give --mode trusted --kind value")),
            (("--kind", "value"), "profit.py:profit", (2, "give --mode trusted --kind value")),
            ((), "profit.py:profits", (2, "did you mean 'profit'")),
            ((), "missing.py:profit", (3, "there is no file 'missing.py'")),
            ((), "cost:missing.csv", (3, "there is no file 'missing.csv'")),
            ((), "g_men", (2, "did you mean 'g_mean'")),
        ],
    )
    def test_mistakes_leave_no_folder(self, work, tmp_path, options, metric, wanted):
        refused(init(tmp_path / "labels", *options, metric=metric, cwd=work), *wanted)
        assert not (tmp_path / "labels").exists()

    def test_rows_that_do_not_exist(self, tmp_path):
        done = oracle("init", tmp_path / "labels", tmp_path / "none.csv", "--label", "y", "--metric", "g_mean")
        refused(done, 3, "there is no file", "none.csv")

    def test_a_folder_that_exists(self, work, folder):
        before = (folder / "owner.json").read_bytes()
        refused(init(folder, cwd=work), 2, "is not empty: name a new folder")
        assert (folder / "owner.json").read_bytes() == before

    def test_an_option_that_is_missing(self, tmp_path):
        done = oracle("init", tmp_path / "labels", "rows.csv", "--metric", "g_mean")
        refused(done, 2, "'--label'", "postshift oracle init --help")


class TestTokens:
    def test_create_list_and_revoke(self, folder):
        made = oracle("token", "create", folder, "--name", "ann", "--most", "0.05", "--json").json
        assert SECRET.fullmatch(made["token"])
        listed = oracle("token", "list", folder)
        assert "spent (micro-rho)" in listed.out
        assert "None" not in listed.out
        assert not SECRET.search(listed.out)
        assert oracle("token", "revoke", folder, made["id"]).out == f"token {made['id']} is revoked\n"
        owner, ann = oracle("token", "list", folder, "--json").json["tokens"]
        assert (ann["name"], ann["most"], ann["spent"]) == ("ann", 50_000, 0)
        assert (owner["revoked"], ann["revoked"] is None) == (None, False)

    def test_what_create_says(self, folder):
        done = oracle("token", "create", folder, "--name", "ann", "--expires", "2099-01-02")
        assert "of ann, until 2099-01-02T00:00:00+00:00 (it is shown only now):" in done.out
        assert SECRET.search(done.out)

    @pytest.mark.parametrize(
        ("options", "texts"),
        [
            ((), ("'--name'",)),
            (("--name", ""), ("name must have 1 to 500 printable characters",)),
            (("--name", "ann", "--scope", "boss"), ("--scope must be learner or owner. Got 'boss'",)),
            (("--name", "ann", "--expires", "2020-01-01"), ("--expires must be in the future",)),
            (("--name", "ann", "--expires", "tomorrow"), ("'--expires'", "datetime")),
            (("--name", "ann", "--most", "0"), ("--most must be above 0",)),
            (("--name", "ann", "--per-minute", "0"), ("'--per-minute'",)),
        ],
    )
    def test_mistakes_create_no_token(self, folder, options, texts):
        refused(oracle("token", "create", folder, *options), 2, *texts)
        assert len(oracle("token", "list", folder, "--json").json["tokens"]) == 1

    def test_a_token_is_revoked_by_its_identifier(self, folder):
        made = oracle("token", "create", folder, "--name", "ann", "--json").json
        refused(oracle("token", "revoke", folder, "3f2a"), 2, "no token with the ID '3f2a'", "token list shows the IDs")
        refused(oracle("token", "revoke", folder, "ann"), 2, f"give the ID of one named so: {made['id']}")


class TestLog:
    def test_the_newest_line_is_first(self, folder):
        oracle("token", "create", folder, "--name", "ann")
        lines = oracle("log", folder, "--json").json["lines"]
        assert [line["event"] for line in lines] == ["token", "token", "created"]
        shown = oracle("log", folder, "--limit", "1").out
        assert "cost (micro-rho)" in shown
        assert "ann" in shown
        assert "owner" not in shown
        refused(oracle("log", folder, "--limit", "0"), 2, "'--limit'")

    @pytest.mark.filterwarnings("default")
    @pytest.mark.parametrize("words", [("log",), ("audit",), ("token", "list"), ("token", "create", "--name", "ann")])
    def test_a_missing_watermark_is_one_line(self, folder, words):
        (folder / "watermark.json").unlink()
        done = oracle(*words, folder)
        assert done.code == 0
        (line,) = done.err.splitlines()
        assert line.startswith("warning: ")
        assert "watermark.json is missing" in line


class TestAudit:
    def test_all_in_order(self, folder):
        assert (
            "2 lines, 0 answers, spent rho 0 (epsilon 0.00 at delta 1e-05): all in order" in oracle("audit", folder).out
        )
        assert oracle("audit", folder, "--json").json["problems"] == []

    def test_a_changed_log(self, folder):
        with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
            connection.execute("DROP TRIGGER postshift_log_no_update")
            connection.execute("UPDATE postshift_log SET text = 'nothing' WHERE number = 2")
        done = oracle("audit", folder, "--json")
        assert done.code == 1
        assert "line 2 of the log" in done.error
        assert done.json["problems"]


class TestAccept:
    def test_an_older_copy(self, folder):
        """A backup is put back after a token was created: nothing works until the owner accepts it."""
        with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        backup = (folder / "ledger.db").read_bytes()
        oracle("token", "create", folder, "--name", "ann")
        for file in folder.glob("ledger.db*"):
            file.unlink()
        (folder / "ledger.db").write_bytes(backup)
        for words in (("log",), ("token", "list"), ("serve",)):
            refused(oracle(*words, folder), 1, "the ledger is an older copy", "postshift oracle accept")
        assert "the restored ledger is accepted, and this is in its log" in oracle("accept", folder).out
        assert oracle("log", folder, "--json").json["lines"][0]["event"] == "restored"
        assert "all in order" in oracle("audit", folder).out

    @pytest.mark.parametrize(("options", "why"), [((), "every answer"), (("--clock",), "the clock is not before")])
    def test_nothing_to_accept(self, folder, options, why):
        before = oracle("log", folder, "--json").out
        done = oracle("accept", folder, *options)
        assert done.code == 0
        assert why in done.out
        assert "so there is nothing to accept" in done.out
        assert oracle("log", folder, "--json").out == before


class TestFolders:
    @pytest.mark.parametrize("words", [("serve",), ("log",), ("audit",), ("accept",), ("token", "list")])
    def test_a_path_that_is_no_such_folder(self, work, words):
        for path in (work, work / "none", work / "rows.csv"):
            refused(oracle(*words, path), 3, "is not a folder of postshift oracle init")

    def test_a_damaged_and_a_newer_folder(self, folder):
        file = folder / "owner.json"
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "format": 2}))
        refused(oracle("log", folder), 3, "has format 2; this version of postshift reads format 1")
        file.write_text(json.dumps(content)[:-5])
        refused(oracle("log", folder), 3, "owner.json is damaged: restore it from a copy")

    def test_damaged_rows(self, folder):
        (folder / "rows.npz").write_bytes((folder / "rows.npz").read_bytes()[:200])
        refused(oracle("serve", folder, "--port", "0"), 3, "rows.npz", "cut short")

    def test_a_damaged_ledger(self, folder):
        for file in folder.glob("ledger.db*"):
            file.write_bytes(b"x" * 5000)
        refused(oracle("serve", folder, "--port", "0"), 1, "damaged")


class TestServe:
    @pytest.mark.parametrize(
        ("options", "code", "texts"),
        [
            (("--certificate", "c.pem"), 2, ("--certificate and --key belong together: give both",)),
            (("--key", "k.pem"), 2, ("--certificate and --key belong together: give both",)),
            (("--certificate", "c.pem", "--key", "k.pem"), 3, ("there is no file c.pem",)),
            (("--host", "192.0.2.1"), 2, ("tokens would be sent without encryption", "--behind-proxy")),
            (
                ("--host", "nowhere.invalid", "--behind-proxy"),
                2,
                ("cannot listen on nowhere.invalid", "another --host"),
            ),
            (("--host", "192.0.2.1", "--behind-proxy"), 2, ("cannot listen on 192.0.2.1", "another --host")),
            (("--port", "70000"), 2, ("'--port'",)),
        ],
    )
    def test_mistakes(self, folder, options, code, texts):
        refused(oracle("serve", folder, *options), code, *texts)

    def test_a_port_that_is_in_use(self, folder):
        with socket.socket() as place:
            place.bind(("127.0.0.1", 0))
            place.listen()
            port = place.getsockname()[1]
            refused(oracle("serve", folder, "--port", port), 2, f"cannot listen on 127.0.0.1:{port}", "another --port")

    def test_files_that_are_no_certificate(self, folder, tmp_path):
        for name in ("c.pem", "k.pem"):
            (tmp_path / name).write_text("no certificate")
        done = oracle("serve", folder, "--certificate", tmp_path / "c.pem", "--key", tmp_path / "k.pem")
        refused(done, 3, "cannot be used as a certificate and its private key", "PEM")

    def test_a_python_file_that_is_not_trusted_is_not_run(self, own):
        (own / "metric.py").write_text(f"open({str(own / 'ran')!r}, 'w')\n{PROFIT}")
        refused(oracle("serve", own), 2, "serving runs it: add --trust-metric")
        refused(oracle("serve", own, "--trust-metric"), 3, "metric.py is not the metric that the folder was made with")
        assert not (own / "ran").exists()

    def test_a_python_file_that_is_missing(self, own):
        (own / "metric.py").unlink()
        refused(oracle("serve", own, "--trust-metric"), 3, "there is no file", "metric.py")

    def test_a_python_file_that_imports_its_neighbour(self, work, tmp_path):
        """The folder has a copy of the file, and not of what is beside it."""
        beside = tmp_path / "beside"
        beside.mkdir()
        (beside / "rates_of_the_owner.py").write_text("RATE = 2.0\n")
        (beside / "own.py").write_text(f"from rates_of_the_owner import RATE\n{PROFIT}")
        words = (
            "oracle", "init", tmp_path / "own", work / "rows.csv", "--label", "label", "--mode", "trusted", "--kind",
            "value", "--metric", f"{beside / 'own.py'}:profit", "--quiet",
        )  # fmt: skip
        run = [sys.executable, "-m", "postshift.cli", *map(str, words)]
        subprocess.run(run, env=environment(), check=True, timeout=120)  # in a process of its own: this one has no RATE
        done = oracle("serve", tmp_path / "own", "--trust-metric")
        refused(done, 1, "rates_of_the_owner", "the folder has a copy of this file only")

    def test_it_answers_until_it_is_stopped(self, folder):
        token = oracle("token", "create", folder, "--name", "ann", "--json").json["token"]
        with process(folder) as (url, running):
            about = httpx.get(f"{url}/v1/about", headers={"Authorization": f"Bearer {token}"}, trust_env=False).json()
            assert (about["title"], about["rows"], about["metric"]) == ("labels", 40, "group_g_mean")
            assert httpx.get(f"{url}/v1/about", trust_env=False).status_code == 401
            running.terminate()
            assert running.wait(timeout=30) in (0, -15, 143)


def test_help_of_every_command():
    words = ["init", "serve", "log", "audit", "accept", "demo", "token create", "token list", "token revoke"]
    for each in words:
        done = oracle(*each.split(), "--help")
        assert done.code == 0
        assert f"Example: postshift oracle {each}" in " ".join(done.out.split())
