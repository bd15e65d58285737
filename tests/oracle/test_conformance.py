"""One conformance suite for a function, a program, and the service over a real socket and each kind of database."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import pytest

from postshift.cli.program import Program
from postshift.core.oracle_checks import check_oracle
from postshift.core.oracles import ConfusionOracle, HardOracle, SoftOracle, TableOracle
from postshift.core.psi import value_of
from postshift.exceptions import AnswerError
from postshift.metrics import LabelOracle, PredictionOracle, from_labels, from_predictions
from postshift.oracle import RemoteMetric
from tests.oracle.loopback import serving
from tests.oracle.owned import holdings

N_ROWS = 96
HELD = {
    "classes": {"metric": "g_mean", "n_classes": 3, "groups": None, "group_names": ()},
    "groups": {"metric": "group_g_mean"},
}
KINDS = {"table": "table", "confusion": "confusion", "soft": "value", "hard": "value"}  # of queries, of the service
# A program that reads a file of predictions: the G-mean of three classes, and an error for other rows.
PROGRAM = """
import sys
import numpy as np
labels = np.array([int(line.split(",")[1]) for line in open(sys.argv[1]).read().split()[1:]])
truth = np.array({truth})
if len(labels) != len(truth):
    sys.exit("these are other rows")
print(np.prod([np.mean(labels[truth == k] == k) for k in range(3)]) ** (1 / 3))
"""


@pytest.fixture(params=HELD)
def held(request):
    return holdings(N_ROWS, **HELD[request.param])


def groups_of(held):
    return held.groups if hasattr(held.psi, "n_categories") else None


def check(oracle, held, **how):
    check_oracle(oracle, held.labels, metric=held.psi, n_classes=held.n_classes, groups=groups_of(held), **how)


def score_of(held, shown):
    """The metric of distributions or labels, by counting."""
    if len(shown) != held.n_rows:
        raise ValueError(len(shown))
    table = shown if np.ndim(shown) == 2 else np.eye(held.n_classes)[shown]
    found = [table[held.categories == category].sum(axis=0) for category in range(held.n_categories)]
    return float(value_of(held.psi, np.array(found) / held.n_rows))


class TestOnThisMachine:
    """Functions and programs."""

    @pytest.mark.parametrize("kind", [SoftOracle, HardOracle])
    def test_a_function(self, kind, held):
        check(kind(lambda shown: score_of(held, shown)), held)

    @pytest.mark.parametrize("kind", [ConfusionOracle, TableOracle])
    def test_labels(self, kind, held):
        def of(labels):
            return kind(labels, n_classes=held.n_classes, groups=groups_of(held), metric=held.psi)

        check(of(held.labels), held, in_order=lambda order: of(np.argsort(order)[held.labels]))

    def test_a_function_of_labels(self):
        def right(y_true, y_pred, sample_weight=None):
            return np.average(y_true == y_pred, weights=sample_weight)

        held = holdings(N_ROWS, **{**HELD["classes"], "metric": "accuracy"})
        check(LabelOracle(from_labels(right), held.labels, classes=held.classes), held)

    @pytest.mark.parametrize("soft", [False, True])
    def test_a_function_of_predictions(self, soft, held):
        function = from_predictions(lambda shown: score_of(held, shown), soft=soft)
        check(PredictionOracle(function, classes=held.classes), held)

    def test_a_program(self, tmp_path):
        held = holdings(N_ROWS, **HELD["classes"])
        (tmp_path / "score.py").write_text(PROGRAM.format(truth=held.labels.tolist()))
        program = Program(f"{sys.executable} {tmp_path}/score.py {{predictions}}", timeout=60)
        check(PredictionOracle(from_predictions(program, name="theirs"), classes=held.classes), held)
        assert program.n_runs > 5


class TestTheService:
    """Over a socket; the ledger is in SQLite or in PostgreSQL."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_trusted(self, kind, held, url, tmp_path):
        with serving(held, url, tmp_path, kinds=(KINDS[kind],)) as served, asked(served, held, kind) as (oracle, other):
            check(oracle, held, in_order=other)
            spent = served.spent
            check(oracle, held, in_order=other)
            assert served.spent == spent > 0

    @pytest.mark.parametrize(("kind", "deviation"), [("table", 1.0), ("confusion", 0.1), ("soft", 0.1), ("hard", 0.1)])
    def test_private(self, kind, deviation, held, url, tmp_path):
        """The noise of a count has this standard deviation, in rows; the tolerance is six of them, or more."""
        terms = {"mode": "private", "kinds": (KINDS[kind],), "budget": round(9e6 / deviation**2)}
        tolerance = {"table": 6 * deviation, "confusion": 6 * deviation * 8 / N_ROWS}.get(kind, 0.1)
        with serving(held, url, tmp_path, **terms) as served, asked(served, held, kind) as (oracle, _):
            check(oracle, held, tolerance=tolerance)
            assert 0 < oracle.noise <= deviation
            spent = served.spent
            check(oracle, held, tolerance=tolerance)  # the stored answers
            assert served.spent == spent > 0
            with pytest.raises(AnswerError, match="within 1e-09"):  # there is noise
                check(oracle, held)

    def test_a_service_about_other_labels_is_found(self, sqlite_url, tmp_path):
        held, other = (holdings(N_ROWS, seed=seed, **HELD["classes"]) for seed in (0, 5))
        with (
            serving(held, sqlite_url, tmp_path) as served,
            asked(served, held, "soft") as (oracle, _),
            pytest.raises(AnswerError, match="within 1e-09"),
        ):
            check(oracle, other)


@contextlib.contextmanager
def asked(served, held, kind):
    """Yield the service as an oracle of the core, and a function that gives it with the classes in another order."""
    with contextlib.closing(RemoteMetric(served.url, token=served.token)) as metric:

        def of(order):
            return metric.oracle(classes=[held.classes[k] for k in order], kind=kind)

        yield of(np.arange(held.n_classes)), of
