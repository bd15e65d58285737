"""The command line on a Dask cluster of processes: the same results as in memory."""

from __future__ import annotations

import json
import os
import signal
import socket
from functools import partial

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed")

from distributed import Client
from sklearn.linear_model import LogisticRegression

from postshift.cli import cluster
from postshift.cli.errors import FileError, WorkError
from postshift.cli.files.folders import label_folder
from postshift.cli.run.rule_file import LoadedRun
from postshift.engines import DaskEngine
from postshift.estimators import dask_rows
from postshift.persistence import dump
from tests.cli.helpers import CLASSES, inside, make_rows, postshift
from tests.engines.dask_clusters import local_cluster

# Sockets of a client that was closed are closed by whoever finds them.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

N_FILES = 3

HOW = ("--label", "y", "--metric", "g_mean", "--basis", "col:region", "--method", "influence [region]", "--quiet")


@pytest.fixture(scope="module")
def address():
    with local_cluster() as found:
        yield found


def write_parts(frame, folder):
    """Write rows as three Parquet files of several row groups each."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), N_FILES)):
        frame.iloc[rows].to_parquet(folder / f"part-{number}.parquet", row_group_size=40)
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Folders of Parquet files, validation rows, a model, and a run that was made of them in memory."""
    folder = tmp_path_factory.mktemp("rows")
    train, val = make_rows(300, 0, flipped=0.3), make_rows(320, 1)
    val.to_csv(folder / "val.csv", index=False)
    write_parts(train, folder / "train")
    write_parts(make_rows(200, 2), folder / "test")
    dump(LogisticRegression().fit(train[["x1", "x2"]], train["y"]), folder / "model.skops")
    done = inside("fit", "--train", folder / "train", "--val", folder / "val.csv", *HOW, "--out", folder / "run")
    assert done.code == 0, done.err
    return folder


def fit(rows, out, *more, how=HOW, train=None):
    """Run ``postshift fit`` in this process."""
    train = train or rows / "train" / "*.parquet"
    return inside("fit", "--train", train, "--val", rows / "val.csv", *how, "--out", out, *more)


def same_rule(found, expected):
    """Check that two runs have one rule up to rounding: sums over partitions are rounded in another order."""
    found, expected = (LoadedRun.open(run, trust_model=False).shifter for run in (found, expected))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)


@pytest.fixture
def few_drawn(monkeypatch):
    """A draw so small that most rows are with the workers only, and partitions that begin inside of files."""
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 60)
    monkeypatch.setattr(cluster, "PARTITION_ROWS", 40)


@pytest.mark.slow
def test_a_user_at_a_terminal(rows, address, tmp_path):
    there = ("--scheduler", address)
    done = postshift(
        "fit", "--train", "train/*.parquet", "--val", "val.csv", *HOW, *there, "--out", tmp_path / "run", cwd=rows
    )
    assert done.code == 0, done.err
    assert done.err == ""
    expected, found = rows / "run", tmp_path / "run"
    assert sorted(file.name for file in found.iterdir()) == sorted(file.name for file in expected.iterdir())
    for name in ("metrics.json", "validation.csv", "history.csv"):
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    same_rule(found, expected)
    digests = [json.loads((run / "run.json").read_text())["digests"] for run in (found, expected)]
    assert digests[0] == digests[1]
    report = (found / "report.html").read_text()
    assert f"postshift predict {found} &#39;new/*.parquet&#39; -o labels --scheduler {address}" in report

    done = postshift("predict", found, "test/*.parquet", *there, "-o", tmp_path / "labels", "--json", cwd=rows)
    assert done.code == 0, done.err
    plain = postshift("predict", expected, "test/*.parquet", "-o", tmp_path / "labels.parquet", "--json", cwd=rows)
    assert [done.json[name] for name in ("rows", "changed")] == [plain.json[name] for name in ("rows", "changed")]
    labels = pd.read_parquet(tmp_path / "labels")
    assert labels.to_dict("list") == pd.read_parquet(tmp_path / "labels.parquet").to_dict("list")
    assert labels["row"].tolist() == list(range(200))
    assert len(list((tmp_path / "labels").iterdir())) == N_FILES

    scored = [postshift("evaluate", found, "test", "--json", *how, cwd=rows) for how in (there, ())]
    assert scored[0].code == 0, scored[0].err
    assert scored[0].json == scored[1].json
    done = postshift("evaluate", found, "train", *there, cwd=rows)
    assert done.code == 0, done.err
    assert "training rows of the fit" in done.err


@pytest.mark.slow
def test_a_cluster_on_this_machine(rows, tmp_path):
    done = postshift("predict", rows / "run", rows / "test", "--scheduler", "local", "-o", tmp_path / "labels")
    assert done.code == 0, done.err
    assert done.err == ""
    assert "200 rows were labelled" in done.out


@pytest.mark.usefixtures("few_drawn")
def test_the_rule_is_fitted_to_all_rows_and_the_client_has_a_draw(rows, address, tmp_path, monkeypatch):
    sizes, drawn = [], []
    init, draw = DaskEngine.__init__, cluster.ClusterTable.draw

    def noted(self, *given, **how):
        init(self, *given, **how)
        sizes.append((self.n_rows, self.n_partitions))

    monkeypatch.setattr(DaskEngine, "__init__", noted)
    monkeypatch.setattr(cluster.ClusterTable, "draw", lambda self, **how: drawn.append(draw(self, **how)) or drawn[-1])
    done = fit(rows, tmp_path / "run", "--scheduler", address)
    assert done.code == 0, done.err
    assert sizes == [(300, 9)]
    assert [len(table.frame) for table in drawn] == [60]
    same_rule(tmp_path / "run", rows / "run")
    after = [pd.read_csv(run / "validation.csv")["after"].tolist() for run in (tmp_path / "run", rows / "run")]
    assert after[0] == after[1]
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["training_rows"] == 300
    assert "300 rows, of which 60 were drawn" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("few_drawn")
def test_a_worker_killed_in_the_middle_of_a_fit(rows, address, tmp_path, monkeypatch):
    ask, killed = DaskEngine.influence_sums, []

    def and_kill(self, classifier):
        if not killed:
            with Client(address, set_as_default=False) as client:
                killed.append(min(client.run(os.getpid).values()))
            os.kill(killed[0], signal.SIGKILL)
        return ask(self, classifier)

    assert fit(rows, tmp_path / "undisturbed", "--scheduler", address).code == 0
    monkeypatch.setattr(DaskEngine, "influence_sums", and_kill)
    done = fit(rows, tmp_path / "run", "--scheduler", address)
    assert done.code == 0, done.err
    assert killed
    assert (tmp_path / "run" / "rule.skops").read_bytes() == (tmp_path / "undisturbed" / "rule.skops").read_bytes()


@pytest.mark.usefixtures("few_drawn")
def test_a_model_weights_and_a_tree(rows, address, tmp_path, monkeypatch):
    how = (
        "--label", "y", "--sample-weight", "amount", "--metric", "f1_macro", "--basis", "tree:2", "--features", "x*",
        "--method", "influence [tree]", "--model", rows / "model.skops", "--quiet",
    )  # fmt: skip
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 300)  # all, so that the tree is the same
    for run, there in (("memory", ()), ("workers", ("--scheduler", address))):
        done = fit(rows, tmp_path / run, *there, how=how)
        assert done.code == 0, done.err
    same_rule(tmp_path / "memory", tmp_path / "workers")
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 60)
    done = fit(rows, tmp_path / "drawn", "--scheduler", address, how=how)
    assert done.code == 0, done.err
    new = ("predict", tmp_path / "drawn", rows / "test")
    assert inside(*new, "-o", tmp_path / "labels", "--scheduler", address, "--quiet").code == 0
    assert inside(*new, "-o", tmp_path / "labels.csv", "--quiet").code == 0
    labels = pd.read_parquet(tmp_path / "labels")["label"].tolist()
    assert labels == pd.read_csv(tmp_path / "labels.csv")["label"].tolist()
    assert set(labels) == set(CLASSES)


@pytest.mark.usefixtures("few_drawn")
def test_labels_beside_the_columns_of_the_files(rows, address, tmp_path):
    out = tmp_path / "labels"
    how = ("predict", rows / "run", rows / "test", "-o", out, "--scheduler", address, "--quiet")
    assert inside(*how).code == 0
    refused = inside(*how)
    assert refused.code == 2
    assert "add --force" in refused.error
    assert inside(*how, "--force", "--keep", "--proba-out").code == 0
    found, test = pd.read_parquet(out), pd.read_parquet(rows / "test")
    pd.testing.assert_frame_equal(found[test.columns], test)
    shifted = found[[f"shifted_{name}" for name in CLASSES]].to_numpy()
    assert np.array(CLASSES)[shifted.argmax(axis=1)].tolist() == found["label"].tolist()
    (out / "notes.txt").write_text("mine")
    refused = inside(*how, "--force")
    assert refused.code == 2
    assert "notes.txt; nothing in it was changed" in refused.error.replace("'", "")
    (out / "notes.txt").unlink()
    test.to_parquet(out / "part-000009.parquet")  # rows of somebody, under a name of ours
    refused = inside(*how, "--force")
    assert refused.code == 2
    assert "part-000009.parquet" in refused.error
    pd.testing.assert_frame_equal(pd.read_parquet(out / "part-000009.parquet"), test)
    assert [file.name for file in tmp_path.iterdir()] == ["labels"]  # no draft is left


def test_scores_of_groups_and_of_columns(rows, address, tmp_path):
    how = ("--label", "y", "--metric", "worst_group_accuracy", "--groups", "region", "--method", "base", "--quiet")
    assert fit(rows, tmp_path / "run", "--scheduler", address, how=how).code == 0
    (tmp_path / "mine.py").write_text(
        "def paid(y_true, y_pred, amount):\n    return ((y_true == y_pred) * amount).mean()"
    )
    for more in ((), ("--metric", tmp_path / "mine.py:paid")):
        here, there = (
            inside("evaluate", tmp_path / "run", rows / "test", "--json", *more, *where)
            for where in ((), ("--scheduler", address))
        )
        assert there.code == 0, there.err
        assert here.json == there.json


@pytest.mark.parametrize("drawn", [300, 30])
def test_a_missing_number_in_the_last_partition(drawn, rows, address, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", drawn)
    monkeypatch.setattr(cluster, "PARTITION_ROWS", 40)
    frame = make_rows(300, 0)
    frame.loc[299, "p_bee"] = np.nan
    folder = write_parts(frame, tmp_path / "bad")
    done = fit(rows, tmp_path / "run", "--scheduler", address, train=folder)
    assert done.code == 2
    where = f"partition 8 ({folder / 'part-2.parquet'}, rows 80 to 99)"
    assert done.error.startswith(where)
    assert "1 rows whose probabilities are missing or infinite (first: row 99)" in done.error
    assert not (tmp_path / "run").exists()
    done = inside("predict", rows / "run", folder, "-o", tmp_path / "labels", "--scheduler", address)
    assert done.code == 2
    assert done.error.startswith(where)
    assert [file.name for file in tmp_path.iterdir()] == ["bad"]


def test_files_that_do_not_fit_together(rows, tmp_path):
    nowhere = ("--scheduler", "tcp://127.0.0.1:9")  # files are looked at before anybody is called
    for there in (nowhere, ()):
        folder = write_parts(make_rows(300, 0), tmp_path / f"bad{len(there)}")
        last = folder / "part-2.parquet"
        frame = pd.read_parquet(last)
        frame.rename(columns={"x2": "x_2"}).to_parquet(last)
        done = fit(rows, tmp_path / "run", *there, train=folder)
        assert done.code == 2
        assert f"{last} has no column 'x2', but {folder / 'part-0.parquet'} has" in done.error
        frame.assign(more=1).to_parquet(last)
        assert f"{last} has the columns 'more'" in fit(rows, tmp_path / "run", *there, train=folder).error
        frame.assign(amount="1").to_parquet(last)
        done = fit(rows, tmp_path / "run", *there, train=folder)
        assert f"column 'amount' of {last} is of type" in done.error
        last.write_bytes(b"no Parquet")
        done = fit(rows, tmp_path / "run", *there, train=folder)
        assert done.code == 3
        assert f"{last} cannot be read" in done.error


@pytest.mark.parametrize(
    ("train", "code", "text"),
    [
        ("none/*.parquet", 3, "no file matches 'none/*.parquet'"),
        (".", 3, "is a folder without .parquet files"),
        ("tain.parquet", 3, "there is no file 'tain.parquet'"),
        ("val.csv", 2, "val.csv must be a .parquet file"),
        ("*.csv", 2, "'val.csv', which is not a .parquet file"),
    ],
)
def test_files_that_a_cluster_cannot_read(train, code, text, rows, tmp_path):
    how = ("--val", "val.csv", *HOW, "--scheduler", "tcp://127.0.0.1:9", "--out", tmp_path / "run")
    done = inside("fit", "--train", train, *how, cwd=rows)
    assert done.code == code
    assert text in done.error


@pytest.mark.slow
def test_schedulers_that_do_not_answer(rows, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (f"tcp://127.0.0.1:{silent.getsockname()[1]}", "tcp://127.0.0.1:9"):
            done = postshift("predict", rows / "run", rows / "test", "-o", tmp_path / "labels", "--scheduler", address)
            assert done.code == 1
            assert f"no Dask scheduler answers at '{address}' within 10 seconds" in done.error
    assert not list(tmp_path.iterdir())


def test_options_that_do_not_go_together(rows, tmp_path):
    done = inside("fit", "--val", rows / "val.csv", *HOW, "--scheduler", "local", "--out", tmp_path / "run")
    assert done.code == 2
    assert "--train" in done.error
    how = ("predict", rows / "run", rows / "test")
    assert "name a folder" in inside(*how, "-o", tmp_path / "labels.csv", "--scheduler", "local").error
    (tmp_path / "labels").touch()
    assert "is a file" in inside(*how, "-o", tmp_path / "labels", "--scheduler", "local").error
    assert "no folder" in inside(*how, "-o", tmp_path / "a" / "labels", "--scheduler", "local").error
    assert "tcp://host:8786" in inside(*how, "-o", tmp_path / "out", "--scheduler", "somewhere").error


def test_too_many_rows_for_a_score(rows, monkeypatch):
    monkeypatch.setattr(dask_rows, "SMALL_ROWS", 199)
    done = inside("evaluate", rows / "run", rows / "test", "--scheduler", "tcp://127.0.0.1:9")
    assert done.code == 2
    assert "has 200 rows" in done.error
    assert "at most 199" in done.error


def test_files_and_folders_that_workers_do_not_see(address, tmp_path):
    """The files are removed after their metadata was read; on a real cluster the workers may never have seen them."""
    folder = write_parts(make_rows(30, 0), tmp_path / "gone")
    with cluster.cluster_table(folder, address) as lost:
        for file in folder.iterdir():
            file.unlink()
        with pytest.raises(FileError, match=r"partition 0 .* a worker cannot find the file"):
            lost.draw(seed=0)
        work = partial(cluster._write_partition, None, None, False, str(tmp_path / "none" / "labels"))
        with pytest.raises(FileError, match=r"a worker cannot find the folder .*none"):
            lost.each(work)
    with (
        pytest.raises(WorkError, match=r"0 of 3 partitions are in .*: the workers must see that folder"),
        label_folder(tmp_path / "labels", n_partitions=3),
    ):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["gone"]
