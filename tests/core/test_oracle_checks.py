"""The conformance suite of oracles: good ones pass, and each kind of mistake is found."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.core.oracle_checks import check_oracle
from postshift.core.oracles import ConfusionOracle, HardOracle, SoftOracle, TableOracle
from postshift.exceptions import AnswerError, LabelError, SettingError
from postshift.metrics import Accuracy, ExpectedCost, GMean, GroupGMean

LABELS = np.random.default_rng(0).permutation(np.arange(36) % 3)
GROUPS = np.random.default_rng(1).permutation(np.arange(36) // 3 % 2)
CLASSES = {"metric": Accuracy(), "n_classes": 3}


def hits(shown):
    return float(np.mean(np.broadcast_to(shown, LABELS.shape) == LABELS)) if shown.size == LABELS.size else 1 / 0


def soft_hits(table):
    return float(np.mean(table[np.arange(len(LABELS)), LABELS])) if len(table) == len(LABELS) else 1 / 0


def in_order_of(make):
    return lambda order: make(np.argsort(order)[LABELS])


@pytest.mark.parametrize("oracle", [HardOracle(hits), SoftOracle(soft_hits)], ids=["hard", "soft"])
def test_functions_pass(oracle):
    check_oracle(oracle, LABELS, **CLASSES)


@pytest.mark.parametrize("make", [ConfusionOracle, TableOracle])
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["classes", "groups"])
def test_oracles_of_labels_pass(make, groups):
    metric = GMean() if groups is None else GroupGMean(n_groups=2, n_classes=3)

    def of(labels):
        return make(labels, n_classes=3, groups=groups, metric=metric)

    check_oracle(of(LABELS), LABELS, metric=metric, n_classes=3, groups=groups, in_order=in_order_of(of))


def test_a_cost_is_negative():
    costs = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]])

    def cost(labels):
        return float(costs[LABELS, np.where(np.size(labels) == 36, labels, None).astype(int)].mean())

    cost.greater_is_better = False
    check_oracle(HardOracle(cost), LABELS, metric=ExpectedCost(costs), n_classes=3)
    cost.greater_is_better = True
    with pytest.raises(AnswerError, match=r"must be -\d.*Got \d"):
        check_oracle(HardOracle(cost), LABELS, metric=ExpectedCost(costs), n_classes=3)


class Wrong(ConfusionOracle):
    """An oracle with a mistake."""

    def __init__(self):
        super().__init__(LABELS, n_classes=3)
        self.n_asked = 0

    def answer(self, query):
        self.n_asked += 1
        return self.changed(super().answer(query), query)


class Noisy(Wrong):
    def changed(self, answer, _):
        moved = answer * np.random.default_rng(self.n_asked).uniform(0.99, 1.01, size=answer.shape)
        return np.minimum(moved / moved[0].sum(), moved[0] / moved[0].sum())


class Swapped(Wrong):
    def changed(self, answer, _):
        return answer[:, ::-1]


class NotFinite(Wrong):
    def changed(self, answer, _):
        return np.where(answer == answer.max(), np.nan, answer)


class OfTheFirst(Wrong):
    """It remembers its first answer, and gives it again."""

    first = None

    def changed(self, answer, _):
        self.first = answer if self.first is None else self.first
        return self.first


class Counting(Wrong):
    """The answer is exact at first, and depends on how much was asked before."""

    def changed(self, answer, _):
        return answer * (1 - 1e-10 * self.n_asked)


class WithoutSubsets(Wrong):
    def changed(self, answer, query):
        return answer if query.rows is None else answer[:, ::-1]


class Transposed(Wrong):
    def changed(self, answer, _):
        return answer[0]


@pytest.mark.parametrize(
    ("oracle", "text"),
    [
        (Noisy(), r"'random distributions 0' must be 0\.\d+ in entry \(\d, \d, \d\), within 1e-09"),
        (Swapped(), "must be"),
        (NotFinite(), "NaN, infinite or negative"),
        (OfTheFirst(), "'random distributions 1' must be"),
        (Counting(), "when it was asked again: an equal query must get an equal answer"),
        (WithoutSubsets(), "must be"),
        (Transposed(), "shape"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_mistakes_are_found(oracle, text):
    with pytest.raises(AnswerError, match=text):
        check_oracle(oracle, LABELS, **CLASSES)


def test_predictions_that_are_changed_are_found():
    class Writing(HardOracle):
        def answer(self, query):
            answer = super().answer(query)
            owned = query.predictions
            while owned.base is not None:
                owned = owned.base
            owned.setflags(write=True)
            owned[0] = (owned[0] + 1) % 3
            return answer

    with pytest.raises(AnswerError, match="work on a copy"):
        check_oracle(Writing(hits), LABELS, **CLASSES)


def test_an_oracle_that_writes_into_what_it_is_shown_gets_an_error():
    class Sorting(HardOracle):
        def answer(self, query):
            query.predictions.sort()
            return 0.5

    with pytest.raises(ValueError, match="read-only"):
        check_oracle(Sorting(hits), LABELS, **CLASSES)


def test_another_number_of_rows_must_be_refused():
    with pytest.raises(AnswerError, match="must be refused: they are of other rows"):
        check_oracle(HardOracle(lambda labels: float(np.mean(labels == LABELS[: len(labels)]))), LABELS, **CLASSES)


def test_subsets_must_be_refused_if_they_are_not_taken():
    class Careless:
        kind, takes_subsets = "hard", False

        def answer(self, query):
            if len(query.predictions) not in (18, 36):
                raise ValueError(len(query.predictions))
            return float(np.mean(query.predictions == LABELS[: len(query.predictions)]))

    with pytest.raises(AnswerError, match="takes_subsets is False"):
        check_oracle(Careless(), LABELS, **CLASSES)


def test_the_order_of_the_classes_is_checked():
    with pytest.raises(AnswerError, match="must be"):
        check_oracle(
            ConfusionOracle(LABELS, n_classes=3),
            LABELS,
            metric=GMean(),
            n_classes=3,
            in_order=lambda _: ConfusionOracle(LABELS, n_classes=3),
        )


def test_noise_within_the_tolerance_passes():
    class Rounded(HardOracle):
        def answer(self, query):
            return round(super().answer(query), 1)

    check_oracle(Rounded(hits), LABELS, **CLASSES, tolerance=0.06)
    with pytest.raises(AnswerError):
        check_oracle(Rounded(hits), LABELS, **CLASSES)


def test_settings():
    with pytest.raises(LabelError):
        check_oracle(HardOracle(hits), LABELS + 1, **CLASSES)

    class Strange(HardOracle):
        kind = "riddle"

    with pytest.raises(SettingError, match="riddle"):
        check_oracle(Strange(hits), LABELS, **CLASSES)
