"""What ``--metric`` and ``--metric-command`` mean: a name, a function in a file, a table of costs, a URL, a program."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal, get_args

import numpy as np

from postshift._validation import unknown
from postshift.cli.errors import FileError, UsageError, WorkError, listed, one_line
from postshift.cli.files.file_rows import FileRows, Layout
from postshift.cli.files.file_table import digest_of, read_bytes, read_table, suffix_of
from postshift.cli.files.table_columns import canonical, pick
from postshift.exceptions import MetricError
from postshift.metrics import ExpectedCost, PredictionFunction, from_labels, resolve_metric
from postshift.metrics.named import with_positive_class
from postshift.metrics.resolve import GROUPS, metadata_names
from postshift.metrics.scorers import is_scorer

Kind = Literal["name", "file", "cost", "url", "program", "answers"]
COST, PYTHON, URLS = "cost:", ".py:", ("https://", "http://")


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricOption:
    """A metric as the user wrote it, and as the library takes it.

    Attributes
    ----------
    text : str
        As the user wrote it.
    kind : {"name", "file", "cost", "url", "program", "answers"}
        What it is; "answers" are scores that a person gives to ``postshift run tell``.
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
        """Its name in tables and reports; a service knows its own."""
        if self.kind == "url":
            return f"{self.metric.about.metric_name} at {self.text}"
        return _name_of(self.text, self.kind)

    @property
    def savable(self) -> Any:
        """The metric in the file of a rule: a user's function is stored beside that file, not in it."""
        return self.metric if self.kind in ("name", "cost") else self.text

    @property
    def keeps_labels(self) -> bool:
        """Whether it sees predictions only, because it has the labels of the validation rows itself."""
        return isinstance(self.metric, PredictionFunction) or hasattr(self.metric, "as_metric")

    def check(self, layout: Layout, groups: Any, *, asked: bool) -> None:
        """Raise if the metric does not fit these classes, or if it needs groups and there are none.

        ``asked`` says whether the user named groups: a metric that does not read them would ignore them.
        """
        if GROUPS in self.needed_metadata() and groups is None:
            raise UsageError(f"metric {self.name!r} is over groups of rows: name their column with --groups")
        reads = GROUPS in metadata_names(self.metric)
        n_groups = len(np.unique(groups)) if reads and groups is not None else None
        try:
            resolve_metric(self.metric, classes=layout.classes, n_groups=n_groups)
        except MetricError as error:
            raise UsageError(f"--metric {self.text}: {error}") from error
        if asked and not reads:
            raise UsageError(
                f"metric {self.name!r} does not read groups: leave --groups out, or use a metric over groups (see "
                "postshift metrics)"
            )

    def needed_metadata(self) -> frozenset[str]:
        """Return the names of the values of each row that the metric needs."""
        if is_scorer(self.metric):
            return frozenset()
        if isinstance(self.metric, FunctionType):
            return frozenset(from_labels(self.metric).metadata)
        return metadata_names(self.metric)

    def metadata(self, rows: FileRows) -> dict[str, Any]:
        """Return the values that the metric reads for each row: the groups, the weights, and other columns by name."""
        needed, found = self.needed_metadata(), {}
        for name in sorted(metadata_names(self.metric)):
            given = {GROUPS: rows.groups, "weights": rows.weights}.get(name)
            if given is None and (name in needed or name in rows.table.frame.columns) and name != GROUPS:
                given = pick(rows.table, name, option=f"an argument of metric {self.name!r}").to_numpy()
            if given is not None:
                found[name] = given
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the entry of run.json."""
        return {"text": self.text, "kind": self.kind, "name": self.name, "digest": self.digest}


def kind_of(text: str) -> Kind:
    """Return the kind of metric that a text of ``--metric`` names.

    Examples
    --------
    >>> kind_of("f1_macro"), kind_of("f1[spam.py:x]"), kind_of("my_metrics.py:profit"), kind_of("cost:costs.csv")
    ('name', 'name', 'file', 'cost')
    >>> kind_of("https://labels.example.org")
    'url'
    """
    if text.startswith(COST):
        return "cost"
    if text.startswith(URLS):
        return "url"
    return "file" if PYTHON in text and not text.endswith("]") else "name"


def copy_suffix(text: str, kind: Kind) -> str | None:
    """Return the suffix of the copy of the metric's file in a run; None if the metric has no file."""
    if kind == "file":
        return ".py"
    return suffix_of(_path_of(text, kind)) if kind == "cost" else None


def _path_of(text: str, kind: Kind) -> Path:
    """Return the file in a text of ``--metric``."""
    return Path(text.removeprefix(COST) if kind == "cost" else text.rpartition(":")[0])


def _name_of(text: str, kind: Kind) -> str:
    """Return the name of a metric in tables and reports."""
    if kind == "file":
        return text.rpartition(":")[2]
    return f"expected cost ({_path_of(text, kind).name})" if kind == "cost" else text


def read_metric(text: str, layout: Layout, *, pos_label: str | None = None) -> MetricOption:
    """Return the metric that ``--metric`` names: a name, ``my_metrics.py:profit`` or ``cost:FILE.csv``.

    A table of costs needs the classes of the layout. ``f1`` with the positive class ``yes`` is ``f1[yes]``.
    """
    kind = kind_of(text)
    _check_pos_label(text, kind, pos_label)
    if kind == "name":
        return _named(text, layout, pos_label)
    if kind == "url":
        return remote_option(text)
    path = _path_of(text, kind)
    folder = str(path.resolve().parent)  # modules that the file imports may be here
    if kind == "file" and Path(folder).is_dir() and folder not in sys.path:
        sys.path.append(folder)
    return _from_file(text, kind, path, read_bytes(path), layout)


def check_stored(content: Mapping[str, Any]) -> tuple[str, Kind]:
    """Return text and kind of the metric in run.json; raise ValueError for content that a fit does not write."""
    text, kind = content.get("text"), content.get("kind")
    if not isinstance(text, str) or kind not in get_args(Kind):
        raise ValueError(f"the metric must have a text, and its kind must be one of {', '.join(get_args(Kind))}")
    if kind not in ("program", "answers", kind_of(text)):
        raise ValueError(f"the metric {text!r} is of kind {kind_of(text)!r} and is called {kind!r}")
    if kind == "file" and not _name_of(text, kind).isidentifier():
        raise ValueError(f"the metric {text!r} names no function")
    return text, kind


def read_stored(
    text: str,
    kind: Kind,
    layout: Layout,
    *,
    copy: Path | None,
    digest: str | None,
    pos_label: str | None,
    trust: bool,
) -> MetricOption:
    """Return the metric of a run; a Python file is run only if ``trust``, and then only its ``copy``."""
    if kind in ("program", "answers", "url"):
        raise UsageError(
            f"the metric of this run is {text!r}, which can score the validation rows only: score other "
            "rows with --metric NAME"
        )
    _check_pos_label(text, kind, pos_label)
    if copy is None:
        return _named(text, layout, pos_label)
    again = f"--metric FILE.py:{_name_of(text, kind)}"
    if kind == "file" and not trust:
        raise UsageError(
            f"the metric of this run is a Python file, and reading it runs it: add --trust-metric if you trust the "
            f"source of the run, or name the file again with {again}"
        )
    content = read_bytes(copy)
    if digest_of(content) != digest:
        raise FileError(
            f"{copy} is not the file that the run was made with (its digest differs), so it was not run: name the "
            "metric with --metric, or fit again"
        )
    try:
        return _from_file(text, kind, copy, content, layout)
    except WorkError as error:
        raise WorkError(f"{error}; the run has a copy of this file only: name the original with {again}") from error


def _check_pos_label(text: str, kind: Kind, pos_label: str | None) -> None:
    """Raise if a positive class is given for a metric without a name."""
    if pos_label is not None and kind != "name":
        raise UsageError(f"--pos-label is for a metric by name, such as f1, not for {text}: leave it out")


def _named(text: str, layout: Layout, pos_label: str | None) -> MetricOption:
    """Return a metric by name, with its positive class in brackets if one is given."""
    if pos_label is not None:
        text = with_positive_class(text, pos_label, classes=layout.classes)
    return MetricOption(text=text, kind="name", metric=text)


def remote_option(url: str, *, rho: float | None = None, scale: float | None = None) -> MetricOption:
    """Return the metric that a service answers; its token is in the environment."""
    from postshift.oracle import RemoteMetric

    return MetricOption(text=url, kind="url", metric=RemoteMetric(url, rho=rho, scale=scale))


def _from_file(text: str, kind: Kind, path: Path, content: bytes, layout: Layout) -> MetricOption:
    """Return the metric of a file with this content."""
    digest = digest_of(content)
    if kind == "cost":
        metric: Any = ExpectedCost(_costs(path, layout))
    else:
        module, name = _module(path, content, digest), _name_of(text, kind)
        if not hasattr(module, name):
            public = [each for each in vars(module) if not each.startswith("_")]
            raise UsageError(f"{unknown(name, public, what='metric')} ({path})")
        metric = _with_columns(getattr(module, name))
    return MetricOption(text=text, kind=kind, metric=metric, source=path, digest=digest)


def _module(path: Path, content: bytes, digest: str) -> ModuleType:
    """Return a Python file as a module: this content is run, and never a compiled file."""
    name = f"postshift_metric_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 -- the user's metric
    except Exception as error:
        del sys.modules[name]
        raise WorkError(f"{path} cannot be imported: {type(error).__name__}: {one_line(error)}") from error
    # Other processes cannot import it: send its functions by value. joblib has a copy of cloudpickle, or uses the
    # package, depending on its version.
    for pickler in ("joblib.externals.cloudpickle", "cloudpickle"):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(pickler).register_pickle_by_value(module)
    return module


def _with_columns(found: Any) -> Any:
    """Return a function of labels and further columns as the library takes it.

    A function whose name suggests a loss, or a scorer (estimator, X, y), is returned as it is: the library raises an
    error that says what to do.
    """
    if not isinstance(found, FunctionType) or not from_labels(found).metadata:
        return found
    first = next(iter(inspect.signature(found).parameters))
    doubtful = first == "estimator" or found.__name__.rpartition("_")[2] in ("loss", "error", "cost")
    return found if doubtful else from_labels(found)


def _costs(path: Path, layout: Layout) -> Any:
    """Return the costs (m, m) in the order of the classes; rows are true classes, columns predicted ones."""
    frame, names = read_table(path).frame, list(layout.class_names)
    rows = {canonical(name): place for place, name in enumerate(frame[frame.columns[0]])}
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
