"""Small problems for the rules: tables with clean validation labels, or with an oracle."""

from __future__ import annotations

import numpy as np

from postshift import Rows, Session
from postshift.core.plugin import onehot
from postshift.rules import Problem
from tests.problems import make_problem


def tables(seed=0, **kind):
    problem = make_problem(seed=seed, **kind)
    return tuple(
        Rows.of(part.eta, bases={"user": part.phi}, labels=part.labels, weights=part.weights)
        for part in (problem.train, problem.val)
    )


def labelled(metric, seed=0, **kind):
    train, val = tables(seed, **kind)
    return Problem.labelled(train, val, metric)


def value_of(metric, labels, table):
    """The metric of distributions or labels, computed afresh."""
    predicted = table if table.ndim == 2 else onehot(table, n_classes=int(labels.max()) + 1)
    confusion = np.stack([predicted[labels == i].sum(axis=0) for i in range(predicted.shape[1])]) / len(labels)
    return float(metric.value(confusion))


def answered(start, metric, labels, *, budget=None):
    """Run a fit in a session; return its result and the session."""
    session = Session(start, budget=budget)
    while queries := session.ask():
        for query in queries:
            session.tell(query.key, value_of(metric, labels, query.predictions))
    return session.result(), session


def big(metric, seed=0, **kind):
    return labelled(metric, seed, **{"n_train": 600, "n_val": 200, **kind})
