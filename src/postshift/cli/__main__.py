"""``python -m postshift.cli``."""

from __future__ import annotations

from postshift.cli import main

if __name__ == "__main__":
    main()
