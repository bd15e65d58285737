"""Constraints in the terminal: what is fitted, stored and shown, and every way in which they can be refused."""

import json

import numpy as np
import pandas as pd
import pytest

from postshift import PostShifter
from postshift.cli.run.rule_file import LoadedRun
from tests.cli.helpers import CLASSES, contents, inside, make_rows

pytestmark = pytest.mark.filterwarnings("always::postshift.exceptions.ConstraintWarning")  # not an error, but shown

BOTH = ("--subject-to", "recall[cat] >= 0.6", "--subject-to", "rate[cat] <= 0.35")
CERTIFIED = ("--subject-to", "recall[cat] >= 0.5", "--confidence", 0.9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with val.csv, test.csv and rows.csv, which has no labels."""
    path = tmp_path_factory.mktemp("constrained")
    make_rows(900, 1).to_csv(path / "val.csv", index=False)
    make_rows(700, 2).to_csv(path / "test.csv", index=False)
    make_rows(4000, 3).drop(columns="y").to_csv(path / "rows.csv", index=False)
    return path


def fit(folder, out, *options, metric="accuracy"):
    """Run ``postshift fit`` on the rows of the folder."""
    given = ("--val", folder / "val.csv", "--label", "y", "--metric", metric, "--out", out)
    return inside("fit", *given, *options)


def arrays(path):
    """The probabilities and the labels of a file."""
    frame = pd.read_csv(path)
    return frame[[f"p_{name}" for name in CLASSES]].to_numpy(), frame.get("y"), frame["region"].to_numpy()


def written(records):
    """Records as JSON has them."""
    return json.loads(json.dumps([{name: getattr(each, name) for name in each.__slots__} for each in records]))


def test_the_terminal_and_python_fit_the_same(folder, tmp_path):
    done = fit(folder, tmp_path / "run", *BOTH, "--margin", 1, "--json")
    assert done.code == 0, done.err
    eta, y, _ = arrays(folder / "val.csv")
    shifter = PostShifter("accuracy", subject_to=list(BOTH[1::2]), margin=1, classes=CLASSES).fit(eta, y)
    stored = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert done.json["constraints"] == stored["constraints"] == written(shifter.constraints_)
    assert [each["text"] for each in stored["constraints"]] == list(BOTH[1::2])
    assert (stored["confidence"], stored["certificate"]) == (None, None)
    assert (stored["after"], stored["before"]) == (shifter.score_, shifter.base_score_)
    test, truth, _ = arrays(folder / "test.csv")
    assert inside("predict", tmp_path / "run", folder / "test.csv", "-o", tmp_path / "new.csv").code == 0
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "new.csv")["label"], shifter.predict(test))
    scored = inside("evaluate", tmp_path / "run", folder / "test.csv", "--json")
    recall, rate = scored.json["constraints"]
    labels = shifter.predict(test)
    assert recall["value"] == pytest.approx(np.mean(labels[truth == "cat"] == "cat"))
    assert rate["value"] == pytest.approx(np.mean(labels == "cat"))
    assert recall["holds"] == (recall["value"] >= 0.6)


def test_a_function_as_the_metric(folder, tmp_path):
    own = folder / "own.py"
    own.write_text("def own(y_true, y_pred):\n    return float((y_true == y_pred).mean())\n")
    done = fit(folder, tmp_path / "run", "--subject-to", "rate[cat] <= 0.1", "--json", metric=f"{own}:own")
    assert done.code == 0, done.err
    assert done.json["constraints"][0]["text"] == "rate[cat] <= 0.1"
    assert "constraint" in (tmp_path / "run" / "report.html").read_text()
    certified = ("--subject-to", "rate[cat] <= 0.1", "--confidence", 0.9)
    refused = fit(folder, tmp_path / "other", *certified, metric=f"{own}:own")
    assert refused.code == 2
    assert "a guarantee needs a metric of the confusion matrix: leave --confidence out" in refused.err


def test_each_constraint_has_its_own_margin(folder, tmp_path):
    done = fit(folder, tmp_path / "run", *BOTH, "--margin", 2, "--margin", 0, "--json")
    assert done.code == 0, done.err
    eta, y, _ = arrays(folder / "val.csv")
    margin = {BOTH[1]: 2.0}
    shifter = PostShifter("accuracy", subject_to=list(BOTH[1::2]), margin=margin, classes=CLASSES).fit(eta, y)
    assert done.json["constraints"] == written(shifter.constraints_)
    wrong = fit(folder, tmp_path / "other", *BOTH, *("--margin", 1) * 3)
    assert wrong.code == 2
    assert "--margin is given 3 times and --subject-to 2 times" in wrong.err


def test_what_is_shown(folder, tmp_path):
    done = fit(folder, tmp_path / "run", *BOTH)
    assert done.code == 0, done.err
    first, header, *lines = done.out.splitlines()
    assert "with the constraints" in first
    assert "by the model without constraints, on 900 rows not used for the fit" in first
    assert "gain" not in done.out
    assert header.split() == ["constraint", "bound", "value", "95", "%", "interval", "holds"]
    assert lines[0].split()[:3] == ["recall[cat]", ">=", "0.6"]
    assert lines[0].split()[-1] in {"yes", "NO"}
    assert lines[2] == "There is no guarantee: on new rows, a constraint may be missed."
    scored = inside("evaluate", tmp_path / "run", folder / "test.csv").out
    assert "the model without constraints" in scored
    assert "rate[cat]" in scored


@pytest.mark.slow
def test_a_guarantee_is_stored_and_said(folder, tmp_path):
    more = ("--subject-to", "rate[cat] <= 0.5", "--unlabelled", folder / "rows.csv")
    done = fit(folder, tmp_path / "run", *CERTIFIED, *more)
    assert done.code == 0, done.err
    certificate = json.loads((tmp_path / "run" / "metrics.json").read_text())["certificate"]
    assert (certificate["confidence"], certificate["n_rows"], certificate["n_unlabelled"]) == (0.9, 900, 2000)
    assert certificate["p_value"] <= 0.1
    (said,) = [line for line in done.out.splitlines() if line.startswith("With a confidence")]
    assert said.startswith(
        "With a confidence of 90 %, recall[cat] >= 0.5 and rate[cat] <= 0.5 hold for new rows from the same source "
        "(binomial test, exact; 900 labelled rows and 2,000 rows without labels; p = "
    )
    assert "on 900 rows, which were used for the fit" in done.out
    again = fit(folder, tmp_path / "run", *CERTIFIED, *more, "--resume")
    assert again.out == done.out
    changed = fit(folder, tmp_path / "run", *CERTIFIED[:2], "--confidence", 0.8, *more, "--resume")
    assert (changed.code, "--confidence was 0.9 and is now 0.8" in changed.error) == (2, True)
    loaded = LoadedRun.open(tmp_path / "run", trust_model=False).shifter
    assert (loaded.certificate_.n_unlabelled, loaded.confidence) == (2000, 0.9)
    assert "With a confidence of 90" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_nothing_can_be_certified(folder, tmp_path):
    asked = ("--subject-to", "recall[cat] >= 0.999", "--confidence", 0.95)
    done = fit(folder, tmp_path / "run", *asked)
    assert done.code == 1
    assert "nothing can be certified at confidence 0.95" in done.error
    assert "--if-uncertified closest returns it without a guarantee" in done.error
    assert not (tmp_path / "run").exists()
    done = fit(folder, tmp_path / "run", *asked, "--if-uncertified", "closest")
    assert done.code == 0, done.err
    assert "It is returned without a guarantee" in done.err
    assert "Nothing could be certified at a confidence of 95 %" in done.out
    before = contents(tmp_path / "run")
    assert fit(folder, tmp_path / "run", *asked, "--force").code == 1
    assert contents(tmp_path / "run") == before


def test_gaps_between_groups(folder, tmp_path):
    gap = ("--subject-to", "demographic_parity[bee] <= 0.2")
    done = fit(folder, tmp_path / "run", *gap)
    assert (done.code, "--groups" in done.error) == (2, True)
    done = fit(folder, tmp_path / "run", *gap, "--groups", "region")
    assert done.code == 0, done.err
    scored = inside("evaluate", tmp_path / "run", folder / "test.csv", "--json")
    assert scored.code == 0, scored.err
    test, _, groups = arrays(folder / "test.csv")
    labels = LoadedRun.open(tmp_path / "run", trust_model=False).shifter.predict(test)
    shares = [np.mean(labels[groups == name] == "bee") for name in ("north", "south")]
    assert scored.json["constraints"][0]["value"] == pytest.approx(abs(shares[0] - shares[1]))
    assert inside("report", tmp_path / "run", "--test", folder / "test.csv").code == 0
    pd.read_csv(folder / "rows.csv").drop(columns="region").to_csv(tmp_path / "rows.csv", index=False)
    more = ("--groups", "region", "--confidence", 0.9, "--unlabelled", tmp_path / "rows.csv", "--force")
    done = fit(folder, tmp_path / "run", *gap, *more)
    assert (done.code, "no column 'region'" in done.error) == (2, True)


def test_the_positive_class_is_that_of_constraints_too(folder, tmp_path):
    done = fit(folder, tmp_path / "run", "--pos-label", "cat", "--subject-to", "recall >= 0.6", "--json", metric="f1")
    assert done.code == 0, done.err
    assert done.json["constraints"][0]["name"] == "recall[cat]"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--subject-to", "recal[cat] >= 0.9"], "did you mean 'recall'?"),
        (["--subject-to", "recall[cta] >= 0.9"], "did you mean 'cat'?"),
        (["--subject-to", "recall[cat] > 0.9"], "must have the form"),
        (["--subject-to", "recall[cat] >= 1.5"], "between 0 and 1"),
        (["--subject-to", "recall[cat] >= 0.99", "--subject-to", "rate[cat] <= 0.01"], "no classifier meets"),
        (["--subject-to", "f1_macro >= 0.2", "--confidence", "0.9"], "leave --confidence out"),
        (["--subject-to", "recall[cat] >= 0.5", "--confidence", "1.5"], "confidence must be"),
        ([*CERTIFIED, "--sample-weight", "amount"], "--confidence"),
        ([*CERTIFIED, "--if-uncertified", "closer"], "--if-uncertified must be raise or closest"),
    ],
)
def test_wrong_constraints_are_one_line_and_leave_nothing(options, text, folder, tmp_path):
    done = fit(folder, tmp_path / "run", *options)
    assert done.code == 2, done.err
    assert text in done.error
    assert done.out == ""
    assert not (tmp_path / "run").exists()


def test_a_metric_that_only_scores_labels(folder, tmp_path):
    (tmp_path / "mine.py").write_text("def hits(y_true, y_pred):\n    return (y_true == y_pred).mean()\n")
    done = fit(folder, tmp_path / "run", *BOTH, metric=f"{tmp_path / 'mine.py'}:hits")
    assert done.code == 0, done.err
