"""The recipes of docs/extend, followed to the letter: their blocks run, and what they add is used."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from postshift import MemoryEngine, PostShiftClassifier, PostShifter, Rows, Session, fw_eg, pi_ew
from postshift.basis import basis_catalogue
from postshift.core.influence import influence_fit
from postshift.core.queries import kind_named, without_queries
from postshift.exceptions import AnswerError
from postshift.metrics import ConfusionOracle, GMean, metric_catalogue
from postshift.report import Facts, render
from postshift.rules import Choice, Problem, menu
from tests.cli.helpers import options_of
from tests.docs.test_paper_map import resolve

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks(page, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """Runs the blocks of a page, one after the other, and returns what they defined."""
    monkeypatch.chdir(tmp_path)

    def follow(page):
        names: dict[str, object] = {"__name__": "recipe"}
        for block in blocks(page):
            exec(compile(block, page, "exec", dont_inherit=True), names)  # noqa: S102
        return names

    return follow


@pytest.fixture(scope="module")
def digits():
    """Features, labels, and probabilities of a model that saw other rows."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X = X[:, :16]
    model = GaussianNB().fit(X[:60], y[:60])
    return X[60:], y[60:], model.predict_proba(X[60:])


def test_a_metric(followed, digits):
    metric = followed("extend/metric.md")["WeightedRecall"]((1.0, 5.0, 1.0))
    _, y, eta = digits
    for method in ("plug-in search", "influence", "paper", "auto"):
        shifter = PostShifter(metric, method=method).fit(eta, y)
        labels = shifter.predict(eta)
        recalls = [np.mean(labels[y == k] == k) for k in range(3)]
        assert shifter.score(eta, y) == pytest.approx(np.average(recalls, weights=metric.weights))
    assert "weighted recall" in render(Facts.of(shifter, eta, y))
    rows = Rows.of(eta, labels=y)
    assert fw_eg(rows, rows, metric, linearise="gradient").score >= fw_eg(rows, rows, metric, max_iter=1).score - 0.02


def test_a_basis(followed, digits):
    names = followed("extend/basis.md")
    bands = names["BandBasis"](10, n_bands=4)
    X, y, _ = digits
    model = PostShiftClassifier(GaussianNB(), metric="g_mean", basis={"mine": bands}, method="influence").fit(X, y)
    assert list(model.bases_) == ["mine"]
    assert model.rule_.rules[0].basis == "mine"
    assert model.example_weights(X).shape == (len(X), 3)
    assert "band" in render(Facts.of(model, X, y))
    assert len(model.bases_["mine"].get_feature_names_out()) == model.coef_.shape[0]


def test_a_rule(followed, digits):
    names = followed("extend/rule.md")
    rule = names["TemperedPrior"]()
    _, y, eta = digits
    assert {entry.name for entry in names["chosen"].record.entries} > {"base", "tempered prior"}
    assert names["session"].n_queries <= names["choice"].bound(names["problem"])
    problem = Problem.labelled(None, Rows.of(eta, labels=y), GMean())
    alone = without_queries(Choice(how="only", entries=(*menu(problem), rule)).fit(problem))
    assert [each.name for each in alone.rule.rules] == ["tempered prior"]


def test_an_engine(followed, digits):
    engine_of = followed("extend/engine.md")["ShardEngine"]
    _, y, eta = digits
    rows = Rows.of(eta, labels=y)
    engine = engine_of(rows.blocks(70))
    np.testing.assert_allclose(
        pi_ew(engine, rows, GMean()).mixture.members[0].alpha, pi_ew(rows, rows, GMean()).mixture.members[0].alpha
    )
    oracle, how = ConfusionOracle(y, n_classes=3), {"kind": kind_named("confusion"), "metric": GMean()}
    fits = [Session(partial(influence_fit, each, rows, **how)).run(oracle) for each in (engine, MemoryEngine(rows))]
    np.testing.assert_allclose(fits[0].vertices[-1].alpha, fits[1].vertices[-1].alpha)


@pytest.mark.slow
def test_the_new_engine_passes_the_contract(tmp_path):
    file = tmp_path / "test_shards.py"
    file.write_text("\n".join(blocks("extend/engine.md")[:2]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout).group(1)) >= 12


def test_an_oracle(followed):
    names = followed("extend/oracle.md")
    found = names["shifter"]
    assert found.base_score_ < found.score_ == np.mean(found.predict(names["eta"]) == names["labels"])
    assert 0 < found.n_queries_ <= 40
    wrong = np.roll(names["labels"], 1)
    with pytest.raises(AnswerError, match="must be"):
        names["check_oracle"](names["metric"].oracle, wrong, metric=names["Accuracy"](), n_classes=3)


@pytest.mark.parametrize("page", ["metric", "basis", "rule", "engine", "oracle"])
def test_the_places_that_a_recipe_names_exist(page):
    text = (DOCS / "extend" / f"{page}.md").read_text()
    for name in re.findall(r"`((?:src|tests)/[\w./]+)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`(postshift\.[\w.]+)`", text):
        assert resolve(name) is not None


def test_every_function_in_the_mathematics_exists():
    names = set(re.findall(r"`(postshift\.[\w.]+)`", (DOCS / "mathematics.md").read_text()))
    assert len(names) > 20
    for name in names:
        assert resolve(name) is not None


def test_a_situation_takes_at_most_ten_lines():
    found = blocks("situations.md")
    assert len(found) == 5
    for block in found:
        lines = [line for line in block.splitlines() if line.strip()]
        assert len(lines) <= 10, block


@pytest.mark.slow
def test_the_commands_of_the_command_line_run(tmp_path):
    lines = [line for block in blocks("guide/command-line.md", "console") for line in block.splitlines()]
    assert {shlex.split(line)[1] for line in lines} == {
        "demo", "fit", "evaluate", "predict", "report", "metrics", "bases",
    }  # fmt: skip
    for line in lines:
        command = [sys.executable, "-m", "postshift.cli", *shlex.split(line)[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    files = {file.name for file in (tmp_path / "run").iterdir()}
    page = (DOCS / "guide" / "command-line.md").read_text()
    assert all(f"`{name}`" in page for name in files)


def test_the_table_of_options_is_complete():
    page = (DOCS / "guide" / "command-line.md").read_text()
    table = page[page.index("## The same option") : page.index("## Files")]
    assert options_of("fit") - {"--help"} == set(re.findall(r"--[a-z][a-z-]+", table))
    parameters = {*signature(PostShiftClassifier).parameters, *signature(PostShifter).parameters}
    assert parameters <= set(re.findall(r"\w+", table))


def test_the_guides_know_every_basis():
    page = (DOCS / "guide" / "bases.md").read_text()
    assert all(f'"{name}' in page for name in basis_catalogue())
    assert {"g_mean", "cohen_kappa_quadratic", "worst_group_accuracy"} <= set(metric_catalogue())
