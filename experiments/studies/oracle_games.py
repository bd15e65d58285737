"""How often the best guess of a row's label or group is right, from the noisy answers of the metric as a service.

``python -m experiments oracle_games``. In a game, a fair coin sets the label (or the group) of one row. The code with
which the service answers in private mode (``postshift.oracle.answers``) answers a number of queries whose costs add up
to rho. An attacker who knows everything else, the labels and groups of all other rows too, asks about this row only,
and guesses by the likelihood ratio of all answers, which no other guess beats.

The budget is divided evenly. The same query is asked again and again: the answering code draws new noise each time,
which in the service only another query would get (a repeated one gets the stored answer).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import COLOURS, side_by_side
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown
from postshift.oracle.answers import Answers, ServiceQuery
from postshift.oracle.holdings import Holdings, KindOfAnswer
from postshift.oracle.privacy import attack_bound, micro
from postshift.oracle.wire import GRID, MICRO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Evidence = Callable[[Any], float]  # the log-likelihood ratio of an answer: above 0 if 1 is more likely than 0

LABEL, GROUP = "label", "group"
RHOS = (0.01, 0.1, 0.5)
N_QUERIES = {LABEL: (1, 50, 1000), GROUP: (1, 50)}
N_GAMES = {1: 2000, 50: 400, 1000: 200}  # of a seed, by number of queries
N_QUICK = {1: 40, 50: 8, 1000: 2}
N_SEEDS = 10
ERRORS = 3  # standard errors above the bound that are allowed
COLUMNS = ("method", "task", "size", "seed", "games", "right")
METHODS = {
    f"{kind} of {secret}s": (kind, secret) for secret in (LABEL, GROUP) for kind in ("table", "confusion", "value")
}
SPREAD = 4  # standard deviations of the noise between a count that values read and 0
LOPSIDED = (2, 6)  # the same for the right and the wrong predictions of the two groups
N_SIMULATED, N_BINS = 400_000, 200  # answers that the attacker simulates, and quantiles of them


# -- the data sets ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Game:
    """What the coin decides between, and the query that the attacker asks about it.

    Attributes
    ----------
    holdings : tuple of Holdings
        The two data sets: they differ in the label or the group of row 0.
    query : ServiceQuery
        The query.
    """

    holdings: tuple[Holdings, Holdings]
    query: ServiceQuery

    @property
    def sd(self) -> float:
        """The standard deviation of the noise of a count of rows."""
        return noise_sd(self.query.cost)

    def play(self, evidence: Evidence, n_queries: int, rng: np.random.Generator) -> bool:
        """Return whether the attacker guesses right; equal chances are guessed by a coin."""
        secret = int(rng.integers(2))
        answers = Answers(self.holdings[secret], "private")
        found = sum(evidence(answers.answer(self.query)) for _ in range(n_queries))
        guess = int(rng.integers(2)) if found == 0 else int(found > 0)
        return guess == secret


def noise_sd(cost: int) -> float:
    """Return the standard deviation of the noise of a count of rows, for a cost in micro-rho."""
    return float(np.sqrt(MICRO / cost))


def make_game(kind: KindOfAnswer, secret: str, cost: int) -> Game:
    """Return a game about one row, in which nothing else moves the answer."""
    rows = {LABEL: rows_of_label, GROUP: rows_of_group}[secret](kind, noise_sd(cost))
    cells = {} if kind == "value" else {"cells": np.zeros(len(rows.shown), dtype=np.intp)}
    shown = {} if kind == "table" else {"predictions": rows.shown}
    query = ServiceQuery(kind=kind, cost=cost, **cells, **shown)
    first, second = (rows.holdings(value) for value in (0, 1))
    Answers(first, "private").check(query)
    return Game(holdings=(first, second), query=query)


@dataclass(frozen=True, kw_only=True)
class KnownRows:
    """The rows as the attacker knows them: row 0 is the one whose label or group is not known.

    ``groups`` is None if labels are attacked.
    """

    shown: NDArray[np.intp]
    labels: NDArray[np.intp]
    groups: NDArray[np.intp] | None = None

    def holdings(self, value: int) -> Holdings:
        """Return what the owner holds if the coin shows this value."""
        labels, groups = self.labels.copy(), self.groups
        if groups is None:
            labels[0] = value
        else:
            groups = groups.copy()
            groups[0] = value
        return Holdings(
            ids=list(map(str, range(len(labels)))),
            classes=(0, 1),
            labels=labels,
            metric="precision" if groups is None else "group_g_mean",
            groups=groups,
            group_names=() if groups is None else ("first", "second"),
        )


def rows_of_label(kind: KindOfAnswer, sd: float) -> KnownRows:
    """Return rows that are all predicted as class 1: as many of class 0 as of class 1, beside row 0.

    The precision then depends on the difference of the two counts that row 0 moves, and on nothing else.
    """
    half = 2 if kind != "value" else int(np.ceil(SPREAD * sd))
    labels = np.repeat([1, 0, 1], [1, half, half])
    return KnownRows(shown=np.ones_like(labels), labels=labels)


def rows_of_group(kind: KindOfAnswer, sd: float) -> KnownRows:
    """Return rows of two groups, all of class 1 but for a few; in the first group few predictions are right.

    Row 0 is predicted right: in the first group it moves the recall much, in the second little.
    """
    few, many = (1, 1) if kind != "value" else (int(np.ceil(each * sd)) for each in LOPSIDED)
    sizes = {(1, 0, 1): few, (1, 0, 0): many, (1, 1, 1): many, (0, 0, 0): many, (0, 1, 0): many}
    table = [(1, 0, 1), *(row for row, size in sizes.items() for _ in range(size))]
    labels, groups, shown = np.array(table, dtype=np.intp).T
    return KnownRows(shown=shown, labels=labels, groups=groups)


# -- the attacker -------------------------------------------------------------------------------------------


def evidence_of(game: Game, rng: np.random.Generator) -> Evidence:
    """Return the attacker's test of an answer."""
    first, second = (exact(each, game.query) for each in game.holdings)
    middle, apart = (first + second) / 2, second - first
    variance = game.sd**2 * (1 if game.query.kind == "table" else GRID**2)
    if game.query.kind == "value":
        return evidence_of_values(game, middle, apart, variance, rng)
    # Exact for discrete Gaussians: the difference of the two squared distances, over twice the variance.
    return lambda answer: float(((answer - middle) * apart).sum())


def exact(holdings: Holdings, query: ServiceQuery) -> Floats:
    """Return the counts to which noise is added: (K, R), or (K, R, m) in units of ``1 / GRID``."""
    if query.kind == "table":
        return np.bincount(holdings.categories, minlength=holdings.n_categories)[None].astype(np.float64)
    assert query.predictions is not None  # noqa: S101
    counts = np.zeros((1, holdings.n_categories, holdings.n_classes))
    np.add.at(counts[0], (holdings.categories, query.predictions), GRID)
    return counts


def evidence_of_values(
    game: Game, middle: Floats, apart: Floats, variance: float, rng: np.random.Generator
) -> Evidence:
    """Return the test of a value, from simulated counts.

    For simulated counts the chance of 1 is known. The chance of 1 given a value is its mean over the counts that have
    nearly this value.
    """
    coins = rng.integers(2, size=(N_SIMULATED, 1, 1)) - 0.5
    noise = rng.normal(scale=np.sqrt(variance), size=(N_SIMULATED, *middle[0].shape))
    counts = middle[0] + coins * apart[0] + noise
    chance = expit(((counts - middle[0]) * apart[0]).sum(axis=(1, 2)) / variance)
    values = metric_of(game.holdings[0], counts)
    order = np.argsort(values)
    places, chances = (
        np.array([part.mean() for part in np.array_split(each[order], N_BINS)]) for each in (values, chance)
    )
    ratios = logit(chances)
    return lambda answer: float(np.interp(answer, places, ratios))


def metric_of(holdings: Holdings, counts: Floats) -> Floats:
    """Return the metric of each of many noisy matrices, as the service computes it."""
    kept = np.maximum(counts, 1e-6)
    shares = kept / kept.sum(axis=(1, 2), keepdims=True)
    psi = holdings.psi
    assert psi is not None  # noqa: S101
    return np.asarray(psi.value(shares))


# -- runs ---------------------------------------------------------------------------------------------------


def measure(name: str, seed: int, quick: bool) -> list[Row]:
    """Return how many games the attacker wins, for each rho and each number of queries."""
    kind, secret = METHODS[name]
    rng = np.random.default_rng([seed, list(METHODS).index(name)])
    rows = []
    for rho in RHOS:
        for n_queries in N_QUERIES[secret]:
            game = make_game(kind, secret, micro(rho) // n_queries)  # type: ignore[arg-type]
            evidence = evidence_of(game, rng)
            n_games = (N_QUICK if quick else N_GAMES)[n_queries]
            right = sum(game.play(evidence, n_queries, rng) for _ in range(n_games))
            values = {"games": n_games, "right": right}
            rows.append(Row(values=values, method=name, task=f"{rho:g}", size=n_queries))
    return rows


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All games of a kind of query, a budget and a number of queries."""

    method: str
    rho: float
    n_queries: int
    games: int
    right: int

    @property
    def share(self) -> float:
        """The share of games in which the guess was right."""
        return self.right / self.games

    @property
    def error(self) -> float:
        """The standard error of the share, if the bound is the chance."""
        return float(np.sqrt(self.bound * (1 - self.bound) / self.games))

    @property
    def bound(self) -> float:
        """The largest chance."""
        return attack_bound(micro(self.rho))

    @property
    def above(self) -> float:
        """The share less the bound, in standard errors; negative below the bound."""
        return (self.share - self.bound) / self.error


def cells_of(results: Results) -> list[Cell]:
    """Return the games of all seeds."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(lambda: [0, 0])
    for row in results.rows:
        counted = found[row.method, row.task, row.size]
        for place, name in enumerate(("games", "right")):
            counted[place] += row.values[name]
    return [
        Cell(method=method, rho=float(rho), n_queries=size, games=int(games), right=int(right))
        for (method, rho, size), (games, right) in found.items()
    ]


def make_page(results: Results) -> str:
    """Return the page."""
    cells = cells_of(results)
    lines = [
        [
            *(each.method, f"{each.rho:g}", f"{each.n_queries:,}", f"{each.games:,}", f"{each.share:.3f}"),
            *(f"{each.error:.3f}", f"{each.bound:.3f}", f"{each.above:+.1f}"),
        ]
        for each in cells
    ]
    head = ["queries for a", "rho", "queries", "games", "right", "standard error", "bound", "above, in errors"]
    return whole_page(results, [ABOUT, "## Games", markdown(head, lines), reading(cells)], lead=lead(cells))


def lead(cells: list[Cell]) -> str:
    """Return what came out, in two sentences."""
    within = sum(each.above <= ERRORS for each in cells)
    most = max(cells, key=lambda each: each.above)
    return (
        "How often the best guess of one row's label or group is right, if a fair coin set it and the attacker knows "
        "everything else. In private mode it is right no more often than the bound Phi(sqrt(2 rho) / 2) plus "
        f"{ERRORS} standard errors in {within} of {len(cells)} cells; the highest is {most.above:+.1f} standard errors "
        "from its bound."
    )


ABOUT = """In each game, a fair coin sets the label (or the group) of one row. The service's own answering code, in
private mode, then answers queries whose costs add up to rho, divided evenly. The attacker knows all other rows, asks
only about this one, and guesses by the likelihood ratio of all answers: no other guess from these answers is right more
often. For values, the ratio is computed from simulated answers. The same query is asked again and again: the answering
code draws new noise each time, while the service would return the stored answer, so this attacker is as strong as one
who finds a new query each time.

Tables have one cell, and so have confusion matrices, with all predictions of class 1. Values are the precision (for
labels) or the G-mean of the recalls of every class and group (for groups), of rows for which one row moves the value
much. A table, a confusion matrix and this precision show all that the counts show, so these attacks reach the bound.
The G-mean shows less. The games about groups with 1,000 queries are left out, for time: the answers are made as
those about labels are."""


def reading(cells: list[Cell]) -> str:
    """Return how to read the table."""
    return (
        "*Right* is the share of games that the attacker wins; half are won without any answer. *Above* is that share "
        "less the bound, in standard errors: an attack that reaches the bound is above it in half of the cells in the "
        f"long run, and more than {ERRORS} errors above it in one cell of 700. For a table asked once, the "
        "noise is coarse, so the best chance is a little below the bound, most at rho 0.5. More queries do not help: "
        f"what counts is their total cost. Each cell has {min(each.games for each in cells):,} games or more."
    )


def draw(results: Results, axes: Axes) -> None:
    """Draw the shares with their standard errors, and the bounds."""
    cells = cells_of(results)
    methods = list(dict.fromkeys(each.method for each in cells))
    width = 0.8 / max(len(methods), 1)
    for place, method in enumerate(methods):
        own = [each for each in cells if each.method == method]
        offsets = [list(N_QUERIES[LABEL]).index(each.n_queries) * width / 4 for each in own]
        at = [RHOS.index(each.rho) - 0.4 + place * width + more for each, more in zip(own, offsets, strict=True)]
        errors = [ERRORS * each.error for each in own]
        style: dict[str, Any] = {"fmt": "o", "markersize": 3.5, "color": COLOURS[place]}
        axes.errorbar(at, [each.share for each in own], yerr=errors, label=method, **style)
    bounds = [attack_bound(micro(rho)) for rho in RHOS]
    axes.hlines(bounds, np.arange(len(RHOS)) - 0.45, np.arange(len(RHOS)) + 0.45, color="black", label="bound")
    axes.axhline(0.5, color="0.5", linewidth=1, linestyle="--", label="without answers")
    axes.set(
        ylabel=f"share of games won, ± {ERRORS} standard errors",
        xlabel="rho; of each colour, from left to right: 1, 50 and 1,000 queries",
    )
    axes.set_xticks(range(len(RHOS)), [f"{rho:g}" for rho in RHOS])
    axes.legend(fontsize=8, loc="upper left")


EXPERIMENT = Experiment(
    name="oracle_games",
    title="The metric as a service: games against private mode",
    methods={name: partial(measure, name) for name in METHODS},
    page=make_page,
    columns=COLUMNS,
    seeds=N_SEEDS,
    figure=side_by_side(draw, size=(9.0, 4.6)),
    picture="Share of games that the best attack wins, beside the bound",
)
