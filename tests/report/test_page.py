"""The page: self-contained, well formed, and safe for any names of classes."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from postshift.report import Facts, render, write_report
from postshift.report.counts import matrices
from tests.report import cases
from tests.report.pages import CASES, page_of

ADDRESSES = ("href", "src", "srcset", "action", "xlink:href", "poster", "data", "formaction")


@CASES
def test_every_element_is_closed_and_ids_are_unique(name):
    page = page_of(name)
    assert page.unbalanced == []
    ids = [e["attrs"]["id"] for e in page.elements if "id" in e["attrs"]]
    assert len(ids) == len(set(ids))
    for e in page.elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set(e["attrs"].get(key, "").split()) <= set(ids)
    links = [e["attrs"]["href"] for e in page.all("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)


@CASES
def test_the_page_loads_nothing_from_the_network(name):
    page = page_of(name)
    for e in page.elements:
        for key in ADDRESSES:
            if key in e["attrs"]:
                assert e["attrs"][key].startswith(("#", "data:")), e
        assert "style" not in e["attrs"]  # the policy forbids it
        assert not [key for key in e["attrs"] if key.startswith("on")]
    (style,) = page.all("style")
    (script,) = page.all("script")
    assert not re.search(r"url\(|@import", style["text"])
    assert not re.search(r"fetch|XMLHttp|WebSocket|import\(|sendBeacon|eval", script["text"])


@CASES
def test_the_policy_allows_the_pages_own_style_and_script_only(name):
    page = page_of(name)
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(each.strip().split(" ", 1) for each in policy["attrs"]["content"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for tag in ("style", "script"):
        (element,) = page.all(tag)
        digest = base64.b64encode(hashlib.sha256(element["text"].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


@CASES
def test_every_chart_has_a_table_a_title_and_tips(name):
    page = page_of(name)
    charts = page.all("svg")
    assert len(charts) >= 4
    for chart in charts:
        assert chart["attrs"]["role"] == "img"
        assert chart["attrs"]["tabindex"] == "0"
        assert "width" not in chart["attrs"]  # the width is the page's
        assert chart["attrs"]["viewbox"].startswith("0 0 340 ")
        title, *_ = page.inside(chart, "title")
        (about,) = page.inside(chart, "desc")
        assert title["text"]
        assert about["text"]
        marks = [e for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
        assert marks
        assert all(e["attrs"]["data-tip"] for e in marks)
        (figure,) = [e for e in chart["within"] if e["tag"] == "figure"]
        (details,) = page.inside(figure, "details")
        (table,) = page.inside(details, "table")
        assert page.inside(table, "td")


@CASES
def test_tables_have_captions_and_heads(name):
    page = page_of(name)
    for table in page.all("table"):
        (caption,) = page.inside(table, "caption")
        assert caption["text"]
        assert all(e["attrs"]["scope"] in ("row", "col") for e in page.inside(table, "th"))
        lengths = {len(page.inside(row, "th") + page.inside(row, "td")) for row in page.inside(table, "tr")}
        assert len(lengths) == 1
        region = table["within"][-1]
        assert region["attrs"]["tabindex"] == "0"
        assert region["attrs"]["aria-label"] == caption["text"]


@CASES
def test_headings_are_in_order_and_landmarks_there(name):
    page = page_of(name)
    levels = [int(e["tag"][1]) for e in page.elements if re.fullmatch(r"h[1-6]", e["tag"])]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert all(len(page.all(tag)) == 1 for tag in ("header", "nav", "main", "footer"))
    assert page.all("html", lang="en")
    sections = [e["attrs"]["id"] for e in page.all("section")]
    facts = cases.ALL[name]()
    constraints = [] if facts.constraints is None else ["constraints"]
    frontier = [] if facts.frontier is None else ["frontier"]
    middle = ["confusion", *frontier, "weights-section", "changed", "rules-section", "trace"]
    assert sections == ["verdict", *constraints, *middle, "warnings", "use", "about"]


def test_names_of_classes_are_texts_and_nothing_else():
    page = page_of("hostile names")
    assert len(page.all("script")) == 1
    assert page.all("title")[0]["text"] == cases.HOSTILE[0]
    heads = {e["text"] for e in page.all("th", scope="row")}
    assert set(cases.HOSTILE) <= heads
    tips = " ".join(e["attrs"].get("data-tip", "") for e in page.elements)
    assert all(name in tips for name in cases.HOSTILE)
    assert cases.HOSTILE[2] in {e["text"] for e in page.all("code")}


def test_the_positive_class_is_named():
    rows = cases.random_rows(2)
    for metric, positive in (("f1", "1"), ("g_mean", None)):
        facts = Facts.of(cases.fitted(rows, metric, method="base"), rows.eta_val, rows.y_val)
        assert facts.metric.positive == positive
        assert ("The positive class is 1." in render(facts)) == (positive is not None)
    shown = replace(facts, metric=replace(facts.metric, positive="<ill>"))
    assert "The positive class is &lt;ill&gt;." in render(shown)


def test_the_numbers_on_the_page_are_the_facts():
    facts, page = cases.digits_auto(), page_of("digits")
    values = [e["text"] for e in page.all("dd", _class="value")]
    verdict = facts.verdict
    assert values == [f"{verdict.before:.3f}", f"{verdict.after:.3f}", f"+{verdict.gain:.3f}"]
    (table,) = page.all("table", id="confusion-after-table")
    _, after = matrices(facts.confusion.cells, n_classes=10)
    shown = [[int(e["text"]) for e in page.inside(row, "td")] for row in page.inside(table, "tr")[1:]]
    np.testing.assert_array_equal(shown, after)
    (rules,) = page.all("table", id="rules-table")
    assert len(page.inside(rules, "tr")) == 2 + len(facts.rules)
    (chart,) = page.all("svg", id="trace-chart")
    assert len([e for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]) == len(facts.trace)


def test_settings_and_versions_are_always_shown():
    facts, page = cases.hostile(), page_of("hostile names")
    (pairs,) = page.all("dl", _class="pairs")
    shown = [(e["text"], d["text"]) for e, d in zip(page.inside(pairs, "dt"), page.inside(pairs, "dd"), strict=True)]
    assert shown == [*facts.used, *facts.settings, *facts.versions]
    assert facts.used == ((cases.HOSTILE[0], cases.HOSTILE[1]),)
    assert dict(facts.settings)["seed"] == "0"


def test_if_the_base_is_kept_there_is_no_change_tile():
    assert [e["text"] for e in page_of("fallback").all("dt")][:2] == ["Before", "After"]
    assert len(page_of("fallback").all("dd", _class="value")) == 2


def test_the_same_facts_make_the_same_bytes(tmp_path):
    facts = cases.hostile()
    write_report(facts, tmp_path / "one.html")
    write_report(Facts.from_json(facts.to_json()), tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert (tmp_path / "one.html").read_text(encoding="utf-8") == render(facts)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.html", "two.html"]


def test_names_that_cannot_be_encoded_are_written(tmp_path):
    facts = replace(cases.untouched(), title="\ud800 lone")
    write_report(facts, tmp_path / "report.html")
    assert "lone" in (tmp_path / "report.html").read_text(encoding="utf-8")


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def blended(colour, back, share):
    mixed = [round(share * int(colour[k : k + 2], 16) + (1 - share) * int(back[k : k + 2], 16)) for k in (1, 3, 5)]
    return "#" + "".join(f"{c:02x}" for c in mixed)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast_of_texts_and_marks(theme):
    css = page_of("digits").all("style")[0]["text"]
    block = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)[theme]
    colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    for text, back in [
        ("ink", "paper"), ("soft", "paper"), ("ink", "card"), ("soft", "card"), ("accent", "card"), ("accent", "paper"),
        ("good", "good-back"), ("warn", "warn-back"), ("bad", "bad-back"), ("calm", "calm-back"), ("tip-ink", "tip"),
        ("ink", "code"), ("ink", "cell"),
    ]:  # fmt: skip
        assert contrast(colour[text], colour[back]) >= 4.5, (text, back)
    for hue in ("more", "fewer"):  # numbers in cells, however strong the colour
        for share in np.linspace(0, 1, 11):
            assert contrast(colour["ink"], blended(colour[hue], colour["cell"], share)) >= 4.5, (hue, share)
    for line in ("l0", "l1", "l2", "l3", "l4", "l5"):
        assert contrast(colour[line], colour["card"]) >= 3
