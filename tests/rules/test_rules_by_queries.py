"""Every rule that can learn from queries alone stays within its bound."""

from __future__ import annotations

import pytest

from postshift.metrics import GMean
from postshift.rules import Influence, Paper, PluginSearch, Problem, SmoothedPlugin
from tests.rules.helpers import answered, tables, value_of

ASKING = [PluginSearch(), SmoothedPlugin(), Influence("user", 3), Paper("user", max_iter=3)]


@pytest.mark.parametrize(
    ("rule", "kind"),
    [*((rule, "soft") for rule in ASKING), *((rule, "hard") for rule in ASKING if rule != SmoothedPlugin())],
)
def test_by_queries_alone_within_the_bound(rule, kind):
    train, val = tables(8, n_val=200)
    queried = Problem.queried(train, val, kind=kind)
    assert rule.usable(queried)
    found, session = answered(lambda: rule.fit(queried), GMean(), val.labels)
    assert session.n_queries <= rule.bound(queried)
    base = value_of(GMean(), val.labels, val.eta.argmax(axis=1))
    assert value_of(GMean(), val.labels, found.labels(val)) > base - 0.05
