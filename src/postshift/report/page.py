"""The page: one HTML file that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from typing import Any

from postshift.core.archive import write_atomically
from postshift.report import classes, heatmaps, scores, words
from postshift.report._optional import needed
from postshift.report.counts import SHOWN_ROWS, matrices
from postshift.report.facts import Facts
from postshift.report.groups import group_tables
from postshift.report.svg import Chart, Table
from postshift.report.text import NO_BREAK, amount, interval, number, percent, rows
from postshift.report.trace import trace_chart
from postshift.report.unseen_words import unseen_judgement

_SIGNS = {
    "worth it": "▲",
    "may be noise": "≈",
    "no change": "=",
    "left as it is": "=",
    "not worth it": "▼",
    "best of several": "•",
}


def render(facts: Facts) -> str:
    """Return the report as one self-contained HTML page.

    Parameters
    ----------
    facts : Facts
        What to show.

    Returns
    -------
    str
        HTML without a request to anywhere: styles, script and charts are inside, and a policy forbids all else.

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
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    markup = needed("markupsafe").Markup
    style, script = _asset("style.css"), _asset("script.js")
    page: str = environment.from_string(_asset("page.html.jinja")).render(
        **_content(facts, markup),
        style=markup(style),
        script=markup(script),
        policy=_policy(style, script),
    )
    return page


def write_report(facts: Facts, path: str | os.PathLike[str]) -> None:
    """Write the report to a file; an interrupted write leaves an old file as it was.

    Parameters
    ----------
    facts : Facts
        What to show.
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
    """Return a text that lies beside the code."""
    return (files("postshift.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return what the page may load: its own style and script, and images that are inside."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    """Return the digest by which a policy knows an inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _content(facts: Facts, markup: Any) -> dict[str, Any]:
    """Return what the template shows."""
    judged = words.judgement(facts) if facts.test is None else unseen_judgement(facts, facts.test)
    of_fit = facts.of_the_fit
    trace, exchange = trace_chart(of_fit), heatmaps.exchange_chart(facts)
    return {
        "facts": facts,
        "judged": judged,
        "sign": _SIGNS[judged.kind],
        "tiles": _tiles(facts),
        "both_samples": _samples_table(facts),
        "chart_of_scores": _drawn(scores.verdict_chart(facts), markup),
        "confusions": [_drawn(each, markup) for each in heatmaps.confusion_charts(facts)],
        "csv": heatmaps.confusion_csv(facts),
        "exchange": None if exchange is None or facts.confusion is not None else _drawn(exchange, markup),
        "classes": _class_table(facts),
        "groups": group_tables(facts),
        "weights": [_drawn(each, markup) for each in classes.weight_charts(facts)],
        "weight_sentences": words.weight_sentences(of_fit) + words.local_sentences(of_fit),
        "shares": _drawn(classes.shares_chart(facts), markup),
        "change_sentence": words.change_sentence(facts),
        "pairs": _pairs_table(facts),
        "changed": _rows_table(facts),
        "choice_sentence": words.choice_sentence(of_fit),
        "rivals": _drawn(scores.rivals_chart(of_fit), markup),
        "trace": None if trace is None else _drawn(trace, markup),
        "conditioning": _conditioning_table(facts),
    }


def _drawn(chart: Chart, markup: Any) -> dict[str, Any]:
    """Return a chart whose drawing is known to be safe: it is built of escaped texts."""
    return {**vars(chart), "svg": markup(chart.svg)}


def _tiles(facts: Facts) -> list[tuple[str, str, str]]:
    """Return the three numbers of the verdict: what, the number, its interval."""
    shown = facts.scored
    values = [("Before", shown.before, shown.before_interval, False)]
    values.append(("After", shown.after, shown.after_interval, False))
    if not facts.verdict.fallback:
        values.append(("Change", shown.gain, shown.gain_interval, True))
    return [
        (
            name,
            number(words.own_number(facts, value), signed=signed),
            "" if limits is None else interval(words.own_interval(facts, limits), signed=signed),
        )
        for name, value, limits, signed in values
    ]


def _samples_table(facts: Facts) -> Table | None:
    """Return the scores of the test rows beside those that the fit gave for the validation rows, by one metric."""
    if facts.test is None or facts.fit_metric is not None:
        return None
    found = []
    for name, scored in (("test rows", facts.test), ("validation rows (by the fit)", facts.verdict)):
        values = [number(words.own_number(facts, each)) for each in (scored.before, scored.after)]
        found.append((name, f"{scored.n_rows:,}", *values))
    return Table(
        caption=f"{facts.metric.name} of the test rows and of the validation rows",
        header=("sample", "rows", "before", "after"),
        rows=tuple(found),
    )


def _class_table(facts: Facts) -> Table | None:
    """Return rows, recall and precision of every class before and after."""
    if facts.confusion is None:
        return None
    before, after = matrices(facts.confusion.cells, n_classes=len(facts.classes))
    columns = [[amount(size) for size in before.sum(axis=1).tolist()]]
    for axis in (1, 0):
        for matrix in (before, after):
            pairs = zip(matrix.diagonal().tolist(), matrix.sum(axis=axis).tolist(), strict=True)
            columns.append([percent(hits / size) if size else "none" for hits, size in pairs])
    found = zip(facts.classes, *columns, strict=True)
    unit = "weight" if facts.confusion.weighted else "rows"
    header = ("class", unit, "recall before", "recall after", "precision before", "precision after")
    return Table(caption="Every class before and after", header=header, rows=tuple(found))


def _pairs_table(facts: Facts) -> Table | None:
    """Return the pairs of labels that were exchanged."""
    if not facts.changes.pairs:
        return None
    known = facts.changes.n_right is not None
    found = [
        (
            f"{facts.name(p.before)}{NO_BREAK}→{NO_BREAK}{facts.name(p.after)}",
            f"{p.n_rows:,}",
            *((f"{p.n_right:,}", f"{p.n_wrong:,}") if known else ()),
        )
        for p in facts.changes.pairs[:SHOWN_ROWS]
    ]
    more = len(facts.changes.pairs) - len(found)
    caption = "Labels before and after" + (
        f" (the {len(found)} commonest pairs of {len(found) + more})" if more else ""
    )
    header = ("label", "rows", *(("became right", "became wrong") if known else ()))
    return Table(caption=caption, header=header, rows=tuple(found))


def _rows_table(facts: Facts) -> Table | None:
    """Return the first rows that changed."""
    if not facts.changes.rows:
        return None
    known = facts.changes.n_right is not None
    found = []
    for r in facts.changes.rows:
        outcome = "✓ right" if r.true == r.after else "✗ wrong" if r.true == r.before else "still wrong"
        truth = (facts.name(r.true), outcome.replace(" ", NO_BREAK)) if known else ()
        found.append(
            (f"{r.row:,}", facts.name(r.before), facts.name(r.after), *truth, f"{r.p_before:.3f}", f"{r.p_after:.3f}")
        )
    truth = ("truth", "outcome") if known else ()
    header = ("row", "before", "after", *truth, "p(before)", "p(after)")
    which = f"The first {rows(len(found))} of {facts.changes.n_changed:,}"
    caption = f"{which} that change, counted from 0; p is the model's probability of the label"
    return Table(caption=caption, header=header, rows=tuple(found))


def _conditioning_table(facts: Facts) -> Table | None:
    """Return how well the equations of the rules determined their weights."""
    if not facts.conditioning:
        return None
    found = [
        (
            each.rule,
            "not finite" if each.condition is None else f"{each.condition:,.3g}",
            "" if each.rank is None else f"{each.rank:,}",
        )
        for each in facts.conditioning
    ]
    header = ("rule", "largest condition number", "smallest rank")
    return Table(caption="Equations of the rules that loop, at the worst iteration", header=header, rows=tuple(found))
