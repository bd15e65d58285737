"""Metrics by name with their positive class, in a Python file, and as a table of costs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score, recall_score

from postshift.cli.app import run
from postshift.cli.errors import WorkError
from postshift.cli.metric_option import read_metric
from tests.cli.helpers import CLASSES, fit, fit_inside, inside, postshift

METRICS = '''
"""Metrics of a user's own."""
import helpers_of_mine
import numpy as np
from postshift.metrics import from_confusion
from sklearn.metrics import cohen_kappa_score, make_scorer

def profit(y_true, y_pred, amount, sample_weight=None):
    return np.average(helpers_of_mine.right(y_true, y_pred) * amount, weights=sample_weight)

def worst(y_true, y_pred, groups):
    return min(np.mean((y_true == y_pred)[groups == group]) for group in np.unique(groups))

trace = from_confusion(np.trace, name="trace")
scorer = make_scorer(cohen_kappa_score)

def net_loss(y_true, y_pred, amount):
    return np.mean((y_true != y_pred) * amount)

def one(y_pred):
    return 1.0

def broken(y_true, y_pred):
    raise RuntimeError("no such thing")
'''


@pytest.mark.slow
def test_metrics_of_ones_own(files, tmp_path):
    (tmp_path / "my_metrics.py").write_text(METRICS)
    (tmp_path / "helpers_of_mine.py").write_text("def right(a, b):\n    return a == b\n")
    how = ["--val", files / "val.csv", "--label", "y"]
    done = fit(*how, "--metric", "my_metrics.py:profit", "--out", "run", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["metric"] == "profit"
    assert (tmp_path / "run" / "metric.py").read_text() == METRICS
    (tmp_path / "my_metrics.py").write_text("raise SystemExit")  # evaluate reads the copy
    refused = inside("evaluate", "run", files / "test.csv", cwd=tmp_path)
    assert refused.code == 2
    assert "--trust-metric" in refused.error
    scored = postshift("evaluate", "run", files / "test.csv", "--trust-metric", "--json", cwd=tmp_path)
    assert scored.code == 0, scored.err
    test = pd.read_csv(files / "test.csv")
    before = test[[f"p_{name}" for name in CLASSES]].idxmax(axis=1).str[2:]
    assert scored.json["before"] == pytest.approx(((before == test["y"]) * test["amount"]).mean())
    (tmp_path / "my_metrics.py").write_text(METRICS)
    done = fit(
        *how, "--metric", "my_metrics.py:worst", "--groups", "region", "--method", "influence", "--budget", "30",
        "--out", "worst", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert 0 < done.json["queries"] <= 30
    named = ("--metric", "my_metrics.py:worst")  # the copy alone does not find what it imports
    scored = inside("evaluate", "worst", files / "test.csv", *named, "--json", cwd=tmp_path)
    right = before == test["y"]
    assert scored.json["before"] == pytest.approx(right.groupby(test["region"]).mean().min())
    broken = fit_inside(
        *how, "--metric", "my_metrics.py:broken", "--method", "influence", "--out", "broken", cwd=tmp_path
    )
    assert broken.code == 1
    assert "no such thing" in broken.error
    assert not (tmp_path / "broken").exists()
    for name in ("trace", "scorer"):
        assert fit_inside(*how, "--metric", f"my_metrics.py:{name}", "--out", name, cwd=tmp_path).code == 0
    wrong = fit_inside(*how, "--metric", "my_metrics.py:one", "--out", "one", cwd=tmp_path)
    assert wrong.code == 2
    assert "from_predictions(one)" in wrong.error
    wrong = fit_inside(*how, "--metric", "my_metrics.py:net_loss", "--out", "one", cwd=tmp_path)
    assert wrong.code == 2
    assert "from_labels(net_loss)" in wrong.error
    unknown = fit_inside(*how, "--metric", "my_metrics.py:porfit", "--out", "broken", cwd=tmp_path)
    assert unknown.code == 2
    assert "did you mean 'profit'?" in unknown.error


def test_costs_from_a_table(files, tmp_path):
    # Rows and columns in another order than the classes.
    (tmp_path / "costs.csv").write_text("true,cat,ant,bee\nbee,1,4,0\ncat,0,9,1\nant,1,0,1\n")
    how = ["--val", files / "val.csv", "--label", "y", "--out", "run"]
    done = fit_inside(*how, "--metric", "cost:costs.csv", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    scored = inside("evaluate", "run", files / "test.csv", "--json", cwd=tmp_path).json
    costs = np.array([[0, 1, 1], [4, 0, 1], [9, 1, 0]])
    for name in ("before", "after"):
        assert -scored[name] == pytest.approx((costs * np.array(scored["confusion"][name])).sum() / 200)
    assert scored["after"] > scored["before"]
    (tmp_path / "two.csv").write_text("true,ant,bee\nant,0,1\nbee,1,0\n")
    done = fit_inside(*how, "--force", "--metric", "cost:two.csv", cwd=tmp_path)
    assert done.code == 2
    assert "must name the 3 classes" in done.error


SICK, WELL = "hypothyroid", "negative"


def write_rows(path, n_rows, seed, names=(SICK, WELL)):
    """Rows of two classes, the first of which is rare."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 9, size=n_rows)
    label = np.where(rng.random(n_rows) < p, names[0], names[1])
    frame = {"y": label, f"p_{names[0]}": p, f"p_{names[1]}": 1 - p, "region": np.arange(n_rows) % 2}
    pd.DataFrame(frame).to_csv(path, index=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("thyroid")
    write_rows(path / "val.csv", 800, 0)
    write_rows(path / "test.csv", 600, 1)
    return path


HOW = ("--val", "val.csv", "--label", "y")


def test_a_metric_whose_positive_class_is_not_clear_is_refused_with_the_remedy(folder, tmp_path):
    for metric in ("f1", "recall", "precision", "jaccard", "accuracy - 0.5 * equal_opportunity"):
        groups = ("--groups", "region") if "-" in metric else ()
        done = fit_inside(*HOW, "--metric", metric, *groups, "--out", tmp_path / "run", cwd=folder)
        assert done.code == 2
        assert f"{metric}[{SICK}]" in done.error
        assert "--pos-label" in done.error
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options", [("--metric", f"f1[{SICK}]"), ("--metric", "f1", "--pos-label", SICK)], ids=["brackets", "option"]
)
def test_the_class_is_optimised_stored_and_read_back(options, folder, tmp_path):
    run = tmp_path / "run"
    done = postshift("fit", *HOW, *options, "--method", "smoothed plug-in", "--json", "--out", run, cwd=folder)
    assert done.code == 0, done.err
    assert (done.json["metric"], done.json["positive_class"]) == (f"f1[{SICK}]", SICK)
    assert done.json["after"] > done.json["before"] + 0.05
    assert json.loads((run / "run.json").read_text())["metric"]["text"] == f"f1[{SICK}]"
    facts = json.loads((run / "facts.json").read_text())
    assert facts["metric"]["positive"] == SICK
    assert ["positive class", SICK] in facts["settings"]
    page = (run / "report.html").read_text()
    assert "positive class" in page

    scored = inside("evaluate", run, "test.csv", "--json", cwd=folder)
    assert scored.code == 0, scored.err
    rows = pd.read_csv(folder / "test.csv")
    assert inside("predict", run, "test.csv", "-o", tmp_path / "labels.csv", "--quiet", cwd=folder).code == 0
    labels = pd.read_csv(tmp_path / "labels.csv")["label"]
    assert scored.json["after"] == pytest.approx(f1_score(rows["y"], labels, pos_label=SICK))
    assert scored.json["positive_class"] == SICK
    other = inside("evaluate", run, "test.csv", "--metric", "recall", "--pos-label", WELL, "--json", cwd=folder)
    assert other.json["after"] == pytest.approx(recall_score(rows["y"], labels, pos_label=WELL))
    assert inside("report", run, "-o", tmp_path / "again.html", cwd=folder).code == 0
    assert (tmp_path / "again.html").read_text() == page


def test_the_terminal_names_the_positive_class(folder, tmp_path):
    done = inside(
        "fit", *HOW, "--metric", "f1", "--pos-label", SICK, "--method", "smoothed plug-in",
        "--out", tmp_path / "run", cwd=folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert f"positive class: {SICK}" in done.out
    assert f"positive class: {SICK}" in inside("evaluate", tmp_path / "run", "test.csv", cwd=folder).out


def test_a_run_goes_on_only_with_the_same_class(folder, tmp_path):
    how = (*HOW, "--metric", "f1", "--out", tmp_path / "run")
    assert fit_inside(*how, "--pos-label", SICK, cwd=folder).code == 0
    assert fit_inside(*how, "--pos-label", SICK, "--resume", cwd=folder).code == 0
    other = fit_inside(*how, "--pos-label", WELL, "--resume", cwd=folder)
    assert other.code == 2
    assert "--pos-label was 'hypothyroid' and is now 'negative'" in other.error


@pytest.mark.parametrize(
    ("names", "metric", "positive"),
    [
        (("yes", "no"), "f1", "yes"),
        ((0, 1), "f1", "1"),
        ((1, 2), "f1", "1"),
        ((2, 1), "recall[2.0]", "2"),
        ((0.5, 1.5), "f1[0.5]", "0.5"),
        (("true", "false"), "f1", "True"),
        (("a[0] - b", "c"), "f1[a[0] - b]", "a[0] - b"),
    ],
)
def test_labels_as_a_file_has_them(names, metric, positive, tmp_path):
    write_rows(tmp_path / "val.csv", 400, 0, names)
    done = fit_inside(*HOW, "--metric", metric, "--json", "--out", "run", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["positive_class"] == positive
    assert inside("evaluate", "run", "val.csv", "--json", cwd=tmp_path).json["positive_class"] == positive


def test_one_of_three_classes(files, tmp_path):
    done = fit_inside(
        "--val", files / "val.csv", "--label", "y", "--metric", "f1", "--pos-label", "cat", "--json",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert (done.json["metric"], done.json["positive_class"]) == ("f1[cat]", "cat")
    refused = fit_inside("--val", files / "val.csv", "--label", "y", "--metric", "f1", "--out", tmp_path / "other")
    assert "f1_macro" in refused.error
    assert "f1[CLASS]" in refused.error


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--metric", "f1[hypothyrod]"), "did you mean 'hypothyroid'?"),
        (("--metric", "quadratic_kappa"), "did you mean 'cohen_kappa_quadratic'?"),
        (("--metric", "f1", "--pos-label", "hypothyrod"), "did you mean 'hypothyroid'?"),
        (("--metric", "g_mean", "--pos-label", SICK), "leave pos_label (--pos-label) out"),
        (("--metric", f"f1[{SICK}]", "--pos-label", SICK), "leave pos_label (--pos-label) out"),
        (("--metric", "cost:costs.csv", "--pos-label", SICK), "--pos-label is for a metric by name"),
        (("--metric", "my.py:f", "--pos-label", SICK), "--pos-label is for a metric by name"),
        (("--metric-command", "wc {predictions}", "--pos-label", SICK), "leave it out"),
    ],
)
def test_what_does_not_go_together(options, text, folder, tmp_path):
    done = fit_inside(*HOW, *options, "--out", tmp_path / "run", cwd=folder)
    assert done.code == 2
    assert text in done.error


def test_the_order_of_the_columns_is_that_of_ordinal_classes(files, tmp_path):
    table = pd.read_csv(files / "val.csv")
    table[["p_bee", "p_ant", "p_cat", "y"]].to_csv(tmp_path / "ordered.csv", index=False)
    how = ["--label", "y", "--metric", "cohen_kappa_quadratic", "--json"]
    done = fit_inside("--val", tmp_path / "ordered.csv", *how, "--out", tmp_path / "run")
    assert done.code == 0, done.err  # a warning would be an error
    truth, base = (
        np.array([["bee", "ant", "cat"].index(name) for name in names])
        for names in (table["y"], table[["p_bee", "p_ant", "p_cat"]].idxmax(axis=1).str[2:])
    )
    assert done.json["before"] == pytest.approx(cohen_kappa_score(truth, base, weights="quadratic"))


def test_a_python_file_that_cannot_be_imported(tmp_path, files):
    (tmp_path / "bad.py").write_text("import nothing_of_that_name")
    with pytest.raises(WorkError, match="nothing_of_that_name"):
        read_metric(f"{tmp_path / 'bad.py'}:f", None)
    assert run(["fit", "--val", str(files / "val.csv"), "--label", "y", "--metric", "none.py:f", "--out", "r"]) == 3
