"""The work of ``postshift oracle``: folders, tokens, logs and audits, and who may listen where."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import stat
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from postshift.cli.errors import UsageError
from postshift.cli.oracle_work import (
    LIFETIME,
    OwnerRequest,
    amount_text,
    create,
    create_token,
    open_service,
    risk_text,
    token_lines,
    unit_of,
)
from postshift.oracle.privacy import attack_bound
from postshift.oracle.service import Terms
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
            (("--kind", "labels"), "--kind must be one of table, confusion, value"),
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
        assert "--mode trusted --kind value" in init(tmp_path, **how).error
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
        assert inside("oracle", "token", "revoke", labels, "00000000").code == 2


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


PRIVATE = Terms(mode="private", kinds=("table",), budget=100_000)


TRUSTED = Terms(mode="trusted", kinds=("value",), budget=100)


GIVEN = {
    "label": "y", "metric": "group_g_mean", "ids": None, "groups": "group", "release": (), "mode": "private",
    "kinds": (), "rho": None, "queries": None, "pos_label": None, "title": "rows", "database": None,
}  # fmt: skip


def frame(n_rows=40):
    """Rows whose classes and groups are all there."""
    place = np.arange(n_rows)
    mixed = np.random.default_rng(0).permutation(n_rows)
    group, label = np.where(mixed % 4 < 2, "north", "south"), np.where(mixed % 2, "yes", "no")
    return pd.DataFrame({"row": [f"r{each}" for each in place], "y": label, "group": group, "x": place / 10})


def request(folder, table, **changes):
    table.to_csv(folder / "rows.csv", index=False)
    return OwnerRequest(**{"folder": folder / "owner", "data": folder / "rows.csv", **GIVEN, **changes})


def opened(folder, **how):
    return contextlib.closing(open_service(folder / "owner", **how).ledger)


class TestWords:
    @pytest.mark.parametrize(
        ("terms", "amount", "text"),
        [
            (PRIVATE, 0, "rho 0 (epsilon 0.00 at delta 1e-05)"),
            (PRIVATE, 100_000, "rho 0.1 (epsilon 1.91 at delta 1e-05)"),
            (TRUSTED, 0, "0 queries"),
            (TRUSTED, 1, "1 query"),
            (TRUSTED, 1234, "1,234 queries"),
        ],
    )
    def test_an_amount(self, terms, amount, text):
        assert amount_text(terms, amount) == text

    def test_the_risk_of_each_mode(self):
        assert f"{attack_bound(100_000):.1%}" in risk_text(PRIVATE)
        assert "warning: exact answers give labels away" in risk_text(TRUSTED)


class TestTerms:
    @pytest.mark.parametrize(
        ("changes", "wanted"),
        [
            ({}, ("private", ("table", "confusion"), 100_000)),
            ({"rho": 0.5}, ("private", ("table", "confusion"), 500_000)),
            ({"rho": 1e-9}, ("private", ("table", "confusion"), 1)),
            ({"mode": "trusted"}, ("trusted", ("confusion", "value"), 100)),
            ({"mode": "trusted", "queries": 7, "kinds": ("value", "value")}, ("trusted", ("value",), 7)),
        ],
    )
    def test_what_is_usual(self, tmp_path, changes, wanted):
        found = request(tmp_path, frame(), **changes).terms()
        assert (found.mode, found.kinds, found.budget) == wanted

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"mode": "secret"}, "--mode must be private or trusted. Got 'secret'"),
            ({"queries": 3}, "--queries is for trusted mode"),
            ({"mode": "trusted", "rho": 0.1}, "--rho is for private mode"),
            ({"kinds": ("values",)}, "--kind must be one of table, confusion, value. Got 'values'"),
            ({"rho": 0.0}, "--rho is the budget and must be above 0. Got 0"),
            ({"rho": -1.0}, "--rho is the budget and must be above 0. Got -1"),
            ({"rho": float("nan")}, "--rho is the budget and must be above 0. Got nan"),
            ({"mode": "trusted", "queries": 0}, "--queries is the budget and must be above 0. Got 0"),
        ],
    )
    def test_options_that_cannot_be_used(self, tmp_path, changes, message):
        with pytest.raises(UsageError, match=message):
            create(request(tmp_path, frame(), **changes))
        assert not (tmp_path / "owner").exists()


class TestRows:
    def test_classes_groups_identifiers_and_released_columns(self, tmp_path):
        table = frame()
        create(request(tmp_path, table, ids="row", release=("x",)))
        service = open_service(tmp_path / "owner")
        with contextlib.closing(service.ledger):
            held = service.holdings
        assert (list(held.classes), list(held.group_names)) == (["no", "yes"], ["north", "south"])
        np.testing.assert_array_equal(np.array(held.classes)[held.labels], table["y"])
        np.testing.assert_array_equal(np.array(held.group_names)[held.groups], table["group"])
        released = (tmp_path / "owner" / "released.csv").read_text().splitlines()
        assert released[:2] == ["id,x", "r0,0.0"]
        assert len(released) == 41

    def test_identifiers_are_text_as_it_is_written(self, tmp_path):
        names = [f"{place:05d}" for place in range(40)]
        create(request(tmp_path, frame().assign(row=names), ids="row", mode="trusted"))
        assert (tmp_path / "owner" / "released.csv").read_text().split() == ["id", *names]

    def test_numbers_are_sorted_by_value(self, tmp_path):
        order = np.random.default_rng(1).permutation(40)
        table = frame().assign(y=np.resize([10, 9, 2, 10], 40)[order], group=np.resize(["a", "b", "b"], 40)[order])
        create(request(tmp_path, table))
        with opened(tmp_path):
            service = open_service(tmp_path / "owner")
            assert list(service.holdings.classes) == [2, 9, 10]
            service.ledger.close()

    def test_without_identifiers_rows_are_numbered(self, tmp_path):
        create(request(tmp_path, frame()))
        assert (tmp_path / "owner" / "released.csv").read_text().split() == ["id", *map(str, range(40))]

    def test_a_function_may_read_texts(self, tmp_path):
        """A column of texts is an array of objects in pandas, which nothing here stores."""
        source = "def f(y_true, y_pred, group):\n    return float(((y_true == y_pred) & (group == 'north')).mean())\n"
        (tmp_path / "own.py").write_text(source)
        own = {"metric": f"{tmp_path / 'own.py'}:f", "groups": None, "mode": "trusted", "kinds": ("value",)}
        create(request(tmp_path, frame(), **own))
        service = open_service(tmp_path / "owner", trust_metric=True)
        with contextlib.closing(service.ledger):
            assert service.holdings.metadata["group"].tolist() == frame()["group"].tolist()

    @pytest.mark.parametrize(
        ("change", "options", "message"),
        [
            ({}, {"label": "Y"}, "there is no column 'Y'; choose from 'group', 'row', 'x', 'y'"),
            ({}, {"groups": "grp"}, "there is no column 'grp'"),
            ({}, {"groups": None}, "is over groups of rows: name their column with --groups"),
            ({}, {"metric": "g_mean"}, "metric 'g_mean' does not read groups: leave --groups out"),
            ({}, {"ids": "group"}, "38 row identifiers occur more than once"),
            ({}, {"ids": "rows"}, "there is no column 'rows'; did you mean 'row'?"),
            ({}, {"label": "x"}, "column 'x' of .* has 40 different values in 40 rows: name a column .* with --label"),
            ({}, {"groups": "row"}, "column 'row' of .* has 40 different values in 40 rows"),
            ({}, {"release": ("z",)}, "there is no column 'z'"),
            ({}, {"release": ("y",)}, "--release y would show learners what the service is to keep"),
            ({}, {"release": ("group",)}, "--release group would show"),
            ({"id": 1}, {"release": ("id",)}, "learners get the identifiers under this name"),
            ({"y": "no"}, {}, "column 'y' of .* has 1 of the two or more classes that are needed"),
            (
                {"y": [None] + ["yes", "no"] * 19 + ["no"]},
                {},
                "1 rows without a label in column 'y', the first is row 0",
            ),
            ({"group": [None] + ["a", "b"] * 19 + ["b"]}, {}, "1 rows without a group in column 'group', the first is"),
            ({"row": [None, *range(39)]}, {"ids": "row"}, "1 rows without an identifier in column 'row', the first is"),
            ({}, {"metric": "http://127.0.0.1:9"}, "is another service, and this one computes the metric itself"),
            ({}, {"metric": "group_g_men"}, "did you mean 'group_g_mean'"),
        ],
    )
    def test_columns_that_cannot_be_used(self, tmp_path, change, options, message):
        with pytest.raises(Exception, match=message) as refused:
            create(request(tmp_path, frame().assign(**change), **options))
        assert not (tmp_path / "owner").exists()
        assert "unexpected" not in str(refused.value)

    def test_a_value_that_the_metric_needs_is_missing(self, tmp_path):
        (tmp_path / "own.py").write_text("def f(y_true, y_pred, x):\n    return float(x[y_true == y_pred].sum())\n")
        own = {"metric": f"{tmp_path / 'own.py'}:f", "groups": None, "mode": "trusted", "kinds": ("value",)}
        table = frame()
        table.loc[3, "x"] = None
        with pytest.raises(UsageError, match="1 rows without a value for metric 'f' in column 'x', the first is row 3"):
            create(request(tmp_path, table, **own))


class TestAllowances:
    @pytest.fixture(params=["private", "trusted"])
    def mode(self, request):
        return request.param

    @pytest.fixture
    def owner(self, tmp_path, mode):
        create(request(tmp_path, frame(), mode=mode))
        return tmp_path / "owner"

    def made(self, owner, **changes):
        given = {"name": "ann", "scope": "learner", "expires": None, "most": None, "per_minute": 600}
        return create_token(owner, **{**given, **changes})

    def test_the_allowance_is_in_the_unit_of_the_mode(self, owner, mode):
        self.made(owner, most=3.0)
        assert token_lines(owner)[-1]["most"] == (3_000_000 if mode == "private" else 3)
        assert unit_of(owner) == ("micro-rho" if mode == "private" else "queries")

    @pytest.mark.parametrize("most", [0.0, -1.0, float("nan")])
    def test_an_allowance_of_nothing(self, owner, most):
        with pytest.raises(UsageError, match=r"--most must be above 0. Got"):
            self.made(owner, most=most)

    @pytest.mark.parametrize("most", [0.5, 2.5, float("inf")])
    def test_queries_are_whole(self, owner, mode, most):
        if mode == "trusted":
            with pytest.raises(UsageError, match=r"--most is a whole number of queries in trusted mode. Got"):
                self.made(owner, most=most)

    def test_a_month_is_usual(self, owner):
        found = datetime.fromisoformat(self.made(owner)["expires"])
        assert abs(found - datetime.now(UTC) - LIFETIME) < timedelta(minutes=5)

    def test_times_are_in_utc(self, owner):
        plain = datetime(2099, 1, 1, 12)  # noqa: DTZ001 -- as a user writes it
        east = datetime.fromisoformat("2099-01-01T12:00+05:00")
        found = [self.made(owner, expires=each)["expires"] for each in (plain, east)]
        assert found == ["2099-01-01T12:00:00+00:00", "2099-01-01T07:00:00+00:00"]

    def test_a_time_that_is_past(self, owner):
        with pytest.raises(UsageError, match=r"--expires must be in the future. Got 2020-01-01 00:00 UTC"):
            self.made(owner, expires=datetime(2020, 1, 1))  # noqa: DTZ001 -- as a user writes it
        assert [line["name"] for line in token_lines(owner)] == ["owner"]
