"""Files that are cut or written to while an engine reads them, pass by pass: an error that names the file and rows."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from postshift import Rows, fw_eg
from postshift.engines import ArraySource, ArrowSource, BlockEngine, ParquetSource
from postshift.exceptions import InputError, ProbabilityError
from postshift.metrics import GMean

N = 20_000
RNG = np.random.default_rng(0)
ETA = RNG.dirichlet(np.ones(3), size=N)
LABELS = np.arange(N) % 3
VAL = Rows.of(ETA[:300], labels=LABELS[:300])

# Each in a process of its own: a map of a file that was cut ends it with SIGBUS.
CUT_BETWEEN = """
import os, sys
import numpy as np
from postshift import Rows, fw_eg
from postshift.metrics import GMean
from postshift.engines import ArraySource, BlockEngine
from postshift.exceptions import InputError

path, how, keep = sys.argv[1], sys.argv[2], int(sys.argv[3])
eta = np.load(path)
labels = np.arange(len(eta)) % 3
given = {"path": path, "map": np.load(path, mmap_mode="r"), "view": np.load(path, mmap_mode="r")[100:]}[how]
source = ArraySource(given, labels=labels[-given.shape[0]:] if how == "view" else labels)
engine = BlockEngine(source, block_rows=1000)
engine.label_sums()
os.truncate(path, keep)
try:
    fw_eg(engine, Rows.of(eta[:300], labels=labels[:300]), GMean(), max_iter=3)
except InputError as error:
    print(error)
"""
CUT_INSIDE = """
import os, sys
import numpy as np
from postshift.engines import ArraySource, ArrowSource, ParquetSource
from postshift.exceptions import InputError

path = sys.argv[1]
if path.endswith(".npy"):
    source = ArraySource(path)
else:
    source = (ParquetSource if path.endswith(".parquet") else ArrowSource)(path, eta="p_*", labels="y")
blocks = source.blocks(1000)
next(blocks)
os.truncate(path, 1000)
try:
    for block in blocks:
        block.check(n_labels=3)
except InputError as error:
    print(error)
"""


def in_a_process(program, *arguments):
    """A program of Python, run by itself."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("how", ["path", "map", "view"])
@pytest.mark.parametrize("keep", [0, 100, 200_000])
def test_an_npy_file_cut_between_two_passes(tmp_path, how, order, keep):
    path = tmp_path / "eta.npy"
    np.save(path, np.asarray(ETA, order=order))
    done = in_a_process(CUT_BETWEEN, path, how, keep)
    assert done.returncode == 0, done.stderr
    assert f"{path}, rows " in done.stdout
    assert "cut short" in done.stdout


def written(path, eta):
    """A file of one of the kinds that a source reads, and the source."""
    columns = {f"p_{place}": eta[:, place] for place in range(3)} | {"y": LABELS[: len(eta)]}
    if path.suffix == ".npy":
        np.save(path, eta)
        return lambda: ArraySource(path, labels=LABELS)
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path, row_group_size=4000)
        return lambda: ParquetSource(path, eta="p_*", labels="y")
    feather.write_feather(pa.table(columns), path, chunksize=4000, compression="uncompressed")
    return lambda: ArrowSource(path, eta="p_*", labels="y")


every_format = pytest.mark.parametrize("name", ["rows.npy", "rows.parquet", "rows.arrow"])


def changed(row, values):
    """The rows with one of them changed."""
    eta = ETA.copy()
    eta[row] = values
    return eta


@every_format
def test_a_value_that_is_no_number_written_between_two_passes(tmp_path, name):
    engine = BlockEngine(written(tmp_path / name, ETA)(), block_rows=1000)
    engine.label_sums()
    written(tmp_path / name, changed(12_345, np.nan))
    with pytest.raises(ProbabilityError, match=rf"{name}, rows \d+ to \d+: eta has 1 of \d+ rows with NaN"):
        fw_eg(engine, VAL, GMean(), max_iter=3)


@every_format
def test_other_numbers_written_between_two_passes(tmp_path, name):
    engine = BlockEngine(written(tmp_path / name, ETA)(), block_rows=1000)
    engine.label_sums()
    written(tmp_path / name, changed(12_345, [0.2, 0.3, 0.5]))
    with pytest.raises(InputError, match=rf"{name}, rows 0 to 19999: eta was changed between two passes"):
        fw_eg(engine, VAL, GMean(), max_iter=3)


@every_format
def test_a_file_replaced_by_a_shorter_one(tmp_path, name):
    make = written(tmp_path / name, ETA)
    engine = BlockEngine(make(), block_rows=1000)
    engine.label_sums()
    written(tmp_path / name, ETA[:-5000])
    with pytest.raises(InputError, match=rf"{name}, (rows|from row) \d+ .* cut short"):
        fw_eg(engine, VAL, GMean(), max_iter=3)


@every_format
def test_a_file_cut_while_it_is_read(tmp_path, name):
    written(tmp_path / name, ETA)
    done = in_a_process(CUT_INSIDE, tmp_path / name)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / name}, " in done.stdout
    assert "cut short" in done.stdout


def test_an_array_in_memory_that_its_owner_writes_to():
    eta, weights = ETA.copy(), np.ones(N)
    engine = BlockEngine(ArraySource(eta, labels=LABELS, weights=weights), block_rows=1000)
    engine.label_sums()
    weights[17] = np.inf
    with pytest.raises(InputError, match="weights, rows 0 to 999: weights"):
        engine.label_sums()
    weights[17] = 1
    eta[4321] = np.nan
    with pytest.raises(ProbabilityError, match="eta, rows 4000 to 4999: eta has 1 of 1000 rows with NaN"):
        fw_eg(engine, VAL, GMean(), max_iter=3)


def test_a_source_that_gives_fewer_rows_than_it_says(tmp_path):
    make = written(tmp_path / "rows.parquet", ETA)
    engine = BlockEngine(make(), block_rows=1000)
    fewer = pq.read_table(tmp_path / "rows.parquet").slice(0, 5000)
    pq.write_table(
        fewer.append_column("unused", pa.array(RNG.normal(size=(5000, 20)).tolist())), tmp_path / "rows.parquet"
    )
    with pytest.raises(InputError, match=r"rows\.parquet, rows 0 to 4999: .*5000 rows, but had 20000 rows"):
        engine.label_sums()


@pytest.mark.parametrize("name", ["float16", "float32", ">f8", "float64"])
def test_passes_over_files_that_nobody_changes_agree(tmp_path, name):
    table = np.eye(3)[LABELS].astype(name)
    np.save(tmp_path / "eta.npy", table)
    engine = BlockEngine(ArraySource(tmp_path / "eta.npy", labels=LABELS.astype(np.uint8)), block_rows=777)
    assert engine.label_sums().count == engine.label_sums().count == N
    assert fw_eg(engine, VAL, GMean(), max_iter=3).score > 0
