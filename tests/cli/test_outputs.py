"""Many rows: samples are announced before the work, and validation.csv is limited."""

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import inside, make_rows

N_ROWS, N_CLASSES = 24_000, 60

KEPT = 1_000_000 // N_CLASSES


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A folder with many validation rows of many classes, and a run on them."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    labels = rng.integers(N_CLASSES, size=N_ROWS)
    logits = rng.normal(size=(N_ROWS, N_CLASSES)).astype(np.float32)
    logits[np.arange(N_ROWS), labels] += 2
    eta = np.exp(logits)
    np.savez(folder / "val.npz", eta=eta / eta.sum(axis=1, keepdims=True), labels=labels)
    done = inside(
        "fit", "--val", folder / "val.npz", "--metric", "accuracy", "--method", "inverse prior", "--out", folder / "run"
    )
    assert done.code == 0, done.err
    return folder, done


def test_how_many_rows_judge_is_said_before_and_after(large):
    _, done = large
    lines = done.err.splitlines()
    (said,) = [place for place, line in enumerate(lines) if "20,000 of the 24,000 validation rows" in line]
    first = next(place for place, line in enumerate(lines) if line.startswith("fit: step 1"))
    assert said < first
    assert "a random sample of the 24,000 validation rows" in done.out


def test_the_copy_of_the_rows_is_bounded_and_says_so(large):
    folder, done = large
    kept = pd.read_csv(folder / "run" / "validation.csv")
    assert len(kept) == KEPT
    assert kept["row"].is_monotonic_increasing
    assert kept["row"].max() > KEPT  # a sample of all rows, not the first ones
    judged = int(done.out.partition(" on ")[2].split()[0].replace(",", ""))
    assert kept["held_out"].notna().sum() == judged
    given = np.load(folder / "val.npz")
    assert (kept["label"] == given["labels"][kept["row"]]).all()
    (said,) = [line for line in done.err.splitlines() if "validation.csv" in line]
    assert f"{KEPT:,} of the 24,000" in said
    assert "postshift predict" in said
    done = inside("predict", folder / "run", folder / "val.npz", "-o", folder / "all.csv")
    assert done.code == 0, done.err
    every = pd.read_csv(folder / "all.csv")
    assert len(every) == N_ROWS
    assert (every["label"][kept["row"]].to_numpy() == kept["after"].to_numpy()).all()


def test_few_rows_need_no_words(tmp_path):
    make_rows(320, 1).to_csv(tmp_path / "val.csv", index=False)
    done = inside(
        "fit", "--val", tmp_path / "val.csv", "--label", "y", "--metric", "f1_macro", "--method", "smoothed plug-in",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert all(line.startswith("fit: step") for line in done.err.splitlines()), done.err
    assert len(pd.read_csv(tmp_path / "run" / "validation.csv")) == 320
