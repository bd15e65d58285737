"""``postshift bases``: where the weights may differ."""

from __future__ import annotations

from postshift.cli.console import Console
from postshift.cli.options import Debug, Json, Quiet

_OWN = (
    "Several bases, as in --basis col:region,tree:4, are tried one by one. The default, auto, is the leaves of a tree "
    "if there are training rows with numeric features, else constant. To use your own groups, write the group of each "
    "row into a column and name it with col:COLUMN. In Python, any transformer into [0, 1] is a basis "
    "(postshift.basis.TransformerBasis)."
)


def command(*, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """List the bases, one per line, and show how to use your own."""
    from postshift.basis import basis_catalogue

    console = Console(quiet=quiet, as_json=json)
    named = basis_catalogue()
    console.table(("basis", "what it is"), list(named.items()))
    console.say()
    console.say(_OWN)
    console.result({"bases": named, "own": _OWN})
