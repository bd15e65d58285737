"""The service: which kinds are answered, what they cost, and stored answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from postshift.exceptions import (
    BadQueryError,
    KindError,
    OverBudgetError,
    RevokedTokenError,
    SettingError,
    TokenBudgetError,
)
from postshift.metrics import from_labels
from postshift.oracle.answers import MOST_COUNTS, ServiceQuery
from postshift.oracle.privacy import attack_bound, epsilon_of
from postshift.oracle.service import Service, Terms, log_line, payload_of, token_line
from postshift.oracle.wire import decoded
from tests.oracle.owned import holdings
from tests.oracle.servers import make_service


def profit(y_true, y_pred, amount):
    return float(((y_true == y_pred) * amount).mean())


@pytest.fixture
def opened(sqlite_url, tmp_path):
    """Return a service and a learner's token."""
    made = []

    def open_one(*, most=None, **terms):
        service = make_service(sqlite_url, tmp_path, **terms)
        made.append(service.ledger)
        _, secret = service.ledger.create_token("ann", scope="learner", most=most)
        return service, service.ledger.verify(secret)

    yield open_one
    for ledger in made:
        ledger.close()


def table(seed=0, *, cost=1, n_cells=3, n_rows=60):
    return ServiceQuery(kind="table", cost=cost, cells=np.random.default_rng(seed).permutation(n_rows) % n_cells)


def value(seed=0, *, cost=1):
    return ServiceQuery(kind="value", cost=cost, predictions=np.random.default_rng(seed).integers(0, 2, 60))


def read(answered):
    return decoded(json.loads(answered.payload), name="answer")


class TestTerms:
    @pytest.mark.parametrize(
        ("terms", "message"),
        [
            ({"kinds": ()}, "kinds must be some of table, confusion, value. Got none"),
            ({"kinds": ("value", "values")}, "kinds must be some of table, confusion, value. Got 'values'"),
            ({"budget": 0}, "budget must be a whole number >= 1"),
            ({"budget": 1.5}, "budget must be a whole number"),
        ],
    )
    def test_terms_that_cannot_be_used(self, terms, message):
        with pytest.raises(SettingError, match=message):
            Service.check(holdings(), Terms(**{"mode": "trusted", "kinds": ("value",), "budget": 1, **terms}))

    def test_a_function_of_single_rows_in_private_mode(self):
        held = holdings(metric=from_labels(profit), metadata={"amount": np.ones(60)})
        with pytest.raises(BadQueryError, match="'profit' reads single rows, and private mode answers counts only"):
            Service.check(held, Terms(mode="private", kinds=("value",), budget=1))

    def test_a_function_of_single_rows_has_values_only(self):
        held = holdings(metric=from_labels(profit), metadata={"amount": np.ones(60)})
        with pytest.raises(SettingError, match="has no confusion matrix: allow the kind value only"):
            Service.check(held, Terms(mode="trusted", kinds=("confusion", "value"), budget=1))
        Service.check(held, Terms(mode="trusted", kinds=("value",), budget=1))


class TestAbout:
    def test_it_says_nothing_about_the_labels(self, opened):
        held = holdings()
        other = holdings(labels=1 - held.labels)
        service, _ = opened(held=held)
        found = service.about
        service.holdings = other
        del service.about
        assert service.about == found
        assert held.digest not in json.dumps(found)

    def test_the_name_of_an_own_function_but_not_the_function(self, opened):
        held = holdings(metric=from_labels(profit), metadata={"amount": np.ones(60)})
        service, _ = opened(held=held, kinds=("value",))
        assert (service.about["metric"], service.about["metric_name"]) == (None, "profit")


class TestBudget:
    def test_private_mode_shows_rho_as_epsilon(self, opened):
        service, token = opened(mode="private", budget=100_000, kinds=("table",))
        service.answer(table(cost=40_000), token)
        found = service.budget()
        assert (found["total"], found["spent"], found["left"], found["answers"]) == (100_000, 40_000, 60_000, 1)
        for name in ("total", "spent", "left"):
            assert found[f"{name}_epsilon"] == epsilon_of(found[name], delta=1e-5)
        assert found["attack_bound"] == attack_bound(100_000)

    def test_trusted_mode_counts_queries(self, opened):
        service, token = opened(budget=3)
        service.answer(value(), token)
        assert service.budget() == {"total": 3, "spent": 1, "left": 2, "answers": 1}

    def test_nothing_is_epsilon_zero(self, opened):
        service, _ = opened(mode="private", kinds=("table",))
        assert service.epsilon(0) == 0.0


class TestQuote:
    def test_a_quote_is_what_is_charged_and_costs_nothing(self, opened):
        service, token = opened(mode="private", budget=1000, kinds=("table",))
        asked = table(cost=600)
        before = service.quote(asked)
        assert before == {
            "cost": 600, "repeated": False, "left": 1000, "affordable": True,
            "epsilon": epsilon_of(600, delta=1e-5), "delta": 1e-5,
        }  # fmt: skip
        assert service.quote(asked) == before
        assert service.answer(asked, token).cost == 600
        again = service.quote(asked)
        assert (again["cost"], again["repeated"], again["left"], again["affordable"]) == (0, True, 400, True)
        assert not service.quote(table(1, cost=401))["affordable"]
        assert service.quote(table(1, cost=400))["affordable"]

    def test_a_query_that_is_not_answered_has_no_quote(self, opened):
        service, _ = opened(kinds=("table",))
        with pytest.raises(KindError):
            service.quote(value())


class TestAnswer:
    def test_the_same_query_gets_the_same_noise(self, opened):
        service, token = opened(mode="private", budget=1000, kinds=("table",))
        first, again = service.answer(table(cost=5), token), service.answer(table(cost=5), token)
        assert (first.payload, first.number) == (again.payload, again.number)
        assert (first.cost, again.cost, again.repeated) == (5, 0, True)
        dearer = service.answer(table(cost=6), token)
        assert dearer.cost == 6
        assert dearer.payload != first.payload

    def test_a_query_in_another_type_of_number_is_the_same(self, opened):
        service, token = opened()
        labels = value().predictions
        service.answer(value(), token)
        narrow = ServiceQuery(kind="value", cost=1, predictions=labels.astype(np.uint8))
        assert service.answer(narrow, token).repeated

    def test_a_value_is_that_of_the_metric(self, opened):
        held = holdings(metric="balanced_accuracy")
        service, token = opened(held=held)
        asked = value()
        wanted = balanced_accuracy_score(held.labels, asked.predictions)
        assert float(read(service.answer(asked, token))) == pytest.approx(wanted, abs=1e-12)

    @pytest.mark.parametrize("asked", [value(), table()], ids=["value", "table"])
    def test_kinds_that_the_owner_does_not_allow(self, opened, asked):
        service, token = opened(kinds=("confusion",))
        with pytest.raises(KindError, match=f"kind '{asked.kind}' are not answered here: ask for confusion"):
            service.answer(asked, token)
        assert service.budget()["spent"] == 0

    def test_a_stored_answer_of_a_kind_that_is_refused_now(self, opened):
        service, token = opened()
        service.answer(value(), token)
        service.terms = Terms(mode="trusted", kinds=("table",), budget=100)
        with pytest.raises(KindError):
            service.answer(value(), token)

    @pytest.mark.parametrize("cost", [2, 1000])
    def test_a_trusted_answer_costs_one_query(self, opened, cost):
        service, token = opened()
        with pytest.raises(BadQueryError, match=f"the cost of a query is 1. Got cost {cost}") as refused:
            service.answer(value(cost=cost), token)
        assert refused.value.code == "bad_cost"

    @pytest.mark.parametrize(("most", "refused"), [(None, OverBudgetError), (1, TokenBudgetError)])
    def test_a_refusal_does_no_work(self, opened, monkeypatch, most, refused):
        service, token = opened(budget=1 if most is None else 10, most=most)
        service.answer(value(), token)
        monkeypatch.setattr(service._answers, "answer", lambda _: pytest.fail("the metric was computed"))
        with pytest.raises(refused):
            service.answer(value(1), token)
        assert service.budget()["spent"] == 1

    def test_a_revoked_token(self, opened):
        service, token = opened()
        service.ledger.revoke_token(token.id)
        with pytest.raises(RevokedTokenError):
            service.answer(value(), token)

    def test_a_metric_that_raises_is_charged_and_is_no_number(self, opened):
        def broken(y_true, y_pred, amount):  # noqa: ARG001 -- the form of a metric
            raise ValueError("row 3 is ill")

        held = holdings(metric=from_labels(broken), metadata={"amount": np.ones(60)})
        service, token = opened(held=held, kinds=("value",))
        found = service.answer(value(), token)
        assert np.isnan(read(found))
        assert found.cost == 1
        assert b"ill" not in found.payload

    def test_the_log_says_what_was_asked(self, opened):
        service, token = opened()
        shares = np.eye(2)[value().predictions]
        for asked in (table(n_cells=4), value(), ServiceQuery(kind="value", cost=1, predictions=shares)):
            service.answer(asked, token)
        texts = [line.text for line in service.ledger.lines(limit=3)]
        assert texts == [
            "value of distributions, one query",
            "value of labels, one query",
            "table of 4 cells, one query",
        ]

    def test_the_log_of_private_mode_has_rho(self, opened):
        service, token = opened(mode="private", budget=100_000, kinds=("table",))
        service.answer(table(cost=50_000), token)
        assert service.ledger.lines(limit=1)[0].text == "table of 3 cells, rho 0.05"


class TestForTheOwner:
    def test_lines_of_the_log_and_tokens_are_json_without_secrets(self, opened):
        service, token = opened(most=5)
        service.answer(value(), token)
        line = log_line(service.ledger.lines(limit=1)[0])
        use = token_line(service.ledger.tokens()[0])
        json.dumps([line, use])
        assert (line["event"], line["cost"], line["token"], line["time"]) == (
            "answer", 1, token.id, "2024-05-06T07:08:09+00:00",
        )  # fmt: skip
        assert (use["spent"], use["answers"], use["most"], use["expires"], use["revoked"]) == (1, 1, 5, None, None)
        assert not {"secret", "digest", "key"} & {*line, *use}


@pytest.mark.parametrize(
    "answer", [np.arange(6).reshape(2, 3), np.array(0.25), np.array([[-3, 2**60]]), np.array([1, 2], dtype=np.uint8)]
)
def test_answers_come_back_from_their_bytes(answer):
    found = decoded(json.loads(payload_of(answer)), name="answer")
    assert found.shape == answer.shape
    np.testing.assert_array_equal(found, answer)


@pytest.fixture
def private(sqlite_url, tmp_path):
    made = make_service(sqlite_url, tmp_path, mode="private", budget=100_000)
    yield made
    made.ledger.close()


def learner(service):
    identifier, secret = service.ledger.create_token("ann", scope="learner")
    assert service.ledger.verify(secret).id == identifier
    return service.ledger.verify(secret)


def table_of(seed, cost=1000):
    return ServiceQuery(kind="table", cost=cost, cells=np.random.default_rng(seed).integers(0, 4, 60))


def test_costs_add_up_over_queries_and_tokens(private):
    """Also the same table_of at another cost: its noise is new."""
    one, two = learner(private), learner(private)
    answers = [private.answer(table_of(0, cost), token) for cost, token in ((1000, one), (2000, one), (1000, two))]
    assert [each.cost for each in answers] == [1000, 2000, 0]
    assert answers[0].payload == answers[2].payload != answers[1].payload
    assert private.budget()["spent"] == 3000


def test_what_is_told_for_free_does_not_depend_on_labels_or_groups(tmp_path):
    (tmp_path / "other").mkdir()
    other = holdings(labels=np.zeros(60, int), groups=np.ones(60, int))
    told = []
    for held, folder in ((holdings(), tmp_path), (other, tmp_path / "other")):
        service = make_service(f"sqlite:///{folder / 'ledger.db'}", folder, mode="private", held=held)
        told.append(json.dumps([service.about, service.budget(), service.quote(table_of(0)), held.released]))
        service.ledger.close()
    assert told[0] == told[1]


def test_private_values_of_very_many_counts_are_not_offered():
    """Each count has noise, a tenth of a millisecond: an answer would take minutes."""
    n_classes = int(MOST_COUNTS**0.5) + 1
    held = holdings(4 * n_classes, metric="accuracy", n_classes=n_classes, n_groups=1, groups=None, group_names=())
    terms = {"mode": "private", "budget": 10}
    Service.check(held, Terms(kinds=("table",), **terms))
    with pytest.raises(SettingError, match="counts"):
        Service.check(held, Terms(kinds=("table", "value"), **terms))
