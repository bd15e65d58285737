"""The fitted rule in a run: the shifter and its bases in one skops file, the same bytes for the same rule."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from postshift._validation import FloatArray
from postshift.basis import Basis, GroupBasis
from postshift.cli._skops import import_skops
from postshift.cli.columns import listed, pick
from postshift.cli.errors import UsageError, first_line
from postshift.cli.groups import with_groups_of
from postshift.cli.run_files import RULE, as_written, damaged
from postshift.cli.tables import FileTable
from postshift.core.archive import write_atomically
from postshift.estimators.shifter import PostShifter

_SCHEMA = "schema.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can name


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedBasis:
    """A fitted basis and the columns it reads."""

    basis: Any
    columns: tuple[str, ...]

    def phi(self, table: FileTable) -> FloatArray:
        """Return the functions of the rows of a file."""
        for name in self.columns:
            pick(table, name, option="a column that a basis reads")
        rows = table.frame[list(self.columns)]
        if isinstance(self.basis, GroupBasis):
            rows = with_groups_of(self.basis, rows)
        try:
            return np.asarray(self.basis.transform(rows))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the columns {listed(self.columns)} of {table.path} cannot be read as in the fit: {first_line(error)}"
            ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleFile:
    """What labels new rows: a fitted PostShifter and its bases by name; ``path`` is where it was read from."""

    shifter: Any
    bases: Mapping[str, FittedBasis]
    path: Path = Path(RULE)

    def phi(self, table: FileTable) -> dict[str, FloatArray]:
        """Return the functions, by basis, that the rule reads."""
        needed = {rule.basis for rule in self.shifter.rule_.rules}
        return {name: basis.phi(table) for name, basis in self.bases.items() if name in needed}

    def named_functions(self, table: FileTable) -> dict[str, Any]:
        """Return the functions that the rule reads as frames with the names of the functions."""
        import pandas as pd

        return {
            name: pd.DataFrame(phi, columns=[str(each) for each in self.bases[name].basis.get_feature_names_out()])
            for name, phi in self.phi(table).items()
        }

    def labels(self, eta: FloatArray, table: FileTable) -> Any:
        """Return the labels of the rows of a file, whose probabilities are known."""
        with as_written(self.path):
            return self.shifter.predict(eta, self.phi(table))

    def distribution(self, eta: FloatArray, table: FileTable) -> Any:
        """Return the shifted distribution of the rows of a file, whose probabilities are known."""
        with as_written(self.path):
            return self.shifter.predict_distribution(eta, self.phi(table))

    def save(self, path: Path) -> None:
        """Write one skops file."""
        from postshift.persistence import dump

        import_skops()
        bases = {name: {"basis": each.basis, "columns": list(each.columns)} for name, each in self.bases.items()}
        with tempfile.TemporaryDirectory(prefix="postshift-") as folder:
            draft = Path(folder) / RULE
            dump({"shifter": self.shifter, "bases": bases}, draft)
            content = same_bytes(draft.read_bytes())
        write_atomically(path, lambda stream: stream.write(content))

    @staticmethod
    def load(path: Path) -> RuleFile:
        """Read what :meth:`save` wrote; no code of the file runs."""
        from postshift.persistence import load

        import_skops()
        found = load(path)
        with as_written(path):
            bases = {str(name): _fitted_basis(each) for name, each in found["bases"].items()}
            return RuleFile(shifter=_of_kind(found["shifter"], PostShifter), bases=bases, path=path)

    def check_classes(self, classes: Any) -> None:
        """Refuse a rule of other classes than the run's."""
        with as_written(self.path):
            if not np.array_equal(self.shifter.classes_, classes):
                raise damaged(
                    self.path, f"its classes are {listed(self.shifter.classes_)}, those of the run {listed(classes)}"
                )


def _fitted_basis(entry: Any) -> FittedBasis:
    """Return a basis of a rule file with its columns."""
    columns = tuple(_of_kind(name, str) for name in _of_kind(entry["columns"], list))
    return FittedBasis(basis=_of_kind(entry["basis"], Basis), columns=columns)


def _of_kind(value: Any, kind: type) -> Any:
    """Return a value of a rule file, refused where it is of another kind."""
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} is expected where there is a {type(value).__name__}")
    return value


def same_bytes(content: bytes) -> bytes:
    """Return a skops file without what differs from one process to the next: times, and addresses as numbers.

    skops calls parts by their addresses in memory; here they are numbered in the order in which they are named.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts.pop(_SCHEMA))
    numbers: dict[int, int] = {}
    files: dict[str, str] = {}
    schema = _renumbered(schema, numbers, files)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, part in sorted((files.get(name, name), part) for name, part in parts.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=_EPOCH), part)
        archive.writestr(zipfile.ZipInfo(_SCHEMA, date_time=_EPOCH), json.dumps(schema))
    return stream.getvalue()


def _renumbered(value: Any, numbers: dict[int, int], files: dict[str, str]) -> Any:
    """Return a part of the schema with its addresses replaced, in ``__id__`` and in the names of files."""
    if isinstance(value, list):
        return [_renumbered(each, numbers, files) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, each in value.items():
        if name == "__id__" and isinstance(each, int):
            found[name] = numbers.setdefault(each, len(numbers) + 1)
        elif name == "file" and isinstance(each, str):
            found[name] = files.setdefault(each, f"{len(files) + 1}{Path(each).suffix}")
        else:
            found[name] = _renumbered(each, numbers, files)
    return found
