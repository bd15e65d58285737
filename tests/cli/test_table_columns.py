"""Classes and labels, probabilities, features, and columns that only number the rows."""

import json

import numpy as np
import pandas as pd
import pytest

from postshift.cli.errors import UsageError
from postshift.cli.files.file_table import FileTable
from postshift.cli.files.table_columns import (
    canonical,
    classes_of,
    eta_of,
    feature_columns,
    labels_of,
    probability_columns,
)
from tests.cli.helpers import fit_inside, inside, make_rows

HOW = ("--label", "y", "--metric", "f1_macro", "--method", "influence [tree]")


def sorted_rows(n_rows, seed):
    """Rows in the order of their labels, so that the number of a row tells its label."""
    return make_rows(n_rows, seed).sort_values("y", ignore_index=True)


def write(folder, change, suffix=".csv"):
    """Write the three files after a change to their frames."""
    folder.mkdir(exist_ok=True)
    for seed, name in enumerate(("train", "val", "test")):
        change(sorted_rows(400, seed)).pipe(lambda each, name=name: to_file(each, folder / f"{name}{suffix}"))
    return folder


def to_file(frame, path):
    """Write a frame with its index, unless it has none to speak of."""
    keep = not isinstance(frame.index, pd.RangeIndex) or frame.attrs.get("index", False)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=keep)


def indexed(frame):
    frame.attrs["index"] = True
    return frame


def fitted(folder, out, *more, suffix=".csv"):
    return inside(
        "fit", "--train", folder / f"train{suffix}", "--val", folder / f"val{suffix}", *HOW, *more, "--out", out
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The folder of a run on the same rows without a number."""
    folder = write(tmp_path_factory.mktemp("plain"), lambda frame: frame)
    done = fitted(folder, folder / "run")
    assert done.code == 0, done.err
    assert "number" not in done.err
    return folder


def labels_after(run):
    return pd.read_csv(run / "validation.csv")["after"].tolist()


SHUFFLED = np.random.default_rng(0).permutation(400)

CERTAIN = {
    "the index of to_csv": (indexed, "Unnamed: 0"),
    "an index of other numbers": (lambda frame: frame.set_axis(SHUFFLED), "Unnamed: 0"),
    "an index that was read and written": (lambda frame: frame.assign(**{"Unnamed: 0": frame.index}), "Unnamed: 0"),
    "an index of two levels": (lambda frame: frame.set_axis([frame.index, frame.index + 1]), "Unnamed: 0"),
    "an index of Arrow": (lambda frame: frame.assign(__index_level_0__=SHUFFLED), "__index_level_0__"),
    "row numbers from 0": (lambda frame: frame.assign(index=frame.index), "index"),
    "row numbers from 1": (lambda frame: frame.assign(nr=frame.index + 1.0), "nr"),
    "row numbers from elsewhere": (lambda frame: frame.assign(id=frame.index + 5000), "id"),
}


@pytest.mark.parametrize("case", CERTAIN)
def test_numbers_of_rows_are_left_out(case, plain, tmp_path):
    change, name = CERTAIN[case]
    folder = write(tmp_path / "rows", change)
    done = fitted(folder, tmp_path / "run")
    assert done.code == 0, done.err
    said = [line for line in done.err.splitlines() if line.startswith("warning: ") and repr(name) in line]
    assert len(said) == 1, done.err
    assert "left out" in said[0]
    assert "--features" in said[0]
    assert labels_after(tmp_path / "run") == labels_after(plain / "run")
    assert "left out" in (tmp_path / "run" / "report.html").read_text()
    done = inside("predict", tmp_path / "run", plain / "test.csv", "-o", tmp_path / "labels.csv")  # needs no index
    assert done.code == 0, done.err


def test_parquet_with_an_index(plain, tmp_path):
    folder = write(tmp_path / "rows", lambda frame: frame.assign(**{"Unnamed: 0": frame.index}), suffix=".parquet")
    done = fitted(folder, tmp_path / "run", suffix=".parquet")
    assert "'Unnamed: 0'" in done.err
    assert labels_after(tmp_path / "run") == labels_after(plain / "run")


def test_features_can_still_name_them(tmp_path):
    folder = write(tmp_path / "rows", indexed)
    done = fitted(folder, tmp_path / "run", "--features", "Unnamed: 0,x1,x2")
    assert done.code == 0, done.err
    assert "left out" not in done.err
    layout = json.loads((tmp_path / "run" / "run.json").read_text())["layout"]
    assert layout["features"] == "Unnamed: 0,x1,x2"
    done = inside("evaluate", tmp_path / "run", folder / "test.csv", "--json")
    assert done.code == 0, done.err


def test_numbers_in_another_order_may_mean_something(tmp_path):
    """A different whole number in each row, in no order: kept, and said."""
    folder = write(tmp_path / "rows", lambda frame: frame.assign(customer=SHUFFLED * 3 + 1000))
    done = fitted(folder, tmp_path / "run")
    assert done.code == 0, done.err
    said = [line for line in done.err.splitlines() if "'customer'" in line]
    assert len(said) == 1, done.err
    assert "is read as a feature" in said[0]
    assert "--features" in said[0]


def test_features_that_are_no_numbers_of_rows_stay(tmp_path):
    """Ages, years, counts, sorted measurements: nothing is left out, and nothing is said."""
    rng = np.random.default_rng(0)

    def change(frame):
        return frame.assign(
            age=rng.integers(18, 90, size=400),
            year=2000 + np.arange(400) // 20,
            level=np.arange(400) / 400,
            income=rng.choice(10**6, size=400, replace=False),
            constant=3,
        )

    done = fitted(write(tmp_path / "rows", change), tmp_path / "run")
    assert done.code == 0, done.err
    assert not [line for line in done.err.splitlines() if "--features" in line], done.err


def test_a_model_without_names_gets_its_columns_only(files, tmp_path):
    from sklearn.linear_model import LogisticRegression

    from postshift.persistence import dump

    train = pd.read_csv(files / "train.csv")[["y", "x1", "x2"]]
    model = LogisticRegression().fit(train[["x1", "x2"]].to_numpy(), train["y"])
    dump(model, tmp_path / "model.skops")
    for name in ("val", "test"):
        pd.read_csv(files / f"{name}.csv")[["y", "x1", "x2"]].to_csv(tmp_path / f"{name}.csv")
    how = ["--val", tmp_path / "val.csv", "--model", tmp_path / "model.skops", "--label", "y", "--metric", "f1_macro"]
    done = fit_inside(*how, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    done = inside("predict", tmp_path / "run", tmp_path / "test.csv", "-o", tmp_path / "labels.csv")
    assert done.code == 0, done.err


def table(**columns):
    return FileTable(path="rows.csv", frame=pd.DataFrame(columns), digest="")


@pytest.mark.parametrize(
    ("left", "right"), [(1, "1"), (1.0, "1.0"), ("01", 1), (-0.0, 0), (True, "TRUE"), (np.int8(3), "3"), (" a", "a")]
)
def test_labels_that_are_the_same(left, right):
    assert canonical(left) == canonical(right)


@pytest.mark.parametrize(("left", "right"), [(1, True), (0.5, "0"), ("a", "A"), (10, 1), (-1, 1), (1e300, 1e299)])
def test_labels_that_differ(left, right):
    assert canonical(left) != canonical(right)


@pytest.mark.parametrize(
    ("labels", "values"),
    [
        ([1, 0, 1], (0, 1)),
        ([1.0, 0.0], (0.0, 1.0)),
        ([True, False], (False, True)),
        (["0", "1"], ("0", "1")),
    ],
)
def test_classes_have_the_type_of_the_labels(labels, values):
    names = ["false", "true"] if isinstance(labels[0], bool) else ["0", "1"]
    found = classes_of(names, pd.Series(labels))[1]
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def test_two_columns_of_the_same_class_are_refused():
    with pytest.raises(UsageError, match="both read as '1'"):
        classes_of(["1", "1.0"])


def test_labels_of_a_column():
    classes = {"names": ("0", "1"), "values": ("no", "yes")}
    assert labels_of(table(y=[1.0, 0.0, 1.0]), "y", **classes).tolist() == ["yes", "no", "yes"]
    with pytest.raises(UsageError, match=r"label '2.0' .* \(2 rows, the first is row 1\)"):
        labels_of(table(y=[1.0, 2.0, 2.0]), "y", **classes)


def test_the_star_is_the_class_and_other_columns_are_left_out():
    rows = table(p_a=[0.5], p_b=[0.5], p_y=[1], q=[2])
    assert probability_columns(rows, "p_*", but=["p_y", None]) == {"a": "p_a", "b": "p_b"}
    assert feature_columns(rows, but=["p_a", "p_b"], chosen=None) == ["p_y", "q"]
    with pytest.raises(UsageError, match="one column only, 'qa'"):
        probability_columns(table(qa=[1], p=[2]), "q*")


def test_probabilities_are_checked():
    assert eta_of(table(a=[1.0], b=[3.0]), ["a", "b"], normalise=True).tolist() == [[0.25, 0.75]]
    with pytest.raises(UsageError, match=r"row 1 .* -0\.1 in column 'a'"):
        eta_of(table(a=[0.5, -0.1], b=[0.5, 1.1]), ["a", "b"], normalise=False)
    with pytest.raises(UsageError, match=r"row 0 .* all 0"):
        eta_of(table(a=[0.0], b=[0.0]), ["a", "b"], normalise=True)
    with pytest.raises(UsageError, match=r"missing or infinite \(first: row 1\)"):
        eta_of(table(a=[0.5, np.nan], b=[0.5, 1.0]), ["a", "b"], normalise=False)
