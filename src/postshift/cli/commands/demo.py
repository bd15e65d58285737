"""``postshift demo``: a complete example with data that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.console import Console
from postshift.cli.options import Debug, Json, Quiet

_FLIPS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
_FLIP_SHARE = 0.6
_SEED = 0
_N_TEST, _N_VAL = 500, 300
_FILES = ("train.csv", "val.csv", "test.csv")
_LABEL, _DIGITS = "digit", tuple(f"p_{digit}" for digit in range(10))  # the columns of each


def command(
    *,
    out: Annotated[Path, typer.Option("--out", help="The folder for the files and the run.")] = Path("postshift-demo"),
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier demo in that folder.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Improve a model of handwritten digits that was trained on wrong labels, and write a report.

    In 60 % of the training rows, 9 is labelled 1, 2 is labelled 0, 4 is labelled 7, and 3 and 5 are swapped; the labels
    of 300 validation rows are correct. The files hold probabilities and labels, as another program would write them.
    """
    from postshift.cli.commands.evaluate import evaluated
    from postshift.cli.commands.fit import FitRequest
    from postshift.cli.fitting import fit_run
    from postshift.cli.run.rule_file import LoadedRun

    console = Console(quiet=quiet, as_json=json)
    run = out / "run"
    _check_folder(out, run, force=force)
    with console.warnings_shown():
        paths = _write_files(out)
        request = FitRequest(
            train=paths["train"], val=paths["val"], label=_LABEL, metric="accuracy", out=run, force=force
        )
        found = fit_run(request, console)
        scored = evaluated(LoadedRun.open(run, trust_model=False), paths["test"])
    _show(found, scored, console)
    command_line = f"postshift fit --train {paths['train']} --val {paths['val']} --label digit --metric accuracy"
    console.say()
    console.say(f"The same fit without the demo: {command_line} --out RUN")
    console.say(f"report: {found['report']}")
    console.result({"fit": found, "test": scored, "report": found["report"]})


def _check_folder(out: Path, run: Path, *, force: bool) -> None:
    """Raise if a folder holds anything but an earlier demo that may be replaced."""
    from postshift.cli.errors import FileError, UsageError
    from postshift.cli.files.folders import check_ours
    from postshift.cli.run.folder import RunWriter

    if out.exists() and not out.is_dir():
        raise FileError(f"{out} is a file: name a folder with --out")
    if not out.is_dir() or not any(out.iterdir()):
        return
    check_ours(out, lambda each: each == run or each.name.startswith(".") or _is_ours(each))
    RunWriter(run, force=True, resume=False)  # raises if it may not replace the run
    if not force:
        raise UsageError(f"{out} already has a demo: add --force to replace it, or name another folder with --out")


def _is_ours(path: Path) -> bool:
    """Return whether a file belongs to an earlier demo, by its name and its columns."""
    if path.name not in _FILES or not path.is_file() or path.is_symlink():
        return False
    header = ",".join((_LABEL, *_DIGITS)).encode() + b"\n"
    with path.open("rb") as stream:
        return stream.read(len(header)) == header


def _write_files(out: Path) -> dict[str, Path]:
    """Fit a model to wrong labels, and write its probabilities of three sets of rows as CSV."""
    import numpy as np
    import pandas as pd
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict, train_test_split

    from postshift.cli.errors import FileError
    from postshift.cli.files.table_writer import write_table
    from postshift.datasets.bundled import load_embedded

    digits = load_embedded("digits")
    split: dict[str, Any] = {"random_state": _SEED}
    X, X_test, y, y_test = train_test_split(digits.X / 16, digits.y, test_size=_N_TEST, stratify=digits.y, **split)
    X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=_N_VAL, stratify=y, **split)
    wrong = np.random.default_rng(_SEED).random(len(y_train)) < _FLIP_SHARE
    spoilt = np.where(wrong, [_FLIPS.get(label, label) for label in y_train.tolist()], y_train)
    model = LogisticRegression(max_iter=2000).fit(X_train, spoilt)
    tables = {
        "train": (cross_val_predict(model, X_train, spoilt, method="predict_proba"), spoilt),
        "val": (model.predict_proba(X_val), y_val),
        "test": (model.predict_proba(X_test), y_test),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot create the folder {out}: {error.strerror}: name another with --out") from error
    for name, (eta, labels) in tables.items():
        columns = {column: eta[:, place] for place, column in enumerate(_DIGITS)}
        write_table(pd.DataFrame({_LABEL: labels, **columns}), out / f"{name}.csv")
    return {name: out / f"{name}.csv" for name in tables}


def _show(found: dict[str, Any], scored: dict[str, Any], console: Console) -> None:
    """Write the rules of the menu and the result."""
    n_train, n_val = found["training_rows"], found["validation_rows"]
    console.say(
        f"digits: {n_train:,} training rows, many with wrong labels; {n_val} validation rows with correct labels"
    )
    console.say()
    rows = [(rule["name"], f"{rule['score']:.3f}", f"{rule['weight']:.2f}") for rule in found["rules"]]
    rows.append(("their weighted average (the result)", f"{found['after']:.3f}", ""))
    console.table(("rule", f"{found['metric']}, held out", "weight"), rows, numbers=2)
    low, high = scored["intervals"]["gain"]
    console.say()
    console.say(
        f"on {scored['rows']} test rows: {scored['before']:.3f} -> {scored['after']:.3f}, gain {scored['gain']:+.3f} "
        f"({low:+.3f} to {high:+.3f})"
    )
