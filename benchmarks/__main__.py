"""``make bench``: run the comparisons, print the ratios beside their goals, store figures, page and plot."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.page import line, render, series, slopes, write_plot
from benchmarks.record import Row, made_with, read_rows, write_rows
from benchmarks.registry import BY_NAME, COMPARISONS, Comparison
from benchmarks.timing import FailedError, SkippedError
from experiments.harness.files import OUT

NAME = "bench"


def main(arguments: list[str] | None = None) -> int:
    """Run; return 1 where two sides did not compute the same."""
    args = _parser().parse_args(arguments)
    if args.list:
        print("\n".join(f"{each.name:24} {each.goal or '-'!s:10} {each.title}" for each in COMPARISONS))
        return 0
    out = args.out or (None if args.quick else OUT)
    rows: list[Row] = []
    if not args.render:
        with threadpool_limits(limits=1):
            rows = run_all([BY_NAME[name] for name in args.only or BY_NAME], quick=args.quick)
    if out is not None:
        store(out, rows, made_with(quick=args.quick))
    return int(any(row.failed.startswith("FAILED") for row in rows))


def run_all(comparisons: list[Comparison], *, quick: bool) -> list[Row]:
    """Run comparisons one after the other, telling of each as it ends."""
    rows: list[Row] = []
    for comparison in comparisons:
        found = run_one(comparison, quick=quick)
        rows += found
        if comparison.table != "growth":
            print("\n".join(_told(row) for row in found), flush=True)
    if series(rows):
        print(slopes(rows))
    return rows


def run_one(comparison: Comparison, *, quick: bool) -> list[Row]:
    """Return the rows of a comparison; of one that cannot be made, or must not count, a row that says why."""
    try:
        return [Row.of(comparison.name, found) for found in comparison.run(quick)]
    except SkippedError as error:
        return [Row(name=comparison.name, failed=f"skipped: {error}")]
    except FailedError as error:
        return [Row(name=comparison.name, failed=f"FAILED: {error}")]


def store(out: Path, rows: list[Row], made: str) -> None:
    """Put new rows in the place of stored ones of the same names, and make page and plot of them all."""
    path = out / f"{NAME}.csv"
    stored, made_before = read_rows(path)
    if rows:
        names = {row.name for row in rows}
        if names != set(BY_NAME) and made_before != made:
            sys.stderr.write(f"not stored: {path} has no figures of this machine and these versions; run it whole\n")
            return
        kept = [*rows, *(row for row in stored if row.name not in names)]
        write_rows(path, sorted(kept, key=lambda row: list(BY_NAME).index(row.name)), made)
        stored, made_before = read_rows(path)
    (out / f"{NAME}.md").write_text(render(stored, made_before))
    if find_spec("matplotlib") is None:
        sys.stderr.write("no plot: the package matplotlib is missing\n")
    else:
        write_plot(out, stored)


def _told(row: Row) -> str:
    """Return a row as a line of the terminal."""
    _, goal, cpu, wall, met, ours, theirs, values, note = line(row)
    found = f"{row.name:24} goal {goal or '-':>9}  CPU {cpu or '-':>7}  wall {wall or '-':>7}  {met or '-':7}"
    return f"{found} {ours or '-':>8} {theirs or '-':>8}  {values}  {note}".rstrip()


def _parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="only list the comparisons")
    parser.add_argument("--only", metavar="NAME", action="append", choices=list(BY_NAME), help="run only this one")
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial; stored only with --out")
    parser.add_argument("--render", action="store_true", help="only rebuild page and plot from the stored CSV")
    parser.add_argument("--out", type=Path, help="folder of bench.csv, bench.md and the plot (docs/results)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
