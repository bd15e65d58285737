"""Experiments that check the claims of the paper, and ours. ``python -m experiments --list`` lists them.

Where to look:

* ``registry``: the names of the experiments and their modules.
* ``harness``: what all of them share. An experiment is a module with an ``EXPERIMENT``: methods by name, a page, a
  figure. The runner runs what the file of results does not have yet; the page and the figure are made from that file.
* ``paper``: the paper's tables and figures, one module each. ``paper.adult`` and ``paper.images`` have what the
  experiments on Adult and on photographs share; ``paper.overview`` makes the README's table.
* ``studies``: everything else.
"""
