"""``postshift bases``: where weights may differ."""

from __future__ import annotations

from postshift.cli.options import Debug, Json, Quiet, console_of

_OWN = (
    "Several, as in --basis col:region,tree:4, are tried one by one. auto, the default, is the leaves of a tree where "
    "there are training rows with features that are numbers, else constant. One of your own: write the name of each "
    "row's group into a column and name it with col:COLUMN; in Python, any transformer into [0, 1] is a basis "
    "(postshift.basis.TransformerBasis)."
)


def command(*, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """List the bases, a line each, and say how to use one's own."""
    from postshift.basis import basis_catalogue

    console = console_of(quiet=quiet, as_json=json)
    named = basis_catalogue()
    console.table(("basis", "what it is"), list(named.items()))
    console.say()
    console.say(_OWN)
    console.result({"bases": named, "own": _OWN})
