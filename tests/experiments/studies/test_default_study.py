"""The study of the default: every kind of task is measured, the figures by hand, the goals, the page."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.harness import runner
from experiments.harness.page import write_page
from experiments.harness.store import Row
from experiments.studies import default_goals, default_study, menu_study, menu_tasks, new_tasks
from experiments.studies.default_goals import STORED, goals
from experiments.studies.default_rivals import RIVALS, Rival
from experiments.studies.default_scores import (
    BASE,
    CHOICE,
    DEFAULT,
    ERROR,
    FAILED,
    GROUPS,
    HIGH,
    LOW,
    RIVAL_NAMES,
    SCORE,
    Scores,
)
from experiments.studies.default_study import EXPERIMENT, TASKS, Split, measure, measured, metric_of
from experiments.studies.default_study_page import panels, score_table
from experiments.studies.menu_tasks import TaskData

WINE = "old: wine_two_laboratories"
PENALISED = {"metric": "accuracy - equalized_odds", "metric_options": {"n_groups": 3, "n_classes": 2}}
KAPPA = {"metric": "cohen_kappa", "metric_options": {"weights": "quadratic"}}


@cache
def task(n_classes: int = 3, n_rows: int = 150) -> TaskData:
    """Return a task of a model that takes unequal classes for equal ones, with three groups and a basis."""
    rng = np.random.default_rng(n_classes)
    shares = 0.8 ** np.arange(n_classes)
    given: dict[str, Any] = {}
    for place, part in enumerate(("train", "val", "test")):
        y = np.concatenate([np.arange(n_classes), rng.choice(n_classes, size=n_rows, p=shares / shares.sum())])
        X = 1.5 * np.eye(n_classes)[y] + rng.normal(size=(len(y), n_classes))
        eta = np.exp(2 * X + np.linspace(0, 1.5, n_classes))
        groups = rng.integers(3, size=len(y))
        given |= {f"X_{part}": X, f"y_{part}": y, f"eta_{part}": eta / eta.sum(axis=1, keepdims=True)}
        given |= {f"group_{part}": groups, f"user_phi_{part}": np.eye(3)[groups]}
        given |= {f"rows_{part}": np.arange(len(y)) + place * len(y)}
    del given["group_train"]
    return TaskData(name="synthetic", metric="f1_macro", metric_options={}, n_classes=n_classes, **given)


def without_training(data: TaskData) -> TaskData:
    """Return a task of a model that others trained: it has no training rows, no groups and no basis."""
    columns = ["group_val", "group_test", "user_phi_val", "user_phi_test"]
    columns += [f"{what}_train" for what in ("X", "y", "eta", "rows", "user_phi")]
    nothing: Any = dict.fromkeys(columns)
    return replace(data, **nothing)


KINDS = {
    "a model of others": lambda: without_training(task(4)),
    "a gap between groups": lambda: replace(task(2), **PENALISED),
    "weighted kappa": lambda: replace(task(4), **KAPPA),
    "an opaque function": lambda: replace(task(2), metric="capped_profit"),
    "an opaque function, no training rows": lambda: replace(without_training(task(2)), metric="hit_rate_of_budget"),
}


class TestMeasured:
    @pytest.mark.parametrize(
        "kind", [kind if "opaque" in kind else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
    )
    def test_everything_usable_has_a_value(self, kind: str) -> None:
        data = KINDS[kind]()
        rows = {row.method: row for row in measured(data)}
        usable = [rival.name for rival in RIVALS if rival.usable(data, metric_of(data))]
        assert [name for name in rows if name in RIVAL_NAMES] == usable
        assert list(rows)[:3] == [BASE, DEFAULT, CHOICE]
        assert {"stack", "plug-in search", "FW-EG [constant]"} < rows.keys()
        assert all(np.isfinite(row.values["test"]) and row.seconds >= 0 for row in rows.values())
        assert rows[DEFAULT].queries == rows["FW-EG [constant]"].queries == 0  # the functions only count rows
        assert ("influence [user]" in rows) == (data.user_phi_val is not None)
        assert ("rate program [user]" in rows) == (kind == "a gap between groups")

    @pytest.mark.slow
    def test_many_classes(self) -> None:
        rows = {
            row.method: row.values
            for row in measured(replace(task(40, 400), user_phi_train=None, user_phi_val=None, user_phi_test=None))
        }
        assert not any(FAILED in values for values in rows.values())
        assert rows[DEFAULT]["test"] > rows[BASE]["test"]

    def test_values_are_those_of_the_test_rows(self) -> None:
        data = replace(task(2), metric="capped_profit")
        labels = data.eta_test.argmax(axis=1)
        assert Split.of(data).on_test(labels) == metric_of(data)(data.y_test, labels)
        kappa = Split.of(replace(task(4), **KAPPA))
        expected = kappa.metric.value(table(kappa.data.y_test, kappa.data.eta_test.argmax(axis=1), 4))
        assert kappa.on_test(kappa.data.eta_test.argmax(axis=1)) == pytest.approx(float(expected))

    def test_a_failing_rival_is_recorded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> Any:
            raise ZeroDivisionError("division\n by zero")

        broken = (Rival(name=RIVAL_NAMES[0], usable=lambda *_: True, fit=fail), RIVALS[1])
        monkeypatch.setattr(default_study, "RIVALS", broken)
        *_, failed, good = measured(replace(task(2), metric="capped_profit"))
        assert failed.values == {FAILED: True}
        assert failed.config == {ERROR: "ZeroDivisionError: division by zero"}
        assert "test" in good.values

    def test_a_rival_without_a_number_fails(self) -> None:
        data = replace(task(2), metric="capped_profit")
        split = replace(Split.of(data), metric=lambda *_: float("nan"))
        assert default_study.row_of(RIVALS[0], split).values == {FAILED: True}

    def test_our_own_errors_are_raised(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(default_study, "BESIDE_THE_MENU", ("no such rule",))
        with pytest.raises(ValueError, match="no such rule"):
            measured(replace(task(2), metric="capped_profit"))

    def test_missing_packages_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(default_study, "has", lambda package: package == "oxonfair")
        with pytest.raises(ImportError, match="the rivals need xcolumns and fairlearn: pip install"):
            measure(WINE, 0, False)

    @pytest.mark.slow
    def test_old_tasks_are_comparable_with_the_study_of_the_menu(self) -> None:
        """PostShifter gives the labels of the rules themselves."""
        names = {menu_study.AVERAGE: DEFAULT, menu_study.BEST: CHOICE}
        expected = {
            names.get(row.method, row.method): row.values["test"] for row in menu_study.measure(WINE[5:], 0, False)
        }
        found = {row.method: row.values["test"] for row in measure(WINE, 0, True)}
        assert expected.keys() <= found.keys()
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def table(y_true: np.ndarray, y_pred: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the confusion matrix."""
    return np.bincount(n_classes * y_true + y_pred, minlength=n_classes**2).reshape(n_classes, -1) / len(y_true)


class TestTasks:
    def test_all_28(self) -> None:
        assert len(TASKS) == len(set(TASKS)) == 28
        assert [len(tasks) for tasks in GROUPS.values()] == [14, 12, 2]

    @pytest.mark.parametrize("name", TASKS)
    def test_every_metric_is_known(self, name: str) -> None:
        short = name.partition(": ")[2]
        made = (menu_tasks if name.startswith("old") else new_tasks)._task(short)
        metric = metric_of(SimpleNamespace(metric=made.metric, metric_options=made.options))
        called = metric.__name__ if callable(metric) else metric.name
        assert called.startswith(made.metric)

    @pytest.mark.parametrize("group", GROUPS)
    def test_a_group_runs_by_itself(self, group: str) -> None:
        """Adult's education is old, and its levels of education are set aside."""
        chosen = [name for name in TASKS if runner.chosen(name, [f"{group}: "])]
        assert chosen == [f"{group}: {name}" for name in GROUPS[group]]
        assert [name for name in TASKS if runner.chosen(name, ["old: adult_education"])] == ["old: adult_education"]

    def test_splits(self) -> None:
        assert sorted(EXPERIMENT.seeds.values()) == [10] * 4 + [20] * 24
        assert EXPERIMENT.seeds["set aside: digit_pairs"] == 10


# -- figures ------------------------------------------------------------------------------------------------


def said_of(method: str, value: float) -> dict[str, float]:
    """Return a score of the default that is a tenth too high, and an interval that covers the value up to 0.7."""
    return {SCORE: value + 0.1, LOW: 0.0, HIGH: 0.7} if method == DEFAULT else {}


def results_of(values: dict[str, dict[str, list[float | None]]], *, failed: tuple[Row, ...] = ()) -> Any:
    """Return results of tasks and methods given by their values; None is a split without a row."""
    row = Row(values={}, seconds=0.5, queries=3, config={"quick": False}, versions="postshift 1")
    rows = [
        replace(row, task=name, method=method, seed=seed, values={"test": value, **said_of(method, value)})
        for name, methods in values.items()
        for method, found in methods.items()
        for seed, value in enumerate(found)
        if value is not None
    ]
    return EXPERIMENT.results([*rows, *failed])


ONE, TWO, THREE = "set aside: compas_odds", "set aside: digit_pairs", "set aside: types_of_pieces"
SMALL = {
    ONE: {BASE: [0.5, 0.6], DEFAULT: [0.7, 0.9], "stack": [0.8, 0.8], "DNIP": [0.9, 0.8]},
    TWO: {BASE: [0.4, 0.4], DEFAULT: [0.4, 0.3], "stack": [0.2, 0.2]},
    THREE: {BASE: [0.1, 0.1], DEFAULT: [0.6, 0.6], "stack": [0.5, 0.5], "DNIP": [None, 0.4]},
}


class TestScores:
    scores = Scores(results_of(SMALL))

    def test_methods(self) -> None:
        assert self.scores.methods == [BASE, DEFAULT, CHOICE, "stack", "DNIP"]
        assert self.scores.rules == [BASE, "stack"]
        assert self.scores.serves("DNIP", [ONE, TWO, THREE]) == [ONE, THREE]

    def test_differences_are_paired(self) -> None:
        assert self.scores.differences(ONE, "stack") == pytest.approx([-0.1, 0.1])
        assert self.scores.differences(THREE, "DNIP") == pytest.approx([0.2])

    def test_a_task_counts_once(self) -> None:
        lead = self.scores.lead("stack", [ONE, TWO, THREE])
        means = [0.0, 0.15, 0.1]
        low, high = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
        found = lead.over_tasks
        assert (found.mean, found.low, found.high) == pytest.approx((np.mean(means), low, high))

    def test_interval_over_splits(self) -> None:
        lead = self.scores.lead("stack", [ONE, TWO]).over_splits
        first, second = np.var([-0.1, 0.1], ddof=1) / 2, np.var([0.2, 0.1], ddof=1) / 2
        freedom = (first + second) ** 2 / (first**2 + second**2)
        half = stats.t.ppf(0.975, freedom) * np.sqrt(first + second) / 2
        assert (lead.mean, lead.high - lead.mean) == pytest.approx((0.075, half))
        assert np.isnan(self.scores.lead("DNIP", [ONE, THREE]).over_splits.low)
        same = self.scores.lead(BASE, [THREE]).over_splits
        assert same.low == same.high == pytest.approx(0.5)

    def test_ranks(self) -> None:
        assert self.scores.ranks[ONE] == {BASE: 4, DEFAULT: 2.5, "stack": 2.5, "DNIP": 1}
        assert self.scores.rank("DNIP", [ONE, TWO, THREE]) == 2

    def test_hindsight(self) -> None:
        assert self.scores.hindsight(ONE) == pytest.approx(0.8)
        assert self.scores.hindsight(ONE, with_rivals=True) == pytest.approx(0.85)
        assert self.scores.hindsight(TWO) == 0.4
        found = self.scores.above_hindsight([ONE, TWO, THREE])
        low, high = stats.t.interval(0.95, 2, 0.05 / 3, stats.sem([0, -0.05, 0.1]))
        assert (found.mean, found.low, found.high) == pytest.approx((0.05 / 3, low, high))


class TestGoals:
    @staticmethod
    def found(values: Any) -> list[tuple[bool | None, str]]:
        return [(goal.reached, goal.found) for goal in goals(Scores(results_of(values)))]

    def test_a_lost_comparison_is_named(self) -> None:
        above, near, base, runs, *_ = self.found({ONE: SMALL[ONE]})
        text = "on 1 tasks above 1 of 3, 0 of them with the whole interval over tasks; not above: "
        assert above == (False, f"{text}stack (-0.0000); DNIP (-0.0500)")
        assert near == (True, "+0.0000, over 1 tasks")
        assert base == (True, "0 of 1 tasks")
        assert runs == (None, "set aside: 0 of 2")

    def test_all_above(self) -> None:
        above, near, *_ = self.found({ONE: SMALL[ONE] | {DEFAULT: [0.95, 0.95]}, THREE: SMALL[THREE]})
        assert above[0] is near[0] is True
        assert above[1].endswith("not above: none")

    def test_far_below_hindsight_and_the_base(self) -> None:
        _, near, base, runs, *_ = self.found({TWO: {BASE: [0.5, 0.5, 0.4], DEFAULT: [0.47, 0.469, 0.39]}})
        assert near == (False, "-0.0237, over 1 tasks")
        assert base[0] is True
        assert runs[1] == "set aside: 2 of 3"
        _, _, base, *_ = self.found({TWO: {BASE: [0.5, 0.5, 0.5], DEFAULT: [0.47, 0.47, 0.47]}})
        assert base == (False, "1 of 1 tasks: digit_pairs")

    def test_nothing_is_claimed_of_what_was_not_run(self) -> None:
        found = self.found({WINE: {BASE: [0.5, 0.6], DEFAULT: [0.7, 0.8]}})
        assert [reached for reached, _ in found] == [None, None, True, None, None, None]
        assert [text == default_goals.NOT_MEASURED for _, text in found] == [True, True, False, False, True, True]

    def test_the_stored_means(self) -> None:
        assert [round(float(np.mean(found)), 4) for found in STORED.values()] == [0.7007, 0.6991]
        assert {len(found) for found in STORED.values()} == {20}

    def test_the_old_tasks_are_compared_by_split(self) -> None:
        first, _ = STORED.values()
        values = {f"old: {name}": {BASE: [0.5] * 20, DEFAULT: list(first)} for name in GROUPS["old"]}
        *_, of_first, of_last = self.found(values)
        assert of_first[0] is None  # it has no bound
        assert of_last[0] is True
        assert of_last[1].startswith("0.7007, +0.0016, +0.0006 to ")
        for below, reached in ((0.002, True), (0.003, False)):  # 0.7007 less it, against 0.6991 less 0.001
            lower = {name: methods | {DEFAULT: [each - below for each in first]} for name, methods in values.items()}
            assert [goal[0] for goal in self.found(lower)[-2:]] == [None, reached]


# -- the page -----------------------------------------------------------------------------------------------


def all_results() -> Any:
    """Return made-up results of all tasks, with a rival that failed, and one that serves some splits only."""
    rng = np.random.default_rng(0)
    methods = (BASE, DEFAULT, CHOICE, "stack", "plug-in search", *RIVAL_NAMES[:3])
    values = {name: {method: list(rng.uniform(size=EXPERIMENT.seeds[name])) for method in methods} for name in TASKS}
    values[TWO]["xCOLUMNs"] = [0.5, 0.6, *[None] * 8]
    config = {"quick": False, ERROR: "ValueError: one | two"}
    row = Row(task=ONE, method="OxonFair", values={FAILED: 1.0}, seconds=1.0, config=config, versions="postshift 1")
    return results_of(values, failed=tuple(replace(row, seed=seed) for seed in range(20)))


class TestPage:
    def test_what_the_default_says_of_itself(self) -> None:
        table = score_table(Scores(results_of(SMALL)))
        assert f"| {ONE} | +0.100 | 0.100 | 1 of 2 |" in table
        assert f"| {TWO} | +0.100 | 0.100 | 2 of 2 |" in table

    def test_whole(self) -> None:
        results = all_results()
        page = EXPERIMENT.page(results)
        assert not results.missing
        assert page.count("\n## ") == 12
        assert "On the 14 set-aside tasks, the mean is 0." in page
        assert not re.search(r"\bnan\b", page)
        assert "Incomplete" not in page
        assert "| xCOLUMNs | 1 | 0.550 |" in page
        assert " 0.550* |" in page
        assert "* xCOLUMNs, digit_pairs: cannot be used on 8 of 10 splits" in page
        assert "* OxonFair, compas_odds: failed on 20 of 20 splits (ValueError: one | two)" in page
        assert "digit_pairs (10)" in " ".join(page.split())
        assert "tuned threshold, coordinate search" in " ".join(page.split())
        assert all(new_tasks.describe(name) in page for name in (*GROUPS["set aside"], *GROUPS["looked at"]))

    def test_a_part_of_the_set_aside_tasks_is_not_shown(self) -> None:
        """The one look is at all of them: a run that was stopped in between shows nothing of them."""
        rows = all_results().rows
        before = [row for row in rows if not row.task.startswith("set aside: ")]
        during = [row for row in rows if (row.task, row.seed) != (TWO, 9)]
        assert EXPERIMENT.page(EXPERIMENT.results(during)) == EXPERIMENT.page(EXPERIMENT.results(before))
        assert [str(each) for each in panels(EXPERIMENT.results(during))] == [
            str(each) for each in panels(EXPERIMENT.results(before))
        ]

    def test_only_the_old_tasks(self) -> None:
        kept = [row for row in all_results().rows if row.task.startswith("old: ")]
        page = " ".join(EXPERIMENT.page(EXPERIMENT.results(kept)).split())
        assert "On the 12 old tasks (the set-aside tasks are not measured yet), the mean is 0." in page
        assert "compas_odds" not in page
        assert "**Incomplete.** 280 of 520 runs" in page

    def test_stored_results_make_the_same_page(self, tmp_path) -> None:
        results = all_results()
        runner.store_of(EXPERIMENT, tmp_path).append(results.rows)
        again = runner.stored(EXPERIMENT, tmp_path)
        assert EXPERIMENT.page(again) == EXPERIMENT.page(results)

    def test_picture(self, tmp_path) -> None:
        write_page(all_results(), tmp_path)
        assert (tmp_path / "default_study.png").stat().st_size > 10_000
