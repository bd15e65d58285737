"""The run folder: its content (``folder``), its fitted rule (``rule_file``), and what a fit writes (``outputs``)."""
