"""``postshift metrics``: what can be maximised."""

from __future__ import annotations

from postshift.cli.console import Console
from postshift.cli.options import Debug, Json, Quiet

_CLASS = {
    "f1[CLASS]": "F1 of one class against the rest, for any number of classes; also precision, recall and jaccard",
    "f1": "for two classes: F1 of the one called 1, true, yes, y, positive or pos, or of --pos-label CLASS",
    "accuracy - equal_opportunity[CLASS]": "a gap between groups for one class",
}
_OWN = {
    "a scorer of scikit-learn": "by its name, if it takes labels (sklearn.metrics.get_scorer_names lists them)",
    "my_metrics.py:profit": "a function f(y_true, y_pred) in a file of yours; greater is better. Further arguments: "
    "groups (--groups), sample_weight (--sample-weight), or the name of any column",
    "cost:costs.csv": "a square table of costs: the header names predicted classes, the first column true ones",
    "--metric-command": "any program that reads a file of predictions and prints a number: './score.sh {predictions}'",
}


def command(*, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """List the metrics, one per line, and show how to use your own."""
    from postshift.metrics import metric_catalogue

    console = Console(quiet=quiet, as_json=json)
    named = dict(metric_catalogue())
    console.table(("metric", "what it is"), list(named.items()))
    console.say()
    console.say("In the last three, any metric of the classes can replace accuracy, and the gap can have a weight:")
    console.say("  --metric 'f1_macro - 0.5 * demographic_parity' --groups COLUMN")
    console.say()
    console.table(("one class", "what it is"), list(_CLASS.items()))
    console.say()
    console.table(("your own", "how"), list(_OWN.items()))
    console.result({"metrics": named, "one_class": _CLASS, "own": _OWN})
