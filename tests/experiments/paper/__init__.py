"""Tests of ``experiments/paper``."""
