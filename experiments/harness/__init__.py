"""What all experiments share.

* ``experiment``: an ``Experiment`` (methods by name, a page, a figure) and its ``Results``.
* ``store``: a ``Row`` is what one run gave; a ``Store`` is a CSV file of rows.
* ``runner``: runs what is not stored yet. ``progress``: what is said meanwhile.
* ``tables``, ``figures``, ``page``: what is shown of the results.
* ``metrics``: metrics that postshift does not compute. ``files``: where results go.
* ``command``: the command line.
"""
