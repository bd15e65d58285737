"""Experiments that check the claims of the paper; each module runs with ``python -m experiments.<name>``."""
