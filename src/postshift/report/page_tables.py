"""The tables of the page that belong to no chart, and the confusion matrices as a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from statistics import fmean
from urllib.parse import quote

from postshift.report.counts import SHOWN_ROWS, matrices
from postshift.report.facts import Facts
from postshift.report.formats import NO_BREAK, amount, interval, number, percent, rows
from postshift.report.svg import TextTable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets read texts that begin with these as formulas

_SENSES = {">=": "at least", "<=": "at most"}


def samples_table(facts: Facts) -> TextTable | None:
    """Return the scores of the test rows and of the validation rows; None if their metrics differ."""
    if facts.test is None or facts.fit_metric is not None:
        return None
    found = []
    for name, scores in (("test rows", facts.test), ("validation rows (by the fit)", facts.verdict)):
        values = [number(facts.metric.own_number(each)) for each in (scores.before, scores.after)]
        found.append((name, f"{scores.n_rows:,}", *values))
    caption = f"{facts.metric.name} of the test rows and of the validation rows"
    return TextTable(caption=caption, header=("sample", "rows", "before", "after"), rows=tuple(found))


def constraints_table(facts: Facts) -> TextTable | None:
    """Return how every constraint holds on the rows that the page is about."""
    if facts.constraints is None:
        return None
    found = [
        (
            each.name,
            f"{_SENSES.get(each.sense, each.sense)}{NO_BREAK}{each.bound:g}",
            number(each.value),
            interval((each.low, each.high)),
            f"✓{NO_BREAK}yes" if each.holds else f"✗{NO_BREAK}no",
        )
        for each in facts.constraints.records
    ]
    header = ("constraint", "bound", "value", f"95{NO_BREAK}% interval", "holds")
    return TextTable(caption=f"Constraints on the {facts.sample} rows", header=header, rows=tuple(found))


def class_table(facts: Facts) -> TextTable | None:
    """Return the number of rows, the recall and the precision of every class."""
    if facts.confusion is None:
        return None
    before, after = matrices(facts.confusion.cells, n_classes=len(facts.classes))
    columns = [[amount(size) for size in before.sum(axis=1).tolist()]]
    for axis in (1, 0):
        for matrix in (before, after):
            pairs = zip(matrix.diagonal().tolist(), matrix.sum(axis=axis).tolist(), strict=True)
            columns.append([_share(hits / size if size else None) for hits, size in pairs])
    unit = "weight" if facts.confusion.weighted else "rows"
    header = ("class", unit, "recall before", "recall after", "precision before", "precision after")
    found = zip(facts.classes, *columns, strict=True)
    return TextTable(caption="Every class before and after", header=header, rows=tuple(found))


def group_table(facts: Facts) -> TextTable:
    """Return the accuracy and the mean recall of every group."""
    found = []
    for group in facts.groups:
        recalls = [[each.before for each in group.recalls], [each.after for each in group.recalls]]
        known = [[value for value in values if value is not None] for values in recalls]
        shares = [group.accuracy_before, group.accuracy_after, *(fmean(each) if each else None for each in known)]
        found.append((group.name, f"{group.n_rows:,}", f"{group.n_changed:,}", *map(_share, shares)))
    names = [f"{what} {when}" for what in ("accuracy", "mean recall") for when in ("before", "after")]
    return TextTable(
        caption="Every group before and after. The mean recall is over the classes that have rows in the group",
        header=("group", "rows", "labels changed", *names),
        rows=tuple(found),
    )


def group_recalls_table(facts: Facts) -> TextTable:
    """Return the recall of every class in every group in which it has rows."""
    found = [
        (group.name, name, f"{recall.n_rows:,}", _share(recall.before), _share(recall.after))
        for group in facts.groups
        for name, recall in zip(facts.classes, group.recalls, strict=True)
        if recall.n_rows
    ]
    header = ("group", "class", "rows", "recall before", "recall after")
    return TextTable(caption="Recall of every class in every group", header=header, rows=tuple(found))


def pairs_table(facts: Facts) -> TextTable | None:
    """Return the pairs of labels before and after, most frequent first."""
    pairs = facts.changes.pairs
    if not pairs:
        return None
    known = facts.changes.n_right is not None
    found = [
        (
            f"{facts.name(p.before)}{NO_BREAK}→{NO_BREAK}{facts.name(p.after)}",
            f"{p.n_rows:,}",
            *((f"{p.n_right:,}", f"{p.n_wrong:,}") if known else ()),
        )
        for p in pairs[:SHOWN_ROWS]
    ]
    some = f" (the {len(found)} most frequent pairs of {len(pairs)})" if len(pairs) > len(found) else ""
    header = ("label", "rows", *(("become right", "become wrong") if known else ()))
    return TextTable(caption=f"Labels before and after{some}", header=header, rows=tuple(found))


def changed_rows_table(facts: Facts) -> TextTable | None:
    """Return the first rows whose label changes."""
    if not facts.changes.rows:
        return None
    known = facts.changes.n_right is not None
    found = []
    for r in facts.changes.rows:
        outcome = "✓ right" if r.true == r.after else "✗ wrong" if r.true == r.before else "still wrong"
        truth = (facts.name(r.true), outcome.replace(" ", NO_BREAK)) if known else ()
        found.append(
            (f"{r.row:,}", facts.name(r.before), facts.name(r.after), *truth, f"{r.p_before:.3f}", f"{r.p_after:.3f}")
        )
    header = ("row", "before", "after", *(("truth", "outcome") if known else ()), "p(before)", "p(after)")
    which = f"The first {rows(len(found))} of {facts.changes.n_changed:,} whose label changes"
    caption = f"{which}, numbered from 0; p is the model's probability of the label"
    return TextTable(caption=caption, header=header, rows=tuple(found))


def conditioning_table(facts: Facts) -> TextTable | None:
    """Return how well the equations of the rules determined their weights."""
    if not facts.conditioning:
        return None
    found = [
        (
            each.rule,
            "not finite" if each.condition is None else f"{each.condition:,.3g}",
            "" if each.rank is None else f"{each.rank:,}",
        )
        for each in facts.conditioning
    ]
    header = ("rule", "largest condition number", "smallest rank")
    return TextTable(
        caption="Equations of the rules with a Frank-Wolfe loop, worst iteration", header=header, rows=tuple(found)
    )


def confusion_csv(facts: Facts) -> str:
    """Return the address of a CSV file with all cells."""
    cells = () if facts.confusion is None else facts.confusion.cells
    lines = [(facts.name(c.true), facts.name(c.predicted), c.before, c.after, c.after - c.before) for c in cells]
    return to_csv(("true", "predicted", "before", "after", "change"), lines)


def to_csv(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a CSV file as a data address; strings that spreadsheets would run as formulas are quoted."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_csv_cell(each) for each in line] for line in lines)
    return "data:text/csv;charset=utf-8," + quote(stream.getvalue(), safe="", errors="replace")


def _csv_cell(value: object) -> object:
    """Return a cell that no spreadsheet runs as a formula; strings that are numbers stay as they are."""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _share(value: float | None) -> str:
    """Return a share, or "none"."""
    return "none" if value is None else percent(value)
