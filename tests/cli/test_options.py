"""Options: those in messages exist and help, and those of Python parameters have the same names."""

import ast
import re
from inspect import signature
from pathlib import Path

import pandas as pd
import pytest
from typer.main import get_command

import postshift.cli
from postshift import PostShiftClassifier, PostShifter
from postshift.cli.app import app
from tests.cli.helpers import check_advice, fit_inside, inside, options_of, script

COMMANDS = ("demo", "fit", "predict", "evaluate", "report", "metrics", "bases", "doctor")

BASE = ("--label", "y", "--metric", "f1_macro")

# Parameters of PostShiftClassifier and PostShifter, or of their fit, which are options of ``postshift fit``.
PARAMETERS = (
    "metric", "pos_label", "basis", "method", "budget", "subject_to", "margin", "confidence", "if_uncertified",
    "n_jobs", "random_state", "sample_weight",
)  # fmt: skip
# Parameters without an option: the files of rows and the run folder say what they are.
FROM_FILES = ("estimator", "classes", "cv", "refit", "session")


def texts():
    """Every text in the source of the command line that is no docstring."""
    for path in sorted(Path(postshift.cli.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.name, node.value


def commands_of(group, *words):
    """Yield the words of every command, also of those in groups."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, *words, name)
        else:
            yield *words, name


def test_every_option_and_command_that_a_text_names_is_there():
    program = get_command(app)
    every = set().union(*(options_of(*words) for words in commands_of(program)))
    every |= {"--version", "--force-reinstall"}
    for file, text in texts():
        named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*\w", text))
        assert named <= every, (file, named - every)
        commands = set(re.findall(r"\bpostshift ([a-z]+)\b", text))
        assert commands <= {*program.commands, "did", "wrote"}, (file, text)


def test_options_of_python_parameters_have_their_names():
    """Every parameter of the estimators, and the weights of fit, has an option of its name or comes from the files."""
    given = {*signature(PostShiftClassifier).parameters, *signature(PostShifter).parameters, "sample_weight"}
    assert "sample_weight" in signature(PostShiftClassifier.fit).parameters
    assert given == {*PARAMETERS, *FROM_FILES}
    fit_options = {each.name: each.opts for each in get_command(app).commands["fit"].params}
    for parameter in PARAMETERS:
        assert fit_options[parameter] == [f"--{parameter.replace('_', '-')}"]


def test_an_option_has_one_name_in_all_commands():
    """The long name of an option is the name of its parameter; only --output has a short one."""
    for command in COMMANDS:
        for each in get_command(app).commands[command].params:
            long = [option for option in each.opts if option.startswith("--")]
            assert long == [f"--{each.name.replace('_', '-')}"] or each.param_type_name == "argument"
            assert set(each.opts) - set(long) <= {"-o", each.name}


def test_the_check_sees_advice_that_cannot_be_followed():
    check_advice(["predict"], "error: wrong: add --keep, --proba of the fit named it, or fit again with --normalise\n")
    check_advice(["report"], "error: there is none: make one with postshift fit ... --out run\n")
    for wrong in ("add --proba", "fit again with --keep", "--keep of the fit", "make one with postshift fit --keep"):
        with pytest.raises(AssertionError):
            check_advice(["predict"], f"error: {wrong}\n")


@pytest.fixture
def shop(files, tmp_path):
    """A folder with the files, changed ones, a program, a metric and models; commands are run in it."""
    for name in ("train", "val", "test"):
        frame = pd.read_csv(files / f"{name}.csv")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        frame.assign(p_ant=frame["p_ant"] * 2).to_csv(tmp_path / f"{name}-sums.csv", index=False)
        frame.rename(columns=lambda each: each.replace("p_", "q_")).to_csv(tmp_path / f"{name}-q.csv", index=False)
        frame.drop(columns="amount").to_csv(tmp_path / f"{name}-light.csv", index=False)
    (tmp_path / "mine.py").write_text(
        "import numpy\n\n\ndef hits(y_true, y_pred, sample_weight=None):\n"
        "    return numpy.average(y_true == y_pred, weights=sample_weight)\n"
    )
    script(tmp_path / "share.py", "import sys; t = open(sys.argv[1]).read(); print(t.count('cat') / t.count('\\n'))\n")
    return tmp_path


@pytest.fixture
def models(shop):
    """Models of the two features: with pickle, and without names."""
    import joblib
    from sklearn.linear_model import LogisticRegression

    train = pd.read_csv(shop / "train.csv")
    named = LogisticRegression().fit(train[["x1", "x2"]], train["y"])
    joblib.dump(named, shop / "model.joblib")
    joblib.dump(LogisticRegression().fit(train[["x1", "x2"]].to_numpy(), train["y"]), shop / "array.joblib")
    return shop


def follow(folder, first, advice, then):
    """The first command fails with this advice, and the one that follows it succeeds."""
    failed = inside(*first, cwd=folder)
    assert failed.code in (1, 2, 3), failed
    assert advice in failed.error
    done = inside(*then, cwd=folder)
    assert done.code == 0, done.err


def fit(*arguments):
    return ("fit", "--method", "smoothed plug-in", "--quiet", "--out", "run", *arguments)


VAL = ("--val", "val.csv")

ASKED = (
    "fit", *VAL, "--metric-command", "./share.py {predictions}", "--budget", 30, "--quiet",
    "--out", "run",
)  # fmt: skip

FITS = {
    "sums": (fit("--val", "val-sums.csv", *BASE), "--normalise", fit("--val", "val-sums.csv", *BASE, "--normalise")),
    "columns": (fit("--val", "val-q.csv", *BASE), "--proba", fit("--val", "val-q.csv", *BASE, "--proba", "q_*")),
    "groups": (
        fit(*VAL, "--label", "y", "--metric", "worst_group_accuracy"),
        "--groups",
        fit(*VAL, "--label", "y", "--metric", "worst_group_accuracy", "--groups", "region"),
    ),
    "no groups": (fit(*VAL, *BASE, "--groups", "region"), "leave --groups out", fit(*VAL, *BASE)),
    "label": (fit(*VAL, "--metric", "f1_macro"), "--label", fit(*VAL, *BASE)),
    "metric": (fit(*VAL, "--label", "y"), "--metric NAME", fit(*VAL, *BASE)),
    "train": (
        fit(*VAL, *BASE, "--basis", "tree:3"),
        "--train",
        fit(*VAL, *BASE, "--basis", "tree:3", "--train", "train.csv"),
    ),
    "basis": (
        fit("--val", "val-text.csv", *BASE, "--basis", "kmeans:3"),
        "--basis constant",
        fit("--val", "val-text.csv", *BASE, "--basis", "constant"),
    ),
    "model and proba": (
        fit(*VAL, *BASE, "--proba", "p_*", "--model", "m.skops"),
        "give one of them",
        fit(*VAL, *BASE, "--proba", "p_*"),
    ),
    "positive": (fit(*VAL, *BASE, "--positive", "ant"), "leave it out", fit(*VAL, *BASE)),
    "less": (fit(*VAL, *BASE, "--less-is-better"), "leave it out", fit(*VAL, *BASE)),
    "timeout": (
        (*ASKED, "--metric-timeout", 0.001),
        "--metric-timeout",
        (*ASKED, "--metric-timeout", 50, "--resume"),
    ),
}


@pytest.mark.parametrize("case", FITS)
def test_advice_of_fit(case, shop):
    pd.read_csv(shop / "val.csv").drop(columns=["x1", "x2", "amount"]).to_csv(shop / "val-text.csv", index=False)
    follow(shop, *FITS[case])


def test_advice_about_models(models):
    plain = fit(*VAL, *BASE, "--model", "model.joblib")
    follow(models, plain, "--trust-model", (*plain, "--trust-model"))
    new = ("predict", "run", "test.csv", "-o", "labels.csv")
    follow(models, new, "--trust-model", (*new, "--trust-model"))
    scored = ("evaluate", "run", "test.csv")
    follow(models, scored, "--trust-model", (*scored, "--trust-model"))
    array = (*fit(*VAL, *BASE, "--model", "array.joblib", "--trust-model"), "--force")
    follow(models, array, "--features", (*array, "--features", "x1,x2"))
    dropped = pd.read_csv(models / "test.csv").drop(columns="x2")
    dropped.to_csv(models / "dropped.csv", index=False)
    done = inside("predict", "run", "dropped.csv", "-o", "o.csv", "--trust-model", cwd=models)
    assert (done.code, "--features of the fit" in done.error) == (2, True)
    array = (*fit(*VAL, *BASE, "--model", "array.joblib", "--trust-model"), "--force", "--features", "x*")
    assert inside(*array, cwd=models).code == 0
    done = inside("predict", "run", "dropped.csv", "-o", "o.csv", "--trust-model", cwd=models)
    assert (done.code, "give the columns of the fit" in done.error) == (2, True)


def test_advice_about_runs_that_are_there(shop):
    again = fit(*VAL, *BASE)
    assert inside(*again, cwd=shop).code == 0
    follow(shop, again, "--force", (*again, "--force"))
    follow(shop, again, "--resume", (*again, "--resume"))
    other = fit(*VAL, "--label", "y", "--metric", "accuracy")
    follow(shop, (*other, "--resume"), "--force", (*other, "--force"))
    for name in ("rule.skops", "run.json"):
        (shop / "run" / name).write_text("{")
        wrong = inside("predict", "run", "test.csv", "-o", "labels.csv", cwd=shop)
        assert wrong.code == 3
    assert inside(*again, "--force", cwd=shop).code == 0
    (shop / "run" / "facts.json").unlink()
    follow(shop, ("report", "run"), "fit again with --force", (*again, "--force"))


def test_advice_about_files_that_are_there(shop):
    assert inside(*fit(*VAL, *BASE), cwd=shop).code == 0
    for command in (("predict", "run", "test.csv", "-o", "labels.csv"), ("report", "run", "-o", "page.html")):
        assert inside(*command, cwd=shop).code == 0
        (shop / command[-1]).write_text("mine")
        follow(shop, command, "add --force", (*command, "--force"))
        assert (shop / command[-1]).read_text() != "mine"


def test_advice_about_columns_of_new_rows(shop):
    assert inside(*fit(*VAL, *BASE, "--sample-weight", "amount"), cwd=shop).code == 0
    for command in (("evaluate", "run"), ("predict", "run", "-o", "o.csv")):
        done = inside(*command, "test-q.csv", cwd=shop)
        assert (done.code, "--proba of the fit" in done.error) == (2, True)
        done = inside(*command, "test-sums.csv", cwd=shop)
        assert (done.code, "fit again with --normalise" in done.error) == (2, True)
    done = inside("evaluate", "run", "test-light.csv", cwd=shop)
    assert (done.code, "--sample-weight of the fit" in done.error) == (2, True)
    again = fit(*VAL, *BASE, "--normalise", "--force")
    assert inside(*again, cwd=shop).code == 0
    assert inside("evaluate", "run", "test-sums.csv", cwd=shop).code == 0


def test_advice_of_evaluate(shop):
    assert inside(*fit(*VAL, "--label", "y", "--metric", "mine.py:hits"), cwd=shop).code == 0
    scored = ("evaluate", "run", "test.csv")
    follow(shop, scored, "--trust-metric", (*scored, "--trust-metric"))
    follow(shop, scored, "--metric FILE.py:hits", (*scored, "--metric", "mine.py:hits"))
    over = (*scored, "--metric", "worst_group_accuracy")
    follow(shop, over, "--groups", (*over, "--groups", "region"))
    assert inside(*ASKED, "--force", cwd=shop).code == 0
    follow(shop, scored, "--metric NAME", (*scored, "--metric", "accuracy", "--label", "y"))
    follow(shop, (*scored, "--metric", "accuracy"), "--label", (*scored, "--metric", "accuracy", "--label", "y"))


@pytest.mark.parametrize("command", ["predict", "evaluate", "report"])
@pytest.mark.parametrize("name", ["val.csv", "nowhere.csv"])
def test_swapped_arguments(command, name, shop):
    more = {"predict": ["run", "-o", "o.csv"], "evaluate": ["run"], "report": []}[command]
    done = inside(command, name, *more, cwd=shop)
    assert done.code == 2
    assert f"--out {name}" not in done.error
    assert "RUN comes first" in done.error
    assert inside(command, "nowhere", *more[1:], *(["val.csv"] if more else []), cwd=shop).code == 3


def test_advice_about_row_numbers(shop):
    for name in ("train", "val"):
        frame = pd.read_csv(shop / f"{name}.csv").sample(frac=1, random_state=0)
        frame.assign(number=frame.index).to_csv(shop / f"{name}.csv", index=False)
    how = [each for each in FITS["train"][2] if each != "--quiet"]
    done = inside(*how, cwd=shop)
    assert done.code == 0, done.err
    (advised,) = re.findall(r"with --features '([^']*)'", done.err)
    done = inside(*how, "--features", advised, "--force", cwd=shop)
    assert done.code == 0, done.err
    assert "--features" not in done.err


def test_the_commands_of_the_report_can_be_run(shop):
    """What the page says comes next."""
    import json
    import shlex

    assert inside(*fit(*VAL, *BASE), cwd=shop).code == 0
    (shop / "new.csv").write_bytes((shop / "test.csv").read_bytes())
    commands = json.loads((shop / "run" / "facts.json").read_text())["how_to_use"]
    assert len(commands) == 2
    for _, command in commands:
        program, *arguments = shlex.split(command)
        assert program == "postshift"
        done = inside(*arguments, cwd=shop)
        assert done.code == 0, done.err


def test_demo_says_how_the_same_is_made_by_hand(tmp_path):
    done = fit_inside("--val", tmp_path / "none.csv", *BASE, "--out", tmp_path / "run")
    assert done.code == 3
    source = (Path(postshift.cli.__file__).parent / "commands" / "demo.py").read_text(encoding="utf-8")
    assert set(re.findall(r"--[a-z]+", re.search(r"postshift fit [^\n]*", source)[0])) <= options_of("fit")
