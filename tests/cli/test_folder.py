"""Run folders: which files are ours, damaged and tampered runs, resuming and replacing."""

import gzip
import importlib.util
import itertools
import json
import os
import py_compile
import shutil

import pytest
from sklearn.linear_model import LogisticRegression

from postshift.cli.errors import UsageError, WorkError
from postshift.cli.run import folder as run_folder
from postshift.persistence import dump
from tests.cli.helpers import contents, fit, fit_inside, inside, make_rows, postshift, script
from tests.cli.test_program import SCORE

pytestmark = pytest.mark.slow  # many whole runs

COSTS = "true,ant,bee,cat\nant,0,1,1\nbee,4,0,1\ncat,9,1,0\n"

HITS = """import numpy as np

def hits(y_true, y_pred, sample_weight=None):
    return np.average(y_true == y_pred, weights=sample_weight)
"""


def header_of(run):
    return json.loads((run / "run.json").read_text())


def tampered(run, **changes):
    """Change parts of run.json; a mapping is merged into the one that is there, None leaves the part out."""
    header = header_of(run)
    for name, change in changes.items():
        if change is None:
            del header[name]
        else:
            header[name] = {**header[name], **change} if isinstance(change, dict) else change
    (run / "run.json").write_text(json.dumps(header))


@pytest.fixture
def how(files):
    """The options of a fit that takes a second."""
    return ["--val", files / "val.csv", "--label", "y"]


@pytest.fixture
def hostile(tmp_path):
    """Python code that leaves a mark when it is run, and the mark."""
    mark = tmp_path / "mark"
    code = f"import pathlib\npathlib.Path({str(mark)!r}).write_text('run')\n" + HITS.replace("hits", "f")
    return code, mark


@pytest.fixture(scope="module")
def _of_file(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("of_file")
    (folder / "mine.py").write_text(HITS)
    done = fit_inside(
        "--val", files / "val.csv", "--label", "y", "--metric", "mine.py:hits", "--out", "run", cwd=folder
    )
    assert done.code == 0, done.err
    return folder / "run"


@pytest.fixture
def of_file(_of_file, tmp_path):
    """A run whose metric is a Python file."""
    shutil.copytree(_of_file, tmp_path / "of_file")
    return tmp_path / "of_file"


@pytest.fixture(scope="module")
def _of_costs(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("of_costs")
    (folder / "costs.csv").write_text(COSTS)
    done = fit_inside(
        "--val", files / "val.csv", "--label", "y", "--metric", "cost:costs.csv", "--out", "run", cwd=folder
    )
    assert done.code == 0, done.err
    return folder / "run"


@pytest.fixture
def of_costs(_of_costs, tmp_path):
    """A run whose metric is a table of costs."""
    shutil.copytree(_of_costs, tmp_path / "of_costs")
    return tmp_path / "of_costs"


@pytest.mark.parametrize("where", ["copy", "outside"])
def test_a_metric_that_calls_itself_a_name_runs_no_code(where, made, files, hostile, tmp_path):
    run, _ = made
    code, mark = hostile
    if where == "copy":
        (run / "metric.py").write_text(code)
        tampered(run, metric={"text": "x.py:f", "kind": "name"}, copies={"metric": "metric.py"})
    else:
        (tmp_path / "x.py").write_text(code)
        tampered(run, metric={"text": f"{tmp_path / 'x.py'}:f", "kind": "name"})
    done = postshift("evaluate", run, files / "test.csv")
    assert not mark.exists()
    assert done.code == 3, done.err
    assert "run.json" in done.error


KINDS = ("name", "cost", "file", "program", "other", None, ["file"])

TEXTS = ("x.py:f", "f1[x.py:f]", "cost:x.py:f", "{outside}:f", "f1_macro")

COPIES = (None, "metric.py", "../x.py", "{outside}", "sub/../metric.py", ["metric.py"])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_tampered_metric_runs_code(kind, made, files, hostile, tmp_path):
    run, _ = made
    code, mark = hostile
    for place in (run / "metric.py", tmp_path / "x.py"):
        place.write_text(code)
    outside = str(tmp_path / "x.py")
    for text, copy in itertools.product(TEXTS, COPIES):
        if (kind, text, copy) == ("name", "f1_macro", None):  # a metric as any other
            continue
        copies = {} if copy is None else {"metric": copy if isinstance(copy, list) else copy.format(outside=outside)}
        metric = {**header_of(run)["metric"], "text": text.format(outside=outside), "kind": kind}
        (run / "run.json").write_text(json.dumps({**header_of(run), "metric": metric, "copies": copies}))
        for trust in ((), ("--trust-metric",)):  # the digest of no file is stored
            done = inside("evaluate", run, files / "test.csv", *trust)
            assert not mark.exists()
            assert done.code in (2, 3), (text, copy, done.err)
            assert "unexpected" not in done.error


def test_no_other_command_runs_code(made, files, hostile, tmp_path):
    run, done = made
    code, mark = hostile
    (run / "metric.py").write_text(code)
    tampered(run, metric={"text": "x.py:f", "kind": "name"}, copies={"metric": "metric.py"})
    again = [
        "--train", files / "train.csv", "--val", files / "val.csv", "--label", "y", "--metric", "g_mean",
        "--basis", "col:region,tree:3", "--method", "influence [region]", "--out", run,
    ]  # fmt: skip
    for command in (
        ["predict", run, files / "test.csv", "-o", tmp_path / "o.csv"],
        ["report", run],
        ["fit", *again],
        ["fit", *again, "--resume"],
    ):
        done = inside(*command)
        assert done.code in (2, 3), (command, done.err)
        assert "unexpected" not in done.error
        assert not mark.exists()


def test_a_metric_file_is_run_only_where_it_is_trusted(of_file, files):
    refused = inside("evaluate", of_file, files / "test.csv")
    assert refused.code == 2
    assert "--trust-metric" in refused.error
    assert "--metric FILE.py:hits" in refused.error
    scored = inside("evaluate", of_file, files / "test.csv", "--trust-metric", "--json")
    assert scored.code == 0, scored.err
    named = inside("evaluate", of_file, files / "test.csv", "--metric", "accuracy", "--json")
    assert scored.json["after"] == pytest.approx(named.json["after"])


def test_where_it_is_trusted_only_the_copy_with_the_stored_digest_is_run(of_file, files, hostile, tmp_path):
    code, mark = hostile
    whole = (of_file / "metric.py").read_text()
    (of_file / "metric.py").write_text(code + HITS)
    how = ["evaluate", of_file, files / "test.csv", "--trust-metric", "--json"]
    changed = inside(*how)
    assert changed.code == 3
    assert "metric.py" in changed.error
    assert "digest" in changed.error
    (of_file / "metric.py").write_text(whole)
    (tmp_path / "x.py").write_text(code + HITS)
    tampered(of_file, metric={"text": f"{tmp_path / 'x.py'}:hits"})
    assert inside(*how).code == 0  # the copy, not what the text names
    tampered(of_file, copies={"metric": "../x.py"})
    assert inside(*how).code == 3
    tampered(of_file, copies={"metric": "metric.py"}, metric={"text": "x.py:hits; echo"})
    assert inside(*how).code == 3  # no name in Python, so not in an advice either
    assert not mark.exists()


def test_compiled_code_beside_the_copy_is_not_run(of_file, files, hostile, tmp_path):
    code, mark = hostile
    (tmp_path / "x.py").write_text(code + HITS)
    compiled = importlib.util.cache_from_source(str(of_file / "metric.py"))
    py_compile.compile(
        str(tmp_path / "x.py"), cfile=compiled, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    done = postshift("evaluate", of_file, files / "test.csv", "--trust-metric", "--json")
    assert done.code == 0, done.err
    assert not mark.exists()


def test_what_a_copy_imports_is_not_looked_for_where_run_json_says(files, hostile, tmp_path):
    (tmp_path / "mine.py").write_text("from my_helper import hits\n")
    (tmp_path / "my_helper.py").write_text(HITS)
    run = tmp_path / "run"
    done = fit("--val", files / "val.csv", "--label", "y", "--metric", tmp_path / "mine.py:hits", "--out", run)
    assert done.code == 0, done.err
    code, mark = hostile
    (tmp_path / "my_helper.py").write_text(code + HITS)
    done = postshift("evaluate", run, files / "test.csv", "--trust-metric")
    assert done.code == 1
    assert not mark.exists()
    assert "my_helper" in done.error
    assert "--metric FILE.py:hits" in done.error
    (tmp_path / "my_helper.py").write_text(HITS)
    named = postshift("evaluate", run, files / "test.csv", "--metric", tmp_path / "mine.py:hits")
    assert named.code == 0, named.err


def test_evaluate_leaves_nothing_in_a_run(of_file, files, how):
    before = contents(of_file)
    assert postshift("evaluate", of_file, files / "test.csv", "--trust-metric").code == 0
    assert contents(of_file) == before
    assert fit_inside(*how, "--metric", "accuracy", "--out", of_file, "--force").code == 0


@pytest.mark.parametrize("copy", [None, "../secret.csv", "{outside}", "metric.csv"])
def test_costs_are_read_from_the_copy_alone(copy, of_costs, files, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("true,ant,bee,cat\nant,0,1,1\nbee,1,0,1\ncat,1,1,hunter2\n")
    tampered(of_costs, metric={"text": f"cost:{secret}"})
    copies = {} if copy is None else {"metric": copy.format(outside=secret)}
    header = header_of(of_costs)
    (of_costs / "run.json").write_text(json.dumps({**header, "copies": copies}))
    if copy == "metric.csv":
        (of_costs / copy).unlink()
        (of_costs / copy).symlink_to(secret)
    done = inside("evaluate", of_costs, files / "test.csv")
    assert done.code == 3, done.err
    assert "hunter2" not in done.err


def test_compressed_costs_are_scored_again(files, how, tmp_path):
    (tmp_path / "costs.csv.gz").write_bytes(gzip.compress(COSTS.encode()))
    done = fit_inside(*how, "--metric", "cost:costs.csv.gz", "--out", "run", cwd=tmp_path)
    assert done.code == 0, done.err
    (tmp_path / "costs.csv.gz").unlink()
    scored = inside("evaluate", "run", files / "test.csv", cwd=tmp_path)
    assert scored.code == 0, scored.err


@pytest.mark.parametrize("name", ["../model.skops", "{outside}", "rule.skops", "model.pkl"])
def test_models_are_read_from_the_copy_alone(name, made, files, tmp_path):
    run, _ = made
    (tmp_path / "model.skops").write_bytes(b"PK")
    tampered(run, copies={"model": name.format(outside=tmp_path / "model.skops")})
    for command in (
        ["predict", run, files / "test.csv", "-o", tmp_path / "o.csv"],
        ["evaluate", run, files / "test.csv"],
    ):
        done = inside(*command, "--trust-model")
        assert done.code == 3, done.err
        assert "run.json" in done.error


def test_a_model_that_was_changed_is_refused(files, how, tmp_path):
    frame = make_rows(300, 7)
    model = LogisticRegression().fit(frame[["x1", "x2"]], frame["y"])
    dump(model, tmp_path / "m.skops")
    run = tmp_path / "run"
    done = fit_inside(*how, "--metric", "accuracy", "--model", tmp_path / "m.skops", "--out", run)
    assert done.code == 0, done.err
    dump(LogisticRegression(C=0.01).fit(frame[["x1", "x2"]], frame["y"]), run / "model.skops")
    done = inside("predict", run, files / "test.csv", "-o", tmp_path / "o.csv")
    assert done.code == 3
    assert "model.skops" in done.error
    assert "digest" in done.error


@pytest.mark.parametrize("name", ["run.json", "rule.skops", "facts.json"])
def test_links_in_a_run_are_not_followed(name, made, files, tmp_path):
    run, _ = made
    (run / name).rename(tmp_path / name)
    (run / name).symlink_to(tmp_path / name)
    predict = ["predict", run, files / "test.csv", "-o", tmp_path / "o.csv"]
    command = ["report", run] if name == "facts.json" else predict
    done = inside(*command)
    assert done.code == 3, done.err
    assert name in done.error
    assert "link" in done.error


@pytest.fixture
def asking(files, tmp_path):
    """The options of a fit by a program that fails at its third query, run in its folder; and its folder."""
    shutil.copy(files / "val.csv", tmp_path / "val.csv")
    failing = "if (here / 'asked').stat().st_size == 3:\n    sys.exit('away')\nif False:"
    script(tmp_path / "score.py", SCORE.replace("if len(sys.argv) > 2:", failing))
    return tmp_path, [
        "--val", "val.csv", "--metric-command", "./score.py {predictions}", "--budget", "40", "--method", "influence",
        "--out", "run",
    ]  # fmt: skip


def test_answers_are_not_written_through_a_link(asking):
    folder, options = asking
    assert fit_inside(*options, cwd=folder).code == 1
    diary = folder / "diary"
    diary.write_text("dear diary, no end of the line")
    (folder / "run" / "answers.jsonl").unlink()
    (folder / "run" / "answers.jsonl").symlink_to(diary)
    done = fit_inside(*options, "--resume", cwd=folder)
    assert done.code == 3, done.err
    assert "answers.jsonl" in done.error
    assert diary.read_text() == "dear diary, no end of the line"


@pytest.mark.parametrize(
    "header",
    [
        "{}",
        "[]",
        '{"format": 1, "state": "finished"}',
        '{"format": 1, "state": "finished", "settings": {}, "digests": {}, "metric": "rmse"}',
        "{",
        "",
    ],
)
@pytest.mark.parametrize("more", ["thesis.tex", "metrics.json", "report.html", "model.joblib", None])
def test_force_leaves_a_folder_that_is_not_ours(header, more, how, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "run.json").write_text(header)
    if more is not None:
        (folder / more).write_text("all of it")
    before = contents(folder)
    done = fit_inside(*how, "--metric", "accuracy", "--out", folder, "--force")
    assert done.code == 2, done.err
    assert "is not a run folder" in done.error
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("more", ["thesis.tex", "notes/thesis.tex", "metric.py", "report.html/x", ".hidden"])
def test_files_of_others_in_a_run_stay_and_are_named(more, made, how):
    run, _ = made
    if more.startswith("report.html"):
        (run / "report.html").unlink()
    (run / more).parent.mkdir(exist_ok=True)
    (run / more).write_text("all of it")
    before = contents(run)
    done = fit_inside(*how, "--metric", "accuracy", "--out", run, "--force")
    assert done.code == 2, done.err
    assert more.partition("/")[0] in done.error
    assert contents(run) == before
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    (run / more).rename(run.parent / "moved")
    if "/" in more:
        (run / more).parent.rmdir()
    assert fit_inside(*how, "--metric", "accuracy", "--out", run, "--force").code == 0  # as the message says


def test_links_in_a_run_stay(made, how, tmp_path):
    run, _ = made
    (tmp_path / "thesis.tex").write_text("all of it")
    (run / "thesis.tex").symlink_to(tmp_path / "thesis.tex")
    done = fit_inside(*how, "--metric", "accuracy", "--out", run, "--force")
    assert done.code == 2, done.err
    assert "thesis.tex" in done.error
    assert (run / "thesis.tex").is_symlink()
    assert (run / "rule.skops").exists()


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_force_leaves_what_stands_where_it_would_write(kind, made, how, tmp_path):
    run, _ = made
    other = tmp_path / (".run.next" if kind == "folder" else "elsewhere")
    other.mkdir()
    (other / "thesis.tex").write_text("all of it")
    if kind == "link":
        (tmp_path / ".run.next").symlink_to(other)
    done = fit_inside(*how, "--metric", "accuracy", "--out", run, "--force")
    assert done.code == 2, done.err
    assert ".run.next" in done.error
    assert contents(other) == {"thesis.tex": b"all of it"}
    assert (run / "rule.skops").exists()


def test_a_file_that_comes_while_the_new_run_is_made_stays(asking):
    folder, options = asking
    script(folder / "score.py", SCORE.replace("print(sum", "(here / 'run' / 'notes').write_text('mine')\nprint(sum"))
    assert fit_inside("--val", "val.csv", "--label", "y", "--metric", "accuracy", "--out", "run", cwd=folder).code == 0
    before = contents(folder / "run")
    done = fit_inside(*options, "--force", cwd=folder)
    assert done.code == 2, done.err
    assert "notes" in done.error
    assert contents(folder / "run") == {**before, "notes": b"mine"}
    (folder / "run" / "notes").unlink()
    script(folder / "score.py", SCORE)
    assert fit_inside(*options, "--force", cwd=folder).code == 0
    assert not [path for path in folder.iterdir() if path.name.startswith(".run")]


def test_a_run_that_fails_leaves_the_files_of_others(how, tmp_path):
    (tmp_path / "bad.py").write_text(
        "import pathlib\ndef f(y_true, y_pred):\n"
        "    pathlib.Path('run/notes').write_text('mine')\n    raise RuntimeError('no luck')\n"
    )
    done = fit_inside(*how, "--metric", "bad.py:f", "--method", "influence", "--out", "run", cwd=tmp_path)
    assert done.code == 1, done.err
    assert contents(tmp_path / "run") == {"notes": b"mine"}


DAMAGES = {
    "whole": lambda _: None,
    "no facts": lambda run: (run / "facts.json").unlink(),
    "no rule": lambda run: (run / "rule.skops").unlink(),
    "rule": lambda run: (run / "rule.skops").write_bytes(b"PK and no more"),
    "facts": lambda run: (run / "facts.json").write_text("{"),
    "metrics": lambda run: (run / "metrics.json").write_text("{"),
    "cut": lambda run: (run / "run.json").write_bytes((run / "run.json").read_bytes()[:200]),
    "one letter": lambda run: (run / "run.json").write_text("{"),
    "empty": lambda run: (run / "run.json").write_text(""),
    "not utf-8": lambda run: (run / "run.json").write_bytes(b"\xff\xfe\x00"),
    "a list": lambda run: (run / "run.json").write_text("[]"),
    "deep": lambda run: (run / "run.json").write_text("[" * 100_000),
    "no state": lambda run: tampered(run, state=None),
    "another state": lambda run: tampered(run, state="gone"),
    "no settings": lambda run: tampered(run, settings=None),
    "no digests": lambda run: tampered(run, digests=None),
    "no layout": lambda run: tampered(run, layout=None),
    "no metric": lambda run: tampered(run, metric=None),
    "no copies": lambda run: tampered(run, copies=None),
    "settings": lambda run: tampered(run, settings="all"),
    "digests": lambda run: tampered(run, digests=[1]),
    "copies": lambda run: tampered(run, copies=["model.skops"]),
    "classes": lambda run: tampered(run, layout={"class_names": "ant"}),
    "other classes": lambda run: tampered(run, layout={"class_names": ["ant", "bee"], "class_values": ["ant", "bee"]}),
    "values": lambda run: tampered(run, layout={"class_values": [["ant"], {}, None]}),
    "column": lambda run: tampered(run, layout={"proba": 3}),
    "unknown": lambda run: tampered(run, layout={"columns": []}),
    "surrogate": lambda run: tampered(run, layout={"label": "\ud800"}),
    "another rule": lambda run: dump([1, 2], run / "rule.skops"),
    "half a rule": lambda run: dump({"shifter": None, "bases": {}}, run / "rule.skops"),
    "bases": lambda run: dump({"shifter": None, "bases": [1]}, run / "rule.skops"),
    "scores": lambda run: (run / "metrics.json").write_text("[]"),
    "half the scores": lambda run: (run / "metrics.json").write_text('{"metric": "g_mean", "before": "high"}'),
    "deep facts": lambda run: (run / "facts.json").write_text("[" * 100_000),
    "a long number": lambda run: (run / "facts.json").write_text("9" * 5000),
    "a fact": lambda run: changed_fact(run, classes=[]),
}  # fmt: skip


def changed_fact(run, **changes):
    facts = json.loads((run / "facts.json").read_text())
    (run / "facts.json").write_text(json.dumps({**facts, **changes}))


@pytest.fixture(scope="module")
def whole_run(files, tmp_path_factory):
    run = tmp_path_factory.mktemp("plain") / "run"
    how = ["fit", "--val", files / "val.csv", "--label", "y", "--metric", "g_mean", "--method", "base"]
    assert inside(*how, "--out", run).code == 0
    return how, run


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_run_is_refused_in_words_and_replaced_as_they_say(damage, whole_run, files, tmp_path):
    how, made = whole_run
    run = shutil.copytree(made, tmp_path / "run")
    damage(run)
    seen = []
    for command in (
        ["predict", run, files / "test.csv", "-o", tmp_path / "o.csv"],
        ["evaluate", run, files / "test.csv"],
        ["report", run, "-o", tmp_path / "report.html"],
        [*how, "--out", run, "--resume"],
        [*how, "--out", run],
    ):
        done = inside(*command)
        assert done.code in (0, 2, 3), (command, done.err)
        if done.code:
            seen.append(done.error)
            assert "unexpected" not in done.error, command
    assert any("--force" in text for text in seen)
    replaced = inside(*how, "--out", run, "--force")
    assert replaced.code == 0, replaced.err
    assert inside("predict", run, files / "test.csv", "-o", tmp_path / "o.csv", "--force").code == 0


def test_a_setting_that_is_none_is_not_called_an_option(whole_run, tmp_path):
    how, made = whole_run
    run = shutil.copytree(made, tmp_path / "run")
    tampered(run, settings={"normald": 1})
    done = inside(*how, "--out", run, "--resume")
    assert done.code == 3, done.err
    assert "run.json was damaged or changed: it has a setting 'normald'" in done.error
    assert "--normald" not in done.error


@pytest.mark.parametrize("part", ["class_names", "class_values"])
def test_classes_in_another_order_give_no_other_labels(part, whole_run, files, tmp_path):
    run = shutil.copytree(whole_run[1], tmp_path / "run")
    tampered(run, layout={part: ["bee", "ant", "cat"]})
    for command in (["predict", "-o", tmp_path / "o.csv"], ["evaluate"]):
        done = inside(command[0], run, files / "test.csv", *command[1:])
        assert done.code == 3, done.err
        assert "run.json was damaged or changed: class 'bee'" in done.error or part == "class_values"


def test_a_run_cut_off_before_it_says_what_it_is_is_replaced(made, how):
    run, _ = made
    for path in list(run.iterdir()):
        path.unlink()
    (run / ".run.json.0123456789ab.part").write_text('{"for')
    assert fit_inside(*how, "--metric", "accuracy", "--out", run).code == 2
    assert fit_inside(*how, "--metric", "accuracy", "--out", run, "--force").code == 0
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_header_that_could_be_of_anybody_gets_another_advice(made, files, tmp_path):
    run, _ = made
    for path in list(run.iterdir()):
        if path.name != "run.json":
            path.unlink()
    (run / "run.json").write_text("{")
    done = inside("predict", run, files / "test.csv", "-o", tmp_path / "o.csv")
    assert done.code == 3
    assert "--force" not in done.error
    assert "another folder" in done.error


@pytest.mark.parametrize(
    "line", ["rubbish", "[]", '{"query": "a", "answer": NaN}', '{"query": "a", "answer": "high"}', "\xff"]
)
def test_answers_that_are_none_are_refused_and_replaced(line, asking):
    folder, options = asking
    assert fit_inside(*options, cwd=folder).code == 1
    (folder / "run" / "answers.jsonl").write_text(line + "\n", encoding="latin-1")
    done = fit_inside(*options, "--resume", cwd=folder)
    assert done.code == 3, done.err
    assert "line 1" in done.error
    assert "--force" in done.error
    script(folder / "score.py", SCORE)
    assert fit_inside(*options, "--force", cwd=folder).code == 0


def test_the_advice_for_other_settings_and_another_program_works(asking):
    folder, options = asking
    assert fit_inside(*options, cwd=folder).code == 1
    script(folder / "score.py", SCORE)
    other = fit_inside(*options, "--random-state", 3, "--resume", cwd=folder)
    assert other.code == 2
    assert "--force" in other.error
    assert fit_inside(*options, "--random-state", 3, "--force", cwd=folder).code == 0


def test_a_folder_behind_a_link_is_replaced_and_the_link_stays(made, how, tmp_path):
    run, _ = made
    (tmp_path / "link").symlink_to(run)
    assert fit_inside(*how, "--metric", "accuracy", "--out", tmp_path / "link", "--force").code == 0
    assert (tmp_path / "link").is_symlink()
    assert header_of(run)["settings"]["metric"] == "accuracy"


HEADER = {
    "settings": {},
    "digests": {},
    "layout": {"class_names": ["a", "b"], "class_values": ["a", "b"]},
    "metric": {"text": "accuracy", "kind": "name", "digest": None},
    "copies": {},
    "program": None,
}


def test_two_processes_do_not_write_the_same_run(tmp_path):
    first, second = (run_folder.RunWriter(tmp_path / "run", force=False, resume=False) for _ in range(2))
    with first.writing(HEADER, resumable=True):
        pid = os.fork() if hasattr(os, "fork") else None
        if pid == 0:
            code = 1
            try:
                with second.writing(HEADER, resumable=True):
                    pass
            except UsageError as error:
                code = 0 if "another process" in str(error) else 2
            finally:
                os._exit(code)
        assert pid is None or os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run_folder.open_run(tmp_path / "run").state == "finished"


def test_a_failed_run_that_cannot_be_resumed_leaves_nothing(tmp_path):
    def make(*, resumable):
        writer = run_folder.RunWriter(tmp_path / "run", force=False, resume=True)
        with writer.writing(HEADER, resumable=resumable):
            raise WorkError("no luck")

    with pytest.raises(WorkError):
        make(resumable=False)
    assert not (tmp_path / "run").exists()
    with pytest.raises(WorkError):
        make(resumable=True)
    assert run_folder.open_run(tmp_path / "run", finished=False).state == "failed"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["why"] == "no luck"
