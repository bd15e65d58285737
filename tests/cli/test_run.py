"""``postshift run``: what a user types and reads, each command and each kind of bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from postshift.cli.commands.run import StartRequest
from postshift.rules.menu import NOISY_RADIUS
from tests.cli.helpers import inside
from tests.cli.session_helpers import BUDGET, answer_all, start, write_session_files


@pytest.fixture(scope="module")
def _week(files, tmp_path_factory):
    return start(tmp_path_factory.mktemp("week"), files)


@pytest.fixture
def week(_week, tmp_path):
    """A new session, in a folder with the labels."""
    shutil.copytree(_week.parent, tmp_path / "here")
    return tmp_path / "here" / "week"


@pytest.fixture(scope="module")
def _answered(files, tmp_path_factory):
    week = start(tmp_path_factory.mktemp("answered"), files)
    answer_all(week, week.parent / "truth.csv")
    return week


@pytest.fixture
def answered(_answered, tmp_path):
    """A session whose queries are all answered."""
    shutil.copytree(_answered, tmp_path / "answered")
    return tmp_path / "answered"


def tell(week, *arguments):
    return inside("run", "tell", week, *arguments)


# -- the way through ---------------------------------------------------------------------------------------------


def test_from_start_to_predict(answered, files, tmp_path):
    found = inside("run", "status", answered, "--json").json
    assert found["finished"]
    assert found["answered"] <= found["at_most"] <= found["budget"] == BUDGET
    assert found["best"]["score"] == max(each["score"] for each in found["answers"] if "class" not in each["about"])
    done = inside("run", "finish", answered, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert f"{found['answered']} queries were asked" in done.out
    labels = tmp_path / "labels.csv"
    assert inside("predict", tmp_path / "run", files / "test.csv", "-o", labels).code == 0
    assert set(pd.read_csv(labels)["label"]) <= {"ant", "bee", "cat"}
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    facts = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert facts["before"] == found["base"]
    assert "add --force" in inside("run", "finish", answered, "--out", tmp_path / "run").error
    assert inside("run", "finish", answered, "--out", tmp_path / "run", "--force").code == 0
    assert "--metric NAME" in inside("evaluate", tmp_path / "run", files / "test.csv").error


def test_every_message_names_the_next_command(week):
    shown = inside("run", "status", week).out
    assert f"next: postshift run next {week}" in shown
    shown = inside("run", "next", week).out
    assert f"then: postshift run tell {week} VALUE --query 1" in shown
    assert "query-001.csv" in shown
    shown = tell(week, "0.5", "--query", 1).out
    assert "query 1: 0.5 is stored; 1 of at most" in shown
    assert f"next: postshift run next {week}" in shown
    assert "base: 0.5; best so far: 0.5, base" in inside("run", "status", week).out


def test_the_predictions_are_the_same_bytes_each_time(week):
    first = inside("run", "next", week, "--json").json
    content = (week / "query-001.csv").read_bytes()
    (week / "query-001.csv").unlink()
    assert inside("run", "next", week, "--json").json == first
    assert (week / "query-001.csv").read_bytes() == content
    frame = pd.read_csv(week / "query-001.csv")
    truth = pd.read_csv(week.parent / "truth.csv")
    assert list(frame.columns) == ["id", "label"]
    assert list(frame["id"]) == list(truth["id"])
    base = np.array(["ant", "bee", "cat"])[truth[["p_ant", "p_bee", "p_cat"]].to_numpy().argmax(axis=1)]
    assert list(frame["label"]) == list(base)


def test_distributions_and_parquet(files, tmp_path):
    week = start(tmp_path, files, "--soft", "--format", "parquet")
    found = inside("run", "next", week, "--json").json
    frame = pd.read_parquet(found["file"])
    assert list(frame.columns) == ["id", "p_ant", "p_bee", "p_cat"]
    np.testing.assert_allclose(frame.iloc[:, 1:].sum(axis=1), 1)
    assert "probabilities" in inside("run", "next", week).out


def test_a_loss_is_told_and_shown_as_it_is(files, tmp_path):
    week = start(tmp_path, files, "--less-is-better", "--metric-name", "weekly loss")
    for value in (3.0, 2.0, 2.5):
        inside("run", "next", week)
        assert tell(week, value).code == 0
    found = inside("run", "status", week, "--json").json
    assert [each["score"] for each in found["answers"]] == [3.0, 2.0, 2.5]
    assert found["best"] == {"rule": "inverse prior", "score": 2.0}
    done = inside("run", "finish", week, "--out", tmp_path / "run")
    assert "weekly loss: 3.0000 -> 2.0000" in done.out


def test_finish_early_keeps_the_base_if_nothing_scored_higher(week, tmp_path):
    for value in (0.7, 0.6):
        inside("run", "next", week)
        tell(week, value)
    done = inside("run", "finish", week, "--out", tmp_path / "run")
    assert done.code == 0
    assert "the session can go on" in done.err
    facts = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert facts["fallback"]
    assert facts["before"] == facts["after"] == 0.7
    assert inside("run", "next", week).code == 0


# -- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["-0.3", "-1e-05", "0", "3", "-.5"])
def test_any_finite_number_is_an_answer(value, week):
    inside("run", "next", week)
    assert tell(week, value).code == 0
    assert inside("run", "status", week, "--json").json["answers"][0]["score"] == float(value)


def test_a_negative_number_after_two_dashes(week):
    inside("run", "next", week)
    assert inside("run", "tell", week, "--query", 1, "--", "-0.3").code == 0


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "seven", "", "0,7", "1_0", "70%", "1e300", "--x"])
def test_what_is_no_answer(value, week):
    inside("run", "next", week)
    done = tell(week, value)
    assert done.code != 0
    assert "number" in done.error
    assert inside("run", "status", week, "--json").json["answered"] == 0


def test_a_decimal_comma_gets_a_hint(week):
    assert "decimal point" in tell(week, "0,7").error


def test_an_answer_without_an_open_query(week):
    done = tell(week, "0.5")
    assert done.code == 2
    assert f"postshift run next {week}" in done.error


def test_an_answer_to_another_query(week):
    inside("run", "next", week)
    done = tell(week, "0.5", "--query", 3)
    assert done.code == 2
    assert "query 3 is not open; query 1 is" in done.error


def test_the_same_answer_twice_is_harmless_and_another_one_an_error(week):
    inside("run", "next", week)
    tell(week, "0.5", "--query", 1)
    journal = (week / "journal.jsonl").read_bytes()
    assert "was stored before" in tell(week, "0.50", "--query", 1).out
    assert "was stored before" in tell(week, "0.5").out
    for arguments in (("0.6", "--query", 1), ("0.6",)):
        done = tell(week, *arguments)
        assert done.code == 2
        assert f"postshift run tell {week} 0.6 --query 1 --correct" in done.error
    assert (week / "journal.jsonl").read_bytes() == journal


def test_only_the_last_answer_is_corrected(week):
    for value in (0.5, 0.6):
        inside("run", "next", week)
        tell(week, value)
    inside("run", "next", week)
    assert "needs the number" in tell(week, "0.7", "--correct").error
    assert "the last one is query 2" in tell(week, "0.7", "--query", 1, "--correct").error
    assert "later queries depend" in tell(week, "0.7", "--query", 1).error
    assert tell(week, "0.7", "--query", 2, "--correct").code == 0
    assert [each["score"] for each in inside("run", "status", week, "--json").json["answers"]] == [0.5, 0.7]
    assert inside("run", "next", week, "--json").json["query"] == 3


def test_after_the_last_query(answered):
    last = inside("run", "status", answered, "--json").json["answered"]
    shown = inside("run", "next", answered)
    assert shown.code == 0
    assert f"postshift run finish {answered} --out RUN" in shown.out
    assert "no query is open" in tell(answered, "0.123").error
    assert "all" in tell(answered, "0.123", "--query", last + 1).error
    assert tell(answered, "0.9", "--query", last, "--correct").code == 0


def test_the_default_radius_is_that_for_noisy_answers():
    assert StartRequest(val=Path("v"), out=Path("o"), budget=1).radius == NOISY_RADIUS


# -- start -------------------------------------------------------------------------------------------------------


def test_a_budget_that_is_too_small(files, tmp_path):
    options = write_session_files(tmp_path, files)
    done = inside("run", "start", *options[:-1], 5, "--out", tmp_path / "week")
    assert done.code == 2
    assert "--budget 5 is too small: with 3 classes and 1 basis function, one iteration needs up to 12" in done.error
    done = inside("run", "start", *options, "--basis", "tree:4", "--out", tmp_path / "week")
    assert "or use --basis constant" in done.error
    assert not (tmp_path / "week").exists()


def test_rows_without_labels(files, tmp_path):
    write_session_files(tmp_path, files)
    done = inside("run", "start", "--val", tmp_path / "val.csv", "--budget", 20, "--out", tmp_path / "week")
    assert done.code == 2
    assert "--train" in done.error


@pytest.mark.parametrize("proba", [[], ["--proba", "p_ant", "--positive", "ant"]])
def test_a_wrong_name_of_the_labels_is_looked_up_in_the_training_rows(proba, files, tmp_path):
    options = write_session_files(tmp_path, files)
    frame = pd.read_csv(tmp_path / "train.csv").rename(columns={"y": "schooling"})
    frame.to_csv(tmp_path / "train.csv", index=False)
    done = inside("run", "start", *options, *proba, "--label", "schoolin", "--out", tmp_path / "week")
    assert done.code == 2
    assert "there is no column 'schoolin'; did you mean 'schooling'?" in done.error
    assert f"(--label, {tmp_path / 'train.csv'})" in done.error


def test_labels_of_the_validation_rows_serve_without_training_rows(files, tmp_path):
    write_session_files(tmp_path, files)
    given = ["--val", tmp_path / "truth.csv", "--label", "y", "--budget", 20]
    assert inside("run", "start", *given, "--out", tmp_path / "week").code == 0
    assert inside("run", "next", tmp_path / "week").code == 0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--id", "nothing"], "nothing"),
        (["--id", "region"], "different value in each row"),
        (["--format", "xlsx"], "--format must be csv or parquet"),
        (["--radius", "0"], "--radius must be above 0"),
        (["--radius", "2"], "--radius must be above 0"),
        (["--positive", "ant"], "--positive goes with one column"),
        (["--basis", "nothing"], "nothing"),
    ],
)
def test_options_that_cannot_be_used(more, text, files, tmp_path):
    done = inside("run", "start", *write_session_files(tmp_path, files), *more, "--out", tmp_path / "week")
    assert done.code == 2
    assert text in done.error
    assert not (tmp_path / "week").exists()


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
def test_identifiers_are_text_as_it_is_written(suffix, files, tmp_path):
    write_session_files(tmp_path, files)
    client = [f"{place:05d}" for place in range(60)]
    frame = pd.read_csv(tmp_path / "val.csv").drop(columns="id").assign(client=client)
    path = tmp_path / f"numbered{suffix}"
    frame.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    options = ["--val", path, "--train", tmp_path / "train.csv", "--label", "y", "--budget", BUDGET]
    week = tmp_path / "week"
    done = inside("run", "start", *options, "--id", "client", "--basis", "tree:2", "--budget", 30, "--out", week)
    assert done.code == 0, done.err
    inside("run", "next", week)
    assert pd.read_csv(week / "query-001.csv", dtype=str)["client"].tolist() == client
    tell(week, "0.5")
    assert inside("run", "finish", week, "--out", tmp_path / "run").code == 0
    found = pd.read_csv(tmp_path / "run" / "validation.csv", dtype=str)
    assert list(found.columns)[:2] == ["client", "before"]
    assert found["client"].tolist() == client


def test_numbers_of_a_parquet_file_stay_numbers(files, tmp_path):
    write_session_files(tmp_path, files)
    frame = pd.read_csv(tmp_path / "val.csv").drop(columns="id").assign(client=np.arange(60) + 7)
    frame.to_parquet(tmp_path / "val.parquet")
    options = ["--val", tmp_path / "val.parquet", "--train", tmp_path / "train.csv", "--label", "y", "--budget", BUDGET]
    week = tmp_path / "week"
    done = inside("run", "start", *options, "--id", "client", "--format", "parquet", "--out", week)
    assert done.code == 0, done.err
    inside("run", "next", week)
    assert pd.read_parquet(week / "query-001.parquet")["client"].tolist() == list(range(7, 67))


def test_rows_without_identifiers_are_numbered(files, tmp_path):
    options = write_session_files(tmp_path, files)
    week = tmp_path / "week"
    inside("run", "start", *options, "--out", week)
    inside("run", "next", week)
    tell(week, "0.5")
    inside("run", "finish", week, "--out", tmp_path / "run")
    assert pd.read_csv(tmp_path / "run" / "validation.csv")["row"].tolist() == list(range(60))


@pytest.mark.parametrize("name", ["label", "before", "after", "held_out"])
def test_an_identifier_with_the_name_of_another_column(name, files, tmp_path):
    options = write_session_files(tmp_path, files)
    frame = pd.read_csv(tmp_path / "val.csv").rename(columns={"id": name})
    frame.to_csv(tmp_path / "val.csv", index=False)
    done = inside("run", "start", *options, "--id", name, "--out", tmp_path / "week")
    assert "rename the column" in done.error


def test_an_old_session_is_replaced_only_with_force(week):
    inside("run", "next", week)
    tell(week, "0.5")
    options = ["--val", week.parent / "val.csv", "--train", week.parent / "train.csv", "--label", "y", "--budget", 16]
    done = inside("run", "start", *options, "--out", week)
    assert done.code == 2
    assert "--force" in done.error
    assert inside("run", "status", week, "--json").json["answered"] == 1
    assert inside("run", "start", *options, "--out", week, "--force").code == 0
    assert inside("run", "status", week, "--json").json["answered"] == 0
    (week / "mine.txt").write_text("mine")
    assert "did not write" in inside("run", "start", *options, "--out", week, "--force").error
    assert (week / "mine.txt").exists()
