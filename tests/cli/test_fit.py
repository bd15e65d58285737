"""The options of ``postshift fit`` and what it shows."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from typer.main import get_command

from postshift.cli.app import app
from postshift.cli.commands.fit import FitRequest, show
from postshift.cli.console import Console
from postshift.cli.errors import UsageError

REQUEST = FitRequest(val=Path("val.csv"), out=Path("run"), metric="f1")


def test_every_field_of_a_request_is_an_option_with_its_default():
    options = {each.name: each.default for each in get_command(app).commands["fit"].params}
    assert {each.name for each in fields(FitRequest)} == {*options} - {"quiet", "json", "debug"}
    plain = replace(REQUEST, val=None, out=None, metric=None)
    assert {name: getattr(plain, name) for name in vars(plain)} == {name: options[name] for name in vars(plain)}


def test_settings_are_what_the_result_depends_on():
    before = REQUEST.settings()
    assert replace(REQUEST, n_jobs=2, out=Path("other"), force=True, metric_timeout=1).settings() == before
    assert replace(REQUEST, random_state=1).settings() == {**before, "random_state": 1}
    assert {"val", "train", "model", "unlabelled"}.isdisjoint(before)  # the digests of the files are compared


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"proba": "p_*", "model": Path("m.skops")}, "give one of them"),
        ({"positive": "yes"}, "--positive goes with one column"),
        ({"scheduler": "local"}, "--train"),
        ({"metric": None}, "give one metric"),
        ({"metric_command": "sh {predictions}"}, "give one metric: either"),
        ({"metric": None, "metric_command": "sh {predictions}", "pos_label": "a"}, "--pos-label"),
        ({"metric": None, "metric_command": "sh {predictions}", "groups": "a"}, "--groups"),
        ({"less_is_better": True}, "--metric-command"),
        ({"margin": [1.0]}, "--margin is about constraints: add --subject-to"),
        ({"confidence": 0.9}, "--confidence is about constraints: add --subject-to"),
        ({"unlabelled": Path("rows.csv")}, "--unlabelled is about constraints: add --subject-to"),
        ({"subject_to": ["recall >= 0.9"], "method": "stack"}, "leave --method out"),
        ({"subject_to": ["recall >= 0.9"], "if_uncertified": "closest"}, "add --confidence"),
        ({"subject_to": ["recall >= 0.9"], "unlabelled": Path("rows.csv")}, "add --confidence"),
        (
            {"subject_to": ["recall >= 0.9"], "metric": None, "metric_command": "sh {predictions}"},
            "needs a --metric, not a metric program",
        ),
    ],
)
def test_options_that_contradict_each_other(options, text):
    REQUEST.check()
    with pytest.raises(UsageError, match=text):
        replace(REQUEST, **options).check()


FOUND = {
    "metric": "cost",
    "before": -2.0,
    "after": -1.5,
    "gain": 0.5,
    "less_is_better": True,
    "intervals": {"gain": (0.25, 1.0)},
    "scored_on": {"rows": 100, "used_for_the_fit": False},
    "validation_rows": 1000,
    "reason": "the reason",
    "how": "one rule",
    "fallback": True,
    "rules": [{"name": "base", "weight": 1.0}],
    "queries": 7,
    "report": "run/report.html",
}


def test_a_cost_is_shown_without_a_minus(capsys):
    show(FOUND, Console())
    shown = capsys.readouterr().out
    assert shown.startswith(
        "cost: 2.0000 -> 1.5000, change -0.5000 (-1.0000 to -0.2500) on 100 rows not used for the fit (a random sample "
        "of the 1,000 validation rows)\n"
    )
    assert "the reason" not in shown
    assert shown.endswith("7 queries were asked\nreport: run/report.html\n")
    show(FOUND | {"less_is_better": False}, Console())
    assert "gain +0.5000 (+0.2500 to +1.0000)" in (shown := capsys.readouterr().out)
    assert "the reason" in shown
