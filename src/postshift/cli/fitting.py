"""The job of ``postshift fit``, and of the demo: from files to a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from postshift.cli.columns import classes_of, pick, probability_columns, two_classes
from postshift.cli.console import Console
from postshift.cli.errors import StoppedError, UsageError, WorkError, printable
from postshift.cli.inputs import Layout, Part, Reading
from postshift.cli.metric_option import MetricOption, read_metric, with_pos_label
from postshift.cli.model_file import model_classes, read_model
from postshift.cli.notices import left_out, say_draws, say_features
from postshift.cli.parquet_files import SUFFIX, parquet_files, read_rows
from postshift.cli.program import Answers, Program, program_digest
from postshift.cli.request import FitRequest
from postshift.cli.rule_file import RuleFile
from postshift.cli.run_files import ANSWERS, METRICS, REPORT, RULE, damaged
from postshift.cli.run_folder import Run, Target, Writer, check_same, open_run, target_of
from postshift.cli.tables import FileTable, digest_of, read_bytes
from postshift.metrics import from_predictions

if TYPE_CHECKING:  # dear to import, and a fit that cannot begin says so sooner without
    from postshift.cli.basis_option import Bases
    from postshift.cli.cluster import ClusterTable

PROBA = "p_*"
_NEEDED = ("pandas", "skops", "jinja2")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Given:
    """What the files hold; where there is a cluster, ``train`` is a draw of the rows that it reads."""

    layout: Layout
    model: Any
    val: Part
    train: Part | None
    metric: MetricOption
    digests: Mapping[str, str | None]
    workers: _OnWorkers | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class _OnWorkers:
    """The training rows on a cluster, and how they are read."""

    table: ClusterTable
    reading: Reading

    def check(self) -> None:
        """Read all rows, and raise the first error in their order."""
        from postshift.cli.cluster import Checked

        self.table.each(Checked(**vars(self.reading)))

    def training_side(self, bases: Bases, like: Part) -> dict[str, Any]:
        """Return what the fit takes of the training rows."""
        from postshift.cli.cluster import TrainingRows

        rows = TrainingRows(**vars(self.reading), bases=bases.fitted)
        return self.table.training_side(rows, like, bases.train)


def fit_run(request: FitRequest, console: Console) -> dict[str, Any]:
    """Fit, write the run, and return its summary; a finished run that is resumed is not fitted again."""
    request.check()
    _check_packages()
    target = target_of(request.out, force=request.force, resume=request.resume)
    with _held_rows(request) as held:
        return _fit_run(request, console, target, held)


def _fit_run(request: FitRequest, console: Console, target: Target, held: ClusterTable | None) -> dict[str, Any]:
    """Fit and write the run; ``held`` are the training rows, where a cluster has them."""
    given = _read(request, held)
    header = _header(request, given)
    if target.resumed:
        stored = open_run(target.work, finished=False)
        check_same(stored.header, header, request.out)
        if stored.state == "finished" and target.work == target.out:
            console.note(f"the run {request.out} is finished: nothing to do")
            return summary(open_run(request.out))
        _warn_of_program(stored, header, console)
    from postshift.cli.basis_option import fit_bases

    bases = fit_bases(
        request.basis,
        given.layout.classes,
        train=given.train,
        val=given.val,
        groups=given.layout.groups,
        chosen=request.features is not None,
    )
    say_features(console, bases, given.val, given.model)
    say_draws(console, given.val, given.train, labelled=not given.metric.keeps_labels, out=request.out)
    _make(request, given, bases, target=target, header=header, console=console)
    return summary(open_run(request.out))


def _check_packages() -> None:
    """Refuse to begin where a package is missing that the end of a fit needs."""
    for name in _NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _warn_of_program(stored: Run, header: Mapping[str, Any], console: Console) -> None:
    """Say that a program has changed since it gave the answers that a run goes on from."""
    if stored.header.program != header["program"] and (stored.path / ANSWERS).is_file():
        console.note(
            "warning: the metric program has changed since the run was begun, and the answers that are stored stay: if "
            "it scores otherwise now, begin anew with --force"
        )


def summary(run: Run) -> dict[str, Any]:
    """Return what is told of a finished run."""
    metrics = run.json(METRICS)
    if not isinstance(metrics, dict):
        raise damaged(run.path / METRICS, "it holds no scores")
    return {"run": str(run.path), "report": str(run.path / REPORT), **metrics}


# -- reading ---------------------------------------------------------------------------------------------------


@contextmanager
def _held_rows(request: FitRequest) -> Iterator[ClusterTable | None]:
    """Give the training rows on the cluster that was asked for; None, and nothing of Dask's, where none was."""
    if request.scheduler is None or request.train is None:
        yield None
        return
    from postshift.cli.cluster import ClusterTable, connected

    files = parquet_files(request.train)
    with connected(request.scheduler) as cluster:
        yield ClusterTable(files, cluster)


def _read(request: FitRequest, held: ClusterTable | None) -> _Given:
    """Read every file that was named; of training rows on a cluster, a draw."""
    val = read_rows(request.val)
    train = None
    if request.train is not None:
        train = read_rows(request.train) if held is None else held.draw(seed=request.seed)
    model = None if request.model is None else read_model(request.model, trust=request.trust_model)
    layout = _layout(request, val, train, model)
    metric = _metric(request, layout)
    hidden = metric.keeps_labels
    _check_label(layout, val, train, hidden=hidden)
    reading = Reading(
        layout=layout,
        model=model,
        needed=("weight",) if hidden else ("label", "weight"),
        optional=("label",) if hidden else (),
    )
    val_part = replace(reading, needed=(*reading.needed, "groups")).part(val)
    workers = None if held is None else _OnWorkers(table=held, reading=reading)
    train_part = None if train is None else _training_part(train, reading, workers)
    if not hidden:
        metric.check(layout, val_part.groups, asked=request.groups is not None)
    digests = {
        "train": None if train is None else train.digest,
        "val": val.digest,
        "model": None if request.model is None else digest_of(read_bytes(request.model)),
        "metric": metric.digest,
    }
    return _Given(
        layout=layout, model=model, val=val_part, train=train_part, metric=metric, digests=digests, workers=workers
    )


def _training_part(table: FileTable, reading: Reading, workers: _OnWorkers | None) -> Part:
    """Return the training rows; an error in a draw is looked for on the workers, who know the partition."""
    try:
        return reading.part(table)
    except UsageError:
        if workers is not None:
            workers.check()
        raise


def _layout(request: FitRequest, val: FileTable, train: FileTable | None, model: Any) -> Layout:
    """Return which columns are what: as asked for, or as the format of the validation file says."""
    usual = {**({} if train is None else train.usual), **val.usual}
    label, weight = request.label or usual.get("label"), request.weight or usual.get("weight")
    groups = request.groups or (usual.get("groups") if request.metric_command is None else None)
    proba = None if model is not None else request.proba or val.usual.get("proba", PROBA)
    special = [name for name in (label, weight, groups) if name]
    tables = [table for table in (val, train) if table is not None and label in table.frame.columns]
    names = _class_names(request, tables, val, model=model, proba=proba, label=label, special=special)
    classes = classes_of(names, pick(tables[0], str(label), option="--label") if tables else None)
    return Layout(
        class_names=classes.names,
        class_values=classes.values,
        proba=proba,
        label=label,
        weight=weight,
        groups=groups,
        features=request.features,
        normalise=request.normalise,
    )


def _class_names(
    request: FitRequest,
    tables: Sequence[FileTable],
    val: FileTable,
    *,
    model: Any,
    proba: str | None,
    label: str | None,
    special: Sequence[str],
) -> list[str]:
    """Return the classes as the model, the columns, or the labels of two classes name them."""
    if proba is None:
        return model_classes(model)
    if "*" in proba:
        return list(probability_columns(val, proba, but=special))
    pick(val, proba, option="--proba")
    if label is None:
        raise UsageError(f"column {proba!r} has the probability of one of two classes: name the labels with --label")
    return two_classes(tables[0] if tables else val, label, request.positive, column=proba)


def _check_label(layout: Layout, val: FileTable, train: FileTable | None, *, hidden: bool) -> None:
    """Refuse a fit without labels, unless the metric keeps them; a column that is nowhere is an error in any case."""
    if layout.label is None:
        if not hidden:
            raise UsageError("name the column with the labels of the validation rows with --label")
        return
    if hidden and any(layout.label in each.frame.columns for each in (val, train) if each is not None):
        return
    if layout.label not in val.frame.columns:
        pick(val, layout.label, option="--label")


def _metric(request: FitRequest, layout: Layout) -> MetricOption:
    """Return the metric; a program gets its answers when the run has a folder."""
    if request.metric is not None:
        return read_metric(with_pos_label(request.metric, request.pos_label, layout), layout)
    command = str(request.metric_command)
    name = shlex.split(command)[0]
    told = from_predictions(
        _unanswered, name=name, greater_is_better=not request.less_is_better, scale=request.metric_scale
    )
    return MetricOption(text=name, kind="program", metric=told)


def _unanswered(_: Any) -> float:
    """Stand in for a program until there is a folder for its answers."""
    raise WorkError("the metric program has no folder for its answers yet")


def _header(request: FitRequest, given: _Given) -> dict[str, Any]:
    """Return what run.json says."""
    copies = {}
    if request.model is not None:
        copies["model"] = f"model{request.model.suffix}"
    if given.metric.copy is not None:
        copies["metric"] = given.metric.copy
    files = {"train": request.train, "val": request.val, "model": request.model}
    return {
        "settings": request.settings(),
        "digests": dict(given.digests),
        "inputs": {name: None if path is None else str(path) for name, path in files.items()},
        "layout": given.layout.to_json(),
        "metric": given.metric.to_json(),
        "copies": copies,
        "program": None if request.metric_command is None else program_digest(request.metric_command),
    }


# -- making ----------------------------------------------------------------------------------------------------


def _make(
    request: FitRequest,
    given: _Given,
    bases: Bases,
    *,
    target: Target,
    header: Mapping[str, Any],
    console: Console,
) -> None:
    """Fit and write the run; what stops it says how to go on."""
    writer = Writer(target, header)
    asks = request.metric_command is not None
    answers: Answers | None = None
    try:
        with writer.writing(resumable=asks):
            for stem, source in (("model", request.model), ("metric", given.metric.source)):
                if source is not None:
                    writer.write(header["copies"][stem], read_bytes(source))
            answers = Answers(writer.path / ANSWERS) if asks else None
            shifter, program = _fitted(request, given, bases, answers=answers, console=console)
            _write(writer, request, given, bases, shifter=shifter, program=program)
    except (KeyboardInterrupt, StoppedError) as stop:
        stored = "" if answers is None else f"{len(answers)} answers are stored; "
        kind = type(stop) if isinstance(stop, StoppedError) else StoppedError
        raise kind(f"stopped; {stored}go on with the same command and --resume") from stop
    except WorkError as error:
        if answers is None:
            raise
        raise _resumable(error, answers) from error
    except Exception as error:
        if answers is None or not isinstance(error.__cause__, WorkError):  # the library wraps what a metric raises
            raise
        raise _resumable(error.__cause__, answers) from error


def _resumable(error: object, answers: Answers) -> WorkError:
    """Return the error of a program with how to go on."""
    return WorkError(f"{error}; {len(answers)} answers are stored, the same command with --resume goes on from them")


def _fitted(
    request: FitRequest, given: _Given, bases: Bases, *, answers: Answers | None, console: Console
) -> tuple[Any, Program | None]:
    """Return the fitted shifter, and the program that was asked, if one was."""
    from postshift.estimators import PostShifter

    classes, val = given.layout.classes, given.val
    metric, program = given.metric.metric, None
    if answers is not None:
        program = Program(str(request.metric_command), timeout=request.metric_timeout, answers=answers)
        metric = replace(metric, function=program)
    shifter = PostShifter(
        metric,
        method=request.method,
        classes=classes.array,
        budget=request.budget,
        n_jobs=request.jobs,
        random_state=request.seed,
    )
    with console.progress("fit") as progress:
        told = progress is not None and hasattr(shifter, "set_callbacks")
        if told:
            shifter.set_callbacks(progress)
        shifter.fit(
            val.eta,
            val.labels(classes),
            phi_val=bases.val or None,
            sample_weight_val=val.weights,
            **_training_side(given, bases),
            **given.metric.metadata(val),
        )
        if told:
            shifter.set_callbacks()
    return shifter, program


def _training_side(given: _Given, bases: Bases) -> dict[str, Any]:
    """Return what the fit takes of the training rows: arrays, or Dask's where workers hold them."""
    train = given.train
    if train is None:
        return {}
    if given.workers is not None:
        return given.workers.training_side(bases, train)
    return {
        "eta_train": train.eta,
        "y_train": train.labels(given.layout.classes),
        "phi_train": bases.train or None,
        "sample_weight_train": train.weights,
    }


def _write(
    writer: Writer, request: FitRequest, given: _Given, bases: Bases, *, shifter: Any, program: Program | None
) -> None:
    """Write every file of the run but run.json."""
    from postshift.cli.outputs import facts_of, history_csv, metrics_of, validation_csv, write_outputs

    classes = given.layout.classes
    facts = facts_of(
        shifter,
        classes,
        bases,
        train=given.train,
        val=given.val,
        metric_name=given.metric.name,
        used=_used(request, given, bases),
        how_to_use=_how_to_use(request, given),
    )
    write_outputs(
        writer,
        metrics=metrics_of(
            shifter,
            name=given.metric.name,
            positive=facts.metric.positive,
            n_runs=None if program is None else program.n_runs,
        ),
        history=history_csv(shifter),
        validation=validation_csv(shifter, given.val, classes, bases.val),
        facts=facts,
    )
    shifter.metric = given.metric.savable
    RuleFile(shifter=shifter, bases=bases.fitted).save(writer.path / RULE)


def _used(request: FitRequest, given: _Given, bases: Bases) -> list[tuple[str, str]]:
    """Return what the report says of the data."""
    what = "column" if given.layout.is_one_column else "columns"
    source = f"{what} {given.layout.proba}" if request.model is None else f"the model {request.model.name}"
    pairs = [("validation rows", str(given.val.table))]
    if given.train is not None:
        rows = given.train if given.workers is None else given.workers
        pairs.insert(0, ("training rows", str(rows.table)))
    pairs += [("probabilities", source), ("metric", given.metric.name), ("basis", request.basis)]
    pairs += [("method", request.method), ("seed", str(request.seed))]
    if given.layout.weight is not None:
        pairs.append(("weights", f"column {given.layout.weight}"))
    if given.layout.groups is not None:
        pairs.append(("groups", f"column {given.layout.groups}"))
    if names := left_out(bases, given.val, given.model):
        pairs.append(("left out", f"{', '.join(names)} (numbers the rows)"))
    return [(name, printable(text)) for name, text in pairs]


def _how_to_use(request: FitRequest, given: _Given) -> list[tuple[str, str]]:
    """Return the commands for what comes next."""
    run, suffix = printable(shlex.quote(str(request.out))), given.val.table.path.suffix or SUFFIX
    trust = " --trust-model" if request.trust_model else ""
    scored_by = {"file": " --trust-metric", "program": " --label LABEL --metric NAME"}.get(given.metric.kind, "")
    if request.scheduler is not None:
        trust += f" --scheduler {shlex.quote(request.scheduler)}"
        return [
            ("label new rows", f"postshift predict {run} 'new/*{SUFFIX}' -o labels{trust}"),
            ("score rows with labels", f"postshift evaluate {run} 'test/*{SUFFIX}'{trust}{scored_by}"),
        ]
    return [
        ("label new rows", f"postshift predict {run} new{suffix} -o labels{suffix}{trust}"),
        ("score rows with labels", f"postshift evaluate {run} test{suffix}{trust}{scored_by}"),
    ]
