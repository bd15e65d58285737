"""The service: terms, what is told before anything is asked, and budgets in words of privacy."""

from __future__ import annotations

import json

import numpy as np
import pytest

from postshift.exceptions import KindError, QuestionError, SettingError
from postshift.oracle.answers import MOST_COUNTS, Question
from postshift.oracle.privacy import attack_bound, epsilon_of
from postshift.oracle.service import Service, Terms, log_line, token_line
from tests.oracle.owned import holdings
from tests.oracle.servers import make_service


@pytest.fixture
def private(sqlite_url, tmp_path):
    made = make_service(sqlite_url, tmp_path, mode="private", budget=100_000)
    yield made
    made.ledger.close()


def learner(service):
    identifier, secret = service.ledger.create_token("ann", scope="learner")
    assert service.ledger.verify(secret).id == identifier
    return service.ledger.verify(secret)


def table(seed, cost=1000):
    return Question(kind="table", cost=cost, cells=np.random.default_rng(seed).integers(0, 4, 60))


def test_the_budget_is_shown_as_epsilon_and_delta_too(private):
    token = learner(private)
    private.answer(table(0, 40_000), token)
    private.answer(table(1, 25_000), token)
    found = private.budget()
    assert (found["total"], found["spent"], found["left"], found["answers"]) == (100_000, 65_000, 35_000, 2)
    for name in ("total", "spent", "left"):
        assert found[f"{name}_epsilon"] == epsilon_of(found[name], delta=found["delta"])
    assert found["delta"] == 1e-5
    assert found["attack_bound"] == attack_bound(100_000)


def test_costs_add_up_over_questions_and_tokens(private):
    """Also the same table at another cost: its noise is new."""
    one, two = learner(private), learner(private)
    answers = [private.answer(table(0, cost), token) for cost, token in ((1000, one), (2000, one), (1000, two))]
    assert [each.cost for each in answers] == [1000, 2000, 0]
    assert answers[0].payload == answers[2].payload != answers[1].payload
    assert private.budget()["spent"] == 3000


def test_a_quote_shows_the_cost_before_it_is_spent(private):
    quoted = private.quote(table(0, 40_000))
    assert quoted == {
        "cost": 40_000,
        "repeated": False,
        "left": 100_000,
        "affordable": True,
        "epsilon": epsilon_of(40_000, delta=1e-5),
        "delta": 1e-5,
    }
    assert not private.quote(table(0, 100_001))["affordable"]
    assert private.budget()["spent"] == 0


def test_what_is_told_for_free_does_not_depend_on_labels_or_groups(tmp_path):
    (tmp_path / "other").mkdir()
    other = holdings(labels=np.zeros(60, int), groups=np.ones(60, int))
    told = []
    for held, folder in ((holdings(), tmp_path), (other, tmp_path / "other")):
        service = make_service(f"sqlite:///{folder / 'ledger.db'}", folder, mode="private", held=held)
        told.append(json.dumps([service.about, service.budget(), service.quote(table(0)), held.released]))
        service.ledger.close()
    assert told[0] == told[1]


def test_questions_that_are_not_allowed(sqlite_url, tmp_path):
    service = make_service(sqlite_url, tmp_path, kinds=("value",))
    token = learner(service)
    with pytest.raises(KindError, match="ask for value"):
        service.answer(table(0), token)
    with pytest.raises(QuestionError, match="costs 1 query"):
        service.answer(Question(kind="value", cost=2, predictions=np.zeros(60, int)), token)
    assert service.budget()["spent"] == 0
    service.ledger.close()


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"kinds": ()}, "kinds must be some of"),
        ({"kinds": ("labels",)}, "kinds must be some of"),
        ({"budget": 0}, "budget"),
    ],
)
def test_terms_that_cannot_be_kept(terms, words):
    with pytest.raises(SettingError, match=words):
        Service.check(holdings(), Terms(**{"mode": "private", "kinds": ("table",), "budget": 10, **terms}))


def test_private_values_of_very_many_counts_are_not_offered():
    """Each count has noise, a tenth of a millisecond: an answer would take minutes."""
    n_classes = int(MOST_COUNTS**0.5) + 1
    held = holdings(4 * n_classes, metric="accuracy", n_classes=n_classes, n_groups=1, groups=None, group_names=())
    terms = {"mode": "private", "budget": 10}
    Service.check(held, Terms(kinds=("table",), **terms))
    with pytest.raises(SettingError, match="counts"):
        Service.check(held, Terms(kinds=("table", "value"), **terms))


def test_what_the_owner_sees_has_no_secret_and_no_answer(private):
    token = learner(private)
    answered = private.answer(table(0), token)
    shown = json.dumps(
        [
            [log_line(line) for line in private.ledger.lines()],
            [token_line(use) for use in private.ledger.tokens()],
        ]
    )
    assert json.loads(answered.payload)["data"] not in shown
    assert "table of 4 cells, rho 0.001" in shown
    assert '"secret"' not in shown
