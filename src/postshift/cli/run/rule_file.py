"""The fitted rule of a run: the shifter and its bases in one skops file, the same bytes for the same rule."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.basis import Basis
from postshift.cli.basis_option import FittedBasis
from postshift.cli.errors import listed
from postshift.cli.files.file_rows import FileRows, Layout, RowReader
from postshift.cli.files.model_file import import_skops, read_model
from postshift.cli.run.folder import RULE, RunFolder, as_written, damaged, open_run
from postshift.estimators.shifter import PostShifter

_SCHEMA = "schema.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedRun:
    """A finished run that labels rows: its fitted PostShifter, its bases by name, and the user's model, if any."""

    run: RunFolder
    shifter: Any
    bases: Mapping[str, FittedBasis]
    model: Any

    @classmethod
    def open(cls, path: Path, *, trust_model: bool) -> LoadedRun:
        """Read a finished run; a joblib model is read only if it is trusted, and no code of the rule's file runs."""
        from postshift.persistence import load

        run = open_run(path)
        copy, file = run.model(), run.file(RULE)
        import_skops()
        found = load(file)
        with as_written(file):
            bases = read_bases(found["bases"])
            shifter = _of_kind(found["shifter"], PostShifter)
            if not np.array_equal(shifter.classes_, run.layout.classes):
                known, classes = listed(shifter.classes_), listed(run.layout.classes)
                raise damaged(file, f"its classes are {known}, but the classes of the run are {classes}")
        model = None if copy is None else read_model(copy, trust=trust_model)
        return cls(run=run, shifter=shifter, bases=bases, model=model)

    def reader(self, layout: Layout | None = None, **which: tuple[str, ...]) -> RowReader:
        """Return how rows are read, with the arguments ``needed`` and ``optional`` of :class:`RowReader`."""
        return RowReader(layout=layout or self.run.layout, model=self.model, **which)

    def phi(self, rows: FileRows) -> dict[str, FloatArray]:
        """Return the basis functions that the rule reads, by basis."""
        needed = {rule.basis for rule in self.shifter.rule_.rules}
        return {name: basis.phi(rows.table) for name, basis in self.bases.items() if name in needed}

    def labels(self, rows: FileRows) -> Any:
        """Return the labels of rows."""
        with self.rule_as_written():
            return self.shifter.predict(rows.eta, self.phi(rows))

    def codes(self, rows: FileRows) -> IntArray:
        """Return the labels of rows as positions of classes."""
        with self.rule_as_written():
            return self.shifter.rule_.labels(self.shifter._new_rows(rows.eta, self.phi(rows)))  # type: ignore[no-any-return]  # noqa: SLF001

    def distribution(self, rows: FileRows) -> Any:
        """Return the shifted class distribution of rows."""
        with self.rule_as_written():
            return self.shifter.predict_distribution(rows.eta, self.phi(rows))

    def rule_as_written(self) -> Any:
        """Report errors from the content of the rule's file as damage."""
        return as_written(self.run.path / RULE)


def _fitted_basis(entry: Any) -> FittedBasis:
    """Return a basis of a rule's file with its columns."""
    columns = tuple(_of_kind(name, str) for name in _of_kind(entry["columns"], list))
    return FittedBasis(basis=_of_kind(entry["basis"], Basis), columns=columns)


def _of_kind(value: Any, kind: type) -> Any:
    """Return a value of a rule's file; raise if it has another type."""
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} was expected. Got a {type(value).__name__} instead")
    return value


def rule_bytes(shifter: Any, bases: Mapping[str, FittedBasis]) -> bytes:
    """Return the content of the file of a rule."""
    from postshift.persistence.files import skops_bytes

    import_skops()
    return same_bytes(skops_bytes({"shifter": shifter, "bases": plain_bases(bases)}))


def plain_bases(bases: Mapping[str, FittedBasis]) -> dict[str, Any]:
    """Return bases as a file holds them; see :func:`read_bases`."""
    return {name: {"basis": each.basis, "columns": list(each.columns)} for name, each in bases.items()}


def read_bases(content: Mapping[str, Any]) -> dict[str, FittedBasis]:
    """Return the bases of a file by name."""
    return {str(name): _fitted_basis(each) for name, each in content.items()}


def same_bytes(content: bytes) -> bytes:
    """Return a skops file without times and memory addresses, which differ from one process to the next.

    skops names objects by their addresses; here they are numbered in the order in which they appear.
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
    """Return a part of the schema in which addresses are replaced, in ``__id__`` and in the names of files."""
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
