"""Rows in files as training rows: the same result as in memory, with memory for the sample and one block only."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from postshift import PostShifter
from postshift.engines import ArraySource, ArrowSource, BlockEngine, ParquetSource
from postshift.estimators import dask_rows
from postshift.exceptions import InputError, SettingError, ShapeError

N_TRAIN = 3_000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    eta = rng.dirichlet([1.0, 0.6, 0.3], size=N_TRAIN + 800)
    labels = (eta.cumsum(axis=1) > rng.random((len(eta), 1))).argmax(axis=1)
    phi = np.column_stack([eta[:, 0] > 0.5, eta[:, 0] <= 0.5]).astype(float)
    weights = rng.uniform(0.5, 2, size=len(eta))
    return eta, labels, phi, weights


@pytest.fixture
def few_drawn(monkeypatch):
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 700)


def _engine(rows, folder, kind, **options):
    eta, labels, phi, weights = (each[:N_TRAIN] for each in rows)
    columns = {"eta": "p_*", "phi": "f_*", "labels": "y", "weights": "w"}
    frame = pd.DataFrame(
        {f"p_{k}": eta[:, k] for k in range(3)} | {f"f_{k}": phi[:, k] for k in range(2)} | {"y": labels, "w": weights}
    )
    if kind == "npy":
        for name, array in (("eta", eta), ("phi", phi), ("labels", labels), ("weights", weights)):
            np.save(folder / f"{name}.npy", array)
        source = ArraySource(
            folder / "eta.npy",
            phi=folder / "phi.npy",
            labels=folder / "labels.npy",
            weights=folder / "weights.npy",
        )
    elif kind == "parquet":
        frame.to_parquet(folder / "rows.parquet", row_group_size=500)
        source = ParquetSource(folder / "rows.parquet", **columns)
    else:
        frame.to_feather(folder / "rows.arrow", chunksize=500)
        source = ArrowSource(folder / "rows.arrow", **columns)
    return BlockEngine(source, block_rows=400, **options)


def _val(rows):
    eta, labels, phi, _ = (each[N_TRAIN:] for each in rows)
    return {"eta_val": eta, "y_val": labels, "phi_val": phi}


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow"])
@pytest.mark.parametrize("method", ["influence", "inverse prior", "stack + influence", "paper"])
@pytest.mark.usefixtures("few_drawn")
def test_the_result_equals_that_of_rows_in_memory(rows, tmp_path, kind, method):
    found = PostShifter("f1_macro", method=method).fit(**_val(rows), eta_train=_engine(rows, tmp_path, kind))

    eta, labels, phi, weights = (each[:N_TRAIN] for each in rows)
    wanted = PostShifter("f1_macro", method=method).fit(
        **_val(rows), eta_train=eta, y_train=labels, phi_train=phi, sample_weight_train=weights
    )
    assert found.diagnostics_.n_train == N_TRAIN
    assert found.diagnostics_.n_drawn == 700
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-9)


def test_all_rows_are_read_if_they_are_few(rows, tmp_path):
    found = PostShifter("f1_macro").fit(**_val(rows), eta_train=_engine(rows, tmp_path, "parquet"))

    eta, labels, phi, weights = (each[:N_TRAIN] for each in rows)
    wanted = PostShifter("f1_macro").fit(
        **_val(rows), eta_train=eta, y_train=labels, phi_train=phi, sample_weight_train=weights
    )
    assert found.diagnostics_.n_drawn is None
    assert found.score_ == wanted.score_
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


@pytest.mark.usefixtures("few_drawn")
def test_the_menu_chooses_on_the_sample(rows, tmp_path):
    found = PostShifter("f1_macro").fit(**_val(rows), eta_train=_engine(rows, tmp_path, "parquet"))

    assert found.score_ >= found.base_score_ - 0.05
    assert found.diagnostics_.n_drawn == 700


def test_arguments_beside_the_engine_are_refused(rows, tmp_path):
    with pytest.raises(SettingError, match="y_train must be in the source of the BlockEngine"):
        PostShifter().fit(**_val(rows), eta_train=_engine(rows, tmp_path, "npy"), y_train=rows[1])


def test_another_number_of_classes_is_refused(rows):
    engine = BlockEngine(ArraySource(np.full((10, 2), 0.5), labels=np.zeros(10, dtype=int)))
    with pytest.raises(ShapeError, match="eta_train must have 3 columns"):
        PostShifter().fit(**_val(rows), eta_train=engine)


def test_an_error_names_file_and_rows(rows, tmp_path):
    bad = np.array(rows[0][:N_TRAIN])
    bad[1_234, 0] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    engine = BlockEngine(ArraySource(tmp_path / "bad.npy", labels=rows[1][:N_TRAIN]), block_rows=400)
    with pytest.raises(InputError, match=r"bad\.npy, rows 1200 to 1599.*rows 34"):
        PostShifter().fit(rows[0][N_TRAIN:], rows[1][N_TRAIN:], eta_train=engine)


@pytest.mark.usefixtures("few_drawn")
def test_a_file_that_changes_after_the_draw_is_refused(rows, tmp_path, monkeypatch):
    engine = _engine(rows, tmp_path, "npy")
    found = PostShifter("f1_macro", method="influence")
    make_task = "postshift.estimators.shifts.make_task"
    from postshift.estimators.task import make_task as original

    def changing(*given, **options):
        np.save(tmp_path / "eta.npy", rows[0][:N_TRAIN][::-1] * 0.5 + 1 / 6)
        return original(*given, **options)

    monkeypatch.setattr(make_task, changing)
    with pytest.raises(InputError, match=r"eta\.npy, rows 0 to 2999: eta was changed between two passes"):
        found.fit(**_val(rows), eta_train=engine)


_PEAK = """
import resource, sys
import numpy as np
from postshift import PostShifter
from postshift.engines import ArraySource, BlockEngine
from postshift.estimators import dask_rows
dask_rows.DRAWN_ROWS = 20_000
folder = sys.argv[1]
eta_val, y_val = np.load(f"{folder}/eta_val.npy"), np.load(f"{folder}/y_val.npy")
def fitted(name):
    source = ArraySource(f"{folder}/{name}.npy", labels=f"{folder}/{name}_labels.npy")
    engine = BlockEngine(source, memory_limit="64 MB")
    return PostShifter("f1_macro", method="influence").fit(eta_val, y_val, eta_train=engine)
fitted("few")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert fitted("many").diagnostics_.n_train == 4_000_000
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.slow
def test_memory_is_bounded(tmp_path):
    rng = np.random.default_rng(0)
    eta = rng.dirichlet([1.0] * 10, size=40_000)
    labels = eta.argmax(axis=1)
    np.save(tmp_path / "eta_val.npy", eta[:2_000])
    np.save(tmp_path / "y_val.npy", labels[:2_000])
    for name, repeats in (("few", 1), ("many", 100)):  # 3 MB and 320 MB
        np.save(tmp_path / f"{name}.npy", np.tile(eta, (repeats, 1)))
        np.save(tmp_path / f"{name}_labels.npy", np.tile(labels, repeats))

    done = subprocess.run([sys.executable, "-c", _PEAK, str(tmp_path)], capture_output=True, text=True, check=False)

    assert not done.returncode, done.stderr
    assert float(done.stdout) < 100  # MB; the file has 320
