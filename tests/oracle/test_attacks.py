"""The attacks succeed against exact answers of a service on a socket, and in private mode no more than the bound."""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np
import pytest

from postshift.datasets import load_adult
from postshift.exceptions import BudgetEndedError, DataNotFoundError, SettingError
from postshift.oracle.answers import Answers
from postshift.oracle.attacks import (
    UNKNOWN,
    Known,
    ask_answers,
    ask_service,
    binary_codes,
    differencing,
    in_binary,
    least_squares,
    lever,
)
from postshift.oracle.client import RemoteMetric
from postshift.oracle.holdings import Holdings
from postshift.oracle.privacy import attack_bound
from postshift.oracle.wire import MICRO
from tests.oracle.loopback import serving

ATTACKS = ["differencing", "lever", "lever with rounded answers", "least squares", "binary codes"]
PAIRS = [(0, 0), (1, 0), (0, 1), (1, 1)]  # class and group
SIZES = [32, 40, 23, 28]
RUNS = 150


def rows_of(labels, groups):
    return Holdings(
        ids=list(map(str, range(len(labels)))),
        classes=[0, 1],
        labels=labels,
        groups=groups,
        group_names=["first", "second"],
        metric="group_g_mean",
    )


def small():
    """Rows of two classes and two groups of different sizes."""
    pairs = np.random.default_rng(0).permutation(np.repeat(PAIRS, SIZES, axis=0))
    return rows_of(pairs[:, 0], pairs[:, 1])


def adult():
    """The paper's split of Adult, with the genders."""
    from experiments.paper.adult.splits import FAIRNESS, group_of, load

    try:
        load_adult(download=False)
    except DataNotFoundError as error:
        pytest.skip(f"NO ATTACK ON ADULT: {error}")
    rows = load(FAIRNESS, 0).split.validation
    return rows_of(np.asarray(rows.y), group_of(rows))


def known_of(held):
    """What the attacker knows: all labels, and one group of each pair."""
    groups = np.full(held.n_rows, UNKNOWN)
    for label, group in PAIRS:
        groups[np.flatnonzero((held.labels == label) & (held.groups == group))[0]] = group
    return Known(labels=held.labels, groups=groups, n_classes=2)


def unknown_of(known, most=None):
    """Rows whose groups are not known."""
    found = np.random.default_rng(1).permutation(np.flatnonzero(known.groups == UNKNOWN))
    return found[:most]


def guesses(name, ask, known, rows, *, least_changed, step=2.0**-20):
    """Return the guesses of an attack."""
    more = {"least_changed": least_changed, "step": step, "rng": np.random.default_rng(2)}
    attacks = {
        "differencing": differencing,
        "lever": lever,
        "lever with rounded answers": lambda ask, *given: lever(lambda shown: round(ask(shown), 2), *given),
        "least squares": partial(least_squares, **more),
        "binary codes": binary_codes,
    }
    return attacks[name](ask, known, rows)


@contextlib.contextmanager
def learner_of(held, folder, *, mode, budget):
    """Yield a learner's connection to a new service that holds these rows and answers values."""
    with (
        serving(held, folder / "ledger.db", folder, mode=mode, kinds=("value",), budget=budget) as served,
        contextlib.closing(RemoteMetric(served.url, token=served.token, patience=10)) as metric,
    ):
        yield metric


class Counted:
    """Counts the queries, and keeps what was shown."""

    def __init__(self, ask):
        self.ask, self.shown = ask, []

    def __call__(self, shown):
        self.shown.append(shown)
        return self.ask(shown)


class TestTrusted:
    @pytest.mark.parametrize("name", ATTACKS)
    def test_an_attack_reads_the_groups_over_a_socket(self, name, tmp_path):
        held = small()
        known = known_of(held)
        rows = unknown_of(known, 40)
        with learner_of(held, tmp_path, mode="trusted", budget=200) as metric:
            found = guesses(name, ask_service(metric), known, rows, least_changed=10)
        assert np.mean(found == held.groups[rows]) > 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ATTACKS)
    def test_an_attack_reads_the_genders_of_adult(self, name, tmp_path):
        held = adult()
        assert held.n_rows == 1629
        known = known_of(held)
        rows = unknown_of(known, None if name == "binary codes" else 250)  # the others have a query for each row
        with learner_of(held, tmp_path, mode="trusted", budget=400) as metric:
            found = guesses(name, ask_service(metric), known, rows, least_changed=100)
            spent = metric.budget()["spent"]
        assert np.mean(found == held.groups[rows]) > 0.9
        assert spent <= (50 if name == "binary codes" else 300)

    def test_queries_of_least_squares_all_differ_in_many_rows(self):
        held = small()
        known, ask = known_of(held), Counted(ask_answers(Answers(held, "trusted")))
        guesses("least squares", ask, known, unknown_of(known, 40), least_changed=10)
        moved = np.array(ask.shown)[:, :, 0]
        apart = (moved[:, None] != moved[None]).sum(axis=2)
        assert (apart[~np.eye(len(moved), dtype=bool)] >= 10).all()

    def test_too_few_fillers(self):
        held = small()
        known = known_of(held)
        with pytest.raises(SettingError, match="attack fewer rows"):
            guesses("least squares", None, known, unknown_of(known), least_changed=10)

    def test_an_attacker_without_friends(self):
        held = small()
        known = Known(labels=held.labels, groups=np.full(held.n_rows, UNKNOWN), n_classes=2)
        with pytest.raises(SettingError, match="class 0 and group 0"):
            lever(None, known, np.arange(3))

    def test_numbers_in_binary(self):
        np.testing.assert_array_equal(in_binary(4, 2), [[0, 0], [1, 0], [0, 1], [1, 1]])


class TestPrivate:
    @pytest.mark.slow
    @pytest.mark.parametrize("rho", [0.1, 0.5])
    @pytest.mark.parametrize("name", ATTACKS)
    def test_groups_set_by_a_coin_are_guessed_no_better_than_the_bound(self, name, rho):
        """A run's guesses have the same noise, so the standard error is that of the means of runs."""
        first = small()
        known = known_of(first)
        rows, rng = unknown_of(known, 40), np.random.default_rng(3)
        count = Counted(ask_answers(Answers(first, "trusted")))
        guesses(name, count, known, rows, least_changed=10, step=0.25)
        cost, right = int(rho * MICRO) // len(count.shown), []
        for _ in range(RUNS):
            groups = first.groups.copy()
            groups[rows] = rng.integers(2, size=len(rows))
            ask = ask_answers(Answers(rows_of(first.labels, groups), "private"), cost=cost)
            found = guesses(name, ask, known, rows, least_changed=10, step=0.25)
            right.append(np.mean(found == groups[rows]))
        assert np.mean(right) <= attack_bound(int(rho * MICRO)) + 3 * np.std(right) / np.sqrt(RUNS)

    def test_the_budget_ends_an_attack(self, tmp_path):
        held = small()
        known = known_of(held)
        with learner_of(held, tmp_path, mode="private", budget=1000) as metric:
            with pytest.raises(BudgetEndedError):
                lever(ask_service(metric, cost=300), known, unknown_of(known))
            assert metric.budget()["spent"] == 900
            found = ask_service(metric, cost=100)(known.distributions(np.full(held.n_rows, 0.3)))
        assert 0 < found < 1
