"""Tests of ``experiments/harness``."""
