"""Run experiments: ``python -m experiments NAME|all [--seeds N] [--methods TEXT] [--quick] [--render] [--out FOLDER]``.

Every finished (method, seed) is stored at once in ``docs/results/NAME.csv``; a run that was stopped or killed goes on
where it was. Then the page ``NAME.md`` and the figures are made from what is stored. The exit code is 1 where something
failed, 2 for an unknown name or option, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from pathlib import Path

from experiments import registry
from experiments.harness import runner
from experiments.harness.experiment import Experiment
from experiments.harness.files import OUT
from experiments.harness.page import write_page
from experiments.harness.progress import say
from experiments.harness.store import StoredLineError

ALL = "all"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and return the exit code."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    if args.list:
        print("\n".join(f"{name:20s} {registry.described(name)}" for name in registry.EXPERIMENTS))
        return 0
    if not args.names:
        parser.error(f"name an experiment, or '{ALL}'. Known: {', '.join(registry.EXPERIMENTS)}")
    for name in args.names:
        if name != ALL and name not in registry.EXPERIMENTS:
            parser.error(unknown(name))
    names = registry.EXPERIMENTS if ALL in args.names else dict.fromkeys(args.names)
    try:
        failures = [failure for name in names for failure in carry_out(name, args)]
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
    parser.add_argument("--jobs", type=_count, default=1, help="number of processes (default: %(default)s)")
    return parser


def carry_out(name: str, args: argparse.Namespace) -> list[str]:
    """Run one experiment, make its page, and return what failed."""
    try:
        experiment = registry.load(name)
        return render(experiment, args) if args.render else run(experiment, args)
    except (ImportError, OSError, StoredLineError) as error:
        return [f"{name}: {error}"]


def run(experiment: Experiment, args: argparse.Namespace) -> list[str]:
    """Run what is missing, write the page or print it, and return what failed."""
    methods = [method for method, _ in experiment.wanted(seeds=1, quick=args.quick)]
    if not any(runner.chosen(method, args.methods) for method in methods):
        return [f"{experiment.name}: no method has {' or '.join(args.methods)} in its name: {', '.join(methods)}"]
    folder = args.out or (None if args.quick else OUT)
    outcome = runner.run(
        experiment, folder=folder, seeds=args.seeds, quick=args.quick, only=args.methods, jobs=args.jobs
    )
    failures = list(outcome.failures)
    try:
        if outcome.results.rows and folder is None:
            print(experiment.page(outcome.results))
        elif outcome.results.rows:
            write_page(outcome.results, folder)
            say(f"{experiment.name}: {folder / experiment.name}.md")
    except ImportError as error:
        failures.append(f"{experiment.name}: {error}")
    return failures


def render(experiment: Experiment, args: argparse.Namespace) -> list[str]:
    """Make the page again, and return what failed."""
    name, folder = experiment.name, args.out or OUT
    results = runner.stored(experiment, folder, quick=args.quick)
    if not results.rows:
        return [f"{name}: {folder / name}.csv has no results: run `python -m experiments {name}` first"]
    write_page(results, folder)
    return []


def unknown(name: str) -> str:
    """Say that a name is not known, and which one is like it."""
    known = [*registry.EXPERIMENTS, ALL]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no experiment {name!r}{hint} Known: {', '.join(known)}"


def _count(text: str) -> int:
    """Return a number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1. Got {text!r} instead")
    return number
