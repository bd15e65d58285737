"""How many cases are drawn: all of them with ``make fuzz``, a fixed sample of them if pytest is called directly.

A case is a number, which seeds all that is drawn for it. The first cases of each kind are the sample. To look at
others, ``POSTSHIFT_FUZZ_FROM=5000 make fuzz`` begins with another number.
"""

import os

import pytest

ALL = os.environ.get("POSTSHIFT_FUZZ") == "all"
FIRST = int(os.environ.get("POSTSHIFT_FUZZ_FROM", "0"))


def cases(total, sample):
    """Parametrise a test with the numbers of its cases."""
    return pytest.mark.parametrize("case", range(FIRST, FIRST + (total if ALL else sample)))
