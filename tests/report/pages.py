"""The pages of the cases, parsed."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser

import pytest

from postshift.report import render
from tests.report import cases

CASES = pytest.mark.parametrize("name", cases.ALL)
VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """The elements of a page, each with its attributes, its text, what it is within and what is inside."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.stack, self.unbalanced = [], [], []
        self.feed(html)
        self.close()
        self.unbalanced += [each["tag"] for each in self.stack]

    def handle_starttag(self, tag, attrs):
        found = {"tag": tag, "attrs": dict(attrs), "text": "", "within": list(self.stack), "inside": []}
        for each in self.stack:
            each["inside"].append(found)
        self.elements.append(found)
        if tag not in VOID:
            self.stack.append(found)

    def handle_endtag(self, tag):
        if self.stack and self.stack[-1]["tag"] == tag:
            self.stack.pop()
        else:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        for each in self.stack:
            each["text"] += data

    def all(self, tag, **attributes):
        wanted = {key.strip("_"): value for key, value in attributes.items()}
        return [
            e
            for e in self.elements
            if e["tag"] == tag and all(e["attrs"].get(key) == value for key, value in wanted.items())
        ]

    @staticmethod
    def inside(element, tag):
        return [e for e in element["inside"] if e["tag"] == tag]


@cache
def page_of(name):
    """The page of a case, rendered once."""
    return Page(render(cases.ALL[name]()))


def tips_in(page, chart):
    """The tips of the marks of a chart."""
    return [e["attrs"]["data-tip"] for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
