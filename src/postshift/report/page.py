"""The page: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from typing import Any

from postshift._installing import needed
from postshift.core.archive import write_atomically
from postshift.report import class_charts, frontier_section, heatmaps, page_tables, score_charts, sentences
from postshift.report.facts import Facts
from postshift.report.formats import interval, number
from postshift.report.svg import Chart

_SIGNS = {
    "worth it": "▲",
    "may be noise": "≈",
    "no change": "=",
    "base kept": "=",
    "not worth it": "▼",
    "best of several": "•",
    "constrained": "◆",
}


def render(facts: Facts) -> str:
    """Return the report as one self-contained HTML page.

    Parameters
    ----------
    facts : Facts
        The facts to show.

    Returns
    -------
    str
        The HTML. It loads nothing: styles, script and charts are inside, and its policy forbids everything else.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import PostShifter
    >>> from postshift.report import Facts, render
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 6, size=1000)
    >>> eta, y = np.column_stack([1 - p, p]), (rng.random(1000) < p).astype(int)
    >>> shifter = PostShifter("g_mean", method="smoothed plug-in").fit(eta, y)
    >>> page = render(Facts.of(shifter, eta, y, title="Rare events"))
    >>> "<title>Rare events</title>" in page
    True
    """
    jinja2 = needed("jinja2")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_asset),
    )
    markup = needed("markupsafe").Markup
    style, script = _asset("style.css"), _asset("script.js")
    if facts.frontier is not None:
        script += _asset("frontier.js")
    page: str = environment.get_template("page.html.jinja").render(
        **_content(facts, markup),
        style=markup(style),
        script=markup(script),
        policy=_policy(style, script),
    )
    return page


def write_report(facts: Facts, path: str | os.PathLike[str]) -> None:
    """Write the report to a file; an interrupted write does not change an existing file.

    Parameters
    ----------
    facts : Facts
        The facts to show.
    path : path-like
        Where to write the HTML page.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from postshift import PostShifter
    >>> from postshift.report import Facts, write_report
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 6, size=1000)
    >>> eta, y = np.column_stack([1 - p, p]), (rng.random(1000) < p).astype(int)
    >>> shifter = PostShifter("g_mean", method="smoothed plug-in").fit(eta, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Facts.of(shifter, eta, y), Path(folder) / "report.html")
    ...     sorted(each.name for each in Path(folder).iterdir())
    ['report.html']
    """
    content = render(facts).encode("utf-8", errors="replace")
    write_atomically(path, lambda stream: stream.write(content))


def _asset(name: str) -> str:
    """Return a text file of this package."""
    return (files("postshift.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return what the page may load: its own style and script, and embedded images."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    """Return the digest that allows an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _content(facts: Facts, markup: Any) -> dict[str, Any]:
    """Return the values that the template shows."""

    def drawn(chart: Chart) -> dict[str, Any]:
        return {**vars(chart), "svg": markup(chart.svg)}  # safe: all texts in it are escaped

    frontier = frontier_section.frontier_content(facts)
    judged, of_fit = sentences.judgement(facts), facts.of_the_fit
    limits = facts.constraints
    trace, label_changes = score_charts.trace_chart(of_fit), heatmaps.label_changes_chart(facts)
    return {
        "facts": facts,
        "judged": judged,
        "sign": _SIGNS[judged.kind],
        "tiles": _tiles(facts),
        "constraints": page_tables.constraints_table(facts),
        "guarantee": None if limits is None else sentences.guarantee_sentence(limits.confidence, limits.certificate),
        "both_samples": page_tables.samples_table(facts),
        "chart_of_scores": drawn(score_charts.verdict_chart(facts)),
        "confusions": [drawn(each) for each in heatmaps.confusion_charts(facts)],
        "csv": page_tables.confusion_csv(facts),
        "label_changes": None if label_changes is None else drawn(label_changes),
        "classes": page_tables.class_table(facts),
        "groups": page_tables.group_table(facts),
        "group_recalls": page_tables.group_recalls_table(facts),
        "weights": [drawn(each) for each in class_charts.weight_charts(facts)],
        "weight_sentences": sentences.weight_sentences(of_fit) + sentences.local_sentences(of_fit),
        "shares": drawn(class_charts.shares_chart(facts)),
        "change_sentence": sentences.change_sentence(facts),
        "pairs": page_tables.pairs_table(facts),
        "changed": page_tables.changed_rows_table(facts),
        "choice_sentence": sentences.choice_sentence(of_fit),
        "rules": drawn(score_charts.rules_chart(of_fit)),
        "trace": None if trace is None else drawn(trace),
        "frontier": None if frontier is None else {**frontier, "chart": drawn(frontier["chart"])},
        "conditioning": page_tables.conditioning_table(facts),
    }


def _tiles(facts: Facts) -> list[tuple[str, str, str]]:
    """Return the two or three numbers of the verdict: name, number, interval."""
    metric, scores = facts.metric, facts.scored
    names = ("Before", "After") if facts.constraints is None else ("Without constraints", "With constraints")
    values = [(names[0], scores.before, scores.before_interval, False)]
    values.append((names[1], scores.after, scores.after_interval, False))
    if not facts.verdict.fallback and facts.constraints is None:
        values.append(("Change", scores.gain, scores.gain_interval, True))
    return [
        (
            name,
            number(metric.own_number(value), signed=signed),
            "" if limits is None else interval(metric.own_interval(limits), signed=signed),
        )
        for name, value, limits, signed in values
    ]
