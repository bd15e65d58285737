"""The pages build without a warning, ask the network for nothing, and have no dead link."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.building import ROOT, pages_of

pytestmark = pytest.mark.slow

FETCHED = dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed", "input"), "src")
FETCHED |= {"link": "href", "use": "href", "object": "data"}
NAVIGATION = {"canonical", "next", "prev", "search", "index", "author", "copyright"}  # <link> that loads nothing
MODULES = ("postshift", *(f"postshift.{name}" for name in ("estimators", "metrics", "basis", "rules", "engines")))
MODULES += tuple(f"postshift.{name}" for name in ("report", "persistence", "baselines", "datasets", "oracle"))


@dataclass
class Page(HTMLParser):
    """What a built page loads, links to, and can be linked to at."""

    path: Path
    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    styles: list[str] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()
        self.feed(self.text)

    @cached_property
    def text(self):
        return self.path.read_text(encoding="utf-8")

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(FETCHED.get(tag, ""), "") and not NAVIGATION & set(given.get("rel", "").split()):
            self.loads.append(given[FETCHED[tag]])
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.styles.append(given.get("style", ""))


@pytest.fixture(scope="module")
def pages(built):
    return {path: Page(path) for path in pages_of(built)}


def test_every_source_page_is_built(built):
    for source in (ROOT / "docs").rglob("*.md"):
        name = source.relative_to(ROOT / "docs").with_suffix(".html")
        assert name.parts[0] == "_build" or (built / name).exists(), name


def test_pages_load_nothing_from_the_network(pages):
    for page in pages.values():
        assert page.loads, page.path.name
        for address in page.loads:
            assert not urlsplit(address).netloc, f"{page.path.name} loads {address}"
        assert not re.search(r"url\(|@import", " ".join(page.styles)), page.path.name


def test_what_pages_load_is_there(pages):
    for page in pages.values():
        for address in page.loads:
            target = unquote(urlsplit(address).path)
            assert address.startswith("data:") or (page.path.parent / target).exists(), f"{page.path.name}: {address}"


def test_styles_load_nothing_from_the_network(built):
    styles = list(built.rglob("*.css"))
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//", text), style.name


def test_no_dead_internal_link(pages, built):
    for page in pages.values():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = page.path if not parts.path else (page.path.parent / unquote(parts.path)).resolve()
            assert target.exists(), f"{page.path.relative_to(built)}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, f"{page.path.relative_to(built)}: {link}"


def test_the_reference_has_every_public_name(pages, built):
    documented = set().union(*(page.ids for path, page in pages.items() if path.parent == built / "api"))
    modules = {module: importlib.import_module(module) for module in MODULES}
    for module in modules.values():
        for name in module.__all__:
            found = getattr(module, name)
            ways = {f"{other}.{name}" for other, there in modules.items() if getattr(there, name, None) is found}
            ways.add(f"{getattr(found, '__module__', None)}.{name}")  # the page of the core has its modules
            assert ways & documented, f"{module.__name__}.{name}"


def test_formulas_are_mathml(pages, built):
    text = pages[built / "index.html"].text
    assert "<math" in text
    assert "mathjax" not in text.lower()
    starred = '<mi mathvariant="normal">*</mi>'  # what docutils makes of \operatorname*
    assert [page.path.name for page in pages.values() if starred in page.text] == []


def test_no_sidebar_is_empty(pages, built):
    found = {
        path: re.findall(r'<nav class="bd-docs-nav.*?</nav>', page.text, re.DOTALL) for path, page in pages.items()
    }
    assert "bases.html" in found[built / "guide" / "metrics.html"][0]
    assert [path.name for path, sidebars in found.items() if any("<a " not in each for each in sidebars)] == []


def test_nothing_tells_of_this_machine(pages):
    for page in pages.values():
        assert str(ROOT) not in page.text, page.path.name
