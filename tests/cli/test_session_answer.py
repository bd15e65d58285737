"""``postshift run tell``: an answer arrives late, twice or for predictions that a correction withdrew."""

from __future__ import annotations

import shutil

import pytest

from postshift.cli.errors import UsageError
from postshift.cli.session_answer import number_of
from tests.cli.helpers import inside
from tests.cli.session_helpers import answer_all, start


@pytest.fixture(scope="module")
def _sixth(files, tmp_path_factory):
    week = start(tmp_path_factory.mktemp("week"), files)
    answer_all(week, week.parent / "truth.csv", most=6)
    inside("run", "next", week)
    return week


@pytest.fixture
def week(_sixth, tmp_path):
    """A session with six answers, all of the first round, and query 7 handed out: it depends on the sixth."""
    shutil.copytree(_sixth, tmp_path / "week")
    return tmp_path / "week"


def tell(week, *arguments):
    return inside("run", "tell", week, *arguments)


def answers(week):
    return [each["score"] for each in inside("run", "status", week, "--json").json["answers"]]


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), (" -3 ", -3.0), ("1e-3", 0.001)])
def test_a_number(text, value):
    assert number_of(text) == value


@pytest.mark.parametrize("text", ["", "x", "nan", "1e999", "0,5", "1_0"])
def test_no_number(text):
    with pytest.raises(UsageError, match="one finite number"):
        number_of(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("89%", "write 0.89, or 89 if"), (" 7.5 %", "write 0.075, or 7.5"), ("-3%", "write -0.03"), ("0,7", "a comma")],
)
def test_a_hint_how_to_write_it(text, hint):
    with pytest.raises(UsageError, match=hint):
        number_of(text)


def test_a_score_far_above_the_scale_is_doubted_at_once(week):
    assert not tell(week, "10", "--query", 7).err
    inside("run", "next", week)
    done = tell(week, "89")
    assert done.code == 0
    assert "warning: the score 89.0 is far above the range of the scores, whose width should be about 1" in done.err
    assert f"correct it with postshift run tell {week} VALUE --query 8 --correct" in done.err
    assert "postshift run start --metric-scale" in done.err
    assert tell(week, "-89", "--query", 8, "--correct", "--json").json["warnings"]
    assert not tell(week, "0.89", "--query", 8, "--correct").err


@pytest.mark.filterwarnings("always")
def test_at_the_end_too_the_advice_names_a_command_that_has_the_option(files, tmp_path):
    week = start(tmp_path, files, "--metric-scale", "0.01")
    answer_all(week, tmp_path / "truth.csv")
    done = inside("run", "finish", week, "--out", tmp_path / "run")
    assert done.code == 0
    assert "scores are as large as" in done.err
    assert "postshift run start --metric-scale" in done.err


def test_a_correction_that_cannot_be_stored_takes_nothing_back(week):
    before = answers(week)
    assert tell(week, "1e300", "--query", 6, "--correct").code == 2
    assert answers(week) == before
    assert (week / "query-007.csv").exists()


# -- a correction, while the next query is out ---------------------------------------------------------------------


def test_a_correction_withdraws_the_predictions_that_depend_on_it(week):
    old = (week / "query-007.csv").read_bytes()
    done = tell(week, "0.9", "--query", 6, "--correct")
    assert done.code == 0
    assert f"warning: {week / 'query-007.csv'} is withdrawn" in done.err
    assert f"Do not tell its score; hand out that of query 7-v2, which postshift run next {week} writes" in done.err
    assert (week / "query-007-withdrawn.csv").read_bytes() == old
    assert not (week / "query-007.csv").exists()
    new = inside("run", "next", week, "--json").json
    assert (new["query"], new["name"], new["file"]) == (7, "7-v2", str(week / "query-007-v2.csv"))
    assert (week / "query-007-v2.csv").read_bytes() != old
    assert f"then: postshift run tell {week} VALUE --query 7-v2" in inside("run", "next", week).out


def test_the_score_of_a_withdrawn_file_is_refused(week):
    tell(week, "0.9", "--query", 6, "--correct")
    assert "query 7 is withdrawn" in tell(week, "0.48", "--query", 7).error
    assert "no query is open" in tell(week, "0.48").error
    inside("run", "next", week)
    for _ in range(2):  # before and after the new query has its answer
        done = tell(week, "0.48", "--query", 7)
        assert done.code == 2
        assert "do not tell its score. Query 7-v2 takes its place" in done.error
        tell(week, "0.5", "--query", "7-v2")
    assert answers(week)[5:] == [0.9, 0.5]


def test_after_a_withdrawal_the_query_must_be_named(week):
    tell(week, "0.9", "--query", 6, "--correct")
    inside("run", "next", week)
    done = tell(week, "0.48")
    assert done.code == 2
    assert f"postshift run tell {week} VALUE --query 7-v2" in done.error
    assert len(answers(week)) == 6
    assert "query 7-v2: 0.5 is stored; 7 of at most" in tell(week, "0.5", "--query", "7-v2").out
    assert tell(week, "0.6", "--query", "7-v2", "--correct").code == 0
    assert answers(week)[6:] == [0.6]


def test_each_withdrawal_gives_a_new_name(week):
    for value, name in ((0.9, "7-v2"), (0.1, "7-v3")):
        tell(week, value, "--query", 6, "--correct")
        found = inside("run", "next", week, "--json").json
        assert found["name"] == name
    assert "query 7-v2 is withdrawn" in tell(week, "0.5", "--query", "7-v2").error
    assert f"open: query 7-v3, {week / 'query-007-v3.csv'}" in inside("run", "status", week).out
    assert "query 3 already has" in tell(week, "0.123", "--query", 3).error
    assert "query 8 is not open; query 7-v3 is" in tell(week, "0.5", "--query", 8).error


def test_a_correction_that_changes_no_predictions_withdraws_nothing(week):
    old = (week / "query-007.csv").read_bytes()
    done = tell(week, answers(week)[5], "--query", 6, "--correct", "--json")
    assert done.json["withdrawn"] is None
    assert not done.err
    assert (week / "query-007.csv").read_bytes() == old
    assert done.json["command"] == f"postshift run tell {week} VALUE --query 7"
    assert tell(week, "0.5", "--query", 7).code == 0


def test_inside_a_round_a_correction_withdraws_nothing(week):
    tell(week, "0.4", "--query", 7)
    inside("run", "next", week)
    done = tell(week, "0.6", "--query", 7, "--correct", "--json")
    assert done.json["withdrawn"] is None
    assert (week / "query-008.csv").exists()


@pytest.mark.parametrize("name", ["0", "-7", "seven", "7-v", "7v2", "7-v0", "", "9" * 5000])
def test_what_is_no_query(name, week):
    done = tell(week, "0.5", f"--query={name}")
    assert done.code == 2
    assert "--query must be the number of a query" in done.error


def test_a_version_that_does_not_exist(week):
    assert "query 7 is called 7" in tell(week, "0.5", "--query", "7-v2").error
    assert tell(week, "0.5", "--query", "007").code == 0
