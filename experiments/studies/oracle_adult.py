"""Adult with gender at the owner's service only: what its answers gain, exact and private, beside no queries at all.

``python -m experiments oracle_adult``. Income is predicted; the metric is the geometric mean of the recalls of both
classes among men and among women. Labels and genders of the validation rows are at a service on this machine: the
learner has probabilities, four indicator functions and training rows without gender. Every run has a ledger of its own,
so its noise is fresh.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import Panel, stacked
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown
from experiments.paper.adult.splits import FAIRNESS, FAIRNESS_BASES, as_task, group_of, load_data
from postshift import PostShifter, Rows, fw_eg
from postshift.core.oracles import ConfusionOracle, SoftOracle
from postshift.core.psi import value_of
from postshift.exceptions import SmallValidationWarning
from postshift.metrics import GroupGMean
from postshift.oracle import RemoteMetric
from postshift.oracle.app import create_app
from postshift.oracle.holdings import Holdings
from postshift.oracle.ledger import Ledger
from postshift.oracle.privacy import attack_bound, epsilon_of, micro
from postshift.oracle.server import served
from postshift.oracle.service import DELTA, Service, Terms
from postshift.oracle.wire import MICRO

SEEDS = 20  # noise; splits take turns
N_SPLITS = 5
BASIS = FAIRNESS_BASES[-1]
PSI = GroupGMean(n_classes=2, n_groups=2)
SMALL, LARGE = 1629, 8955  # validation rows: the paper's, and these with half of the test rows
TABLE, CONFUSION, VALUE = "table", "confusion", "value"


@dataclass(frozen=True, kw_only=True)
class Split:
    """Rows for the learner and for the owner, and the test rows."""

    train: Rows
    val: Rows  # without labels
    labels: Any
    groups: Any
    test: Rows
    test_groups: Any

    def score(self, labels: Any) -> float:
        """Return the metric of labels of the test rows."""
        return exact(labels, self.test.labels, self.test_groups)

    @property
    def holdings(self) -> Holdings:
        """What the owner holds."""
        ids = [str(row) for row in range(len(self.labels))]
        known: Any = {"labels": self.labels, "groups": self.groups, "group_names": ("women", "men")}
        return Holdings(ids=ids, classes=[0, 1], metric="group_g_mean", released="id\n", **known)


def exact(labels: Any, truth: Any, groups: Any) -> float:
    """Return the metric of labels, from its definition."""
    recalls = [np.mean(labels[(truth == c) & (groups == g)] == c) for g in (0, 1) for c in (0, 1)]
    return float(np.prod(recalls) ** (1 / len(recalls)))


@lru_cache(maxsize=4)
def load_split(number: int, size: int, *, quick: bool) -> Split:
    """Return a split of Adult; a large one has half of the test rows among its validation rows."""
    task = as_task(load_data(FAIRNESS, number, quick=quick))
    parts = {part: task.rows(part, BASIS, labels=True) for part in ("train", "validation", "test")}
    groups = {part: group_of(getattr(task.split, part)) for part in ("validation", "test")}
    if size == LARGE:
        order = np.random.default_rng([7, number]).permutation(parts["test"].n_rows)
        moved, kept = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        parts["validation"] = joined(parts["validation"], parts["test"].take(moved))
        groups["validation"] = np.concatenate([groups["validation"], groups["test"][moved]])
        parts["test"], groups["test"] = parts["test"].take(kept), groups["test"][kept]
    return Split(
        train=parts["train"],
        val=replace(parts["validation"], labels=None),
        labels=parts["validation"].labels,
        groups=groups["validation"],
        test=parts["test"],
        test_groups=groups["test"],
    )


def joined(first: Rows, second: Rows) -> Rows:
    """Return the rows of both."""
    return Rows.of(
        np.concatenate([first.eta, second.eta]),
        phi=np.concatenate([first.phi, second.phi]),
        labels=np.concatenate([first.labels, second.labels]),
    )


@contextlib.contextmanager
def service(split: Split, *, mode: str, kinds: tuple[str, ...], budget: int, **how: Any) -> Iterator[RemoteMetric]:
    """Serve the owner's rows on this machine with a new ledger, and yield the learner's metric."""
    held = split.holdings
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_things:
        mark = Path(folder, "watermark")
        ledger = Ledger.create(Path(folder, "ledger.db"), about=held.digest, budget=budget, watermark=mark)
        open_things.callback(ledger.close)
        _, token = ledger.create_token("learner", scope="learner")
        terms = Terms(mode=mode, kinds=kinds, budget=budget)  # type: ignore[arg-type]
        url = open_things.enter_context(served(create_app(Service(held, terms, ledger))))
        yield open_things.enter_context(contextlib.closing(RemoteMetric(url, token=token, **how)))


# -- what a run gives ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One line of the table: how the service is asked, and the goals for the mean and the tenth percentile."""

    name: str
    size: int
    run: Callable[[Split], dict[str, float]]
    goal: tuple[float, float] | None = None


def measure(setting: Setting, seed: int, quick: bool) -> Row:
    """Return the test metric of a run, and those of the model and of the inverse prior, which asks nothing."""
    split = load_split(seed % N_SPLITS, setting.size, quick=quick)
    found = {"base": split.score(np.argmax(split.test.eta, axis=1)), "zero": split.score(no_queries(split))}
    return Row(method=setting.name, size=setting.size, values={**setting.run(split), **found})


def no_queries(split: Split) -> Any:
    """Return the labels of the test rows by the inverse prior."""
    return np.argmax(split.test.eta / split.train.eta.mean(axis=0), axis=1)


def trusted(split: Split, *, kind: str) -> dict[str, float]:
    """Return what exact answers gain with the paper's method, and whether the metric here gives the same rule."""
    how: Any = {"max_iter": 5, "radius": 0.1}
    with service(split, mode="trusted", kinds=(kind,), budget=1000) as metric:
        if kind == VALUE:
            far = fw_eg(split.train, split.val, metric.oracle(kind="soft"), **how)
        else:
            far = fw_eg(split.train, split.val, PSI, oracle=metric.oracle(kind="confusion"), **how)
    known = ConfusionOracle(split.labels, n_classes=2, groups=split.groups, metric=PSI)
    if kind == VALUE:
        near = fw_eg(split.train, split.val, SoftOracle(partial(value_here, known.categories)), **how)
    else:
        near = fw_eg(split.train, split.val, PSI, oracle=known, **how)
    tables = [found.mixture.predict_distribution(split.test.eta, split.test.phi) for found in (far, near)]
    test = split.score(far.mixture.predict(split.test.eta, split.test.phi))
    return {"test": test, "asked": far.n_queries, "same": float(tables[0].tobytes() == tables[1].tobytes())}


def value_here(categories: Any, table: Any) -> float:
    """Return the metric of distributions (n, 2), computed here."""
    sums = [np.bincount(categories, table[:, column], minlength=4) for column in range(2)]
    return float(value_of(PSI, np.column_stack(sums) / len(table)))


def private(split: Split, *, kind: str, rho: float) -> dict[str, float]:
    """Return what answers with noise gain with the default."""
    indicators = {side: getattr(split, side).phi[:, 1:] for side in ("train", "val", "test")}
    training = (split.train.eta, split.train.labels)
    with (
        service(split, mode="private", kinds=(kind,), budget=micro(rho)) as metric,
        warnings.catch_warnings(action="ignore", category=SmallValidationWarning),  # the table says how noisy it is
    ):
        shifter = PostShifter(metric).fit(split.val.eta, None, *training, indicators["val"], indicators["train"])
        spent = metric.budget()["spent"]
    labels = shifter.predict(split.test.eta, indicators["test"])
    return {"test": split.score(labels), "asked": shifter.n_queries_, "rho": rho, "spent": spent / MICRO}


def setting_of(kind: str, rho: float, size: int, goal: tuple[float, float] | None = None) -> Setting:
    """Return a setting of private mode."""
    name = f"private, rho {rho:g}: {kind}, {size:,} rows"
    return Setting(name=name, size=size, run=partial(private, kind=kind, rho=rho), goal=goal)


SETTINGS = (
    Setting(name="trusted: values", size=SMALL, run=partial(trusted, kind=VALUE), goal=(0.822, 0.0)),
    Setting(name="trusted: confusion matrices", size=SMALL, run=partial(trusted, kind=CONFUSION), goal=(0.822, 0.0)),
    setting_of(TABLE, 0.5, SMALL, (0.820, 0.815)),
    setting_of(TABLE, 0.1, SMALL, (0.814, 0.808)),
    setting_of(TABLE, 0.05, SMALL),
    setting_of(TABLE, 0.01, SMALL),
    setting_of(TABLE, 0.01, LARGE, (0.817, 0.0)),
    setting_of(CONFUSION, 0.5, SMALL),
    setting_of(CONFUSION, 0.1, SMALL),
    setting_of(VALUE, 0.5, SMALL),
    setting_of(VALUE, 0.5, LARGE),
)

# -- the page -----------------------------------------------------------------------------------------------


def line_of(results: Results, setting: Setting) -> list[str]:
    """Return the cells of a setting."""
    test, zero, base = (results.values(setting.name, name, size=setting.size) for name in ("test", "zero", "base"))
    queries = results.values(setting.name, "asked", size=setting.size)
    tenth = float(np.quantile(test, 0.1))
    cells = [setting.name, f"{base.mean():.3f}", f"{zero.mean():.4f}", f"{test.mean():.4f}", f"{tenth:.4f}"]
    return [*cells, f"{queries.min():.0f} to {queries.max():.0f}", reached(setting, test.mean(), tenth)]


def reached(setting: Setting, mean: float, tenth: float) -> str:
    """Return whether the goals of a setting are reached."""
    if setting.goal is None:
        return ""
    wanted = f"{setting.goal[0]:.3f}" + (f" / {setting.goal[1]:.3f}" if setting.goal[1] else "")
    return f"{wanted}: {'reached' if mean >= setting.goal[0] and tenth >= setting.goal[1] else 'missed'}"


def make_page(results: Results) -> str:
    """Return the page."""
    present = [setting for setting in SETTINGS if len(results.values(setting.name, "test", size=setting.size))]
    head = ["answers", "model", "no queries", "test", "tenth percentile", "queries", "goal"]
    table = markdown(head, [line_of(results, setting) for setting in present])
    exact_ones = [setting for setting in present if setting.name.startswith("trusted")]
    same = all((results.values(each.name, "same", size=each.size) == 1).all() for each in exact_ones)
    risks = [
        [f"{rho:g}", f"{epsilon_of(micro(rho), delta=DELTA):.2f}", f"{attack_bound(micro(rho)):.3f}"]
        for rho in (0.01, 0.05, 0.1, 0.5)
    ]
    lead = (
        "The labels and genders of the validation rows stay at a service. One private table of counts gains most of "
        "what exact answers gain."
    )
    about = (
        f"Means over {len(results.seeds)} runs: {N_SPLITS} splits, each with fresh noise. Every run asks a real "
        "service over a socket. *No queries* is the inverse prior, which needs no answer: it is what a private answer "
        f"has to beat. {LARGE:,} rows are the paper's validation rows and half of the test rows; the other half is "
        "tested. *Goal*: for the mean, and for the tenth percentile."
    )
    twin = (
        "With exact answers, the service and the same metric on this machine give "
        f"{'the same rule, bit for bit, in every run' if same else '**different rules**'} (the paper's method, 5 "
        "iterations, radius 0.1)."
    )
    private_text = (
        "In private mode, the default of `PostShifter` is used. It keeps the inverse prior, or the model, unless "
        "another rule scores higher. Confusion matrices are asked for once, as a table. What a budget means: with "
        "(epsilon, delta), and as the most that a guess between "
        f"two equally likely values of a row can be right (delta {DELTA:g}):"
    )
    body = [table, about, twin, private_text, markdown(["rho", "epsilon", "a guess is right"], risks)]
    return whole_page(results, body, lead=lead)


def panels(results: Results) -> list[Panel]:
    """Return the test metric of every run, less that of the inverse prior."""
    lines = {
        each.name: results.values(each.name, "test", size=each.size) - results.values(each.name, "zero", size=each.size)
        for each in SETTINGS
    }
    return [Panel("Gain over no queries", lines, "test metric less that of the inverse prior", zero=True)]


EXPERIMENT = Experiment(
    name="oracle_adult",
    title="Gender stays at the service: Adult",
    methods={setting.name: partial(measure, setting) for setting in SETTINGS},
    page=make_page,
    columns=("method", "size", "seed", "test", "zero", "base", "asked", "same", "rho", "spent", "seconds"),
    seeds=SEEDS,
    figure=stacked(panels),
    picture="The test metric less that of the inverse prior, which asks nothing, by kind of answer",
    packages=("fastapi", "sqlalchemy"),
)
