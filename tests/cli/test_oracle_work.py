"""The work of ``postshift oracle``: amounts in words, and how the owner's file becomes rows, classes and groups."""

from __future__ import annotations

import contextlib
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

PRIVATE = Terms(mode="private", kinds=("table",), budget=100_000)
TRUSTED = Terms(mode="trusted", kinds=("value",), budget=100)
GIVEN = {
    "label": "y", "metric": "group_g_mean", "ids": None, "groups": "group", "release": (), "mode": "private",
    "kinds": (), "rho": None, "queries": None, "pos_label": None, "title": "rows", "database": None,
}  # fmt: skip


def frame(n_rows=40):
    """Rows whose classes and groups are all there."""
    place = np.arange(n_rows)
    group, label = np.where(place % 4 < 2, "north", "south"), np.where(place % 2, "yes", "no")
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

    def test_numbers_are_sorted_by_value(self, tmp_path):
        table = frame().assign(y=np.resize([10, 9, 2, 10], 40), group=np.repeat(["a", "b"], 20))
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
            ({}, {"ids": "group"}, "38 row identifiers occur more than once: make them unique"),
            ({}, {"ids": "rows"}, "there is no column 'rows'; did you mean 'row'?"),
            ({}, {"label": "x"}, "column 'x' of .* has 40 different values in 40 rows: name a column .* with --label"),
            ({}, {"groups": "row"}, "column 'row' of .* has 40 different values in 40 rows"),
            ({}, {"release": ("z",)}, "there is no column 'z'"),
            ({}, {"release": ("y",)}, "--release y would show learners what the service is to keep"),
            ({}, {"release": ("group",)}, "--release group would show"),
            ({"id": 1}, {"release": ("id",)}, "a column of this name cannot be released beside it: rename it"),
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


class TestTokens:
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
