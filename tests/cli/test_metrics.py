"""``postshift metrics``: the list of metrics, and how to write your own."""

from __future__ import annotations

from postshift.metrics import metric_catalogue
from tests.cli.helpers import inside, postshift


def test_metrics_lists_every_one_and_how_to_write_ones_own():
    done = postshift("metrics")
    assert done.code == 0
    for name, about in metric_catalogue().items():
        assert name in done.out
        assert about in done.out
    for how in ("my_metrics.py:profit", "cost:costs.csv", "{predictions}"):
        assert how in done.out
    found = inside("metrics", "--json").json
    assert found["metrics"] == dict(metric_catalogue())


def test_the_list_of_metrics_has_the_grammar():
    done = inside("metrics")
    assert "f1[CLASS]" in done.out
    assert "--pos-label" in done.out
    assert "f1[CLASS]" in inside("metrics", "--json").json["one_class"]
