"""``python -m experiments``: see ``experiments/harness/command.py``."""

from __future__ import annotations

import sys

from experiments.harness.command import main

if __name__ == "__main__":
    sys.exit(main())
