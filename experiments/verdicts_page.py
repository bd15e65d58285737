"""The page of the simulated verdicts: how often intervals hold the truth, and what decisions come to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from experiments.output import markdown
from experiments.verdict_settings import settings
from experiments.verdicts import KINDS, NAME, SIZES, WORSE, Row

NOISE, GAIN = "#0072B2", "#D55E00"


def averaged(rows: list[Row], field: str) -> float:
    """Return the mean of a field, averaged over the settings."""
    by_setting: dict[str, list[float]] = {}
    for row in rows:
        by_setting.setdefault(row.setting, []).append(float(getattr(row, field)))
    return float(np.mean([np.mean(values) for values in by_setting.values()]))


def chosen(rows: list[Row], kind: str, n_rows: int, setting: str | None = None) -> list[Row]:
    """Return the rows of a kind and size, of one setting or of all."""
    return [row for row in rows if (row.kind, row.rows) == (kind, n_rows) and setting in (None, row.setting)]


def parts(rows: list[Row]) -> Iterable[tuple[str, int, list[Row]]]:
    """Yield every kind and size that has rows."""
    for kind, sizes in KINDS.items():
        for n_rows in sizes:
            part = chosen(rows, kind, n_rows)
            if part:
                yield kind, n_rows, part


def summary_table(rows: list[Row]) -> str:
    """Return one line for each kind and size, averaged over the settings."""
    head = ["kind, rows", "score covered", "gain covered", "called worth it, noise", "bias of the score"]
    head += ["bias where adopted", "harmed, noise", "adopted, noise", "adopted, to gain"]
    return markdown(head, [[f"{kind}, {n_rows:,}", *_figures(part)] for kind, n_rows, part in parts(rows)])


def _figures(part: list[Row]) -> list[str]:
    """Return the cells of one kind and size."""
    noise, gain = ([row for row in part if row.gains == gains] for gains in (False, True))
    adopted = [row.error for row in part if row.adopted]
    if np.isnan(part[0].low):
        found = ["no interval", "no interval", "not said"]
    else:
        found = [f"{averaged(part, field):.3f}" for field in ("covered", "gain_covered")]
        found.append(f"{averaged(noise, 'worth_it'):.3f}")
    found.append(f"{averaged(part, 'error'):+.4f}")
    if all(row.adopted for row in part):  # there is no decision
        return [*found, "", "", "", ""]
    found += [f"{np.mean(adopted):+.4f}" if adopted else "", f"{averaged(noise, 'harmed'):.3f}"]
    return found + [f"{averaged(each, 'adopted'):.2f}" for each in (noise, gain)]


def settings_table(rows: list[Row], kind: str, n_rows: int) -> str:
    """Return one line for each setting."""
    head = ["setting", "score covered", "gain covered", "called worth it", "harmed", "adopted"]
    head += ["bias of the score", "true gain", "gain as scored"]
    lines = []
    for name in settings():
        part = chosen(rows, kind, n_rows, name)
        if part:
            shares = [averaged(part, each) for each in ("covered", "gain_covered", "worth_it", "harmed", "adopted")]
            means = [averaged(part, each) for each in ("error", "true_gain", "gain")]
            lines.append([name, *(f"{each:.3f}" for each in shares), *(f"{each:+.4f}" for each in means)])
    return markdown(head, lines)


def render(rows: list[Row], made_with: str) -> str:
    """Return the page."""
    details = [
        f"### {kind}, {n_rows:,} rows\n\n{settings_table(rows, kind, n_rows)}"
        for kind, n_rows, _ in parts(rows)
        if kind != "queries"
    ]
    part = chosen(rows, "default", 200)
    noise = [row for row in part if not row.gains]
    return f"""# Can the verdict be believed?

<!-- Made by `python -m experiments.verdicts` from verdicts.csv; do not edit. -->

![How often the 95 % intervals hold the truth, by the number of validation rows]({NAME}.png)

With 200 validation rows, the 95 % interval of the gain holds the true gain in {averaged(part, "gain_covered"):.1%} of
the problems. Where the model is already optimal, "worth it" is said in {averaged(noise, "worth_it"):.1%} of them.

{summary_table(rows)}

Each line is the mean over {len(settings())} settings of {len({row.seed for row in rows})} problems each.

* In settings of *noise* the model is already optimal, and every gain is luck. In the others there is something *to
  gain*.
* *Covered*: the truth lies in the 95 % interval. This is about the candidate, before it is adopted or not: the rule
  fitted to all rows.
* *Bias*: what `score_` says, less the truth.
* *Harmed*: a rule was adopted that is worse than the base by more than {WORSE}.
* *default* is the weighted average of the menu, *choice* its best entry (`method="best"`), *one rule* is influence
  regression by name. *evaluate* is the interval of `postshift evaluate`, for a rule that is fixed beforehand.
* With *queries*, the score is the best of several on the same rows. It is too high, so it has no interval.

The truth is the score on 100,000 rows, computed with the known posterior. The constants of the intervals (`REFIT`,
`PRIOR_DISAGREEMENT` and `PRIOR_ROWS` in `postshift/rules/verdict.py`) and the chance from which a rule is adopted
(`ADOPTED_FROM`) were chosen on other draws of similar settings.

## Each setting

{(chr(10) * 2).join(details)}

To repeat it: `python -m experiments.verdicts`, made with {made_with}.
"""


def picture(rows: list[Row], path: Path) -> None:
    """Draw the coverage of every setting by the number of rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, field, title in zip(panels, ("covered", "gain_covered"), ("score", "gain"), strict=True):
        for setting in settings().values():
            found = [averaged(chosen(rows, "default", n_rows, setting.name), field) for n_rows in SIZES]
            colour = GAIN if setting.gains else NOISE
            panel.plot(range(len(SIZES)), found, "o-", color=colour, alpha=0.35, markersize=3, linewidth=0.8)
        means = [averaged(chosen(rows, "default", n_rows), field) for n_rows in SIZES]
        panel.plot(range(len(SIZES)), means, "ks-", linewidth=2, label="mean of the settings")
        panel.axhline(0.95, color="0.5", linestyle="--", linewidth=0.9)
        panel.set(title=f"interval of the {title}", xlabel="validation rows", ylim=(0.6, 1.01))
        panel.set_xticks(range(len(SIZES)), [f"{n_rows:,}" for n_rows in SIZES])
    panels[0].plot([], [], "o-", color=NOISE, label="a setting of noise", markersize=3)
    panels[0].plot([], [], "o-", color=GAIN, label="a setting with a gain", markersize=3)
    panels[0].set_ylabel("share of problems that it covers")
    panels[0].legend(loc="lower right", frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
