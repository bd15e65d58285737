"""Run against the installed wheel with the oldest packages it allows: fit, save, load, export, report, Dask, commands.

The only argument is the file that says which versions these are, one ``name==version`` a line.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import postshift
from postshift import MemoryEngine, Mixture, PostShiftClassifier, Rows, fw_eg
from postshift.exceptions import UntrustedError
from postshift.metrics import GMean
from postshift.persistence import dump, load


def rows(seed: int, n_rows: int) -> pd.DataFrame:
    """Rows of two classes, one of them rare."""
    rng = np.random.default_rng(seed)
    label = (rng.random(n_rows) < 0.2).astype(int)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 3)) + label[:, None] * [1.0, 0.5, 0.0], columns=["a", "b", "c"])
    return frame.assign(town=np.where(frame["c"] > 0, "hull", "york"), label=np.where(label == 1, "yes", "no"))


TRAIN, VAL, TEST = rows(0, 1500), rows(1, 800), rows(2, 400)
FEATURES = ["a", "b", "c"]


def check_versions(path: Path) -> None:
    """Compare what is installed with what was asked for."""
    for line in path.read_text().split():
        name, _, wanted = line.partition("==")
        found = importlib.metadata.version(name).split(".")
        parts = wanted.split(".")
        assert found[: len(parts)] == parts, f"{name} is {found}, not {wanted}"
        assert not any(int(part) for part in found[len(parts) :] if part.isdigit()), f"{name} is {found}, not {wanted}"


def check_runs() -> None:
    """Fit with both kinds of kernels; resume a journal, and read a mixture from its file."""
    eta = LogisticRegression().fit(TRAIN[FEATURES], TRAIN["label"]).predict_proba
    samples = [Rows.of(eta(each[FEATURES]), labels=(each["label"] == "yes").astype(int)) for each in (TRAIN, VAL)]
    values = {
        kernels: fw_eg(MemoryEngine(samples[0], kernels=kernels), samples[1], GMean(), max_iter=5).score
        for kernels in ("numpy", "numba")
    }
    assert values["numpy"] == values["numba"], values
    result = fw_eg(*samples, GMean(), max_iter=5)
    result.mixture.save("rule.npz")
    test = eta(TEST[FEATURES])
    np.testing.assert_array_equal(Mixture.load("rule.npz").predict(test), result.mixture.predict(test))
    asked: list[str] = []
    for _ in range(2):  # the second time the journal has every answer
        fw_eg(*samples, GMean(), max_iter=5, journal="run.jsonl", on_answer=lambda query, _: asked.append(query.key))
    assert len(asked) == result.n_queries


def check_files() -> None:
    """Fit the classifier, and read it back from files of every kind; refuse one that would run a program."""
    import matplotlib as mpl
    import onnxruntime
    import skops.io

    from postshift.cli.program import Program
    from postshift.report import Facts, WeightsDisplay, write_report

    model = PostShiftClassifier(LogisticRegression(), metric="g_mean", method="influence [tree]")
    model.fit(TRAIN[FEATURES], TRAIN["label"], VAL[FEATURES], VAL["label"])
    assert model.score_ > model.base_score_ + 0.05
    test = TEST[FEATURES]
    labels = model.predict(test)
    for name in ("model.skops", "model.joblib", "model.onnx"):
        dump(model, name)
    np.testing.assert_array_equal(load("model.skops").predict(test), labels)
    np.testing.assert_array_equal(load("model.joblib", trust=True).predict(test), labels)
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["label"], {"X": test.to_numpy()})
    np.testing.assert_array_equal(found, labels)
    object.__setattr__(model.rule_.rules[0], "posterior", object.__new__(Program))
    Path("hostile.skops").write_bytes(skops.io.dumps(model))
    refused = ()
    try:
        load("hostile.skops")
    except UntrustedError as error:
        refused = error.names
    assert refused == ("postshift.cli.program.Program",), refused
    mpl.use("Agg")
    model = load("model.skops")
    WeightsDisplay.from_estimator(model, VAL[FEATURES])
    write_report(Facts.of(model, VAL[FEATURES], VAL["label"]), "report.html")
    assert "</html>" in Path("report.html").read_text()


def check_dask() -> None:
    """Sum on a small cluster, and get what memory gives."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from postshift.engines import ArrayParts, DaskEngine

    eta = LogisticRegression().fit(TRAIN[FEATURES], TRAIN["label"]).predict_proba
    labels = (TRAIN["label"] == "yes").to_numpy().astype(int)
    val = Rows.of(eta(VAL[FEATURES]), labels=(VAL["label"] == "yes").astype(int))
    table = eta(TRAIN[FEATURES])
    wanted = fw_eg(Rows.of(table, labels=labels), val, GMean(), max_iter=5).score
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, Client(cluster):
        parts = ArrayParts(da.from_array(table, chunks=(500, 2)), labels=da.from_array(labels, chunks=500))
        with DaskEngine(parts) as engine:
            found = fw_eg(engine, val, GMean(), max_iter=5).score
    assert abs(found - wanted) < 1e-12, (found, wanted)


def check_commands() -> None:
    """Fit, predict and evaluate with the command line, on files of several kinds."""
    model = LogisticRegression().fit(TRAIN[FEATURES], TRAIN["label"])
    dump(model, "base.skops")
    VAL.to_parquet("val.parquet")
    TEST.to_csv("test.csv", index=False)
    how = ["--val", "val.parquet", "--label", "label", "--model", "base.skops", "--metric", "g_mean"]
    command("fit", *how, "--basis", "col:town", "--out", "run")
    command("predict", "run", "test.csv", "-o", "labels.npz")
    with np.load("labels.npz", allow_pickle=False) as found:
        assert len(found["label"]) == len(TEST)
        assert "allow_pickle" not in found.files
    command("evaluate", "run", "test.csv")
    command("doctor")


def command(*arguments: str) -> None:
    """Run a command, which must succeed."""
    environment = os.environ | {"NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-I", "-m", "postshift.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, f"postshift {' '.join(arguments)}:\n{done.stdout}{done.stderr}"


def main() -> None:
    """Run all of it, and say so."""
    assert "site-packages" in postshift.__file__, postshift.__file__
    check_versions(Path(sys.argv[1]))
    for check in (check_runs, check_files, check_dask, check_commands):
        check()
        print(f"{check.__name__.removeprefix('check_')}: fine")
    print(f"postshift {postshift.__version__} works with the oldest packages that it allows")


if __name__ == "__main__":
    main()
