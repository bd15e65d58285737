"""The section about the frontier: its sentences, its chart and the texts of its points."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from postshift.report import render
from postshift.report.frontier_facts import PointFacts
from postshift.report.frontier_section import (
    bound_text,
    frontier_content,
    frontier_sentences,
    verdict_text,
)
from tests.report import cases
from tests.report.pages import Page

POINT = PointFacts(
    bound=0.9,
    metric=0.5,
    constraint=0.91,
    expected_metric=0.5,
    expected_constraint=0.9,
    certified=None,
    p_value=None,
    rows_needed=None,
    n_changed=3,
    cells=((0, 0, 7.0),),
)


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_the_page_has_every_point_and_shows_the_one_that_was_asked_for(confidence):
    facts = cases.with_frontier(confidence).facts
    page = Page(render(facts))
    (section,) = page.all("section", id="frontier")
    points = json.loads(section["attrs"]["data-points"])
    assert len(points) == len(facts.frontier.points)
    (slider,) = page.all("input", id="frontier-bound")
    assert slider["attrs"]["value"] == str(facts.frontier.asked)
    assert slider["attrs"]["max"] == str(len(points) - 1)
    (at,) = page.all("output", id="frontier-at")
    assert at["text"] == "0.6"
    marks = [e for e in page.elements if "data-point" in e["attrs"]]
    assert [int(e["attrs"]["data-point"]) for e in marks] == list(range(len(points)))
    (script,) = page.all("script")
    assert "frontier-bound" in script["text"]


def test_a_page_without_a_frontier_has_neither_section_nor_script():
    text = render(replace(cases.with_frontier().facts, frontier=None))
    assert 'id="frontier"' not in text
    assert "frontier-bound" not in text


def test_the_sentences_tell_what_a_guarantee_covers():
    plain = " ".join(frontier_sentences(cases.with_frontier().facts))
    assert "the fit asked for 0.6" in plain
    assert "no guarantee" in plain
    certified = " ".join(frontier_sentences(cases.with_frontier(0.9).facts))
    assert "all of them hold together" in certified
    assert frontier_sentences(replace(cases.with_frontier().facts, frontier=None)) == []


def test_many_classes_have_no_matrix():
    facts = cases.with_frontier().facts
    wide = replace(facts, classes=tuple(str(k) for k in range(30)))
    content = frontier_content(wide)
    assert not content["has_matrix"]
    assert json.loads(content["points"])[0]["matrix"] == []


def test_texts():
    assert (bound_text(0.9), bound_text(0.12344), bound_text(0.0), bound_text(1.0)) == ("0.9", "0.1234", "0", "1")
    assert verdict_text(POINT) == "not tested"
    assert verdict_text(replace(POINT, certified=True, p_value=1e-9)) == "certified (p < 0.001)"
    assert verdict_text(replace(POINT, certified=False, p_value=0.5)) == "not certified (p = 0.500)"
    needed = replace(POINT, certified=False, p_value=0.2, rows_needed=12_000)
    assert verdict_text(needed) == "not certified (p = 0.200; about 12,000 rows are needed)"
