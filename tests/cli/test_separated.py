"""Files of separated values: each value in its column, or a refusal with the number of the line."""

import gzip

import pandas as pd
import pytest

from postshift.cli.files.separated import read_separated
from tests.cli.helpers import fit_inside, inside

HOW = ("--label", "y", "--metric", "f1_macro")


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    """A run that odd files are labelled by."""
    path = tmp_path_factory.mktemp("run") / "run"
    done = fit_inside("--val", files / "val.csv", *HOW, "--out", path)
    assert done.code == 0, done.err
    return path


@pytest.fixture
def lines(files):
    """The lines of the test rows, the header first."""
    return (files / "test.csv").read_text().splitlines()


@pytest.fixture
def labels(run, tmp_path):
    """Label the rows of a file of this content."""

    def found(content, name="odd.csv"):
        path, out = tmp_path / name, tmp_path / "labels.parquet"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        out.unlink(missing_ok=True)
        done = inside("predict", run, path, "-o", out)
        return done, pd.read_parquet(out)["label"].tolist() if out.exists() else None

    return found


@pytest.fixture
def right(labels, lines):
    """The labels of the file as it should be."""
    done, found = labels(joined(lines))
    assert done.code == 0, done.err
    assert len(found) == 200
    return found


def joined(lines, end="\n"):
    return end.join([*lines, ""])


def refused(done, *texts):
    assert done.code in (2, 3), (done.code, done.err)
    for text in texts:
        assert text in done.error


def with_ends(lines, end, *, of):
    """The rows, and the header too where ``of`` is ``"all"``, with something at their ends."""
    head = lines[0] + (end if of == "all" else "")
    chosen = {"one": {7}, "rows": range(len(lines)), "all": range(len(lines))}[of]
    return joined([head, *(line + (end if place in chosen else "") for place, line in enumerate(lines[1:], start=1))])


@pytest.mark.parametrize("of", ["rows", "one", "all"])
def test_an_empty_last_field_is_no_value(of, labels, lines, right):
    done, found = labels(with_ends(lines, ",", of=of))
    assert done.code == 0, done.err
    assert found == right
    done, found = labels(with_ends(lines, ", ,", of=of))
    assert done.code == 0, done.err
    assert found == right


@pytest.mark.parametrize(("of", "number"), [("rows", 2), ("one", 8)])
def test_more_values_than_names_are_refused_with_their_line(of, number, labels, lines):
    done, found = labels(with_ends(lines, ",7", of=of))
    refused(done, f"line {number} has 9 values", "the header has 8 names")
    assert found is None
    done, _ = labels(with_ends(lines, ",,7", of=of))
    refused(done, f"line {number} has 10 values", "the header has 8 names")


def test_lines_count_where_a_cell_has_several(labels, lines):
    several = [line + (',"a note' + "\n" + 'of two lines"' if place else ",note") for place, line in enumerate(lines)]
    done, found = labels(joined(several))
    assert done.code == 0, done.err
    assert len(found) == 200
    several[3] += ",7"
    done, _ = labels(joined(several))
    refused(done, "line 6 has 10 values", "the header has 9 names")


def test_names_of_rows_without_a_name_of_their_own(labels, lines):
    """R's write.table leaves the first column without a name: each row has a value more than there are names."""
    done, _ = labels(joined([lines[0], *(f"r{place},{line}" for place, line in enumerate(lines[1:]))]))
    refused(done, "line 2 has 9 values", "the header has 8 names")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_ends_of_lines_and_blank_lines(encoding, end, labels, lines, right):
    done, found = labels(joined(lines, end).encode(encoding))
    assert done.code == 0, done.err
    assert found == right
    blank = [each for line in lines for each in (line, "")]
    done, found = labels(joined(blank, end).encode(encoding))
    assert done.code == 0, done.err
    assert found == right


def test_compressed_and_other_separators(labels, lines, right):
    content = with_ends(lines, ",", of="rows")
    done, found = labels(gzip.compress(content.encode()), "odd.csv.gz")
    assert done.code == 0, done.err
    assert found == right
    done, found = labels(content.replace(",", "\t"), "odd.tsv")
    assert done.code == 0, done.err
    assert found == right
    for name in ("odd.csv", "odd.tsv"):
        done, _ = labels(joined(lines).replace(",", ";"), name)
        refused(done, "separated by ';'")
    done, _ = labels(joined(lines).replace(",", "\t"), "odd.csv")
    refused(done, "separated by tabs", ".tsv")


def test_decimal_commas_are_no_numbers(labels, lines):
    done, _ = labels(joined(lines).replace(",", "\t").replace(".", ","), "odd.tsv")
    refused(done, "'p_ant'", "row 0", "numbers")


def test_a_name_that_stands_twice(labels, lines):
    for name in ("y", "p_ant", "x1"):
        done, _ = labels(joined([f"{lines[0]},{name}", *(f"{line},0" for line in lines[1:])]))
        refused(done, f"two columns are called {name!r}")


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("", ["it is empty"]),
        ("\n\n", ["it is empty"]),
        ("y,p_ant,p_bee,p_cat\n", ["no rows"]),
        ("y,p_ant,p_bee,p_cat\nant,0.1,0.2,0.7\n\xe4,0.1".encode("latin-1"), ["not UTF-8", "line 3"]),
        ('y,p_ant,p_bee,p_cat\n"ant,0.1,0.2,0.7\n', ["quotation mark", "line 2"]),
    ],
)
def test_files_that_are_no_tables(content, texts, labels):
    done, _ = labels(content)
    refused(done, *texts)


def test_classes_that_are_called_as_missing_values_are(files, tmp_path):
    """A label NA is read as missing, and the remedy does not lose its rows."""
    for name in ("NA", "nan", "None"):
        frame = pd.read_csv(files / "val.csv").replace({"y": {"ant": name}}).rename(columns={"p_ant": f"p_{name}"})
        frame.to_csv(tmp_path / "val.csv", index=False)
        done = fit_inside("--val", tmp_path / "val.csv", *HOW, "--out", tmp_path / "run")
        refused(done, "194 rows", f"a class is called {name!r}", "another name")


@pytest.mark.parametrize("end", ["", ","])
def test_columns_that_are_read_as_text(end):
    content = f"id,x\n007,01{end}\n10,2{end}\n".encode()
    found = read_separated(content, separator=",", compressed=False, as_text=["id"])
    assert found["id"].tolist() == ["007", "10"]
    assert found["x"].tolist() == [1, 2]
    assert read_separated(content, separator=",", compressed=False)["id"].tolist() == [7, 10]


@pytest.mark.parametrize("end", ["", ",", ",,", ", "])
def test_a_first_column_that_counts_up_is_no_index(end):
    content = f"id,x\n0,5{end}\n1,6{end}\n2,7{end}\n".encode()
    found = read_separated(content, separator=",", compressed=False)
    assert found["id"].tolist() == [0, 1, 2]
    assert found["x"].tolist() == [5, 6, 7]
