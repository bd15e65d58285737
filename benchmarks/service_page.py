"""The page of the service's measurement, made of stored figures."""

from __future__ import annotations
from dataclasses import dataclass
from experiments.harness.files import OUT
NAME="service_bench"
BARE, STORED, OTHER_TEXT, NEW = "bare", "stored", "stored, other text", "new"
@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one kind of query and answer, from several rounds."""

    mode: str
    kind: str
    answers: str
    rows: int
    clients: int
    body_kb: float
    queries: int
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    client_cores: float
    others: float
    versions: str

@dataclass(frozen=True, kw_only=True)
class Memory:
    """The memory of the service after so many queries."""

    mode: str
    queries: int
    mb: float
def memory_in_words(m): return str([x.mb for x in m])
def store(*a): pass
