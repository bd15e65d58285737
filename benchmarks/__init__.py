"""Comparisons with other libraries; each module runs with ``python -m benchmarks.<name>``."""
