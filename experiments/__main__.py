"""Run the paper's experiments: ``python -m experiments NAME|all [--seeds N] [--methods TEXT] [--quick] [--render]``.

Every finished (method, seed) is stored at once in ``docs/results/NAME.csv``; a run that was stopped or killed goes on
where it was. Then the page ``NAME.md`` and the figures are made from what is stored. The exit code is 1 where something
failed, 2 for a name or an option that is not known, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import runner
from experiments.registry import EXPERIMENTS, STUDIES
from experiments.runner import say
from experiments.study import OUT, Experiment, Results, StoredLineError

ALL = "all"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for and return the exit code."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    if args.list:
        print("\n".join(f"{name:16s} {described(module)}" for name, module in EXPERIMENTS.items()))
        return 0
    if not args.names:
        parser.error(f"name an experiment, or '{ALL}'. Known: {', '.join(EXPERIMENTS)}")
    for name in args.names:
        if name != ALL and name not in EXPERIMENTS:
            parser.error(unknown(name))
    names = list(EXPERIMENTS) if ALL in args.names else list(dict.fromkeys(args.names))
    try:
        failures = [failure for name in names for failure in carry_out(name, args)]
        if args.render and ALL in args.names and args.out is None:
            failures += [failure for module in STUDIES for failure in render_study(module)]
    except KeyboardInterrupt:
        say("stopped; what was finished is stored, and the same command goes on from there")
        return 130
    for failure in failures:
        say(f"FAILED {failure}")
    return int(bool(failures))


def make_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"an experiment (see --list), or '{ALL}'")
    parser.add_argument("--list", action="store_true", help="list the experiments and end")
    parser.add_argument("--seeds", type=_count, help="number of seeds (default: the experiment's own; 1 with --quick)")
    parser.add_argument(
        "--methods", nargs="+", default=[], metavar="TEXT", help="only those whose names have one of these texts"
    )
    parser.add_argument("--quick", action="store_true", help="smallest sizes, a minute each; stored only with --out")
    parser.add_argument("--render", action="store_true", help="only make pages and figures again from the stored CSV")
    parser.add_argument("--out", type=Path, help="folder of the results (default: docs/results)")
    return parser


def carry_out(name: str, args: argparse.Namespace) -> list[str]:
    """Run one experiment, make its page, and return what failed."""
    failures: list[str] = []
    try:
        experiment = load(name)
        if args.render:
            return render(experiment, args.out or OUT, quick=args.quick)
        seeds = args.seeds or (1 if args.quick else experiment.seeds)
        methods = [method for method, _ in experiment.wanted(seeds=1, quick=args.quick)]
        if not any(runner.chosen(method, args.methods) for method in methods):
            return [f"{name}: no method has {' or '.join(args.methods)} in its name: {', '.join(methods)}"]
        folder = args.out or (None if args.quick else OUT)
        outcome = runner.run(experiment, folder=folder, seeds=seeds, quick=args.quick, only=args.methods)
        failures += outcome.failures
        if outcome.results.rows:
            show(outcome.results, folder)
    except (ImportError, OSError, StoredLineError) as error:
        failures.append(f"{name}: {error}")
    return failures


def show(results: Results, folder: Path | None) -> None:
    """Write the page, or print it where there is no folder."""
    if folder is None:
        print(results.experiment.page(results))
        return
    runner.write_page(results, folder)
    say(f"{results.experiment.name}: {folder / results.experiment.name}.md")


def render(experiment: Experiment, folder: Path, *, quick: bool) -> list[str]:
    """Make the page again, and return what failed."""
    results = runner.stored(experiment, folder, quick=quick)
    if not results.rows:
        name = experiment.name
        return [f"{name}: {folder / name}.csv has no results: run `python -m experiments {name}` first"]
    runner.write_page(results, folder)
    return []


def render_study(module: str) -> list[str]:
    """Make the page of a study with a command of its own again, and return what failed."""
    try:
        found = importlib.import_module(module)
        getattr(found, "STUDY", found).write_page()
    except (ImportError, OSError) as error:
        return [f"{module}: {error}"]
    return []


def load(name: str) -> Experiment:
    """Return an experiment; its module is imported now."""
    found = importlib.import_module(EXPERIMENTS[name]).EXPERIMENT
    if found.name != name:
        raise ImportError(f"{EXPERIMENTS[name]} has the experiment {found.name!r}: mend experiments/registry.py")
    return found  # type: ignore[no-any-return]


def described(module: str) -> str:
    """Return the first line of a module's docstring, without importing the module."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return f"({module} is missing)"
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def unknown(name: str) -> str:
    """Say that a name is not known, and which one is like it."""
    near = difflib.get_close_matches(name, [*EXPERIMENTS, ALL], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no experiment {name!r}{hint} Known: {', '.join([*EXPERIMENTS, ALL])}"


def _count(text: str) -> int:
    """Return a number of seeds."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1. Got {text!r} instead")
    return number


if __name__ == "__main__":
    sys.exit(main())
