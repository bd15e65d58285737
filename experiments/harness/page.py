"""The page of an experiment: a picture, two sentences, the tables; then how it was measured and how to repeat it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

from experiments.harness.experiment import Results
from experiments.harness.figures import save_figure
from experiments.harness.files import write_text
from postshift._installing import install

WIDTH = 120
SHOWN = 6  # names of methods with missing runs
QUICK = "**A quick look**"
MEASURED = "## How it was measured"
_TABLES = ("|", "## ")  # what a table, or the heading of one, begins with
_END = ("To repeat it", "Made with")


def write_page(results: Results, folder: Path) -> None:
    """Write the page of an experiment and its figure, all from stored results."""
    experiment = results.experiment
    write_text(folder / f"{experiment.name}.md", experiment.page(results))
    if experiment.figure is None:
        return
    try:
        figure = experiment.figure(results)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"figures need matplotlib: {install('report')}") from error
    save_figure(figure, folder, experiment.name)


def whole_page(results: Results, body: str | Iterable[str], *, lead: str = "", sources: Sequence[str] = ()) -> str:
    """Return a page: title, the picture, two sentences, the text (its paragraphs wrapped), how to repeat it.

    Parameters
    ----------
    results : Results
        What is stored.
    body : str or iterable of str
        Paragraphs: what was done, then the tables and what is said about them. Empty ones are left out.
    lead : str
        Two sentences: what it is about, and what came out.
    sources : sequence of str
        Other experiments whose results are quoted.
    """
    experiment = results.experiment
    name, command = experiment.name, f"`python -m experiments {experiment.name}`"
    drawn = experiment.figure is not None
    files = ", ".join(f"[{name}.{suffix}]({name}.{suffix})" for suffix in ("csv", *(["svg"] if drawn else [])))
    paragraphs = [
        f"# {experiment.title}",
        f"<!-- Made by {command} from {' and '.join(f'{each}.csv' for each in (name, *sources))}; do not edit. -->",
        f"{QUICK}: the smallest sizes. These figures are not results." if results.quick else "",
        *(body.split("\n\n") if isinstance(body, str) else [part for text in body for part in text.split("\n\n")]),
        _incomplete(results),
        experiment.remark,
        f"To repeat it: {command}. Made with {results.made_with}. Results: {files}.",
    ]
    picture = f"![{experiment.picture or experiment.title}]({name}.png)" if drawn else ""
    kept = [each.strip() for each in paragraphs if each.strip()]
    return "\n\n".join(map(_wrapped, opened(kept, picture=picture, lead=lead))) + "\n"


def _incomplete(results: Results) -> str:
    """Say which runs are missing."""
    if not results.missing:
        return ""
    names = list(dict.fromkeys(method for method, _ in results.missing))
    listed = "; ".join([*names[:SHOWN], *([f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else [])])
    n_wanted = len(results.missing) + len(results.done)
    return f"**Incomplete.** {len(results.missing)} of {n_wanted} runs are not stored yet, of: {listed}."


def _wrapped(paragraph: str) -> str:
    """Return a paragraph in lines of equal width; tables, lists and headings as they are."""
    if paragraph.startswith(("|", "#", "!", "<", "* ", "- ")):
        return paragraph
    return fill(" ".join(paragraph.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def opened(paragraphs: Sequence[str], *, picture: str, lead: str) -> list[str]:
    """Return the paragraphs of a page in the order in which they are read.

    Parameters
    ----------
    paragraphs : sequence of str
        Title, comment, what was done, tables, and how to repeat it.
    picture : str
        The paragraph of the picture, which may be among the others; empty for none.
    lead : str
        Two sentences: what it is about, and what came out.
    """
    title, comment, *rest = [each for each in paragraphs if each != picture]
    quick = [each for each in rest if each.startswith(QUICK)]
    rest = [each for each in rest if not each.startswith(QUICK)]
    first = next((place for place, each in enumerate(rest) if each.startswith(_TABLES)), 0)
    about, shown = rest[:first], rest[first:]
    end = next((place for place, each in enumerate(shown) if each.startswith(_END)), len(shown))
    how = [MEASURED, *about] if about else []
    return [title, comment, *quick, *filter(None, (picture, lead)), *shown[:end], *how, *shown[end:]]


def opened_text(page: str, *, picture: str, lead: str) -> str:
    """Return a page that is one text, in the order in which it is read."""
    paragraphs = re.split(r"\n{2,}", page.strip())
    return "\n\n".join(opened(paragraphs, picture=picture, lead=lead)) + "\n"
