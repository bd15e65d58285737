"""The tables of docs/results.md and of the README: the paper's tasks, one line each, made from the stored results.

``python -m experiments.paper.overview``. The README has fewer columns. A task whose runs are not all stored
has no line yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.harness import runner
from experiments.harness.experiment import Experiment
from experiments.harness.files import OUT, write_text
from experiments.harness.tables import Summary, markdown, summary
from experiments.paper import adience_shift, adult_fairness, adult_proxy, cifar10_noise, macro_f
from experiments.paper.adult.tables import ours_among
from experiments.paper.images import adience

BASE = "cross-entropy [train]"  # the model alone, in the tables
ROOT = Path(__file__).parents[2]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
HEAD = ["task", "metric", "the model alone", "best other method", "the paper's method", "the paper says", "our default"]
SHORT_HEAD = ["task", "metric", "model alone", "best other method", "the paper's method", "postshift"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A line of the table: which methods of an experiment stand for what.

    ``methods`` are those of the experiment that belong to the task, as they are called; ``ours`` says which of them
    are no rivals.
    """

    experiment: Experiment
    title: str
    metric: str
    base: str
    paper: str
    default: str
    ours: Callable[[str], bool]
    methods: Mapping[str, str]

    def line(self, folder: Path, *, short: bool) -> list[str] | None:
        """Return the cells, or None where runs are missing."""
        results = runner.stored(self.experiment, folder)
        if not results.rows or results.missing:
            return None
        found = {name: summary(results.values(method)) for name, method in self.methods.items()}
        rival = max((name for name in found if not self.ours(name)), key=lambda name: found[name].mean)
        said, _ = self.experiment.paper[self.methods[self.paper]]
        best, paper, default = (with_interval(found[name]) for name in (rival, self.paper, self.default))
        page = f"results/{self.experiment.name}.md"
        if short:
            return [f"[{self.title}](docs/{page})", self.metric, with_interval(found[self.base]), best, paper, default]
        return [
            f"[{self.title}]({page})",
            self.metric,
            with_interval(found[self.base]),
            f"{best} ({rival})",
            paper,
            f"{said:.3f}",
            default,
        ]


def with_interval(found: Summary) -> str:
    """Return the mean and half of its interval."""
    return f"{found.mean:.3f} ± {found.high - found.mean:.3f}"


def whole(module: Any, *, title: str, metric: str, paper: str, default: str) -> Task:
    """Return a task that is the whole experiment of a module; methods with its prefixes are ours."""
    methods = {method: method for method in module.EXPERIMENT.methods}
    return Task(
        experiment=module.EXPERIMENT,
        title=title,
        metric=metric,
        base=BASE,
        paper=paper,
        default=default,
        ours=ours_among(methods, module.PREFIXES).__contains__,
        methods=methods,
    )


def section(which: macro_f.Section) -> Task:
    """Return a data set of the table of macro F-measures."""
    return Task(
        experiment=macro_f.EXPERIMENT,
        title=f"macro-F, {which.title}",
        metric="mean F1 of the groups",
        base=macro_f.BASE,
        paper=macro_f.FWEG,
        default=macro_f.DEFAULT,
        ours=macro_f.OURS.__contains__,
        methods={method: which.key(method) for method in which.methods},
    )


TASKS = (
    whole(
        cifar10_noise,
        title="CIFAR-10, flipped labels",
        metric="accuracy",
        paper=cifar10_noise.CHOSEN,
        default=cifar10_noise.DEFAULT,
    ),
    whole(
        adult_proxy,
        title="Adult, proxy labels",
        metric="G-mean",
        paper=adult_proxy.UNKNOWN,
        default=adult_proxy.DEFAULT,
    ),
    whole(
        adience_shift,
        title="Adience, shift of age",
        metric="F-measure",
        paper=adience.UNKNOWN,
        default=adience.DEFAULT,
    ),
    whole(
        adult_fairness,
        title="Adult, gender hidden",
        metric="G-mean of both genders",
        paper=adult_fairness.SEARCHED,
        default=adult_fairness.AVERAGE,
    ),
    *(section(which) for which in macro_f.SECTIONS if which.paper is not None),
)


def with_table(text: str, *, short: bool, folder: Path = OUT) -> str:
    """Return a page with the table between its marks made again; ``short`` is the table of the README."""
    name, head = ("overview-short", SHORT_HEAD) if short else ("overview", HEAD)
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    lines = [line for task in TASKS if (line := task.line(folder, short=short)) is not None]
    return f"{before}{begin}\n{markdown(head, lines)}\n{end}{after}"


if __name__ == "__main__":
    for path, short in ((PAGE, False), (README, True)):
        write_text(path, with_table(path.read_text(encoding="utf-8"), short=short))
