"""Digits with a score that arrives once a week and has noise: what ``postshift run`` has found after each query.

``python -m experiments weekly_digits``. A logistic regression sees the middle rows of the images and was trained with
wrong labels. An oracle scores predictions of 500 rows and adds noise with a standard deviation of 0.01. The session is
that of the command: the same rows, rules, journal and budget. After each answer, the rule that ``postshift run finish``
would write is scored on 600 test rows, without noise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import draw_line, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from postshift import Rows
from postshift.cli.files.file_rows import Layout
from postshift.cli.session_folder import InputFile, SessionRows, SessionSettings, StoredSession
from postshift.core.plugin import onehot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Metric = Callable[[Floats, Any], float]  # of class distributions and the true labels

N_SEEDS = 20
NOISE = 0.01  # standard deviation of an answer
BUDGET = 41  # three iterations for ten classes
N_TEST, N_VAL = 600, 500
SEEN = slice(16, 40)  # pixels
FLIPS, FLIPPED = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}, 0.6  # how the training labels are wrong, and how often
VALUES = np.array([1.0, 1, 1, 2, 1, 1, 3, 1, 5, 8])  # what a digit that is read right earns; the oracle knows it
CLASSES = tuple(range(10))
COLUMNS = ("method", "task", "size", "seed", "test", "answer", "base", "zero")
SHOWN = (1, 2, 24, 35)  # queries in the table, beside the last
VALUE, F1 = "value", "macro F1"
TITLES = {VALUE: "share of the value that is earned", F1: "macro F1"}


def value(shown: Floats, truth: Any) -> float:
    """Return the share of the value of all rows that predictions earn."""
    return float(VALUES[truth] @ shown[np.arange(len(truth)), truth] / VALUES[truth].sum())


def macro_f1(shown: Floats, truth: Any) -> float:
    """Return the macro F1 of predictions."""
    true = onehot(truth, n_classes=len(CLASSES))
    return float(np.mean(2 * (true * shown).sum(axis=0) / (true.sum(axis=0) + shown.sum(axis=0))))


METRICS: dict[str, Metric] = {VALUE: value, F1: macro_f1}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a session asks: about which metric, with labels or distributions, and with probes at which distance."""

    task: str
    soft: bool = False
    radius: float = 0.4

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.task}, {'distributions' if self.soft else 'labels'}, radius {self.radius:g}"

    @property
    def settings(self) -> SessionSettings:
        """The settings of the session."""
        return SessionSettings(
            budget=BUDGET,
            soft=self.soft,
            radius=self.radius,
            scale=1.0,
            less_is_better=False,
            name=self.task,
            basis="constant",
            file_format="csv",
        )


SETTINGS = (
    Setting(task=VALUE),
    Setting(task=VALUE, radius=0.7),
    Setting(task=VALUE, soft=True),
    Setting(task=F1),
)


# -- runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Side:
    """Probabilities of rows and their labels."""

    eta: Floats
    labels: Any

    def stored(self, name: str, *, labelled: bool) -> SessionRows:
        """Return the rows as a session stores them."""
        file = InputFile(name=name, digest="", n_rows=len(self.eta))
        return SessionRows(file=file, eta=self.eta, labels=self.labels if labelled else None, phi={})


@lru_cache(maxsize=1)
def load_sides(seed: int) -> tuple[Side, Side, Side]:
    """Return training rows with wrong labels, validation rows and test rows."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    pixels, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(digits))
    test, val, train = np.split(order, [N_TEST, N_TEST + N_VAL])
    wrong = rng.random(len(train)) < FLIPPED
    noisy = np.array([FLIPS.get(y, y) if w else y for y, w in zip(digits[train].tolist(), wrong, strict=True)])
    seen = pixels[:, SEEN] / 16
    model = LogisticRegression(max_iter=1000).fit(seen[train], noisy)
    labels = {"train": noisy, "val": digits[val], "test": digits[test]}
    rows = {"train": train, "val": val, "test": test}
    sides = [Side(eta=model.predict_proba(seen[rows[name]]), labels=labels[name]) for name in rows]
    return sides[0], sides[1], sides[2]


def measure(setting: Setting, seed: int, quick: bool) -> list[Row]:
    """Return the answer to each query, and the test score of what ``finish`` would write after it."""
    train, val, test = load_sides(seed)
    stored = StoredSession(
        settings=setting.settings,
        layout=Layout(class_names=tuple(map(str, CLASSES)), class_values=CLASSES, proba="p_*", label="label"),
        val=val.stored("val", labelled=False),
        train=train.stored("train", labelled=True),
        ids=np.arange(N_VAL),
        bases="",
    )
    metric, rng = METRICS[setting.task], np.random.default_rng([1, seed])

    def score(labels: Any) -> float:
        return metric(onehot(labels, n_classes=len(CLASSES)), test.labels)

    new = Rows.of(test.eta)
    known = {"base": score(np.argmax(test.eta, axis=1)), "zero": score(np.argmax(test.eta / train.eta.mean(0), axis=1))}
    found = []
    with tempfile.TemporaryDirectory() as folder, stored.session(Path(folder)) as session:
        while queries := session.ask():
            shown = queries[0].predictions
            shown = shown if setting.soft else onehot(shown, n_classes=len(CLASSES))
            answer = metric(shown, val.labels) + NOISE * rng.standard_normal()
            session.tell(queries[0].key, answer)
            best = session.best_so_far() if session.ask() else session.result()
            values = {"test": score(best.rule.labels(new)), "answer": answer, **known}
            found.append(Row(values=values, method=setting.name, task=setting.task, size=len(found) + 1))
    return found


# -- the page -----------------------------------------------------------------------------------------------


def after(results: Results, setting: Setting, n_queries: int) -> Floats:
    """Return the test scores after a number of queries, by seed; a session that is finished stays as it is."""
    last: dict[int, tuple[int, float]] = {}
    for row in results.rows:
        if row.method == setting.name and row.size <= n_queries:
            last[row.seed] = max(last.get(row.seed, (0, 0.0)), (row.size, row.values["test"]))
    return np.array([last[seed][1] for seed in sorted(last)])


def known(results: Results, task: str, name: str) -> Floats:
    """Return the test scores of the base, or of the inverse prior, by seed."""
    method = next(each.name for each in SETTINGS if each.task == task)
    return np.array([row.values[name] for row in results.rows if row.method == method and row.size == 1])


def most(results: Results, setting: Setting) -> int:
    """Return the largest number of queries of a session."""
    return max((row.size for row in results.rows if row.method == setting.name), default=0)


def make_page(results: Results) -> str:
    """Return the page."""
    shown = [each for each in SETTINGS if most(results, each)]
    lines = []
    for each in shown:
        base, zero = (known(results, each.task, name) for name in ("base", "zero"))
        last = after(results, each, BUDGET)
        numbers = [*(after(results, each, n) for n in SHOWN), last]
        gain = summary(last - zero).difference(3)
        cells = [f"{np.mean(values):.3f}" for values in (base, zero, *numbers)]
        lines.append([each.name, *cells, f"{gain[0]} ({gain[1]})", str(most(results, each))])
    head = ["asked about", "base", "inverse prior", *(f"after {n}" for n in SHOWN), "at the end", "less inverse prior"]
    return whole_page(results, [ABOUT, "## Scores", markdown([*head, "queries"], lines), READING], lead=lead(results))


def lead(results: Results) -> str:
    """Return what came out, in two sentences."""
    first, f1 = SETTINGS[0], SETTINGS[-1]
    base, zero = (np.mean(known(results, VALUE, name)) for name in ("base", "zero"))
    gain = summary(after(results, f1, BUDGET) - known(results, F1, "zero")) if most(results, f1) else None
    f1_text = (
        "" if gain is None else f", and macro F1 changes by {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
    )
    return (
        "A score of digits arrives once a week, with noise of standard deviation "
        f"{NOISE:g}: what `postshift run` has found after each query, scored on test rows without noise. With values "
        f"that only the oracle knows, the base earns {base:.3f} and the inverse prior, which needs no query, "
        f"{zero:.3f}; the session earns {np.mean(after(results, first, SHOWN[-2])):.3f} after {SHOWN[-2]} queries and "
        f"{np.mean(after(results, first, BUDGET)):.3f} after {most(results, first)}{f1_text} from the inverse prior."
    )


ABOUT = f"""The model is a logistic regression on 24 of 64 pixels. In its training labels, {FLIPPED:.0%} of the 9s are
called 1, of the 2s 0, of the 4s 7, and 3s and 5s are swapped. The oracle scores predictions of {N_VAL} rows and adds
normal noise of standard deviation {NOISE:g}. One score is the share of the value that is earned: a digit that is read
right earns {", ".join(f"{worth:g}" for worth in VALUES)} (0 to 9). The other is macro F1. The session, its rules and
its journal are those of `postshift run`, with a budget of {BUDGET} queries. After each answer, the rule that `postshift
run finish` would write is scored on {N_TEST} test rows, exactly. Everything is random from seed to seed: the rows, the
wrong labels and the noise. The values of the digits were chosen after a look at a few of these seeds: with macro F1,
the mean recall and the G-mean, noisy answers gained little or nothing over the inverse prior."""

READING = """The first query scores the base and the second the inverse prior. Then come rounds of eleven queries: a
rule of FW-EG, and a probe for each class around it. A rule is a candidate when its round is answered: the lines are
flat in between. Probes are far from the current rule: their answers are low (grey points), and they are no
candidates. A larger radius makes probes differ by more than the noise, but a metric that is not linear bends the
result more. At the end, a rule is only taken if it leads by more than the noise of the rows. If the metric treats all
classes alike, as macro F1 does, the inverse prior is hard to beat with answers of this noise."""


def draw(results: Results, axes: Axes, *, task: str) -> None:
    """Draw the test score after each query, the answers, the base and the inverse prior."""
    own = [each for each in SETTINGS if each.task == task and most(results, each)]
    answers = [row for row in results.rows if own and row.method == own[0].name]
    style: dict[str, Any] = {"color": "0.75", "markersize": 2, "linestyle": "", "marker": "."}
    axes.plot([row.size for row in answers], [row.values["answer"] for row in answers], label="answers", **style)
    for name, text, dashes in (("base", "base", ":"), ("zero", "inverse prior, no query", "--")):
        axes.axhline(float(np.mean(known(results, task, name))), color="0.3", linestyle=dashes, label=text, linewidth=1)
    for rank, each in enumerate(own):
        places = range(1, most(results, each) + 1)
        label = each.name.removeprefix(f"{task}, ")
        draw_line(axes, list(places), [after(results, each, n) for n in places], label=label, rank=rank)
    axes.set(xlabel="queries answered", ylabel=f"{TITLES[task]}, test rows")
    axes.set_title(f"oracle: {TITLES[task]}", fontsize=10, loc="left")
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)


EXPERIMENT = Experiment(
    name="weekly_digits",
    title="A metric that takes a week: digits with noisy answers",
    methods={each.name: partial(measure, each) for each in SETTINGS},
    page=make_page,
    columns=COLUMNS,
    seeds=N_SEEDS,
    figure=side_by_side(*(partial(draw, task=task) for task in TITLES), size=(6.2, 4.8)),
    picture="Test score of the best rule so far after each query, beside the base and the inverse prior",
)
