"""The run folder: what is in it (``folder``), its fitted rule (``rule_file``), what a fit writes (``outputs``)."""
