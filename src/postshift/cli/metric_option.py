"""What ``--metric`` and ``--metric-command`` stand for: a name, a function in a file, a table of costs, a program."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal

import numpy as np

from postshift._validation import unknown
from postshift.cli.columns import canonical, listed, pick
from postshift.cli.errors import FileError, UsageError, WorkError, one_line
from postshift.cli.inputs import Layout, Part
from postshift.cli.tables import digest_of, read_bytes, read_table
from postshift.exceptions import MetricError
from postshift.metrics import ExpectedCost, PredictionFunction, from_labels, resolve_metric
from postshift.metrics.catalogue import with_positive_class
from postshift.metrics.metadata import GROUPS, metadata_names
from postshift.metrics.scorers import is_scorer

Kind = Literal["name", "file", "cost", "program"]
COST, PYTHON = "cost:", ".py:"


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricOption:
    """A metric as it was asked for, and as the library takes it.

    Attributes
    ----------
    text : str
        As it was asked for.
    kind : {"name", "file", "cost", "program"}
        What it is.
    metric : object
        What the library takes.
    source : Path, optional
        The file it was read from; a run keeps a copy.
    digest : str, optional
        The file's digest.
    """

    text: str
    kind: Kind
    metric: Any
    source: Path | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """What it is called in tables and reports."""
        if self.kind in ("name", "program"):
            return self.text
        if self.kind == "file":
            return self.text.rpartition(":")[2]
        return f"expected cost ({Path(self.text.removeprefix(COST)).name})"

    @property
    def savable(self) -> Any:
        """What a rule's file can hold of it: a function of the user's is kept beside the rule, not in it."""
        return self.metric if self.kind in ("name", "cost") else self.text

    @property
    def keeps_labels(self) -> bool:
        """Whether it is shown predictions only, and knows the labels of the validation rows by itself."""
        return isinstance(self.metric, PredictionFunction)

    def check(self, layout: Layout, groups: Any, *, asked: bool) -> None:
        """Refuse a metric that cannot be read for these classes, or that is over groups where none are named.

        ``asked`` says whether the user named groups, which a metric that does not read them would pass over.
        """
        if GROUPS in self.needed_metadata() and groups is None:
            raise UsageError(f"metric {self.name!r} is over groups of rows: name their column with --groups")
        if asked and GROUPS not in metadata_names(self.metric):
            raise UsageError(
                f"metric {self.name!r} does not read groups: leave --groups out, or take a metric over groups (see "
                "postshift metrics)"
            )
        reads = GROUPS in metadata_names(self.metric)
        n_groups = len(np.unique(groups)) if reads and groups is not None else None
        try:
            resolve_metric(self.metric, classes=layout.classes.array, n_groups=n_groups)
        except MetricError as error:
            raise UsageError(f"--metric {self.text}: {error}") from error

    def positive_class(self, layout: Layout, groups: Any) -> str | None:
        """Return the class that the metric is about, where it is about one."""
        n_groups = None if groups is None else len(np.unique(groups))
        found = resolve_metric(self.metric, classes=layout.classes.array, n_groups=n_groups)
        names = [str(layout.class_values[place]) for place in getattr(found, "positive_classes", ())]
        return ", ".join(names) or None

    def needed_metadata(self) -> frozenset[str]:
        """Return the names of what the metric must be given of each row."""
        if is_scorer(self.metric):
            return frozenset()
        if isinstance(self.metric, FunctionType):
            return frozenset(from_labels(self.metric).metadata)
        return metadata_names(self.metric)

    def metadata(self, part: Part) -> dict[str, Any]:
        """Return what the metric reads of each row: the groups, the weights, and other columns by their names."""
        needed, found = self.needed_metadata(), {}
        for name in sorted(metadata_names(self.metric)):
            given = {GROUPS: part.groups, "weights": part.weights}.get(name)
            if given is None and (name in needed or name in part.table.frame.columns) and name != GROUPS:
                given = pick(part.table, name, option=f"an argument of metric {self.name!r}").to_numpy()
            if given is not None:
                found[name] = given
        return found

    def to_json(self) -> dict[str, Any]:
        """Return what a run remembers of it."""
        return {"text": self.text, "kind": self.kind, "name": self.name, "digest": self.digest}


def read_metric(text: str, layout: Layout, *, file: Path | None = None) -> MetricOption:
    """Return the metric that a text stands for.

    Parameters
    ----------
    text : str
        A name, ``my_metrics.py:profit`` or ``cost:FILE.csv``.
    layout : Layout
        Has the classes, for a table of costs.
    file : Path, optional
        A copy of the file to read, in place of the one that the text names.
    """
    if text.startswith(COST):
        path = file or Path(text.removeprefix(COST))
        metric: Any = ExpectedCost(_costs(path, layout))
        return MetricOption(text=text, kind="cost", metric=metric, source=path, digest=digest_of(path.read_bytes()))
    if PYTHON in text:
        original, _, name = text.rpartition(":")
        path = file or Path(original)
        digest = digest_of(read_bytes(path))
        metric = _with_columns(_attribute(imported(path, digest, folder=Path(original).resolve().parent), name, path))
        return MetricOption(text=text, kind="file", metric=metric, source=path, digest=digest)
    return MetricOption(text=text, kind="name", metric=text)


def with_pos_label(text: str, pos_label: str | None, layout: Layout) -> str:
    """Return the text of a metric with the class of ``--pos-label`` in brackets: ``f1`` and ``yes`` are ``f1[yes]``."""
    if pos_label is None:
        return text
    if text.startswith(COST) or PYTHON in text:
        raise UsageError(f"--pos-label is for a metric by name, such as f1, and not for {text}: leave it out")
    return with_positive_class(text, pos_label, classes=layout.classes.array)


def imported(path: Path, digest: str, *, folder: Path) -> ModuleType:
    """Return a Python file as a module; its folder is looked in for what it imports."""
    name = f"postshift_metric_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileError(f"{path} cannot be imported: give a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if folder.is_dir() and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise WorkError(f"{path} cannot be imported: {type(error).__name__}: {one_line(error)}") from error
    _pickled_by_value(module)
    return module


def _attribute(module: ModuleType, name: str, path: Path) -> Any:
    """Return a name of a module; where there is none, the nearest is offered."""
    if not hasattr(module, name):
        public = [each for each in vars(module) if not each.startswith("_")]
        raise UsageError(f"{unknown(name, public, what='metric')} ({path})")
    return getattr(module, name)


def _with_columns(found: Any) -> Any:
    """Return a function of labels that needs further columns as the library takes it.

    What by its names may be a loss, or a scorer (estimator, X, y), stays as it is: the library says what to do.
    """
    if not isinstance(found, FunctionType) or not from_labels(found).metadata:
        return found
    first = next(iter(inspect.signature(found).parameters))
    doubtful = first == "estimator" or found.__name__.rpartition("_")[2] in ("loss", "error", "cost")
    return found if doubtful else from_labels(found)


def _pickled_by_value(module: ModuleType) -> None:
    """Let other processes have the functions of a module that they cannot import.

    joblib brings cloudpickle along, or takes the package; which of them depends on its version.
    """
    for name in ("joblib.externals.cloudpickle", "cloudpickle"):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name).register_pickle_by_value(module)


def _costs(path: Path, layout: Layout) -> Any:
    """Return the costs (m, m) in the order of the classes, rows true and columns predicted."""
    table = read_table(path)
    frame, names = table.frame, list(layout.class_names)
    first = frame.columns[0]
    rows = {canonical(name): place for place, name in enumerate(frame[first])}
    columns: Mapping[str, str] = {canonical(name): name for name in frame.columns[1:]}
    for found, what in ((rows, "first column"), (columns, "header")):
        if sorted(found) != sorted(names):
            raise UsageError(
                f"the {what} of {path} must name the {len(names)} classes {listed(names)}. Got {listed(found)}"
            )
    ordered = frame.iloc[[rows[name] for name in names]][[columns[name] for name in names]]
    try:
        costs = ordered.to_numpy(dtype=np.float64)
    except ValueError as error:
        raise UsageError(f"the costs in {path} must be numbers: {error}") from error
    if not np.isfinite(costs).all():
        raise UsageError(f"the costs in {path} must be finite numbers, one in each cell")
    return costs
