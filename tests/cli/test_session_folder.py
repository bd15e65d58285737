"""The folder of a session: moved, damaged, of somebody else, and used by two processes."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from postshift.cli.session_folder import StoredSession, opened
from postshift.core.archive import locked, read_archive, write_archive
from tests.cli.helpers import contents, inside
from tests.cli.session_helpers import answer_all, start


@pytest.fixture(scope="module")
def original(files, tmp_path_factory):
    week = start(tmp_path_factory.mktemp("week"), files, "--basis", "col:region", "--budget", "22")
    answer_all(week, week.parent / "truth.csv", most=3)
    inside("run", "next", week)
    return week


@pytest.fixture
def week(original, tmp_path):
    """A session with three answers."""
    shutil.copytree(original, tmp_path / "week")
    return tmp_path / "week"


def test_it_holds_what_it_needs(original, week):
    stored = StoredSession.read(week)
    assert list(stored.val.phi) == ["region"]
    assert stored.settings.ids == "id"
    assert len(stored.ids) == 60
    text = b"".join(contents(week).values())
    assert str(original.parent).encode() not in text  # no path of this machine
    assert {path.name for path in week.iterdir()} == {
        *("session.npz", "bases.skops", "journal.jsonl"),
        *(f"query-{number:03d}.csv" for number in (1, 2, 3, 4)),
    }


def test_elsewhere_it_asks_the_same(original, week, tmp_path):
    moved = tmp_path / "other" / "place"
    shutil.copytree(week, moved)
    (moved / "query-004.csv").unlink()
    assert inside("run", "next", moved, "--json").json["query"] == 4
    assert (moved / "query-004.csv").read_bytes() == (original / "query-004.csv").read_bytes()


def test_a_session_in_use_is_refused(week):
    with locked(week):
        for command in (["next", week], ["tell", week, "0.5"], ["status", week], ["finish", week, "--out", "run"]):
            done = inside("run", *command, cwd=week.parent)
            assert done.code == 2
            assert "another process is using" in done.error
    assert inside("run", "status", week, "--json").json["answered"] == 3


@pytest.mark.parametrize("command", [["next"], ["tell", "0.5"], ["status"], ["finish"]])
def test_what_is_no_session(command, made, tmp_path):
    run, _ = made
    (tmp_path / "empty").mkdir()
    for folder, code in ((tmp_path / "nowhere", 3), (tmp_path / "empty", 2), (run, 2)):
        out = ["--out", tmp_path / "out"] if command == ["finish"] else []
        done = inside("run", command[0], folder, *command[1:], *out)
        assert done.code == code
        assert "postshift run start" in done.error


@pytest.mark.parametrize("name", ["session.npz", "journal.jsonl"])
def test_damage_is_found(name, week):
    content = bytearray((week / name).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (week / name).write_bytes(content)
    done = inside("run", "next", week)
    assert done.code == 3
    assert name in done.error


def test_a_file_cut_short_is_found(week):
    content = (week / "session.npz").read_bytes()
    (week / "session.npz").write_bytes(content[: len(content) // 2])
    assert inside("run", "status", week).code == 3


def test_half_a_line_of_the_journal_is_dropped(week):
    journal = (week / "journal.jsonl").read_bytes()
    (week / "journal.jsonl").write_bytes(journal[:-20])
    assert inside("run", "status", week, "--json").json["answered"] == 2


@pytest.mark.parametrize("part", ["settings", "layout", "files", "functions", "bases"])
def test_content_that_start_does_not_write(part, week):
    header, arrays = read_archive(week / "session.npz", kind="session")
    header = {name: value for name, value in header.items() if name not in ("kind", "format")}
    for wrong in ({name: value for name, value in header.items() if name != part}, {**header, part: {"x": 1}}):
        write_archive(week / "session.npz", kind="session", header=wrong, arrays=arrays)
        done = inside("run", "status", week)
        assert done.code == 3
        assert "start again" in done.error


@pytest.mark.parametrize("wrong", ["csv/../../x", 3, None])
def test_a_format_that_would_write_elsewhere(wrong, week):
    header, arrays = read_archive(week / "session.npz", kind="session")
    settings = {**header["settings"], "file_format": wrong}
    header = {name: value for name, value in header.items() if name not in ("kind", "format")} | {"settings": settings}
    write_archive(week / "session.npz", kind="session", header=header, arrays=arrays)
    assert inside("run", "next", week).code == 3


@pytest.mark.parametrize("name", ["ids", "val_eta", "train_labels", "val_phi_0"])
def test_arrays_that_do_not_fit(name, week):
    header, arrays = read_archive(week / "session.npz", kind="session")
    header = {key: value for key, value in header.items() if key not in ("kind", "format")}
    for wrong in (arrays[name][:-1], np.full_like(arrays[name], 9)):
        if name == "ids" and len(wrong) == len(arrays[name]):
            continue
        write_archive(week / "session.npz", kind="session", header=header, arrays={**arrays, name: wrong})
        done = inside("run", "next", week)
        assert done.code == 3
        assert "unexpected" not in done.error


@pytest.mark.parametrize("name", ["journal.jsonl", "bases.skops"])
@pytest.mark.parametrize("content", [None, b"", b"something else"])
def test_a_lost_file_is_noticed_at_once(name, content, week, tmp_path):
    (week / name).unlink()
    if content is not None:
        (week / name).write_bytes(content)
    before = contents(week)
    for command in (["next"], ["tell", "0.5"], ["status"], ["finish", "--out", tmp_path / "run"]):
        done = inside("run", command[0], week, *command[1:])
        assert done.code == 3
        assert f"{name} is missing from {week}" in done.error
        assert "restore it from a copy" in done.error
    assert contents(week) == before
    assert not (tmp_path / "run").exists()


def test_the_journal_of_another_session(week, files, tmp_path):
    (tmp_path / "other").mkdir()
    other = start(tmp_path / "other", files)
    inside("run", "next", other)
    inside("run", "tell", other, "0.5")
    shutil.copy(other / "journal.jsonl", week / "journal.jsonl")
    done = inside("run", "status", week)
    assert done.code == 3
    assert "other data" in done.error


def test_answers_to_predictions_that_this_machine_does_not_make(week):
    from postshift.core.session import _check

    lines = (week / "journal.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    changed = {name: value for name, value in last.items() if name != "check"} | {"query": "0" * 32}
    lines[-1] = json.dumps({**changed, "check": _check(changed)})
    (week / "journal.jsonl").write_text("\n".join(lines) + "\n")
    done = inside("run", "next", week)
    assert done.code == 3
    assert "1 of the 3 answers" in done.error
    assert "continue where it was started" in done.error


def test_a_rule_with_bases_labels_new_rows(week, files, tmp_path):
    assert inside("run", "finish", week, "--out", tmp_path / "run").code == 0
    assert inside("predict", tmp_path / "run", files / "test.csv", "-o", tmp_path / "labels.csv").code == 0


def test_opened_again_it_has_the_same_rule(week):
    found = []
    for _ in range(2):
        with opened(week) as it:
            it.session.ask()
            found.append(it.session.best_so_far().rule.rules[0].mixture.members[0].alpha)
    np.testing.assert_array_equal(*found)
