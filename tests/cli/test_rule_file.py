"""Rules and models that were made to do harm: they are refused, and nothing of them runs."""

from __future__ import annotations

import operator
import os
from dataclasses import replace
from functools import partial

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from postshift.cli.files.file_table import digest_of
from postshift.cli.program import Program
from postshift.cli.run.folder import RunWriter
from postshift.persistence import load
from tests.cli.helpers import fit_inside, inside, make_rows, postshift


def program(marker):
    """A metric program that writes a file when it is called with anything."""
    found = object.__new__(Program)
    command = ["sh", "-c", f"touch '{marker}'; echo 1", "{predictions}"]
    found.__dict__.update(_arguments=command, _timeout=5.0, n_runs=0)
    return found


def with_posterior(content, posterior):
    """The content of a rule file with another posterior in every rule."""
    shifter = content["shifter"]
    rules = tuple(replace(rule, posterior=posterior) for rule in shifter.rule_.rules)
    shifter.rule_ = replace(shifter.rule_, rules=rules)
    return content


def with_member(content, part):
    """The content with a rule's mixture that has another thing for its only member."""
    shifter = content["shifter"]
    (first, *_) = shifter.rule_.rules
    object.__setattr__(first.mixture, "members", (part,))
    shifter.rule_ = replace(shifter.rule_, rules=(first,), weights=np.ones(1))
    return content


def with_method(content, part):
    """The content with a thing in the place of a method of the shifter."""
    content["shifter"].__dict__["predict"] = part
    return content


def with_basis(content, part):
    """The content with a thing that is called as a basis."""
    content["bases"] = {"constant": {"basis": part, "columns": ["x1"]}}
    return content


HOSTILE = {
    "a program as the posterior": lambda content, marker: with_posterior(content, program(marker)),
    "a program as a member": lambda content, marker: with_member(content, program(marker)),
    "a program as a method": lambda content, marker: with_method(content, program(marker)),
    "a program instead of the shifter": lambda content, marker: content | {"shifter": program(marker)},
    "a program in a transformer": lambda content, marker: with_basis(content, FunctionTransformer(program(marker))),
    "a class that writes files": lambda content, _: with_posterior(content, FunctionTransformer(RunWriter)),
    "a call of the shell": lambda content, marker: with_posterior(content, partial(os.system, f"touch '{marker}'")),
    "a caller of methods": lambda content, _: with_posterior(content, operator.methodcaller("tofile", "ran")),
    "a function of NumPy": lambda content, _: with_posterior(content, np.exp),
    "a function of NumPy as a method": lambda content, _: with_method(content, np.add),
    "a model as the posterior": lambda content, _: with_posterior(content, FunctionTransformer(np.exp)),
    "a model instead of the shifter": lambda content, _: content | {"shifter": LogisticRegression()},
    "a model as a basis": lambda content, _: with_basis(content, FunctionTransformer(np.exp)),
    "a rule as a basis": lambda content, _: with_basis(content, content["shifter"].rule_),
    "columns that are numbers": lambda content, _: content | {"bases": {"b": {"basis": None, "columns": 3}}},
    "a list": lambda content, _: [content],
    "no bases": lambda content, _: {"shifter": content["shifter"]},
}


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    """A finished run and the rows to label."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    done = fit_inside("--val", files / "val.csv", "--label", "y", "--metric", "g_mean", "--out", folder)
    assert done.code == 0, done.err
    return folder


def test_a_program_in_the_rule_of_a_run_is_not_run(run, files, tmp_path):
    rule, marker = run / "rule.skops", tmp_path / "ran"
    good = rule.read_bytes()
    try:
        rule.write_bytes(skops.io.dumps(with_posterior(load(rule), program(marker))))
        done = postshift("predict", run, files / "test.csv", "-o", tmp_path / "out.csv")
    finally:
        rule.write_bytes(good)
    assert not marker.exists()
    assert done.code == 3
    assert "postshift.cli.program.Program" in done.error
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("how", HOSTILE)
def test_rules_that_were_tampered_with_are_refused(run, files, tmp_path, how):
    rule, marker, out = run / "rule.skops", tmp_path / "ran", tmp_path / "out.csv"
    good = rule.read_bytes()
    try:
        rule.write_bytes(skops.io.dumps(HOSTILE[how](load(rule), marker)))
        commands = ["predict", run, files / "test.csv", "-o", out], ["evaluate", run, files / "test.csv"]
        found = [inside(*command, cwd=tmp_path) for command in commands]
    finally:
        rule.write_bytes(good)
    assert list(tmp_path.iterdir()) == []
    for done in found:
        assert done.code == 3, done
        assert "rule.skops" in done.error


def test_a_program_in_the_model_is_not_run(files, tmp_path):
    frame, marker = make_rows(400, 7), tmp_path / "ran"
    model = LogisticRegression().fit(frame[["x1", "x2"]], frame["y"])
    model.predict_proba = program(marker)
    (tmp_path / "m.skops").write_bytes(skops.io.dumps(model))
    how = ["--label", "y", "--metric", "g_mean", "--model", tmp_path / "m.skops", "--out", tmp_path / "run"]
    done = fit_inside("--val", files / "val.csv", *how)
    assert not marker.exists()
    assert done.code == 3
    assert "postshift.cli.program.Program" in done.error
    assert "--trust-model" not in done.error


def test_a_pickle_that_replaced_the_model_of_a_run_is_not_read(files, tmp_path):
    class Runs:
        def __reduce__(self):
            return os.system, (f"touch '{tmp_path / 'ran'}'",)

    frame = make_rows(400, 7)
    model = LogisticRegression().fit(frame[["x1", "x2"]], frame["y"])
    joblib.dump(model, tmp_path / "m.joblib")
    run, out = tmp_path / "run", tmp_path / "out.csv"
    how = ["--label", "y", "--metric", "g_mean", "--model", tmp_path / "m.joblib", "--out", run]
    assert fit_inside("--val", files / "val.csv", *how, "--trust-model").code == 0
    header, before = (run / "run.json").read_text(), digest_of((run / "model.joblib").read_bytes())
    joblib.dump(Runs(), run / "model.joblib")
    (run / "run.json").write_text(header.replace(before, digest_of((run / "model.joblib").read_bytes())))
    assert before in header
    for command in (["predict", run, files / "test.csv", "-o", out], ["evaluate", run, files / "test.csv"]):
        done = inside(*command)
        assert done.code == 2
        assert "--trust-model" in done.error
    (run / "run.json").write_text(header)
    assert "its digest differs" in inside("predict", run, files / "test.csv", "-o", out, "--trust-model").error
    assert not (tmp_path / "ran").exists()
    assert not out.exists()
