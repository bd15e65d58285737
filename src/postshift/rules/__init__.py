"""Ways to a plug-in rule: so far the paper's own."""

from __future__ import annotations

from postshift.rules.paper import fw_eg, pi_ew

__all__ = ["fw_eg", "pi_ew"]
