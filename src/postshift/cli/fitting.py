"""The work of ``postshift fit``, also for the demo: from files to a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postshift.cli.commands.fit import FitRequest
from postshift.cli.console import Console, as_json
from postshift.cli.errors import FileError, StoppedError, UsageError, WorkError, printable
from postshift.cli.files.file_rows import FileRows, Layout, RowReader
from postshift.cli.files.file_table import PARQUET, FileTable, digest_of, read_bytes, read_rows
from postshift.cli.files.model_file import model_classes, read_model
from postshift.cli.files.table_columns import classes_of, pick, probability_columns, two_classes
from postshift.cli.metric_option import MetricOption, copy_suffix, kind_of, read_metric, remote_option
from postshift.cli.program import Program, program_digest
from postshift.cli.run.folder import (
    ANSWERS,
    FACTS,
    HISTORY,
    METRIC,
    METRICS,
    MODEL,
    REPORT,
    RULE,
    VALIDATION,
    RunWriter,
    damaged,
)
from postshift.core.session import n_answers
from postshift.exceptions import ArchiveError
from postshift.metrics import from_predictions

if TYPE_CHECKING:  # slow to import; wrong options are reported before
    from postshift.cli.basis_option import Bases
    from postshift.cli.block_table import BlockTable
    from postshift.cli.cluster import ClusterTable
    from postshift.cli.subject_to_option import SubjectToOption

PROBA = "p_*"
_NEEDED = ("pandas", "skops", "jinja2")
_OTHER_METRIC = " --label LABEL --metric NAME"


@dataclass(frozen=True, kw_only=True, eq=False)
class FitInputs:
    """The content of the files of a fit.

    With a cluster or a memory limit, ``held`` are the training rows on the workers or in their files, and ``train`` is
    a random sample of them.
    """

    reader: RowReader
    val: FileRows
    train: FileRows | None
    metric: MetricOption
    subject_to: SubjectToOption
    held: ClusterTable | BlockTable | None

    @property
    def layout(self) -> Layout:
        """The roles of the columns."""
        return self.reader.layout


def fit_run(request: FitRequest, console: Console) -> dict[str, Any]:
    """Fit, write the run, and return its summary; a finished run that is resumed is not fitted again."""
    request.check()
    check_packages()
    writer = RunWriter(request.out, force=request.force, resume=request.resume)
    with _held_rows(request) as held:
        given = read_inputs(request, held)
        header = run_header(request, given)
        if writer.resumed:
            stored = writer.stored(header)
            if stored.state == "finished" and writer.path == writer.out:
                console.note(f"the run {request.out} is finished: nothing to do")
                return summary(request.out, stored.json(METRICS))
            if stored.program != header["program"] and (writer.path / ANSWERS).is_file():
                console.note(
                    "warning: the metric program has changed since the run was started, but its stored answers are "
                    "still used: if its scores are different now, start again with --force"
                )
        from postshift.cli.basis_option import fit_bases

        bases = fit_bases(
            request.basis,
            train=given.train,
            val=given.val,
            groups=given.layout.groups,
            chosen=request.features is not None,
        )
        say_features(console, bases, given)
        _say_draws(console, given, out=request.out)
        metrics = _make(request, given, bases, writer=writer, header=header, console=console)
    return summary(request.out, metrics)


def check_packages() -> None:
    """Raise if a package is missing that a run needs; at the end of the fit it would be too late."""
    for name in _NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def summary(out: Path, metrics: Any) -> dict[str, Any]:
    """Return what is shown of a finished run; ``metrics`` is the content of metrics.json."""
    if not isinstance(metrics, dict):
        raise damaged(out / METRICS, "it holds no scores")
    return {"run": str(out), "report": str(out / REPORT), **metrics}


# -- reading ---------------------------------------------------------------------------------------------------


def _held_rows(request: FitRequest) -> AbstractContextManager[ClusterTable | BlockTable | None]:
    """Yield the training rows on the cluster of ``--scheduler``, or in the files of ``--memory-limit``; else None."""
    if request.train is None:
        return nullcontext()
    if request.memory_limit is not None:
        from postshift.cli.block_table import BlockTable

        return nullcontext(BlockTable(request.train, memory_limit=request.memory_limit))
    if request.scheduler is None:
        return nullcontext()
    from postshift.cli.cluster import cluster_table

    return cluster_table(request.train, request.scheduler)


def read_inputs(
    request: FitRequest,
    held: ClusterTable | BlockTable | None = None,
    *,
    metric: MetricOption | None = None,
    ids: str | None = None,
) -> FitInputs:
    """Read every file; if the training rows are on a cluster or stay in their files, read a random sample of them.

    ``metric`` takes the place of the metric that the request names. ``ids`` is the column of identifiers.
    """
    from postshift.cli.subject_to_option import SubjectToOption

    val = read_rows(request.val, as_text=[] if ids is None else [ids])
    train = None
    if request.train is not None:
        train = read_rows(request.train) if held is None else held.draw(seed=request.random_state)
    model = None if request.model is None else read_model(request.model, trust=request.trust_model)
    layout = _layout(request, val, train, model)
    metric = metric or _metric(request, layout)
    hidden = metric.keeps_labels
    _check_label(layout, val, train, hidden=hidden)
    reader = RowReader(
        layout=layout,
        model=model,
        needed=("sample_weight",) if hidden else ("label", "sample_weight"),
        optional=("label",) if hidden else (),
    )
    val_rows = replace(reader, needed=(*reader.needed, "groups")).rows(val)
    try:
        train_rows = None if train is None else reader.rows(train)
    except UsageError:
        if held is not None:
            held.check(reader)  # raises an error that names the partition, or the rows of the file
        raise
    subject_to = SubjectToOption.read(request, layout, model)
    subject_to.check(layout, metric, val_rows.groups)
    if not hidden:
        metric.check(layout, val_rows.groups, asked=request.groups is not None and not subject_to.is_over_groups)
    return FitInputs(reader=reader, val=val_rows, train=train_rows, metric=metric, subject_to=subject_to, held=held)


def _layout(request: FitRequest, val: FileTable, train: FileTable | None, model: Any) -> Layout:
    """Return the roles of the columns: from the options, or from the format of the files."""
    usual = {**({} if train is None else train.usual), **val.usual}
    label, weight = request.label or usual.get("label"), request.sample_weight or usual.get("sample_weight")
    groups = request.groups or (usual.get("groups") if request.metric_command is None else None)
    proba = None if model is not None else request.proba or val.usual.get("proba", PROBA)
    labelled = [table for table in (val, train) if table is not None and label in table.frame.columns]
    if proba is None:
        names = model_classes(model)
    elif "*" in proba:
        names = list(probability_columns(val, proba, but=(label, weight, groups)))
    else:
        pick(val, proba, option="--proba")
        if label is None:
            raise UsageError(
                f"column {proba!r} has the probability of one of two classes: name the column of labels with --label"
            )
        names = two_classes((labelled or [train or val])[0], label, request.positive, column=proba)
    labels = pick(labelled[0], str(label), option="--label") if labelled else None
    class_names, class_values = classes_of(names, labels)
    return Layout(
        class_names=class_names,
        class_values=class_values,
        proba=proba,
        label=label,
        sample_weight=weight,
        groups=groups,
        features=request.features,
        normalise=request.normalise,
    )


def _check_label(layout: Layout, val: FileTable, train: FileTable | None, *, hidden: bool) -> None:
    """Raise if the label column is missing; if the metric has the labels, one of the files may lack it."""
    if layout.label is None:
        if not hidden:
            raise UsageError("use --label to name the column with the labels of the validation rows")
        return
    asked = [each for each in (train, val) if each is not None] if hidden else [val]
    if not any(layout.label in each.frame.columns for each in asked):
        pick(asked[0], layout.label, option="--label")


def _metric(request: FitRequest, layout: Layout) -> MetricOption:
    """Return the metric of ``--metric``, or the program of ``--metric-command``."""
    if request.metric is not None and kind_of(request.metric) == "url" and request.pos_label is None:
        return remote_option(
            request.metric, rho=request.rho, scale=None if request.metric_scale == 1 else request.metric_scale
        )
    if request.metric is not None:
        return read_metric(request.metric, layout, pos_label=request.pos_label)
    program = Program(str(request.metric_command), timeout=request.metric_timeout)
    asked = from_predictions(
        program, name=program.name, greater_is_better=not request.less_is_better, scale=request.metric_scale
    )
    return MetricOption(text=program.name, kind="program", metric=asked)


def run_header(request: FitRequest, given: FitInputs) -> dict[str, Any]:
    """Return the content of run.json except its state."""
    metric = given.metric
    suffix = copy_suffix(metric.text, metric.kind)
    copies = {MODEL: None if request.model is None else f"{MODEL}{request.model.suffix}"}
    copies[METRIC] = None if suffix is None else f"{METRIC}{suffix}"
    files = {"train": request.train, "val": request.val, "unlabelled": request.unlabelled, MODEL: request.model}
    return {
        "settings": request.settings(),
        "digests": {
            "train": None if given.train is None else given.train.table.digest,
            "val": given.val.table.digest,
            "unlabelled": given.subject_to.digest,
            MODEL: None if request.model is None else digest_of(read_bytes(request.model)),
            METRIC: metric.digest,
        },
        "inputs": {name: None if path is None else str(path) for name, path in files.items()},
        "layout": asdict(given.layout),
        "metric": metric.to_json(),
        "copies": {name: copy for name, copy in copies.items() if copy is not None},
        "program": None if request.metric_command is None else program_digest(request.metric_command),
    }


# -- notes before the work -------------------------------------------------------------------------------------


def _left_out(bases: Bases, given: FitInputs) -> Sequence[str]:
    """Return the columns that number the rows and would otherwise be features of a basis or of the model."""
    if bases.left_out is not None:
        return bases.left_out
    model = given.reader.model
    return given.val.left_out if model is not None and not hasattr(model, "feature_names_in_") else ()


def say_features(console: Console, bases: Bases, given: FitInputs) -> None:
    """Show which columns are not features because they number the rows, and which features may number them."""
    if names := _left_out(bases, given):
        listed = ", ".join(map(repr, names))
        console.note(
            f"warning: {f'column {listed}' if len(names) == 1 else f'each of the columns {listed}'} numbers the rows, "
            "like an index that was saved with them, and is left out of the features: save the file without it, or "
            "choose the features with --features"
        )
    for name in bases.doubtful:
        others = ",".join(each for each in given.val.features if each != name)
        how = f"leave it out with --features '{others}'" if others else "drop it"
        console.note(
            f"warning: column {name!r} has a different whole number in each row and is read as a feature: if it is "
            f"only an ID, {how}"
        )


def _say_draws(console: Console, given: FitInputs, *, out: Path) -> None:
    """Show where only a random sample of the rows is used: to compare rules, and in validation.csv."""
    from postshift.cli.run.outputs import most_rows
    from postshift.rules.scoring import MAX_TRAIN, MAX_VAL

    val, n_val, n_train = given.val, len(given.val), 0 if given.train is None else len(given.train)
    n_copied = most_rows(val.eta.shape[1])
    sizes = [(MAX_VAL, n_val, "validation"), (MAX_TRAIN, n_train, "training")]
    for most, n_rows, what in () if given.metric.keeps_labels else sizes:
        if n_rows > most:
            console.note(f"note: the rules are compared on a random sample of {most:,} of the {n_rows:,} {what} rows")
    if n_val > n_copied:
        command = f"postshift predict {shlex.quote(str(out))} {shlex.quote(str(val.table.path))} -o FILE"
        console.note(
            f"note: {VALIDATION} will have a random sample of {n_copied:,} of the {n_val:,} validation rows; {command} "
            "labels all of them"
        )


# -- making ----------------------------------------------------------------------------------------------------


def _make(
    request: FitRequest,
    given: FitInputs,
    bases: Bases,
    *,
    writer: RunWriter,
    header: Mapping[str, Any],
    console: Console,
) -> dict[str, Any]:
    """Fit and write the run, and return its scores; an error or a stop says how to resume."""
    journal = None if request.metric_command is None else writer.path / ANSWERS
    try:
        with writer.writing(header, resumable=journal is not None):
            for stem, source in ((MODEL, request.model), (METRIC, given.metric.source)):
                if source is not None:
                    writer.write(header["copies"][stem], read_bytes(source))
            shifter = _fitted(request, given, bases, journal=journal, console=console)
            return write_run(writer, request, given, bases, shifter=shifter)
    except (KeyboardInterrupt, StoppedError) as stop:
        stored = "" if journal is None else f"{n_answers(journal)} answers are stored; "
        kind = type(stop) if isinstance(stop, StoppedError) else StoppedError
        raise kind(f"stopped; {stored}resume with the same command and --resume") from stop
    except ArchiveError as error:
        raise FileError(f"{error}; or start again with --force") from error
    except Exception as error:
        cause = error if isinstance(error, WorkError) else error.__cause__  # the library wraps what a metric raises
        if journal is None or not isinstance(cause, WorkError):
            raise
        raise WorkError(
            f"{cause}; {n_answers(journal)} answers are stored: resume with the same command and --resume"
        ) from error


def _fitted(request: FitRequest, given: FitInputs, bases: Bases, *, journal: Path | None, console: Console) -> Any:
    """Return the fitted shifter."""
    from postshift.estimators import PostShifter

    val, train = given.val, given.train
    shifter = PostShifter(
        given.metric.metric,
        method=request.method,
        classes=given.layout.classes,
        budget=request.budget,
        session=journal,
        n_jobs=request.n_jobs,
        random_state=request.random_state,
        **given.subject_to.parameters(),
    )
    training: dict[str, Any] = {}
    if given.held is not None and train is not None:
        training = given.held.training_side(given.reader, bases, train)
    elif train is not None:
        training = {"eta_train": train.eta, "y_train": train.labels, "phi_train": bases.train or None}
        training["sample_weight_train"] = train.weights
    with console.progress("fit") as progress:
        shown = progress is not None and hasattr(shifter, "set_callbacks")
        if shown:
            shifter.set_callbacks(progress)
        shifter.fit(
            val.eta,
            val.labels,
            phi_val=bases.val or None,
            sample_weight_val=val.weights,
            **training,
            **given.metric.metadata(val),
            **given.subject_to.arguments(val, bases),
        )
        if shown:
            shifter.set_callbacks()
    return shifter


def write_run(
    writer: RunWriter, request: FitRequest, given: FitInputs, bases: Bases, *, shifter: Any
) -> dict[str, Any]:
    """Write every file of the run but run.json, and return the scores."""
    from postshift.cli.basis_option import named_functions
    from postshift.cli.run.outputs import history_csv, metrics_of, validation_csv
    from postshift.cli.run.rule_file import rule_bytes
    from postshift.report import Facts, write_report

    val, train, metric = given.val, given.train, given.metric
    facts = Facts.of(
        shifter,
        val.eta,
        val.labels,
        phi=named_functions(bases.fitted, bases.val) or None,
        y_train=None if train is None else train.labels,
        eta_train=None if train is None else train.eta,
        metric_name=metric.name,
        sample_weight=val.weights,
        groups=val.groups,
        used=_used(request, given, bases),
        how_to_use=_how_to_use(request, given),
    )
    metrics = metrics_of(shifter, facts.metric)
    if metric.kind == "program":
        metrics["program_runs"] = metric.metric.function.n_runs
    writer.write(METRICS, as_json(metrics) + "\n")
    writer.write(HISTORY, history_csv(shifter))
    writer.write(VALIDATION, validation_csv(shifter, val, given.layout.class_names, bases.val))
    writer.write(FACTS, facts.to_json())
    write_report(facts, writer.path / REPORT)
    shifter.metric, shifter.session = metric.savable, None
    writer.write(RULE, rule_bytes(shifter, bases.fitted))
    return metrics


def _used(request: FitRequest, given: FitInputs, bases: Bases) -> list[tuple[str, str]]:
    """Return what the report says about the data."""
    layout = given.layout
    what = "column" if layout.is_one_column else "columns"
    source = f"{what} {layout.proba}" if request.model is None else f"the model {request.model.name}"
    pairs = [("validation rows", str(given.val.table))]
    if given.train is not None:
        pairs.insert(0, ("training rows", str(given.held or given.train.table)))
    pairs += [("probabilities", source), ("metric", given.metric.name), ("basis", request.basis)]
    pairs += [("method", request.method), ("seed", str(request.random_state))]
    if given.subject_to.unlabelled is not None:
        pairs.append(("rows without labels", str(given.subject_to.unlabelled.table)))
    if layout.sample_weight is not None:
        pairs.append(("weights", f"column {layout.sample_weight}"))
    if layout.groups is not None:
        pairs.append(("groups", f"column {layout.groups}"))
    if names := _left_out(bases, given):
        pairs.append(("left out", f"{', '.join(names)} (numbers the rows)"))
    return [(name, printable(text)) for name, text in pairs]


def _how_to_use(request: FitRequest, given: FitInputs) -> list[tuple[str, str]]:
    """Return the next commands, which the report shows."""
    run, suffix = printable(shlex.quote(str(request.out))), given.val.table.path.suffix or PARQUET
    new, test, labels = f"new{suffix}", f"test{suffix}", f"labels{suffix}"
    trust = " --trust-model" if request.trust_model else ""
    others = dict.fromkeys(("program", "answers", "url"), _OTHER_METRIC)
    scored_by = {"file": " --trust-metric", **others}.get(given.metric.kind, "")
    if request.scheduler is not None:
        trust += f" --scheduler {shlex.quote(request.scheduler)}"
        new, test, labels = f"'new/*{PARQUET}'", f"'test/*{PARQUET}'", "labels"
    return [
        ("label new rows", f"postshift predict {run} {new} -o {labels}{trust}"),
        ("score rows with labels", f"postshift evaluate {run} {test}{trust}{scored_by}"),
    ]
