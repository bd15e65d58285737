"""``postshift oracle demo``: owner, service, learner and attack, on digits that come with scikit-learn.

The classes are "8 or 9" and the other digits. The group of a row says whether much ink was used. The metric is the
geometric mean of the recalls of both classes in both groups. Labels and groups of the validation rows are at the
service only; the learner has a model that sees a few pixels, and training rows without groups.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from postshift.cli.console import Console
from postshift.cli.oracle_work import OwnerRequest, amount_text, create, create_token, open_service, risk_text
from postshift.datasets.bundled import load_embedded
from postshift.estimators import PostShifter
from postshift.oracle.app import create_app
from postshift.oracle.attacks import UNKNOWN, Known, ask_service, binary_codes
from postshift.oracle.client import RemoteMetric
from postshift.oracle.privacy import attack_bound, micro
from postshift.oracle.server import served

METRIC, FROM_DIGIT, SEED = "group_g_mean", 8, 0
N_TRAIN, N_VAL = 500, 900
PIXELS = slice(16, 40)  # the three lines that the model sees
RHO, QUERIES = 0.5, 200  # the budgets
ATTACKED, COST = 300, 0.025  # rows, and the rho of a private answer to the attack


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Some rows: probabilities, basis functions, labels and groups."""

    eta: Any
    phi: Any
    labels: Any
    groups: Any

    def score(self, labels: Any) -> float:
        """Return the metric of labels, from its definition."""
        pairs = [(self.labels == label) & (self.groups == group) for label in (0, 1) for group in (0, 1)]
        return float(np.prod([np.mean(labels[rows] == self.labels[rows]) for rows in pairs]) ** (1 / len(pairs)))


def play(console: Console) -> dict[str, Any]:
    """Run the whole story, say what happens, and return its figures."""
    train, val, test = sides()
    base = test.score(np.argmax(test.eta, axis=1))
    zero = test.score(np.argmax(test.eta / train.eta.mean(axis=0), axis=1))
    console.say(f"the model: {base:.3f} on test rows; the inverse prior, which asks nothing: {zero:.3f}")
    found: dict[str, Any] = {"model": base, "inverse_prior": zero}
    with tempfile.TemporaryDirectory(prefix="postshift-oracle-") as place:
        folder = Path(place)
        _write(folder / "rows.csv", val)
        with _service(folder, "private", console) as metric:
            found["private"] = _learned(metric, train, val, test, console)
        with _service(folder, "trusted", console) as metric:
            found["trusted"] = _learned(metric, train, val, test, console)
            found["attack_on_trusted"] = _attacked(metric, val, console, cost=1)
        with _service(folder, "private", console, kinds=("value",)) as metric:
            found["attack_on_private"] = _attacked(metric, val, console, cost=micro(COST))
    found["bound"] = attack_bound(micro(RHO))
    console.say(f"  the bound for any attack on this budget: {found['bound']:.1%}")
    return found


def sides() -> tuple[Side, Side, Side]:
    """Return the training, validation and test rows."""
    digits = load_embedded("digits")
    X, labels = digits.X / 16, (digits.y >= FROM_DIGIT).astype(np.intp)
    ink = X.sum(axis=1)
    groups = (ink > np.median(ink)).astype(np.intp)
    wide = (X.reshape(-1, 8, 8)[:, :, [1, 6]].sum(axis=(1, 2)) > 1).astype(float)
    order = np.random.default_rng(SEED).permutation(len(X))
    parts = np.split(order, [N_TRAIN, N_TRAIN + N_VAL])
    model = LogisticRegression(max_iter=2000).fit(X[parts[0], PIXELS], labels[parts[0]])
    eta, phi = model.predict_proba(X[:, PIXELS]), np.column_stack([wide, 1 - wide])
    train, val, test = (Side(eta=eta[i], phi=phi[i], labels=labels[i], groups=groups[i]) for i in parts)
    return train, val, test


@contextlib.contextmanager
def _service(folder: Path, mode: str, console: Console, *, kinds: tuple[str, ...] = ()) -> Iterator[RemoteMetric]:
    """Do what the owner does, serve the rows on this machine, and yield the learner's metric."""
    name = "-".join([mode, *kinds])
    request = OwnerRequest(
        folder=folder / name,
        data=folder / "rows.csv",
        label="label",
        metric=METRIC,
        ids="id",
        groups="group",
        release=(),
        mode=mode,
        kinds=kinds,
        rho=RHO if mode == "private" else None,
        queries=QUERIES if mode == "trusted" else None,
        pos_label=None,
        title=name,
        database=None,
    )
    create(request)
    token = create_token(folder / name, name="learner", scope="learner", expires=None, most=None, per_minute=600)
    service = open_service(folder / name)
    with contextlib.closing(service.ledger), served(create_app(service)) as url:
        budget = amount_text(service.terms, service.terms.budget)
        console.say()
        console.say(f"owner: {service.holdings.n_rows} rows at {url}, {mode} mode, budget {budget}")
        console.say(f"  {risk_text(service.terms)}")
        with contextlib.closing(RemoteMetric(url, token=token["token"])) as metric:
            yield metric


def _learned(metric: RemoteMetric, train: Side, val: Side, test: Side, console: Console) -> dict[str, Any]:
    """Fit with the answers of the service, and score the result on test rows."""
    shifter = PostShifter(metric).fit(val.eta, None, train.eta, train.labels, val.phi, train.phi)
    score, budget = test.score(shifter.predict(test.eta, test.phi)), metric.budget()
    console.say(f"learner: {score:.3f} on test rows; queries: {shifter.n_queries_}")
    return {"test": score, "queries": shifter.n_queries_, "spent": budget["spent"]}


def _attacked(metric: RemoteMetric, val: Side, console: Console, *, cost: int) -> dict[str, Any]:
    """Let a learner who knows all labels guess groups, and return how many of them are right."""
    rng = np.random.default_rng(SEED)
    friends = [np.flatnonzero((val.labels == label) & (val.groups == group))[0] for label in (0, 1) for group in (0, 1)]
    known = np.full(len(val.labels), UNKNOWN)
    known[friends] = val.groups[friends]
    rows = rng.choice(np.setdiff1d(np.arange(len(known)), friends), size=ATTACKED, replace=False)
    before = metric.budget()["answers"]
    guesses = binary_codes(ask_service(metric, cost=cost), Known(labels=val.labels, groups=known, n_classes=2), rows)
    right, queries = float(np.mean(guesses == val.groups[rows])), metric.budget()["answers"] - before
    console.say(f"attack: {right:.1%} of the groups of {ATTACKED} rows are guessed right after {queries} queries")
    return {"right": right, "rows": ATTACKED, "queries": queries}


def _write(path: Path, val: Side) -> None:
    """Write the owner's rows."""
    import pandas as pd

    inks = np.array(["little ink", "much ink"])[val.groups]
    ids = [f"row{place}" for place in range(len(val.labels))]
    pd.DataFrame({"id": ids, "label": val.labels, "group": inks}).to_csv(path, index=False)
