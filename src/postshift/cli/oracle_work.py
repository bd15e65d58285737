"""The work of ``postshift oracle``: from the owner's files to a folder, and from a folder to a server."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.console import Console
from postshift.cli.errors import FileError, UsageError, WorkError, listed
from postshift.cli.files.file_rows import Layout
from postshift.cli.files.file_table import FileTable, digest_of, read_bytes, read_table
from postshift.cli.files.table_columns import canonical, classes_of, labels_of, pick
from postshift.cli.metric_option import MetricOption, copy_suffix, kind_of, read_metric, read_stored
from postshift.exceptions import ClockError, RestoredError
from postshift.metrics.resolve import GROUPS
from postshift.oracle.folder import METRIC, WATERMARK, OwnerFolder, OwnersMetric
from postshift.oracle.holdings import KINDS_OF_ANSWER, Holdings
from postshift.oracle.ledger import Ledger
from postshift.oracle.privacy import attack_bound, epsilon_of, micro
from postshift.oracle.service import Service, Terms, log_line, token_line
from postshift.oracle.wire import MICRO

LIFETIME = timedelta(days=30)
_USUAL = {"private": ("table", "confusion"), "trusted": ("confusion", "value")}
_BUDGETS = {"private": 0.1, "trusted": 100}
_ID = "id"  # the column of identifiers that learners get
_PORT_TAKEN = (errno.EADDRINUSE, errno.EACCES)
_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class OwnerRequest:
    """The options of ``postshift oracle init``."""

    folder: Path
    data: Path
    label: str
    metric: str
    ids: str | None
    groups: str | None
    release: tuple[str, ...]
    mode: str
    kinds: tuple[str, ...]
    rho: float | None
    queries: int | None
    pos_label: str | None
    title: str
    database: str | None

    def terms(self) -> Terms:
        """Return the terms; raise for options of the other mode."""
        if self.mode not in _USUAL:
            raise UsageError(f"--mode must be private or trusted. Got {self.mode!r}")
        if self.mode == "private" and self.queries is not None:
            raise UsageError("--queries is for trusted mode; in private mode, the budget is --rho")
        if self.mode == "trusted" and self.rho is not None:
            raise UsageError("--rho is for private mode; in trusted mode, the budget is --queries")
        if strange := [kind for kind in self.kinds if kind not in KINDS_OF_ANSWER]:
            raise UsageError(f"--kind must be one of {', '.join(KINDS_OF_ANSWER)}. Got {listed(strange)}")
        option, given = ("--rho", self.rho) if self.mode == "private" else ("--queries", self.queries)
        if given is not None and not given > 0:
            raise UsageError(f"{option} is the budget and must be above 0. Got {given:g}")
        amount = _BUDGETS[self.mode] if given is None else given
        budget = micro(float(amount)) if self.mode == "private" else int(amount)
        kinds: Any = tuple(dict.fromkeys(self.kinds)) or _USUAL[self.mode]
        return Terms(mode=self.mode, kinds=kinds, budget=budget, title=self.title)  # type: ignore[arg-type]


def create(request: OwnerRequest) -> dict[str, Any]:
    """Write the folder, and return what is shown of it."""
    terms, table = request.terms(), read_table(request.data, as_text=[] if request.ids is None else [request.ids])
    if kind_of(request.metric) == "url":
        raise UsageError(
            f"--metric {request.metric} is another service, and this one computes the metric itself: give a name, "
            "FILE.py:function or cost:FILE.csv"
        )
    layout = _layout(table, request)
    metric = read_metric(request.metric, layout, pos_label=request.pos_label)
    holdings = _holdings(table, request, layout, metric)
    holdings.check_function()
    if holdings.psi is None and (terms.mode, terms.kinds) != ("trusted", ("value",)):
        raise UsageError(
            f"metric {metric.name!r} reads more of the rows than how many there are of each true and predicted class, "
            "so only its exact values can be answered: choose a metric of the confusion matrix; or, for learners to "
            "whom you would show the labels, give --mode trusted --kind value"
        )
    suffix = copy_suffix(metric.text, metric.kind)
    stored = OwnersMetric(
        text=metric.text, kind=metric.kind, copy=None if suffix is None else f"{METRIC}{suffix}", digest=metric.digest
    )
    content = None if metric.source is None else read_bytes(metric.source)
    folder = OwnerFolder.create(request.folder, holdings, terms, stored, copy=content, database=request.database)
    with contextlib.closing(folder.ledger()) as ledger:
        _, token = ledger.create_token("owner", scope="owner", expires=None, most=None, per_minute=None)
    return {
        "folder": str(request.folder),
        "rows": holdings.n_rows,
        "metric": metric.name,
        "mode": terms.mode,
        "kinds": list(terms.kinds),
        "budget": terms.budget,
        "budget_text": amount_text(terms, terms.budget),
        "risk": risk_text(terms),
        "token": token,
        "serve": f"postshift oracle serve {request.folder}{' --trust-metric' if metric.kind == 'file' else ''}",
    }


def amount_text(terms: Terms, amount: int) -> str:
    """Return an amount of the budget in words."""
    if terms.mode == "trusted":
        return f"{amount:,} {'query' if amount == 1 else 'queries'}"
    epsilon = epsilon_of(amount, delta=terms.delta) if amount else 0.0
    return f"rho {amount / MICRO:g} (epsilon {epsilon:.2f} at delta {terms.delta:g})"


def risk_text(terms: Terms) -> str:
    """Return what the terms protect, in words."""
    if terms.mode == "trusted":
        return (
            "warning: exact answers give labels away. A learner who wants to can read a label or a group from a few "
            "queries, whatever the budget: serve this only to those whom you would show the labels"
        )
    return (
        f"whatever is asked, a guess between two values of a row's label or group is right in at most "
        f"{attack_bound(terms.budget):.1%} of cases (50 % without any answer), if the rows are not offered elsewhere"
    )


def _layout(table: FileTable, request: OwnerRequest) -> Layout:
    """Return the roles of the columns, with the classes of the label column."""
    series = pick(table, request.label, option="--label")
    _check_repeats(table, request.label, option="--label")
    names = sorted({canonical(value) for value in series.dropna().unique()}, key=_as_number)
    if len(names) < 2:
        raise UsageError(
            f"column {request.label!r} of {table.path} has {len(names)} of the two or more classes that are needed "
            f"({listed(names) or 'it is empty'}): name the column of the true classes with --label"
        )
    class_names, class_values = classes_of(names, series)
    return Layout(class_names=class_names, class_values=class_values, label=request.label, groups=request.groups)


def _check_repeats(table: FileTable, name: str, *, option: str) -> None:
    """Raise for a column whose values seldom repeat: it does not hold classes or groups."""
    column = table.frame[name].dropna()
    if len(column) > 2 and column.nunique() > len(column) / 2:
        raise UsageError(
            f"column {name!r} of {table.path} has {column.nunique():,} different values in {len(column):,} rows: name "
            f"a column that says which of a few each row belongs to with {option}"
        )


def _as_number(name: str) -> tuple[int, float, str]:
    """Return a key that sorts numbers by value, before texts."""
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name


def _holdings(table: FileTable, request: OwnerRequest, layout: Layout, metric: MetricOption) -> Holdings:
    """Return what the owner holds."""
    names = layout.class_names
    values = labels_of(table, request.label, names=names, values=layout.class_values)
    codes = {canonical(value): place for place, value in enumerate(layout.class_values)}
    groups, group_names = _groups(table, request, metric)
    metric.check(layout, groups, asked=groups is not None)
    also = {name: _read_by(metric, table, name) for name in sorted(metric.needed_metadata() - {GROUPS})}
    ids = [str(row) for row in range(len(table.frame))]
    if request.ids is not None:
        column = pick(table, request.ids, option="--id")
        _check_complete(table, request.ids, what="identifier")
        ids = [str(each) for each in column]
    return Holdings(
        ids=ids,
        classes=np.asarray(layout.class_values).tolist(),
        labels=np.array([codes[canonical(value)] for value in values]),
        metric=metric.metric if metric.kind != "name" else metric.text,
        groups=groups,
        group_names=group_names,
        metadata=also,
        released=_released(table, request, ids),
    )


def _read_by(metric: MetricOption, table: FileTable, name: str) -> Any:
    """Return a column that the metric reads, as numbers or texts."""
    column = pick(table, name, option=f"an argument of metric {metric.name!r}")
    _check_complete(table, name, what=f"value for metric {metric.name!r}")
    values = column.to_numpy()
    return values.astype(str) if values.dtype.kind == "O" else values


def _check_complete(table: FileTable, name: str, *, what: str) -> None:
    """Raise if a column has empty cells."""
    missing = table.frame[name].isna().to_numpy()
    if missing.any():
        raise UsageError(
            f"{table.place} has {int(missing.sum())} rows without {'an' if what[0] in 'aeiou' else 'a'} {what} in "
            f"column {name!r}, the first is {table.row(missing)}: fill these cells, or drop the rows"
        )


def _groups(table: FileTable, request: OwnerRequest, metric: MetricOption) -> tuple[Any, tuple[str, ...]]:
    """Return the groups of the rows as positions, and their names."""
    needed = GROUPS in metric.needed_metadata()
    if request.groups is None:
        if needed:
            raise UsageError(f"metric {metric.name!r} is over groups of rows: name their column with --groups")
        return None, ()
    series = pick(table, request.groups, option="--groups")
    _check_complete(table, request.groups, what="group")
    _check_repeats(table, request.groups, option="--groups")
    names, places = np.unique(series.astype(str).to_numpy(dtype=str), return_inverse=True)
    return places, tuple(names.tolist())


def _released(table: FileTable, request: OwnerRequest, ids: list[str]) -> str:
    """Return identifiers and released columns as CSV; raise if what is private is among them."""
    import pandas as pd

    for name in request.release:
        if name in (request.label, request.groups):
            raise UsageError(f"--release {name} would show learners what the service is to keep: leave it out")
        if name == _ID and name != request.ids:
            raise UsageError(f"--release {name}: learners get the identifiers under this name; rename the column")
        pick(table, name, option="--release")
    columns = {name: table.frame[name] for name in request.release if name != _ID}
    released = pd.DataFrame({_ID: ids, **columns})
    return str(released.to_csv(index=False, lineterminator="\n"))


# -- an existing folder ---------------------------------------------------------------------------------


def open_service(path: Path, *, trust_metric: bool = False) -> Service:
    """Return the service of a folder; a Python file is run only if it is trusted."""
    folder = OwnerFolder.open(path)
    stored = folder.metric
    copy = None if stored.copy is None else path / stored.copy
    _check_copy(path, stored, trust=trust_metric)
    names = tuple(canonical(value) for value in folder.classes)
    layout = Layout(class_names=names, class_values=folder.classes, label="label")
    try:
        chosen = read_stored(
            stored.text,
            stored.kind,  # type: ignore[arg-type]
            layout,
            copy=copy,
            digest=stored.digest,
            pos_label=None,
            trust=trust_metric,
        )
    except WorkError as error:
        raise WorkError(
            f"{error.__cause__ or error}; the folder has a copy of this file only: what it imports must be installed, "
            "or be in a folder of PYTHONPATH"
        ) from None
    return folder.service(chosen.metric if chosen.kind != "name" else chosen.text)


def _check_copy(path: Path, stored: OwnersMetric, *, trust: bool) -> None:
    """Raise if the copy of the metric's file was changed, or is a Python file that is not trusted."""
    if stored.kind == "file" and not trust:
        raise UsageError(
            f"the metric of {path} is a Python file, and serving runs it: add --trust-metric if you trust its source"
        )
    if stored.copy is not None and digest_of(read_bytes(path / stored.copy)) != stored.digest:
        raise FileError(
            f"{path / stored.copy} is not the metric that the folder was made with (its digest differs), so it was not "
            "run: restore it from a copy"
        )


def serve(
    path: Path,
    console: Console,
    *,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    behind_proxy: bool,
    trust_metric: bool,
) -> None:
    """Serve a folder until the process is stopped."""
    from postshift.oracle.app import create_app
    from postshift.oracle.server import server_of

    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key belong together: give both")
    if host not in _LOCAL and certificate is None and not behind_proxy:
        raise UsageError(
            f"on {host}, tokens would be sent without encryption: give --certificate and --key, or --behind-proxy if a "
            "proxy encrypts the connection"
        )
    for file in filter(None, (certificate, key)):
        if not file.is_file():
            raise FileError(f"there is no file {file}: check the path")
    if certificate is not None and key is not None:
        _check_certificate(certificate, key)
    service = open_service(path, trust_metric=trust_metric)
    with contextlib.closing(service.ledger), _listening(host, port) as place:
        service.ledger.check_clock()
        server = server_of(create_app(service), certificate=certificate, key=key, behind_proxy=behind_proxy)
        scheme = "http" if certificate is None else "https"
        shown = f"[{host}]" if ":" in host else host
        console.say(f"serving {path} at {scheme}://{shown}:{place.getsockname()[1]} ({service.terms.mode} mode)")
        console.say(risk_text(service.terms))
        server.run(sockets=[place])


def _check_certificate(certificate: Path, key: Path) -> None:
    """Raise unless two files are a certificate and its private key."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:  # also ssl.SSLError
        raise FileError(
            f"{certificate} and {key} cannot be used as a certificate and its private key ({error.strerror or error}): "
            "give two files in PEM format that belong together"
        ) from error


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens; raise if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay (TCP_NODELAY) only if the protocol is named; else each answer takes 40 ms more
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((host, port))
        except OSError as error:
            option = "--port" if error.errno in _PORT_TAKEN else "--host"
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}: choose another {option}") from error
        yield place


def log_lines(path: Path, *, limit: int) -> list[dict[str, Any]]:
    """Return the last lines of the log, the newest first."""
    with _ledger(path) as ledger:
        return [log_line(line) for line in ledger.lines(limit=limit)]


def unit_of(path: Path) -> str:
    """Return the unit of costs in the ledger of a folder."""
    return "micro-rho" if OwnerFolder.open(path).terms.mode == "private" else "queries"


def audited(path: Path) -> dict[str, Any]:
    """Return what the replay of the log found."""
    folder = OwnerFolder.open(path)
    with _ledger(path) as ledger:
        found = ledger.audit()
    return {
        "problems": list(found.problems),
        "lines": found.n_lines,
        "answers": found.n_answers,
        "spent": found.spent,
        "spent_text": amount_text(folder.terms, found.spent),
    }


def accept_restored(path: Path) -> bool:
    """Accept a ledger that is older than the last answer that was given out; return whether it was."""
    folder = OwnerFolder.open(path)
    with contextlib.suppress(RestoredError), contextlib.closing(folder.ledger()):
        return False
    Ledger.accept_restored(folder.url, about=folder.about, watermark=path / WATERMARK).close()
    return True


def accept_clock(path: Path) -> bool:
    """Accept that the clock is before the last line of the log; return whether it was."""
    with _ledger(path) as ledger:
        try:
            ledger.check_clock()
        except ClockError:
            ledger.accept_clock()
            return True
    return False


def create_token(
    path: Path, *, name: str, scope: str, expires: datetime | None, most: float | None, per_minute: int
) -> dict[str, Any]:
    """Create a token, and return it with its identifier."""
    if scope not in ("learner", "owner"):
        raise UsageError(f"--scope must be learner or owner. Got {scope!r}")
    now, terms = datetime.now(UTC), OwnerFolder.open(path).terms
    end = now + LIFETIME if expires is None else _in_utc(expires)
    if end <= now:
        raise UsageError(f"--expires must be in the future. Got {end:%Y-%m-%d %H:%M} UTC")
    largest = None if most is None else _most(terms, most)
    with _ledger(path) as ledger:
        found, secret = ledger.create_token(name, scope=scope, expires=end, most=largest, per_minute=per_minute)  # type: ignore[arg-type]
    return {"id": found, "name": name, "scope": scope, "expires": end.isoformat(timespec="seconds"), "token": secret}


def _in_utc(time: datetime) -> datetime:
    """Return a time in UTC; one without a time zone is UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _most(terms: Terms, most: float) -> int:
    """Return what a token may spend, in units of the ledger."""
    if not most > 0:
        raise UsageError(f"--most must be above 0. Got {most:g}")
    if terms.mode == "private":
        return micro(most)
    if not most.is_integer():
        raise UsageError(f"--most is a whole number of queries in trusted mode. Got {most:g}")
    return int(most)


def revoke_token(path: Path, token: str) -> None:
    """Revoke a token, by its identifier."""
    with _ledger(path) as ledger:
        every = {use.token.id: use.token.name for use in ledger.tokens()}
        if token not in every:
            same = [identifier for identifier, name in every.items() if name == token]
            remedy = f"give the ID of one named so: {', '.join(same)}" if same else "token list shows the IDs"
            raise UsageError(f"there is no token with the ID {token!r}: {remedy}")
        ledger.revoke_token(token)


def token_lines(path: Path) -> list[dict[str, Any]]:
    """Return what is known of the tokens."""
    with _ledger(path) as ledger:
        return [token_line(use) for use in ledger.tokens()]


@contextlib.contextmanager
def _ledger(path: Path) -> Iterator[Ledger]:
    """Yield the ledger of a folder."""
    with contextlib.closing(OwnerFolder.open(path).ledger()) as ledger:
        yield ledger
