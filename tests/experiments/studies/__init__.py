"""Tests of ``experiments/studies``."""
