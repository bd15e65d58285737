"""The work of ``postshift run``: from files to a session folder, one query after the other, and to a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.basis_option import Bases, fit_bases
from postshift.cli.commands.fit import FitRequest
from postshift.cli.commands.run import StartRequest
from postshift.cli.console import Console
from postshift.cli.errors import UsageError
from postshift.cli.files.file_rows import FileRows, RowReader
from postshift.cli.files.file_table import FileTable, digest_of
from postshift.cli.files.table_columns import pick
from postshift.cli.fitting import FitInputs, check_packages, read_inputs, run_header, say_features, summary, write_run
from postshift.cli.metric_option import MetricOption
from postshift.cli.run.folder import RunWriter, is_run
from postshift.cli.run.outputs import OF_VALIDATION
from postshift.cli.run.rule_file import plain_bases, same_bytes
from postshift.cli.session_answer import last_command, next_command, number_of
from postshift.cli.session_folder import (
    OpenSession,
    SessionRows,
    SessionSettings,
    StoredSession,
    check_answers,
    check_new,
    command_of,
    create,
    opened,
)
from postshift.cli.subject_to_option import SubjectToOption
from postshift.estimators.shifter import shifter_of
from postshift.estimators.shifts import check_validation
from postshift.metrics import from_predictions
from postshift.rules import Chosen
from postshift.rules.choice import unfinished

# -- start -------------------------------------------------------------------------------------------------------


def start(request: StartRequest, console: Console) -> dict[str, Any]:
    """Read the files, make the session folder, and return what comes next."""
    request.check()
    check_packages()
    check_new(request.out, force=request.force)
    given = _read(request)
    bases = fit_bases(
        request.basis,
        train=given.train,
        val=given.val,
        groups=given.layout.groups,
        chosen=request.features is not None,
    )
    say_features(console, bases, given)
    content = _bases_bytes(bases)
    stored = _stored(request, given, bases, digest=digest_of(content))
    _check(stored)
    n_queries = create(stored, content, request.out)
    return {"session": str(request.out), "at_most": n_queries, "command": command_of(request.out, "next")}


def _read(request: StartRequest) -> FitInputs:
    """Read the files; a column that identifies the rows is not a feature."""
    given = read_inputs(request.fit_request(), metric=_metric(request.settings()), ids=request.ids)
    if request.ids is None:
        return given
    features = tuple(name for name in given.val.features if name != request.ids)
    return replace(given, val=replace(given.val, features=features))


def _stored(request: StartRequest, given: FitInputs, bases: Bases, *, digest: str) -> StoredSession:
    """Return what the session stores."""
    classes = given.layout.classes
    return StoredSession(
        settings=request.settings(),
        layout=given.layout,
        val=SessionRows.of(given.val, bases.val, classes),
        train=None if given.train is None else SessionRows.of(given.train, bases.train, classes),
        ids=_ids(request.ids, given),
        bases=digest,
    )


def _bases_bytes(bases: Bases) -> bytes:
    """Return the content of the file of the bases."""
    from postshift.persistence.files import skops_bytes

    return same_bytes(skops_bytes(plain_bases(bases.fitted)))


def _ids(name: str | None, given: FitInputs) -> Any:
    """Return the identifiers of the validation rows: a column, or the row numbers."""
    if name is None:
        return np.arange(len(given.val))
    series = pick(given.val.table, name, option="--id")
    twice = (series.duplicated() | series.isna()).to_numpy()
    if twice.any():
        raise UsageError(
            f"--id {name} must have a different value in each row; {given.val.table.row_of_file(twice)} has none of "
            "its own: name another column, or leave --id out to number the rows from 0"
        )
    if name in {*OF_VALIDATION, *(f"p_{each}" for each in given.layout.class_names)}:
        raise UsageError(f"--id cannot be {name!r}, which is a column of the files to write: rename the column")
    return series.to_numpy() if series.dtype.kind in "iu" else series.astype(str).to_numpy(dtype=str)


def _check(stored: StoredSession) -> None:
    """Raise if the fit cannot ask, or if its budget is too small."""
    check_validation(stored.problem.val, stored.layout.classes)
    if not stored.has_labels:
        raise UsageError(
            "postshift run needs rows with labels, from the training data: name their file with --train and the "
            "column of the labels with --label; the labels may be wrong"
        )
    budget, least = stored.settings.budget, stored.least
    if budget < least:
        n_classes, n_functions = stored.problem.n_classes, stored.problem.val.phi.shape[1]
        raise UsageError(
            f"--budget {budget} is too small: with {n_classes} classes and {n_functions} basis function"
            f"{'s' * (n_functions > 1)}, one iteration needs up to {least} queries; raise it"
            + (", or use --basis constant" if n_functions > 1 else "")
        )


# -- next, status ------------------------------------------------------------------------------------------------


def write_next(path: Path) -> dict[str, Any]:
    """Write the predictions to be scored, and return where they are."""
    with opened(path) as found:
        check_answers(found)
        if found.query is None:
            return {"finished": True, "query": None, "name": None, "file": None, "command": last_command(found)}
        number, file = found.write_query()
        return {
            "finished": False,
            "query": number,
            "name": found.files.name(number),
            "at_most": found.session.max_queries,
            "file": str(file),
            "rows": len(found.stored.ids),
            "soft": found.settings.soft,
            "command": next_command(found),
        }


def status(path: Path) -> dict[str, Any]:
    """Return the answers so far, the best rule so far, and what comes next."""
    with opened(path) as found:
        check_answers(found)
        answered, scores = found.session.n_queries, found.scores
        following = {
            "query": answered + 1,
            "name": found.files.name(answered + 1),
            "file": str(found.files.file(answered + 1)),
        }
        lines = [
            {"query": place, "score": score, "about": text}
            for place, (score, (text, _)) in enumerate(zip(scores, found.session.answers, strict=True), start=1)
        ]
        return {
            "session": str(path),
            "metric": found.settings.name,
            "less_is_better": found.settings.less_is_better,
            "answered": answered,
            "at_most": found.session.max_queries,
            "budget": found.settings.budget,
            "answers": lines,
            "base": scores[0] if scores else None,
            "best": _best(found),
            "open": following if found.is_open else None,
            "finished": found.query is None,
            "command": next_command(found),
        }


def _best(found: OpenSession) -> dict[str, Any] | None:
    """Return the name and the score of the best rule so far."""
    if not found.session.scores:
        return None
    best = found.session.best_so_far()
    return {"rule": best.rule.rules[0].name, "score": found.settings.sign * best.score + 0.0}


# -- finish ------------------------------------------------------------------------------------------------------


def finish(path: Path, out: Path, console: Console, *, force: bool) -> dict[str, Any]:
    """Write the best rule so far as a run, and return its summary."""
    if not force and out.is_dir() and any(out.iterdir()) and is_run(out):
        raise UsageError(f"{out} already has a run: add --force to replace it, or name another folder")
    check_packages()
    with opened(path) as found:
        check_answers(found)
        if not found.session.scores:
            raise UsageError(f"no query is answered yet, so there is no best rule: {next_command(found)}")
        chosen, n_queries = _chosen(found), found.session.n_queries
        if found.query is not None:
            console.note(
                f"note: {n_queries} of at most {found.session.max_queries} queries are answered; the session "
                "can go on, and finish can be called again"
            )
        bases = found.bases()
        stored = found.stored
    given, request = _inputs(stored), _fit_request(stored, out=out, force=force)
    shifter = shifter_of(
        chosen,
        val=stored.val.rows(stored.layout.classes, name="val"),
        train=stored.problem.train,
        n_queries=n_queries,
        metric=given.metric.metric,
        method="best",
        classes=stored.layout.classes,
        budget=stored.settings.budget,
    )
    writer = RunWriter(out, force=force, resume=False)
    with writer.writing(run_header(request, given), resumable=False):
        metrics = write_run(writer, request, given, bases, shifter=shifter)
    return summary(out, metrics)


def _chosen(found: OpenSession) -> Chosen:
    """Return the choice: of all rules if all queries are answered, else the best rule so far."""
    session = found.session
    if found.query is None:
        return session.result()
    why = f"{session.n_queries} of at most {session.max_queries} queries were answered"
    return unfinished(found.stored.problem, session.best_so_far(), base_score=session.scores[0], why=why)


def _metric(settings: SessionSettings) -> MetricOption:
    """Return the metric of the session: only its scores are known."""
    metric = from_predictions(
        number_of,  # it is never called: the session has the answers
        soft=settings.soft,
        name=settings.name,
        greater_is_better=not settings.less_is_better,
        scale=settings.scale,
    )
    return MetricOption(text=settings.name, kind="answers", metric=metric)


def _fit_request(stored: StoredSession, *, out: Path, force: bool) -> FitRequest:
    """Return the options of the session as those of a fit."""
    settings, layout = stored.settings, stored.layout
    return FitRequest(
        val=Path(stored.val.file.name),
        train=None if stored.train is None else Path(stored.train.file.name),
        out=out,
        label=layout.label,
        proba=layout.proba,
        features=layout.features,
        normalise=layout.normalise,
        basis=settings.basis,
        method="best",
        budget=settings.budget,
        metric_scale=settings.scale,
        less_is_better=settings.less_is_better,
        force=force,
    )


def _inputs(stored: StoredSession) -> FitInputs:
    """Return the rows of the session as those of a fit; their files are not read again."""
    import pandas as pd

    sides = {side: _file_rows(rows, stored.layout.classes) for side, rows in stored.sides.items()}
    sides["val"] = replace(sides["val"], ids=pd.Series(stored.ids, name=stored.settings.ids))
    return FitInputs(
        reader=RowReader(layout=stored.layout),
        val=sides["val"],
        train=sides.get("train"),
        metric=_metric(stored.settings),
        subject_to=SubjectToOption(),
        held=None,
    )


def _file_rows(rows: SessionRows, classes: Any) -> FileRows:
    """Return stored rows as rows of their file, without its other columns."""
    import pandas as pd

    table = FileTable(
        path=Path(rows.file.name), frame=pd.DataFrame(index=range(rows.file.n_rows)), digest=rows.file.digest
    )
    labels = None if rows.labels is None else classes[rows.labels]
    return FileRows(table=table, eta=rows.eta, features=(), labels=labels)
