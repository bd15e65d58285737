"""The work of ``postshift oracle``: folders, tokens, logs and audits, and who may listen where."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat

import numpy as np
import pandas as pd
import pytest

from postshift.cli.oracle_work import open_service
from postshift.oracle.privacy import attack_bound
from tests.cli.helpers import inside

N_ROWS = 120
METRIC = """
def gain(y_true, y_pred, amount):
    return float((amount * (y_true == y_pred)).sum())
"""


@pytest.fixture(autouse=True)
def rows(tmp_path):
    """The owner's file; the labels and groups are in no order."""
    rng = np.random.default_rng(0)
    table = {"key": [f"p{place:03d}" for place in rng.permutation(N_ROWS)], "id": np.arange(N_ROWS) + 500}
    table |= {
        "y": rng.permutation(N_ROWS) % 2,
        "sex": rng.choice(["f", "m"], N_ROWS),
        "age": rng.integers(20, 70, N_ROWS),
    }
    table |= {"amount": np.arange(N_ROWS) / 7}
    pd.DataFrame(table).to_csv(tmp_path / "rows.csv", index=False)
    return pd.DataFrame(table)


def init(folder, *options, name="labels", metric="group_g_mean", groups=("--groups", "sex")):
    words = ("oracle", "init", name, "rows.csv", "--label", "y", "--metric", metric, *groups, *options)
    return inside(*words, cwd=folder)


@pytest.fixture
def labels(tmp_path):
    """A folder in private mode with the usual settings."""
    made = init(tmp_path, "--id", "key", "--release", "age", "--json")
    assert made.code == 0, made.err
    return tmp_path / "labels"


def token(folder, *options):
    made = inside("oracle", "token", "create", folder, "--name", "ann", *options, "--json")
    assert made.code == 0, made.err
    return made.json


class TestInit:
    def test_the_usual_terms_are_private_with_rho_a_tenth(self, tmp_path):
        made = init(tmp_path, "--id", "key", "--json").json
        assert (made["mode"], made["budget"], made["kinds"]) == ("private", 100_000, ["table", "confusion"])
        assert made["budget_text"] == "rho 0.1 (epsilon 1.91 at delta 1e-05)"
        assert made["token"].startswith("pso_")

    def test_it_says_what_the_terms_protect(self, tmp_path):
        private = init(tmp_path, "--rho", "0.5")
        assert private.code == 0
        assert f"right in at most {attack_bound(500_000):.1%} of cases" in " ".join(private.out.split())
        trusted = init(tmp_path, "--mode", "trusted", name="trusted")
        assert "warning: exact answers give labels away" in " ".join(trusted.out.split())
        assert "budget: 100 queries" in trusted.out

    def test_only_the_owner_can_read_the_folder(self, labels):
        assert stat.S_IMODE(labels.stat().st_mode) == 0o700

    def test_learners_get_identifiers_and_released_columns_only(self, labels, rows):
        found = pd.read_csv(labels / "released.csv")
        assert found.to_dict("list") == {"id": rows["key"].tolist(), "age": rows["age"].tolist()}

    def test_tokens_are_shown_once(self, tmp_path):
        secret = init(tmp_path, "--json").json["token"]
        kept = [path.read_bytes() for path in (tmp_path / "labels").rglob("*") if path.is_file()]
        assert kept
        assert not [content for content in kept if secret.encode() in content or secret[13:].encode() in content]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--release", "y"), "--release y would show learners what the service is to keep"),
            (("--release", "sex"), "--release sex would show learners"),
            (("--release", "id", "--id", "key"), "learners get the identifiers under this name"),
            (("--release", "nothing"), "nothing"),
            (("--mode", "open"), "--mode must be private or trusted"),
            (("--queries", "5"), "--queries is for trusted mode"),
            (("--mode", "trusted", "--rho", "1"), "--rho is for private mode"),
            (("--kind", "labels"), "kinds must be some of table, confusion, value"),
            (("--rho", "0"), "budget"),
            (("--rho", "-1"), "rho"),
            (("--rho", "nan"), "rho"),
            (("--database", "sqlite:///elsewhere.db"), "postgresql://"),
            (("--database", "postgresql://ann:secret@host/name"), "has a password"),
            (("--id", "sex"), "row identifiers occur more than once"),
        ],
    )
    def test_what_cannot_be_served(self, tmp_path, options, words):
        refused = init(tmp_path, *options)
        assert refused.code == 2, refused.err
        assert words in " ".join(refused.error.split())
        assert "secret" not in refused.err
        assert not (tmp_path / "labels").exists()

    def test_the_column_of_identifiers_may_be_called_id(self, tmp_path):
        made = init(tmp_path, "--id", "id", "--release", "id", "--release", "age")
        assert made.code == 0, made.err
        assert list(pd.read_csv(tmp_path / "labels" / "released.csv")) == ["id", "age"]

    @pytest.mark.parametrize(("column", "what"), [("y", "label"), ("sex", "group")])
    def test_a_file_that_is_sorted_by_what_is_to_be_kept(self, rows, tmp_path, column, what):
        """The order of the rows, which learners get, would show it."""
        rows.sort_values(column, kind="stable").to_csv(tmp_path / "rows.csv", index=False)
        refused = init(tmp_path)
        assert refused.code == 2
        assert f"sorted by {what}" in refused.error
        assert not (tmp_path / "labels").exists()
        assert init(tmp_path, "--mode", "trusted").code == 0  # exact answers tell it anyway

    def test_a_metric_over_groups_needs_them(self, tmp_path):
        assert "--groups" in init(tmp_path, groups=()).error

    def test_a_folder_that_is_not_empty(self, labels):
        assert "is not empty" in init(labels.parent).error


class TestOwnMetric:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "gain.py").write_text(METRIC)
        how = {"metric": "gain.py:gain", "groups": ()}
        assert "trusted mode" in init(tmp_path, **how).error
        made = init(tmp_path, "--mode", "trusted", "--kind", "value", **how)
        assert made.code == 0, made.err
        return tmp_path / "labels"

    def test_its_copy_is_run_only_if_it_is_trusted(self, folder):
        refused = inside("oracle", "serve", folder, "--port", "0")
        assert refused.code == 2
        assert "--trust-metric" in refused.error
        service = open_service(folder, trust_metric=True)
        assert service.about["metric"] is None
        service.ledger.close()

    def test_a_changed_copy_is_not_run(self, folder):
        (folder / "metric.py").write_text("raise SystemExit('it was run')")
        refused = inside("oracle", "serve", folder, "--port", "0", "--trust-metric")
        assert refused.code == 3
        assert "it was not run" in refused.error

    def test_a_copy_elsewhere_is_not_read(self, folder):
        content = json.loads((folder / "owner.json").read_text())
        content["metric"]["copy"] = "../gain.py"
        (folder / "owner.json").write_text(json.dumps(content))
        refused = inside("oracle", "serve", folder, "--port", "0", "--trust-metric")
        assert refused.code == 3
        assert "outside of the folder" in refused.error


class TestTokens:
    def test_a_learner_for_thirty_days(self, labels):
        made = token(labels)
        assert made["token"].startswith(f"psl_{made['id']}_")
        listed = inside("oracle", "token", "list", labels, "--json").json["tokens"]
        assert [(each["name"], each["scope"]) for each in listed] == [("owner", "owner"), ("ann", "learner")]
        assert listed[1]["expires"] == made["expires"]
        assert made["token"] not in json.dumps(listed)
        assert pd.Timestamp(made["expires"]) - pd.Timestamp.now("UTC") > pd.Timedelta(days=29)

    def test_limits(self, labels):
        made = token(labels, "--most", "0.05", "--expires", "2099-01-02")
        assert made["expires"] == "2099-01-02T00:00:00+00:00"
        with_limit = inside("oracle", "token", "list", labels, "--json").json["tokens"][1]
        assert (with_limit["most"], with_limit["spent"]) == (50_000, 0)

    def test_names_are_shown_as_they_are(self, labels):
        name = "[bold]ann[/] </td>"
        made = inside("oracle", "token", "create", labels, "--name", name)
        assert made.code == 0, made.err
        shown = inside("oracle", "token", "list", labels)
        assert shown.code == 0, shown.err
        assert "[bold]ann[/]" in shown.out

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--name", "a\nb"), "printable"),
            (("--name", ""), "name must have 1 to 500"),
            (("--name", "'; DROP TABLE postshift_log; --" * 20), "name must have 1 to 500"),
            (("--name", "a", "--scope", "admin"), "--scope must be learner or owner"),
            (("--name", "a", "--expires", "2001-01-01"), "in the future"),
            (("--name", "a", "--most", "0"), "most"),
        ],
    )
    def test_what_cannot_be_a_token(self, labels, options, words):
        refused = inside("oracle", "token", "create", labels, *options)
        assert refused.code == 2
        assert words in refused.error

    def test_a_name_is_no_sql(self, labels):
        assert inside("oracle", "token", "create", labels, "--name", "'); DROP TABLE postshift_log; --").code == 0
        assert inside("oracle", "audit", labels).code == 0

    def test_a_revoked_token(self, labels):
        made = token(labels)
        assert inside("oracle", "token", "revoke", labels, made["id"]).code == 0
        assert inside("oracle", "token", "list", labels, "--json").json["tokens"][1]["revoked"]
        assert inside("oracle", "token", "revoke", labels, "00000000").code == 1


class TestLedger:
    def test_the_log_and_the_audit(self, labels):
        lines = inside("oracle", "log", labels, "--json").json["lines"]
        assert [each["event"] for each in lines] == ["token", "created"]
        found = inside("oracle", "audit", labels)
        assert (found.code, found.out.split(":")[-1].strip()) == (0, "all in order")

    def test_an_audit_that_finds_something_fails(self, labels):
        with sqlite3.connect(labels / "ledger.db") as connection:
            connection.execute("DROP TRIGGER postshift_tokens_no_update")
            connection.execute("UPDATE postshift_tokens SET scope = 'learner'")
        connection.close()
        found = inside("oracle", "audit", labels)
        assert found.code == 1
        assert "was changed, or not created by postshift" in found.error

    def test_an_older_copy_is_refused_until_the_owner_accepts_it(self, labels):
        shutil.copy(labels / "ledger.db", labels.parent / "backup.db")
        made = token(labels)
        for path in labels.glob("ledger.db*"):
            path.unlink()
        shutil.copy(labels.parent / "backup.db", labels / "ledger.db")
        for words in (("serve", labels, "--port", "0"), ("log", labels), ("token", "list", labels)):
            refused = inside("oracle", *words)
            assert refused.code == 1
            assert "postshift oracle accept" in refused.error
        assert inside("oracle", "accept", labels).code == 0
        lines = inside("oracle", "log", labels, "--json").json["lines"]
        assert lines[0]["event"] == "restored"
        assert made["id"] not in {each["token"] for each in lines}

    @pytest.mark.filterwarnings("default")
    def test_a_missing_watermark_is_a_warning(self, labels):
        (labels / "watermark.json").unlink()
        shown = inside("oracle", "audit", labels)
        assert shown.code == 0
        assert shown.err.startswith("warning: ")
        assert "an older copy of the ledger would not be recognised" in shown.err

    @pytest.mark.parametrize("file", ["owner.json", "rows.npz"])
    def test_files_that_were_changed(self, labels, file):
        (labels / file).write_bytes(b"{}")
        refused = inside("oracle", "serve", labels, "--port", "0")
        assert refused.code == 3, refused.err

    def test_a_folder_of_something_else(self, tmp_path):
        refused = inside("oracle", "log", tmp_path)
        assert refused.code == 3
        assert "is not a folder of postshift oracle init" in refused.error


class TestServe:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 -- it is refused
    def test_other_machines_need_encryption(self, labels, host):
        refused = inside("oracle", "serve", labels, "--host", host, "--port", "0")
        assert refused.code == 2
        assert "without encryption" in refused.error

    def test_certificates(self, labels):
        alone = inside("oracle", "serve", labels, "--certificate", labels / "owner.json")
        assert (alone.code, "belong together" in alone.error) == (2, True)
        missing = inside("oracle", "serve", labels, "--certificate", "a.pem", "--key", "b.pem")
        assert (missing.code, "there is no file a.pem" in missing.error) == (3, True)
