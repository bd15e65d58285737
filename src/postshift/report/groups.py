"""Tables of groups of rows: accuracy, mean recall, and the recall of every class."""

from __future__ import annotations

from statistics import fmean

from postshift.report.facts import Facts, Group
from postshift.report.svg import Table
from postshift.report.text import percent


def group_tables(facts: Facts) -> tuple[Table, ...]:
    """Return a table with a line for every group, and one with a line for every class in every group."""
    if not facts.groups:
        return ()
    return _summary(facts), _recalls(facts)


def _summary(facts: Facts) -> Table:
    """Return the groups, one line each."""
    lines = [
        (
            group.name,
            f"{group.n_rows:,}",
            f"{group.n_changed:,}",
            percent(group.accuracy_before),
            percent(group.accuracy_after),
            _mean_recall(group, "before"),
            _mean_recall(group, "after"),
        )
        for group in facts.groups
    ]
    header = (
        "group", "rows", "labels changed", "accuracy before", "accuracy after", "mean recall before",
        "mean recall after",
    )  # fmt: skip
    caption = "Every group before and after. The mean recall is over the classes that have rows in the group"
    return Table(caption=caption, header=header, rows=tuple(lines))


def _recalls(facts: Facts) -> Table:
    """Return the classes of every group that have rows in it, one line each."""
    lines = [
        (group.name, name, f"{recall.n_rows:,}", _share(recall.before), _share(recall.after))
        for group in facts.groups
        for name, recall in zip(facts.classes, group.recalls, strict=True)
        if recall.n_rows
    ]
    header = ("group", "class", "rows", "recall before", "recall after")
    return Table(caption="Recall of every class in every group", header=header, rows=tuple(lines))


def _mean_recall(group: Group, when: str) -> str:
    """Return the mean over the classes that have rows; groups without any weight have none."""
    found = [getattr(recall, when) for recall in group.recalls]
    known = [value for value in found if value is not None]
    return _share(fmean(known) if known else None)


def _share(value: float | None) -> str:
    """Return a share, if there is one."""
    return "none" if value is None else percent(value)
