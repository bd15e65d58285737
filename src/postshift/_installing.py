"""How optional packages are installed: postshift is on no index, so its extras are installed from a clone."""

from __future__ import annotations


def install(*extras: str) -> str:
    """Return the command that installs extras of postshift.

    Examples
    --------
    >>> install("cli", "report")
    "pip install '.[cli,report]' in a clone of postshift"
    """
    return f"pip install '.[{','.join(extras)}]' in a clone of postshift"
