"""Can the verdict be believed? Scores, intervals and decisions of the default against a truth that is known.

``python -m experiments verdicts``. The problems are in ``verdict_settings``. Every problem draws validation rows, fits,
and compares what the fit says with the score of the fitted rule on 100,000 rows. A seed is one problem of each kind,
size and setting.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import side_by_side
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown
from experiments.studies.verdict_settings import Drawn, Setting, settings
from postshift import Rows, Session
from postshift.metrics import PredictionOracle, from_predictions
from postshift.rules import Base, Choice, Influence, Problem, menu
from postshift.rules.choice import refitted
from postshift.rules.scoring import How
from postshift.rules.verdict import Comparison, compare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (50, 200, 1000)
WORSE = 0.02
QUICK_SETTINGS = ("accuracy, 2 classes", "worst group, to gain")
NOISE, GAIN = "#0072B2", "#D55E00"

# -- what a problem gives -----------------------------------------------------------------------------------

SCORED = ("score", "base_score", "low", "high", "gain_low", "gain_high", "adopted", "truth", "base_truth")


def compared(setting: Setting, found: Comparison, *, labels: Any, adopted: bool = True) -> dict[str, float]:
    """Return the values of a comparison; ``labels`` are the rule's of the rows of the truth."""
    low, high = found.intervals.score
    gain_low, gain_high = found.intervals.gain or (np.nan, np.nan)
    said = {"score": found.score, "base_score": found.base_score, "adopted": adopted}
    limits = {"low": low, "high": high, "gain_low": gain_low, "gain_high": gain_high}
    return {**said, **{name: value for name, value in limits.items() if np.isfinite(value)}, **truths(setting, labels)}


def truths(setting: Setting, labels: Any) -> dict[str, float]:
    """Return the true scores of a rule and of the base."""
    base = np.argmax(setting.population.eta, axis=1)
    return {"truth": setting.truth(labels), "base_truth": setting.truth(base)}


def gain(row: Row) -> float:
    """Return the gain as it is scored."""
    return row.values["score"] - row.values["base_score"]


def true_gain(row: Row) -> float:
    """Return the true gain."""
    return row.values["truth"] - row.values["base_truth"]


def adopted(row: Row) -> bool:
    """Return whether the rule was adopted."""
    return bool(row.values["adopted"])


def error(row: Row) -> float:
    """Return what was said less the truth, of the rule that was adopted."""
    prefix = "" if adopted(row) else "base_"
    return row.values[f"{prefix}score"] - row.values[f"{prefix}truth"]


def covered(row: Row) -> bool:
    """Return whether the truth is in the interval of the score."""
    return row.values["low"] <= row.values["truth"] <= row.values["high"]


def gain_covered(row: Row) -> bool:
    """Return whether the true gain is in the interval of the gain."""
    return "gain_low" in row.values and row.values["gain_low"] <= true_gain(row) <= row.values["gain_high"]


def worth_it(row: Row) -> bool:
    """Return whether the rule was adopted and called worth it."""
    return adopted(row) and row.values.get("gain_low", np.nan) > 0


def harmed(row: Row) -> bool:
    """Return whether a rule was adopted that is clearly worse than the base."""
    return adopted(row) and true_gain(row) < -WORSE


# -- kinds of problems --------------------------------------------------------------------------------------


def by_menu(setting: Setting, drawn: Drawn, seed: int, *, how: How) -> dict[str, float]:
    """Fit the menu: its weighted average, or its best entry."""
    problem = setting.problem(drawn)
    entries = menu(problem)
    choice = Choice(how=how)
    borrowing = choice.borrowing(problem)
    candidate = choice.candidate(borrowing, entries)
    labels = refitted(borrowing.problem, entries, candidate.selection).labels(setting.population.rows())
    return compared(setting, candidate.comparison, labels=labels, adopted=not candidate.kept_out)


def by_one_rule(setting: Setting, drawn: Drawn, seed: int) -> dict[str, float]:
    """Fit influence regression over one of three bases; a rule that is asked for by name is always used."""

    def with_bases(part: Drawn) -> Rows:
        eta = part.eta
        sure = np.eye(2)[(eta.max(axis=1) > np.median(setting.population.eta.max(axis=1))).astype(int)]
        first = np.eye(2)[(eta[:, 0] > np.median(setting.population.eta[:, 0])).astype(int)]
        return Rows.of(eta, bases={**part.bases, "sure": sure, "first": first}, labels=part.labels)

    problem = Problem.labelled(None, with_bases(drawn), setting.resolved, groups=drawn.groups)
    entries = (Base(), Influence("first"))
    choice = Choice(how="only")
    candidate = choice.candidate(choice.borrowing(problem), entries)
    labels = refitted(problem, entries, candidate.selection).labels(with_bases(setting.population))
    return compared(setting, candidate.comparison, labels=labels)


def by_fixed_rule(setting: Setting, drawn: Drawn, seed: int) -> dict[str, float]:
    """Compare a rule that is fixed beforehand with the base: random weights of the classes."""
    weights = np.exp(np.random.default_rng([3, seed]).normal(scale=0.5, size=setting.n_classes))
    labels, fixed = (np.argmax(weights * part.eta, axis=1) for part in (drawn, setting.population))
    found = compare(setting.problem(drawn), labels, np.argmax(drawn.eta, axis=1))
    return compared(setting, found, labels=fixed)


def by_queries(setting: Setting, drawn: Drawn, seed: int) -> dict[str, float]:
    """Fit by scores alone: the labels are known to nobody but the metric. There are no intervals."""
    known = setting.problem(drawn)

    def metric(predicted: Any) -> float:
        return float(known.metric_of(known.label_confusion(np.asarray(predicted))))

    val = Rows.of(drawn.eta, bases=drawn.bases)
    oracle = PredictionOracle(from_predictions(metric, name=setting.metric), classes=np.arange(setting.n_classes))
    problem = Problem.queried(None, val, kind=oracle.kind)
    chosen = Session(lambda: Choice(budget=200).fit(problem)).run(oracle)
    record = chosen.record
    said = {"score": record.score, "base_score": record.base_score, "adopted": not record.fallback}
    return {**said, **truths(setting, chosen.rule.labels(setting.population.rows()))}


RUNS: dict[str, Callable[[Setting, Drawn, int], dict[str, float]]] = {
    "default": partial(by_menu, how="average"),  # the weighted average of the menu
    "evaluate": by_fixed_rule,
    "choice": partial(by_menu, how="best"),  # the best entry of the menu
    "one rule": by_one_rule,
    "queries": by_queries,
}
KINDS = {kind: SIZES if kind in ("default", "evaluate") else (200,) for kind in RUNS}


def measure(kind: str, n_rows: int, name: str, seed: int, quick: bool) -> Row:
    """Run one problem."""
    setting = settings()[name]
    rng = np.random.default_rng([zlib.crc32(name.encode()), n_rows, seed])
    with warnings.catch_warnings(action="ignore"):  # few rows, and rules of equal scores, are expected here
        values = RUNS[kind](setting, setting.draw(n_rows, rng), seed)
    return Row(method=kind, size=n_rows, task=name, values=values)


# -- the page -----------------------------------------------------------------------------------------------


def gains(row: Row) -> bool:
    """Return whether the setting has something to gain."""
    return settings()[row.task].gains


def averaged(rows: Iterable[Row], value: Callable[[Row], float]) -> float:
    """Return the mean of a value, averaged over the settings."""
    by_setting: dict[str, list[float]] = {}
    for row in rows:
        by_setting.setdefault(row.task, []).append(float(value(row)))
    return float(np.mean([np.mean(values) for values in by_setting.values()]))


def chosen_rows(results: Results, kind: str, n_rows: int) -> list[Row]:
    """Return the rows of a kind and size."""
    return [row for name in settings() for row in results.of(kind, task=name, size=n_rows)]


def parts(results: Results) -> Iterator[tuple[str, int, list[Row]]]:
    """Yield every kind and size that has rows."""
    for kind, sizes in KINDS.items():
        for n_rows in sizes:
            part = chosen_rows(results, kind, n_rows)
            if part:
                yield kind, n_rows, part


def summary_table(results: Results) -> str:
    """Return one line for each kind and size, averaged over the settings."""
    head = ["kind, rows", "score covered", "gain covered", "called worth it, noise", "bias of the score"]
    head += ["bias where adopted", "harmed, noise", "adopted, noise", "adopted, to gain"]
    return markdown(head, [[f"{kind}, {n_rows:,}", *_figures(part)] for kind, n_rows, part in parts(results)])


def _figures(part: list[Row]) -> list[str]:
    """Return the cells of one kind and size."""
    noise, to_gain = ([row for row in part if gains(row) == which] for which in (False, True))
    if "low" not in part[0].values:
        found = ["no interval", "no interval", "not said"]
    else:
        found = [f"{averaged(part, covered):.3f}", f"{averaged(part, gain_covered):.3f}"]
        found.append(f"{averaged(noise, worth_it):.3f}")
    found.append(f"{averaged(part, error):+.4f}")
    if all(map(adopted, part)):  # there is no decision
        return [*found, "", "", "", ""]
    errors = [error(row) for row in part if adopted(row)]
    found += [f"{np.mean(errors):+.4f}" if errors else "", f"{averaged(noise, harmed):.3f}"]
    return found + [f"{averaged(each, adopted):.2f}" for each in (noise, to_gain)]


def settings_table(results: Results, kind: str, n_rows: int) -> str:
    """Return one line for each setting."""
    head = ["setting", "score covered", "gain covered", "called worth it", "harmed", "adopted"]
    head += ["bias of the score", "true gain", "gain as scored"]
    lines = []
    for name in settings():
        part = results.of(kind, task=name, size=n_rows)
        if part:
            shares = [averaged(part, each) for each in (covered, gain_covered, worth_it, harmed, adopted)]
            means = [averaged(part, each) for each in (error, true_gain, gain)]
            lines.append([name, *(f"{each:.3f}" for each in shares), *(f"{each:+.4f}" for each in means)])
    return markdown(head, lines)


LEGEND = f"""\
* In settings of *noise* the model is already optimal, and every gain is chance. In the others a rule can gain (*to
  gain*).
* *Covered*: the true value is in the 95 % interval. This is about the rule fitted to all rows, whether it is adopted or
  not.
* *Bias*: `score_` minus the true score.
* *Adopted*: the rule is used instead of the base.
* *Harmed*: an adopted rule is worse than the base by more than {WORSE}.
* *default* is the weighted average of the menu, *choice* its best entry (`method="best"`), *one rule* is influence
  regression by name. *evaluate* is the interval of `postshift evaluate`, for a rule that is fixed in advance.
* With *queries*, the score is the best of several on the same rows. It is too high, so it has no interval."""
TRUTH = """The true score is that on 100,000 rows, computed with the known posterior. The constants of the intervals
(`REFIT`, `PRIOR_DISAGREEMENT` and `PRIOR_ROWS` in `postshift/rules/verdict.py`) and the probability from which a rule
is adopted (`ADOPTED_FROM`) were chosen on other draws of similar settings."""


def make_page(results: Results) -> str:
    """Return the page."""
    part = chosen_rows(results, "default", 200)
    noise = [row for row in part if not gains(row)]
    lead = (
        "With 200 validation rows, the 95 % interval of the gain contains the true gain in "
        f"{averaged(part, gain_covered):.1%} of the problems. If the model is already optimal, "
        f'a rule is called "worth it" in {averaged(noise, worth_it):.1%} of them.'
    )
    details = [
        f"### {kind}, {n_rows:,} rows\n\n{settings_table(results, kind, n_rows)}"
        for kind, n_rows, _ in parts(results)
        if kind != "queries"
    ]
    each = f"Each line is the mean over {len(settings())} settings of {len(results.seeds)} problems each."
    body = [summary_table(results), each, LEGEND, TRUTH, "## Each setting", *details]
    return whole_page(results, body, lead=lead)


def draw(results: Results, axes: Axes, *, value: Callable[[Row], float], title: str) -> None:
    """Draw the coverage of every setting by the number of rows."""
    places = range(len(SIZES))
    for setting in settings().values():
        found = [results.of("default", task=setting.name, size=n_rows) for n_rows in SIZES]
        colour = GAIN if setting.gains else NOISE
        shares = [averaged(rows, value) if rows else np.nan for rows in found]
        axes.plot(places, shares, "o-", color=colour, alpha=0.35, markersize=3, linewidth=0.8)
    means = [chosen_rows(results, "default", n_rows) for n_rows in SIZES]
    shares = [averaged(rows, value) if rows else np.nan for rows in means]
    axes.plot(places, shares, "ks-", linewidth=2, label="mean of the settings")
    axes.axhline(0.95, color="0.5", linestyle="--", linewidth=0.9)
    axes.plot([], [], "o-", color=NOISE, label="a setting of noise", markersize=3)
    axes.plot([], [], "o-", color=GAIN, label="a setting with a gain", markersize=3)
    axes.set(title=f"interval of the {title}", xlabel="validation rows", ylim=(0.6, 1.01))
    axes.set(ylabel="share of problems that it covers")
    axes.set_xticks(places, [f"{n_rows:,}" for n_rows in SIZES])
    axes.legend(loc="lower right", frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    name="verdicts",
    title="Can I trust the verdict?",
    methods={
        f"{kind}: {n_rows}: {name}": partial(measure, kind, n_rows, name)
        for kind, sizes in KINDS.items()
        for n_rows in sizes
        for name in settings()
    },
    page=make_page,
    by=("method", "size", "task"),
    columns=("method", "task", "size", "seed", *SCORED),
    digits=5,
    seeds=100,
    figure=side_by_side(
        partial(draw, value=covered, title="score"), partial(draw, value=gain_covered, title="gain"), size=(4.5, 3.6)
    ),
    picture="Coverage of the 95 % intervals, by the number of validation rows",
    quick_methods=[f"{kind}: 200: {name}" for kind in KINDS for name in QUICK_SETTINGS],
)
