"""The metric as a service: labels and groups stay with their owner (``postshift oracle``, ``RemoteMetric``)."""

from __future__ import annotations

from postshift.oracle.client import About, RemoteMetric
from postshift.oracle.remote_oracle import RemoteOracle

__all__ = ["About", "RemoteMetric", "RemoteOracle"]
