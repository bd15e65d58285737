"""How a page of results begins: a picture, two sentences, then the table; how it was measured comes after that."""

from __future__ import annotations

import re
from collections.abc import Sequence

QUICK = "**A quick look**"
MEASURED = "## How it was measured"
_SHOWN = ("|", "## ")  # what a table, or the heading of one, begins with
_END = ("To repeat it", "Made with")


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
    first = next((place for place, each in enumerate(rest) if each.startswith(_SHOWN)), 0)
    about, shown = rest[:first], rest[first:]
    end = next((place for place, each in enumerate(shown) if each.startswith(_END)), len(shown))
    how = [MEASURED, *about] if about else []
    return [title, comment, *quick, *filter(None, (picture, lead)), *shown[:end], *how, *shown[end:]]


def opened_text(page: str, *, picture: str, lead: str) -> str:
    """Return a page that is one text, in the order in which it is read."""
    paragraphs = re.split(r"\n{2,}", page.strip())
    return "\n\n".join(opened(paragraphs, picture=picture, lead=lead)) + "\n"
