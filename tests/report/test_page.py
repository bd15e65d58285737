"""The page: self-contained, well formed, safe whatever the classes are called, and each chart with its table."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.report import Facts, heatmaps, render, svg, write_report
from postshift.report.counts import matrices
from postshift.report.text import MINUS, percent
from tests.report import cases

CASES = pytest.mark.parametrize("name", cases.ALL)
VOID = {"meta", "link", "br", "img", "input"}
ADDRESSES = ("href", "src", "srcset", "action", "xlink:href", "poster", "data", "formaction")


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


PAGES: dict[str, Page] = {}


def page_of(name):
    if name not in PAGES:
        PAGES[name] = Page(render(cases.ALL[name]()))
    return PAGES[name]


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
def test_nothing_is_asked_of_the_network(name):
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
    assert sections == [
        "verdict", "confusion", "weights-section", "changed", "rivals-section", "trace", "care", "use", "about"
    ]  # fmt: skip


def test_names_of_classes_are_texts_and_nothing_else():
    page = page_of("hostile names")
    assert len(page.all("script")) == 1
    assert page.all("title")[0]["text"] == cases.HOSTILE[0]
    heads = {e["text"] for e in page.all("th", scope="row")}
    assert set(cases.HOSTILE) <= heads
    tips = " ".join(e["attrs"].get("data-tip", "") for e in page.elements)
    assert all(name in tips for name in cases.HOSTILE)
    assert cases.HOSTILE[2] in {e["text"] for e in page.all("code")}


@given(st.text(min_size=1))
def test_attributes_and_texts_are_escaped(text):
    drawn = Page(svg.tag("g", svg.words(text, 1, 2), data_tip=text))
    assert [e["tag"] for e in drawn.elements] == ["g", "text"]
    kept = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    assert drawn.elements[0]["attrs"]["data-tip"].replace("\x00", "") in (kept, text.replace("\x00", ""))


# -- the charts as they are seen ----------------------------------------------------------------------------


def box_of(text):
    """Left, right, top and bottom of a text that is not turned, about."""
    attrs = text["attrs"]
    x, y, width = float(attrs["x"]), float(attrs["y"]), 6.0 * len(text["text"])
    left = {"end": x - width, "middle": x - width / 2}.get(attrs.get("text-anchor"), x)
    return left, left + width, y - 9, y + 3


@CASES
def test_no_name_stands_on_a_grid_line(name):
    page = page_of(name)
    for chart in page.all("svg"):
        lines = [e["attrs"] for e in page.inside(chart, "line") if e["attrs"]["class"] in ("grid", "one")]
        upright = [{key: float(line[key]) for key in ("x1", "y1", "y2")} for line in lines if line["x1"] == line["x2"]]
        names = [e for e in page.inside(chart, "text") if e["attrs"]["class"] == "label"]
        for text in names:
            left, right, top, bottom = box_of(text)
            crossed = [e for e in upright if left < e["x1"] < right and e["y1"] < bottom and e["y2"] > top]
            assert not crossed, (chart["attrs"]["id"], text["text"])


@pytest.mark.parametrize("name", ["long names", "two classes, bases", "digits"])
def test_names_of_classes_are_not_cut_beside_free_space(name):
    facts, page = cases.ALL[name](), page_of(name)
    whole = {" ".join(each.split()) for each in facts.classes}
    for chart in page.all("svg"):
        shown = [e["text"] for e in page.inside(chart, "text") if e["attrs"]["class"] == "label"]
        if chart["attrs"]["id"].startswith(("weights-", "shares")):
            assert whole <= set(shown)
        elif chart["attrs"]["id"].startswith("confusion-"):
            upright = [e["text"] for e in page.inside(chart, "text") if "transform" in e["attrs"]]
            beside = [e["text"] for e in page.inside(chart, "text") if e["attrs"].get("text-anchor") == "end"]
            assert whole <= {*upright, *beside}  # there is room above
            assert len(set(beside)) == len(beside)  # names that are cut can be told apart
            few = len(whole) <= 3
            assert not few or whole <= set(beside)


@pytest.mark.parametrize("name", ["digits", "test rows", "weighted", "over groups"])
def test_colours_of_the_difference_say_better_and_worse(name):
    facts, page = cases.ALL[name](), page_of(name)
    before, after = matrices(facts.confusion.cells, n_classes=len(facts.classes))
    change = after - before
    (chart,) = page.all("svg", id="confusion-change")
    cells = [e for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
    for cell, (i, j) in zip(cells, np.ndindex(change.shape), strict=True):
        looks = {e["attrs"]["class"] for e in page.inside(cell, "rect")} & {"more", "fewer"}
        better = (change[i, j] > 0) == (i == j)
        assert looks == (set() if change[i, j] == 0 else {"more" if better else "fewer"})
        assert change[i, j] == 0 or cell["attrs"]["data-tip"].endswith("better" if better else "worse")


@pytest.mark.parametrize("name", ["a cost", "a cost of test rows"])
def test_costs_are_positive_everywhere(name):
    facts, page = cases.ALL[name](), page_of(name)
    scored = facts.scored
    own = {key: f"{-getattr(scored, key):.3f}" for key in ("before", "after")}
    assert [e["text"] for e in page.all("dd", _class="value")][:2] == [own["before"], own["after"]]
    for key in ("scores", "rivals", "trace-chart"):
        for chart in page.all("svg", id=key):
            told = [e["text"] for e in page.inside(chart, "text")]
            told += [e["attrs"]["data-tip"] for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
            assert told
            assert not [each for each in told if MINUS in each or re.search(r"-\d", each)]
        for table in page.all("table", id=f"{key}-table"):
            assert not [e for e in page.inside(table, "td") if MINUS in e["text"]]
    (section,) = page.all("section", id="rivals-section")
    assert "You chose 'smoothed plug-in'." in section["text"]
    (verdict,) = page.all("section", id="verdict")
    assert "a minus" not in verdict["text"]
    (rivals,) = page.all("table", id="rivals-table")
    values = [float(page.inside(row, "td")[0]["text"]) for row in page.inside(rivals, "tr")[2:]]
    assert values == sorted(values)  # the cheapest first


def test_pairs_of_labels_are_not_broken():
    page = page_of("digits")
    (pairs,) = page.all("table", id="pairs-table")
    heads = [e["text"] for e in page.inside(pairs, "th") if "→" in e["text"]]
    assert heads
    assert not [each for each in heads if " " in each]


def test_the_positive_class_is_named():
    rows = cases.random_rows(2)
    for metric, positive in (("f1", "1"), ("g_mean", None)):
        facts = Facts.of(cases.fitted(rows, metric, method="base"), rows.eta_val, rows.y_val)
        assert facts.metric.positive == positive
        assert ("The positive class is 1." in render(facts)) == (positive is not None)
    shown = replace(facts, metric=replace(facts.metric, positive="<ill>"))
    assert "The positive class is &lt;ill&gt;." in render(shown)


def test_every_group_has_its_line():
    from sklearn.metrics import accuracy_score, balanced_accuracy_score

    facts, page, rows = cases.over_groups(), page_of("over groups"), cases.random_rows(2)
    groups, held = cases.groups_of(rows), cases.fitted_over_groups().held_out_
    y, after = rows.y_val[held.rows], held.labels
    (table,) = page.all("table", id="groups-table")
    lines = {page.inside(row, "th")[0]["text"]: page.inside(row, "td") for row in page.inside(table, "tr")[1:]}
    assert list(lines) == ["north", "south"]
    for name, cells in lines.items():
        own = groups[held.rows] == name
        shown = [e["text"] for e in cells]
        assert shown[0] == str(own.sum())
        assert shown[3] == percent(accuracy_score(y[own], after[own]))
        assert shown[5] == percent(balanced_accuracy_score(y[own], after[own]))
    (recalls,) = page.all("table", id="group-recalls-table")
    assert len(page.inside(recalls, "tr")) == 1 + 2 * 2
    assert not page_of("digits").all("table", id="groups-table")
    assert facts.groups[0].name == "north"


def test_many_classes_are_cut_to_those_that_changed_most():
    facts, page = cases.many_classes(), page_of("120 classes")
    assert len(page.elements) < 12_000
    (chart,) = page.all("svg", id="confusion-change")
    cells = [e for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
    assert len(cells) == heatmaps.SHOWN_CLASSES**2
    assert any(e["text"] == "The 12 classes of 120 that changed most." for e in page.all("p"))
    before, after = matrices(facts.confusion.cells, n_classes=120)
    moved = np.abs(after - before).sum(axis=0) + np.abs(after - before).sum(axis=1)
    shown = heatmaps.most_changed(before, after)
    assert moved[shown].min() >= np.delete(moved, shown).max()


def test_the_csv_file_has_every_cell():
    facts = cases.many_classes()
    (link,) = [e for e in page_of("120 classes").all("a") if "download" in e["attrs"]]
    rows = list(csv.DictReader(io.StringIO(unquote(link["attrs"]["href"].partition(",")[2]))))
    assert len(rows) == len(facts.confusion.cells)
    assert sum(float(row["after"]) for row in rows) == facts.verdict.n_rows


@pytest.mark.parametrize(
    ("cell", "written"),
    [("=1+1", "'=1+1"), ("@x", "'@x"), ("-1", "-1"), ("+2.5", "+2.5"), ("-x", "'-x"), (-3.0, "-3.0")],
)
def test_no_spreadsheet_takes_a_name_for_a_formula(cell, written):
    text = unquote(svg.to_csv(("a",), [(cell,)]).partition(",")[2])
    assert list(csv.reader(io.StringIO(text)))[1] == [written]


def test_the_numbers_on_the_page_are_the_facts():
    facts, page = cases.digits_auto(), page_of("digits")
    values = [e["text"] for e in page.all("dd", _class="value")]
    verdict = facts.verdict
    assert values == [f"{verdict.before:.3f}", f"{verdict.after:.3f}", f"+{verdict.gain:.3f}"]
    (table,) = page.all("table", id="confusion-after-table")
    _, after = matrices(facts.confusion.cells, n_classes=10)
    shown = [[int(e["text"]) for e in page.inside(row, "td")] for row in page.inside(table, "tr")[1:]]
    np.testing.assert_array_equal(shown, after)
    (rivals,) = page.all("table", id="rivals-table")
    assert len(page.inside(rivals, "tr")) == 2 + len(facts.rivals)
    (chart,) = page.all("svg", id="trace-chart")
    assert len([e for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]) == len(facts.trace)


def test_settings_and_versions_are_shown_whatever_the_caller_tells():
    facts, page = cases.hostile(), page_of("hostile names")
    (pairs,) = page.all("dl", _class="pairs")
    shown = [(e["text"], d["text"]) for e, d in zip(page.inside(pairs, "dt"), page.inside(pairs, "dd"), strict=True)]
    assert shown == [*facts.used, *facts.settings, *facts.versions]
    assert facts.used == ((cases.HOSTILE[0], cases.HOSTILE[1]),)
    assert dict(facts.settings)["seed"] == "0"


def test_a_page_without_labels_shows_what_was_exchanged():
    page = page_of("by queries")
    assert not page.all("svg", id="confusion-before")
    assert page.all("svg", id="exchange")
    pairs = {(p.before, p.after): p.n_rows for p in cases.queried_facts().changes.pairs}
    (table,) = page.all("table", id="exchange-table")
    shown = [[int(e["text"]) for e in page.inside(row, "td")] for row in page.inside(table, "tr")[1:]]
    assert {(i, j): n for i, row in enumerate(shown) for j, n in enumerate(row) if n} == pairs
    assert "truth" not in {e["text"] for e in page.all("th")}


def test_what_is_left_as_it_is_has_no_change_tile():
    assert [e["text"] for e in page_of("fallback").all("dt")][:2] == ["Before", "After"]
    assert len(page_of("fallback").all("dd", _class="value")) == 2


def test_the_same_facts_make_the_same_bytes(tmp_path):
    facts = cases.hostile()
    write_report(facts, tmp_path / "one.html")
    write_report(Facts.from_json(facts.to_json()), tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert (tmp_path / "one.html").read_text(encoding="utf-8") == render(facts)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.html", "two.html"]


def test_names_that_no_encoding_knows_are_written_all_the_same(tmp_path):
    facts = replace(cases.untouched(), title="\ud800 lone")
    write_report(facts, tmp_path / "report.html")
    assert "lone" in (tmp_path / "report.html").read_text(encoding="utf-8")


# -- scales -------------------------------------------------------------------------------------------------


def test_ticks_are_two_at_least():
    assert svg.ticks(1.0, 400002.0, wanted=2) == [200000, 400000]
    assert svg.ticks(0.213, 0.285, wanted=3) == pytest.approx([0.22, 0.24, 0.26, 0.28])
    assert svg.ticks(2.0, 2.0) == [2.0]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 6))
def test_ticks_are_within_the_limits_and_told_apart(low, width, wanted):
    high = low + width
    found = svg.ticks(low, high, wanted=wanted)
    assert 2 <= len(found) <= 2 * wanted + 2 or width < 1e-9 * abs(low)
    slack = 1e-6 * (high - low) + 1e-9 * abs(low)
    assert all(low - slack <= each <= high + slack for each in found)
    labels = [svg.tick_label(each, found) for each in found]
    assert len(set(labels)) == len(labels)


# -- colours ------------------------------------------------------------------------------------------------


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
        ("good", "good-back"), ("care", "care-back"), ("bad", "bad-back"), ("calm", "calm-back"), ("tip-ink", "tip"),
        ("ink", "code"), ("ink", "cell"),
    ]:  # fmt: skip
        assert contrast(colour[text], colour[back]) >= 4.5, (text, back)
    for hue in ("more", "fewer"):  # numbers in cells, however strong the colour
        for share in np.linspace(0, 1, 11):
            assert contrast(colour["ink"], blended(colour[hue], colour["cell"], share)) >= 4.5, (hue, share)
    for line in ("l0", "l1", "l2", "l3", "l4", "l5"):
        assert contrast(colour[line], colour["card"]) >= 3
