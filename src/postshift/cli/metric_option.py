"""What ``--metric`` and ``--metric-command`` stand for: a name, a function in a file, a table of costs, a program."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal, Self, get_args

import numpy as np

from postshift._validation import unknown
from postshift.cli.columns import canonical, listed, pick
from postshift.cli.errors import FileError, UsageError, WorkError, one_line
from postshift.cli.inputs import Layout, Part
from postshift.cli.run_files import METRIC
from postshift.cli.tables import digest_of, read_bytes, read_table, suffix_of
from postshift.exceptions import MetricError
from postshift.metrics import ExpectedCost, PredictionFunction, from_labels, resolve_metric
from postshift.metrics.metadata import GROUPS, metadata_names
from postshift.metrics.named import with_positive_class
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
        return _name_of(self.text, self.kind)

    @property
    def copy(self) -> str | None:
        """What the copy of its file is called in a run."""
        return _copy_of(self.text, self.kind)

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


@dataclass(frozen=True, kw_only=True)
class StoredMetric:
    """The metric that a run remembers: what it is was decided once, by :meth:`of`.

    Attributes
    ----------
    text, kind
        As in :class:`MetricOption`.
    copy : str, optional
        The name of the copy of its file in the run's folder.
    digest : str, optional
        The digest of that copy.
    """

    text: str
    kind: Kind
    copy: str | None
    digest: str | None

    @classmethod
    def of(cls, content: Mapping[str, Any], *, copy: str | None, digest: str | None) -> Self:
        """Return the metric of run.json; a ValueError says what a fit would not have written."""
        text, kind = content.get("text"), content.get("kind")
        if not isinstance(text, str) or kind not in get_args(Kind):
            raise ValueError(f"the metric must have a text and one of the kinds {', '.join(get_args(Kind))}")
        if kind not in ("program", kind_of(text)):
            raise ValueError(f"the metric {text!r} is of kind {kind_of(text)!r} and is called {kind!r}")
        if kind == "file" and not _name_of(text, kind).isidentifier():
            raise ValueError(f"the metric {text!r} names no function")
        if copy != _copy_of(text, kind):
            raise ValueError(f"the copy of the metric must be called {_copy_of(text, kind)!r}, and is {copy!r}")
        if digest != content.get("digest") or (digest is None) != (copy is None):
            raise ValueError("the digest of the metric is not that of its copy")
        return cls(text=text, kind=kind, copy=copy, digest=digest)

    def read(self, layout: Layout, copy: Path | None, *, pos_label: str | None, trust: bool) -> MetricOption:
        """Return the metric; a Python file is run only where ``trust`` is, and then ``copy`` alone."""
        if self.kind == "program":
            raise UsageError(
                f"the metric of this run is the program {self.text!r}, which knows the validation rows only: score "
                "other rows with --metric NAME"
            )
        text = with_pos_label(self.text, pos_label, layout)
        if copy is None:
            return MetricOption(text=text, kind="name", metric=text)
        again = f"--metric FILE.py:{_name_of(self.text, self.kind)}"
        if self.kind == "file" and not trust:
            raise UsageError(
                f"the metric of this run is a Python file, and to read it runs it: add --trust-metric if you know "
                f"where the run comes from, or name the file again with {again}"
            )
        content = read_bytes(copy)
        if digest_of(content) != self.digest:
            raise FileError(
                f"{copy} is not the file that the run was made with (it has another digest): nothing of it was run; "
                f"name the metric with --metric, or fit again"
            )
        try:
            return _from_file(self.text, self.kind, copy, content, layout)
        except WorkError as error:
            raise WorkError(
                f"{error}; a run holds this file alone: name the one that it is a copy of with {again}"
            ) from error


def kind_of(text: str) -> Kind:
    """Return what a text of ``--metric`` stands for; nothing else decides it.

    Examples
    --------
    >>> kind_of("f1_macro"), kind_of("f1[spam.py:x]"), kind_of("my_metrics.py:profit"), kind_of("cost:costs.csv")
    ('name', 'name', 'file', 'cost')
    """
    if text.startswith(COST):
        return "cost"
    return "file" if PYTHON in text and not text.endswith("]") else "name"


def read_metric(text: str, layout: Layout) -> MetricOption:
    """Return the metric that a text of the user's stands for.

    Parameters
    ----------
    text : str
        A name, ``my_metrics.py:profit`` or ``cost:FILE.csv``.
    layout : Layout
        Has the classes, for a table of costs.
    """
    kind = kind_of(text)
    if kind == "name":
        return MetricOption(text=text, kind=kind, metric=text)
    path = _path_of(text, kind)
    folder = str(path.resolve().parent)  # looked in for what the file imports
    if kind == "file" and Path(folder).is_dir() and folder not in sys.path:
        sys.path.append(folder)
    return _from_file(text, kind, path, read_bytes(path), layout)


def _from_file(text: str, kind: Kind, path: Path, content: bytes, layout: Layout) -> MetricOption:
    """Return the metric of a file whose content was read."""
    digest = digest_of(content)
    if kind == "cost":
        metric: Any = ExpectedCost(_costs(path, layout))
    else:
        metric = _with_columns(_attribute(_module(path, content, digest), _name_of(text, kind), path))
    return MetricOption(text=text, kind=kind, metric=metric, source=path, digest=digest)


def with_pos_label(text: str, pos_label: str | None, layout: Layout) -> str:
    """Return the text of a metric with the class of ``--pos-label`` in brackets: ``f1`` and ``yes`` are ``f1[yes]``."""
    if pos_label is None:
        return text
    if kind_of(text) != "name":
        raise UsageError(f"--pos-label is for a metric by name, such as f1, and not for {text}: leave it out")
    return with_positive_class(text, pos_label, classes=layout.classes.array)


def _path_of(text: str, kind: Kind) -> Path:
    """Return the file that a text names."""
    return Path(text.removeprefix(COST) if kind == "cost" else text.rpartition(":")[0])


def _name_of(text: str, kind: Kind) -> str:
    """Return what a metric is called in tables and reports."""
    if kind == "file":
        return text.rpartition(":")[2]
    return f"expected cost ({_path_of(text, kind).name})" if kind == "cost" else text


def _copy_of(text: str, kind: Kind) -> str | None:
    """Return what the copy of a metric's file is called in a run; None where there is no file."""
    if kind == "file":
        return f"{METRIC}.py"
    return f"{METRIC}{suffix_of(_path_of(text, kind))}" if kind == "cost" else None


def _module(path: Path, content: bytes, digest: str) -> ModuleType:
    """Return a Python file as a module: what was read is run, and no compiled file beside it."""
    name = f"postshift_metric_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 -- the user's own metric
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
