"""The tables of the page, and the CSV file."""

from __future__ import annotations

import csv
import io
from urllib.parse import unquote

import pytest

from postshift.report import page_tables
from postshift.report.counts import matrices
from postshift.report.formats import NO_BREAK, percent
from tests.report import cases
from tests.report.pages import page_of


def test_pairs_of_labels_stay_on_one_line():
    page = page_of("digits")
    (pairs,) = page.all("table", id="pairs-table")
    heads = [e["text"] for e in page.inside(pairs, "th") if "→" in e["text"]]
    assert heads
    assert not [each for each in heads if " " in each]


def test_every_group_has_its_line():
    from sklearn.metrics import accuracy_score, balanced_accuracy_score

    facts, page, rows = cases.over_groups(), page_of("over groups"), cases.random_rows(2)
    groups, held = cases.groups_of(rows), cases.fitted_over_groups().held_out_
    y, after = rows.y_val[held.rows], held.labels
    (table,) = page.all("table", id="groups-table")
    lines = {page.inside(row, "th")[0]["text"]: page.inside(row, "td") for row in page.inside(table, "tr")[1:]}
    assert list(lines) == ["north", "south"]
    for name, cells in lines.items():
        own = groups[held.rows] == name
        shown = [e["text"] for e in cells]
        assert shown[0] == str(own.sum())
        assert shown[3] == percent(accuracy_score(y[own], after[own]))
        assert shown[5] == percent(balanced_accuracy_score(y[own], after[own]))
    (recalls,) = page.all("table", id="group-recalls-table")
    assert len(page.inside(recalls, "tr")) == 1 + 2 * 2
    assert not page_of("digits").all("table", id="groups-table")
    assert facts.groups[0].name == "north"


def test_the_csv_file_has_every_cell():
    facts = cases.many_classes()
    (link,) = [e for e in page_of("120 classes").all("a") if "download" in e["attrs"]]
    rows = list(csv.DictReader(io.StringIO(unquote(link["attrs"]["href"].partition(",")[2]))))
    assert len(rows) == len(facts.confusion.cells)
    assert sum(float(row["after"]) for row in rows) == facts.verdict.n_rows


@pytest.mark.parametrize(
    ("cell", "written"),
    [("=1+1", "'=1+1"), ("@x", "'@x"), ("-1", "-1"), ("+2.5", "+2.5"), ("-x", "'-x"), (-3.0, "-3.0")],
)
def test_spreadsheets_read_no_name_as_a_formula(cell, written):
    text = unquote(page_tables.to_csv(("a",), [(cell,)]).partition(",")[2])
    assert list(csv.reader(io.StringIO(text)))[1] == [written]


def test_recall_and_precision_of_every_class():
    facts = cases.digits_auto()
    _, after = matrices(facts.confusion.cells, n_classes=10)
    table = page_tables.class_table(facts)
    for k, row in enumerate(table.rows):
        assert row[0] == facts.classes[k]
        assert row[3] == percent(after[k, k] / after[k].sum())
        assert row[5] == percent(after[k, k] / after[:, k].sum())
    assert page_tables.class_table(cases.queried_facts()) is None


def test_tables_without_rows_are_left_out():
    untouched = cases.untouched()
    assert page_tables.pairs_table(untouched) is None
    assert page_tables.changed_rows_table(untouched) is None
    assert page_tables.conditioning_table(untouched) is None
    assert page_tables.samples_table(untouched) is None
    (line,) = page_tables.conditioning_table(cases.by_method("paper")).rows
    assert line[0] == "FW-EG [constant]"


def test_constraints_have_their_section():
    made, page = cases.constrained(), page_of("constraints")
    (table,) = page.all("table", id="constraints-table")
    lines = [page.inside(row, "td") for row in page.inside(table, "tr")[1:]]
    for record, cells in zip(made.shifter.constraints_, lines, strict=True):
        bound, value, _, holds = [e["text"].replace(NO_BREAK, " ") for e in cells]
        assert bound == f"{'at least' if record.sense == '>=' else 'at most'} {record.bound:g}"
        assert (value, holds) == (f"{record.value:.3f}", "✓ yes")
    assert page_tables.constraints_table(cases.digits_auto()) is None
    assert not page_of("digits").all("section", id="constraints")


def test_constraints_of_a_page_about_test_rows_are_those_of_the_test_rows():
    made = cases.constrained()
    labels = made.shifter.predict(made.new.eta_val)
    recall, rate = made.test.constraints.records
    assert recall.value == pytest.approx((labels[made.new.y_val == 2] == 2).mean())
    assert rate.value == pytest.approx((labels == 2).mean())
    assert made.test.constraints.certificate == made.shifter.certificate_
