"""What was asked for by the options of ``postshift fit``, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from postshift.cli.errors import UsageError
from postshift.cli.program import split_command

AUTO = "auto"
LOCAL = "local"
_OF_DASK = ("dask", "distributed")


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """The options, under their names."""

    val: Path
    out: Path
    train: Path | None = None
    label: str | None = None
    proba: str | None = None
    positive: str | None = None
    model: Path | None = None
    trust_model: bool = False
    metric: str | None = None
    pos_label: str | None = None
    metric_command: str | None = None
    metric_timeout: float = 60.0
    metric_scale: float = 1.0
    less_is_better: bool = False
    basis: str = AUTO
    features: str | None = None
    method: str = "auto"
    budget: int | None = None
    groups: str | None = None
    weight: str | None = None
    normalise: bool = False
    seed: int = 0
    jobs: int | None = None
    scheduler: str | None = None
    force: bool = False
    resume: bool = False

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on, the contents of files excepted."""
        names: tuple[str, ...] = (
            "label",
            "proba",
            "positive",
            "metric",
            "pos_label",
            "metric_command",
            "metric_scale",
            "less_is_better",
            "basis",
            "features",
        )
        names += ("method", "budget", "groups", "weight", "normalise", "seed")
        return {name: getattr(self, name) for name in names}

    def check(self) -> None:
        """Refuse options that do not go together."""
        if self.proba is not None and self.model is not None:
            raise UsageError("--proba and --model both say where the probabilities come from: give one of them")
        if self.positive is not None and (self.proba is None or "*" in self.proba):
            raise UsageError(
                "--positive goes with one column of probabilities, as in --proba score --positive yes: name that "
                "column, or leave it out"
            )
        if self.scheduler is not None:
            check_scheduler(self.scheduler)
            if self.train is None:
                raise UsageError(
                    "--scheduler is for training rows: name their Parquet files with --train, or leave it out; "
                    "validation rows are read into memory"
                )
        if (self.metric is None) == (self.metric_command is None):
            raise UsageError(
                "say what to maximise with --metric NAME (postshift metrics lists the names) or with --metric-command "
                "PROGRAM, and not with both"
            )
        if self.metric_command is not None:
            split_command(self.metric_command)
            if self.pos_label is not None:
                raise UsageError(
                    "--pos-label is for a --metric by name; a metric program knows its class: leave it out"
                )
        elif self.less_is_better:
            raise UsageError("--less-is-better is about the number of a --metric-command: leave it out")
        if self.groups is not None and self.metric_command is not None:
            raise UsageError("--groups is for metrics over groups; a metric program knows its groups: leave it out")


def check_scheduler(scheduler: str) -> None:
    """Refuse a ``--scheduler`` that is no address, and any where Dask is missing."""
    if scheduler != LOCAL and ":" not in scheduler:
        raise UsageError(
            f"--scheduler must be an address such as tcp://host:8786, or {LOCAL} for a cluster of processes on this "
            f"machine. Got {scheduler!r} instead"
        )
    for name in _OF_DASK:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
