"""``postshift metrics``: what can be maximised."""

from __future__ import annotations

from postshift.cli.options import Debug, Json, Quiet, console_of

_CLASS = {
    "f1[CLASS]": "of one class against the rest, for any number of classes; so are precision, recall and jaccard",
    "f1": "of two classes, the same of the one called 1, true, yes, y, positive or pos, or of --pos-label CLASS",
    "accuracy - equal_opportunity[CLASS]": "a gap between groups that is about one class",
}
_OWN = {
    "a scorer of scikit-learn": "one of labels, by its name (sklearn.metrics.get_scorer_names lists them)",
    "my_metrics.py:profit": "a function f(y_true, y_pred) in a file of yours; greater is better. Further arguments: "
    "groups (--groups), sample_weight (--weight), or the name of any column",
    "cost:costs.csv": "a square table of costs: the header names predicted classes, the first column true ones",
    "--metric-command": "any program that reads a file of predictions and prints a number: './score.sh {predictions}'",
}


def command(*, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """List the metrics, a line each, and say how to use one's own."""
    from postshift.metrics import metric_catalogue

    console = console_of(quiet=quiet, as_json=json)
    named = dict(metric_catalogue())
    console.table(("metric", "what it is"), list(named.items()))
    console.say()
    console.say("In the last ones any metric of the classes may stand before the minus, and the gap may be weighed:")
    console.say("  --metric 'f1_macro - 0.5 * demographic_parity' --groups COLUMN")
    console.say()
    console.table(("one class", "what it is"), list(_CLASS.items()))
    console.say()
    console.table(("your own", "how"), list(_OWN.items()))
    console.result({"metrics": named, "one_class": _CLASS, "own": _OWN})
