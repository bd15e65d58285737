"""What the owner holds about the validation rows: labels, groups, what the metric reads, and the metric itself."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from postshift._validation import IntArray, check_count, check_labels, check_rows
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Query
from postshift.core.rows import Rows
from postshift.core.sums import categories_of
from postshift.estimators.task import reads_cells_only
from postshift.exceptions import MetricError, SettingError, ShapeError
from postshift.metrics import CellMetric, LabelFunction, LabelOracle, PredictionFunction, resolve_metric
from postshift.metrics.resolve import with_metadata

Mode = Literal["private", "trusted"]
KindOfAnswer = Literal["table", "confusion", "value"]
_LEAST_CHANGES = 12  # of labels from row to row, expected by chance: with fewer, chance could sort them
_LONGEST_PERIOD = 24  # rows: cases and controls in turns repeat after a few
KINDS_OF_ANSWER: tuple[KindOfAnswer, ...] = ("table", "confusion", "value")


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """The validation rows as their owner knows them.

    Attributes
    ----------
    ids : sequence of str
        The identifiers of the rows; the learner gets them.
    classes : sequence
        The class labels.
    labels : array of shape (n,)
        True classes as positions ``0..m-1``.
    metric : str, metric or callable
        What is scored, as in :class:`postshift.PostShifter`.
    groups : array of shape (n,), optional
        The group ``0..n_groups-1`` of each row.
    group_names : sequence of str
        The names of the groups.
    metadata : mapping of str to array of shape (n,)
        Other values that the metric reads: costs, amounts, ...
    released : str
        A CSV text with the identifiers and the features that the learner gets.
    """

    ids: Sequence[str]
    classes: Sequence[Any]
    labels: IntArray
    metric: Any
    groups: IntArray | None = None
    group_names: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    released: str = ""

    def __post_init__(self) -> None:
        """Raise if lengths differ, or identifiers occur twice."""
        n_rows = len(self.ids)
        check_rows(n_rows, name="validation")
        check_count(len(self.classes), name="the number of classes", low=2)
        check_labels(self.labels, n_rows=n_rows, n_classes=len(self.classes), name="labels")
        if len(set(self.ids)) != n_rows:
            often, times = Counter(self.ids).most_common(1)[0]
            raise SettingError(
                f"{n_rows - len(set(self.ids))} row identifiers occur more than once ({often!r} {times} times): make "
                "them unique"
            )
        if self.groups is not None:
            check_labels(self.groups, n_rows=n_rows, n_classes=max(2, len(self.group_names)), name="groups")
        for name, values in self.metadata.items():
            if np.shape(values)[:1] != (n_rows,):
                raise ShapeError(f"{name} must have one value for each of the {n_rows} rows. Got {np.shape(values)}")

    @property
    def n_rows(self) -> int:
        """Number of validation rows."""
        return len(self.ids)

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return len(self.classes)

    @cached_property
    def goal(self) -> ConfusionMetric | LabelFunction:
        """The metric, for which greater is better: a function of the confusion matrix, or of labels."""
        n_groups = None if self.groups is None else len(self.group_names)
        found = resolve_metric(self.metric, classes=np.asarray(self.classes), n_groups=n_groups)
        if isinstance(found, PredictionFunction):
            raise SettingError(f"metric {found.name!r} has its own labels: give a function of y_true and y_pred")
        if isinstance(found, LabelFunction) and not found.metadata and not found.takes_weights:
            whole = CellMetric(found, np.asarray(self.classes), total=float(self.n_rows), whole_rows=True)
            with suppress(MetricError, SystemExit):  # it raises for some predictions: it is a function of rows
                found = whole if reads_cells_only(whole, self._rows, whole.classes) else found
        return with_metadata(found, self.metadata)  # type: ignore[return-value]

    @property
    def _rows(self) -> Rows:
        """The rows with their labels; nothing is known of the probabilities."""
        return Rows.of(np.full((self.n_rows, self.n_classes), 1 / self.n_classes), labels=self.labels)

    def check_function(self) -> None:
        """Raise the error of a function of labels that cannot be computed on these rows."""
        if not isinstance(self.goal, LabelFunction):
            return
        classes = np.asarray(self.classes)
        oracle = LabelOracle(self.goal, self.labels, classes=classes, metadata=self.metadata)
        shown = np.random.default_rng(0).permutation(self.labels)
        oracle.answer(Query(key="check", kind="hard", text="random labels", n_rows=self.n_rows, _predict=lambda: shown))

    @property
    def takes_distributions(self) -> bool:
        """Whether the metric has a value for distributions; a function of whole rows has one for labels only."""
        return not isinstance(self.goal, LabelFunction) or self.goal.takes_weights

    @cached_property
    def psi(self) -> ConfusionMetric | None:
        """The metric as a function of the confusion matrix; None if it reads more than that."""
        if isinstance(self.goal, LabelFunction):
            return None
        if not isinstance(self.goal, CellMetric):
            return self.goal
        return replace(self.goal, total=float(self.n_rows))

    @property
    def n_categories(self) -> int:
        """Number of categories R: the classes, or the (group, class) pairs."""
        return int(getattr(self.psi, "n_categories", self.n_classes))

    @cached_property
    def categories(self) -> IntArray:
        """The category of each row."""
        in_groups = self.n_categories != self.n_classes
        size = {"n_classes": self.n_classes, "n_categories": self.n_categories}
        return categories_of(self.labels, self.groups if in_groups else None, **size)

    @cached_property
    def digest(self) -> str:
        """A digest of everything that answers depend on; answers belong to one digest."""
        found = hashlib.blake2b(digest_size=16)
        for text in (*self.ids, "/", *map(str, self.classes), "/", *map(str, self.group_names), "/", repr(self._about)):
            found.update(text.encode() + b"\0")
        for name, values in {"": self.labels, "groups": self.groups, **self.metadata}.items():
            if values is not None:
                array = np.asarray(values)
                plain = array.astype("<i8") if array.dtype.kind in "iub" else array.astype(str)
                found.update(f"{name}/{plain.dtype.str}".encode() + np.ascontiguousarray(plain).tobytes())
        return found.hexdigest()

    def known_by_order(self) -> str | None:
        """Return what the order of the rows or of their identifiers gives away, "label" or "group"; None if nothing.

        Learners get the rows in this order, at no cost.
        """
        numbers = all(name.isascii() and name.isdigit() for name in self.ids)
        by_name = sorted(range(self.n_rows), key=lambda row: int(self.ids[row]) if numbers else self.ids[row])
        for what, values in (("label", self.labels), ("group", self.groups)):
            if values is not None and any(_has_pattern(values[order]) for order in (slice(None), by_name)):
                return what
        return None

    @property
    def _about(self) -> str:
        """A text that identifies the metric."""
        return self.metric if isinstance(self.metric, str) else getattr(self.goal, "name", "")


def _has_pattern(codes: IntArray) -> bool:
    """Return whether codes are equal much more often than by chance, next to each other or at a fixed distance.

    Sorted rows are, and cases and controls in turns. It is the test of Wald and Wolfowitz, at several distances.
    """
    n, counts = len(codes), np.bincount(codes).astype(float)
    squares, cubes = (counts**2).sum(), (counts**3).sum()
    expected = n - squares / n  # places where the code changes, if the order is random
    if expected < _LEAST_CHANGES:
        return False
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    least = min(expected / 2, expected - 5 * np.sqrt(variance)) / n
    distances = range(1, min(_LONGEST_PERIOD, n // 8) + 1)
    return any(np.mean(codes[each:] != codes[:-each]) < least for each in distances)
