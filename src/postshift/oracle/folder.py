"""The owner's folder: what is held, on which terms, and the ledger.

================  ==================================================================================
file              what it holds
================  ==================================================================================
owner.json        format, terms, the metric as text, names of classes and groups, digests
rows.npz          identifiers, labels, groups, and what else the metric reads
released.csv      identifiers and released features: what learners get
metric.*          a copy of the metric's file, if there is one
ledger.db         the ledger, unless it is in a database of its own
watermark.json    the last answer that was given out, so that a restored ledger is recognised
================  ==================================================================================

Only its owner can read the folder. Nothing in it is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from postshift.core.archive import CONTENT_ERRORS, contradicting, read_archive, write_archive, write_atomically
from postshift.exceptions import ArchiveError, PostshiftWarning, SettingError
from postshift.oracle.holdings import Holdings
from postshift.oracle.ledger import Ledger
from postshift.oracle.service import Service, Terms

FORMAT = 1
OWNER, ROWS, RELEASED, METRIC, LEDGER, WATERMARK = (
    "owner.json",
    "rows.npz",
    "released.csv",
    "metric",
    "ledger.db",
    "watermark.json",
)
_KIND = "oracle rows"
_EXTRA = "also/"


@dataclass(frozen=True, kw_only=True)
class OwnersMetric:
    """The metric as its owner wrote it.

    Attributes
    ----------
    text : str
        A name, ``FILE.py:function`` or ``cost:FILE.csv``.
    kind : str
        What it is: "name", "file" or "cost".
    copy : str, optional
        The file in the folder that has the copy.
    digest : str, optional
        The digest of the copy.
    """

    text: str
    kind: str
    copy: str | None = None
    digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class OwnerFolder:
    """An owner's folder without its rows: what ``owner.json`` says.

    Attributes
    ----------
    path : Path
        The folder.
    terms : Terms
        What the owner allows.
    metric : OwnersMetric
        The metric.
    classes : tuple
        The class labels.
    groups : tuple of str
        Names of the groups.
    about : str
        The digest of the rows and the metric: answers belong to it.
    database : str, optional
        The URL of the ledger's database; by default it is in the folder.
    """

    path: Path
    terms: Terms
    metric: OwnersMetric
    classes: tuple[Any, ...]
    groups: tuple[str, ...]
    about: str
    database: str | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        holdings: Holdings,
        terms: Terms,
        metric: OwnersMetric,
        *,
        copy: bytes | None = None,
        database: str | None = None,
    ) -> Self:
        """Write a new folder with an empty ledger; ``owner.json`` comes last, and without it there is no folder."""
        check_database(database)
        Service.check(holdings, terms)
        if terms.mode == "private" and (known := holdings.known_by_order()):
            raise SettingError(
                f"the rows, or their identifiers, are sorted by {known}, or the {known}s repeat in a pattern: learners "
                f"get the rows in this order, so it would give away the {known}s at no cost. Shuffle the rows, and "
                "give them other identifiers, here and at the learners"
            )
        if path.exists() and not path.is_dir():
            raise SettingError(f"{path} is a file: name a new folder")
        if path.exists() and any(path.iterdir()):
            raise SettingError(f"{path} is not empty: name a new folder")
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        with _emptied_on_error(path):
            return cls._written(path, holdings, terms, metric, copy=copy, database=database)

    @classmethod
    def _written(
        cls,
        path: Path,
        holdings: Holdings,
        terms: Terms,
        metric: OwnersMetric,
        *,
        copy: bytes | None,
        database: str | None,
    ) -> Self:
        """Write the files of a new folder."""
        also = {f"{_EXTRA}{name}": np.asarray(values) for name, values in holdings.metadata.items()}
        groups = {} if holdings.groups is None else {"groups": holdings.groups}
        arrays = {"ids": np.asarray(holdings.ids, dtype=str), "labels": holdings.labels, **groups, **also}
        write_archive(path / ROWS, kind=_KIND, header={}, arrays=arrays)
        write_atomically(path / RELEASED, lambda stream: stream.write(holdings.released.encode()))
        if copy is not None and metric.copy is not None:
            write_atomically(path / metric.copy, lambda stream: stream.write(copy))
        found = cls(
            path=path,
            terms=terms,
            metric=metric,
            classes=tuple(holdings.classes),
            groups=tuple(map(str, holdings.group_names)),
            about=holdings.digest,
            database=database,
        )
        Ledger.create(found.url, about=found.about, budget=terms.budget, watermark=path / WATERMARK).close()
        content = {**asdict(found), "format": FORMAT}
        del content["path"]
        write_atomically(path / OWNER, lambda stream: stream.write(json.dumps(content, indent=2).encode()))
        return found

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return what ``owner.json`` of a folder says."""
        try:
            content = json.loads((path / OWNER).read_bytes())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ArchiveError(f"{path} is not a folder of postshift oracle init: it has no {OWNER}") from error
        except (ValueError, RecursionError) as error:
            raise ArchiveError(f"{path / OWNER} is damaged: restore it from a copy") from error
        found = content.pop("format", None) if isinstance(content, dict) else None
        if found != FORMAT:
            raise ArchiveError(
                f"{path / OWNER} has format {found!r}; this version of postshift reads format {FORMAT}: use the "
                "version that wrote it"
            )
        with contradicting(path / OWNER):
            terms = Terms(**_terms(content))
            check_database(content["database"])
            return cls(
                path=path,
                terms=terms,
                metric=_metric(content),
                classes=tuple(content["classes"]),
                groups=tuple(content["groups"]),
                about=str(content["about"]),
                database=content["database"],
            )

    @property
    def url(self) -> str | Path:
        """The ledger's database: a URL, or a file."""
        return self.database or self.path / LEDGER

    def ledger(self, **how: Any) -> Ledger:
        """Open the ledger; warn if nothing shows that it is the newest copy."""
        if not (self.path / WATERMARK).exists():
            warnings.warn(
                f"{self.path / WATERMARK} is missing, so an older copy of the ledger would not be recognised: make "
                "sure that this is the newest one",
                PostshiftWarning,
                stacklevel=2,
            )
        return Ledger.open(self.url, about=self.about, watermark=self.path / WATERMARK, **how)

    def holdings(self, metric: Any) -> Holdings:
        """Return what is held; ``metric`` is the metric itself, as the library takes it."""
        released = self.path / RELEASED
        for file in (self.path / ROWS, released):
            if not file.is_file():
                raise ArchiveError(f"{file} is missing: restore it from a copy")
        _, arrays = read_archive(self.path / ROWS, kind=_KIND)
        try:
            found = Holdings(
                ids=arrays["ids"].tolist(),
                classes=self.classes,
                labels=arrays["labels"],
                metric=metric,
                groups=arrays.get("groups"),
                group_names=self.groups,
                metadata={name.removeprefix(_EXTRA): arrays[name] for name in arrays if name.startswith(_EXTRA)},
                released=released.read_text("utf-8"),
            )
        except CONTENT_ERRORS as error:
            raise ArchiveError(f"{self.path} was changed after it was written: {error}") from error
        if found.digest != self.about:
            raise ArchiveError(
                f"the rows or the metric in {self.path} were changed, but its ledger belongs to the old ones"
            )
        return found

    def service(self, metric: Any) -> Service:
        """Return the service of the folder."""
        return Service(self.holdings(metric), self.terms, self.ledger())


@contextlib.contextmanager
def _emptied_on_error(path: Path) -> Iterator[None]:
    """Remove all files of a new folder, and the labels with them, if it cannot be completed."""
    try:
        yield
    except BaseException:
        for file in path.iterdir():
            file.unlink()
        raise


def check_database(url: str | None) -> None:
    """Raise for a URL of another kind, or one with a password: it would be written into a file."""
    if url is None:
        return
    if not url.startswith(("postgresql+psycopg://", "postgresql://")):
        raise SettingError(f"the database must be a URL postgresql://USER@HOST/NAME. Got {url.partition('://')[0]!r}")
    if _has_password(url):
        raise SettingError("the URL of the database has a password: leave it out, and set PGPASSWORD or a .pgpass file")


def _has_password(url: str) -> bool:
    """Return whether a URL of a database has a password, before the host or among its parameters."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except ArgumentError as error:
        raise SettingError(f"the URL of the database cannot be read ({error}): postgresql://USER@HOST/NAME") from error
    return bool(found.password) or any("pass" in name.lower() for name in found.query)


def _terms(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of ``owner.json``."""
    return {**content["terms"], "kinds": tuple(content["terms"]["kinds"])}


def _metric(content: Mapping[str, Any]) -> OwnersMetric:
    """Return the metric of ``owner.json``; raise if its copy is outside of the folder."""
    found = OwnersMetric(**content["metric"])
    if found.copy is not None and Path(found.copy).name != found.copy:
        raise ValueError(f"the copy of the metric is at {found.copy!r}, outside of the folder")
    return found
