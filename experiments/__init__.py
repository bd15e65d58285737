"""Experiments that check the claims of the paper, and ours.

Where to look:

* ``python -m experiments NAME`` runs one of ``registry``. A module there has an ``EXPERIMENT`` (see ``study``): methods
  by name, a page, a figure; ``runner`` runs what ``store`` does not have yet. ``overview`` makes the README's table.
* Adult: ``adult_proxy_table``, ``adult_fairness_table``, ``base_quality``, ``validation_size``, ``runtime``; they share
  ``adult_rows``, ``adult_tables``, ``ablation``, ``chosen`` and ``descent``.
* COMPAS, Adult and Default without noise: ``macro_f``, with ``macro_f_data``.
* Photographs: ``cifar10_noise_table``, ``cifar10_weights``, ``adience_shift_table``, ``adience_better_table``,
  ``adience_albums``, ``adience_size``; they share ``networks`` (what is trained), ``image_splits``, ``image_tasks``,
  ``image_tables``, ``embeddings``, ``cache``, and on Adience ``adience_tables`` and ``older_faces``.
* Studies with a command of their own, ``python -m experiments.MODULE``: ``adult_paper``, ``baselines`` (and why they
  differ from the paper, ``baselines_why``), ``classifier_table``, ``menu_study``, ``menu_figures``, ``weight_rates``,
  ``threshold_comparison``; they share ``comparison``, ``baseline_methods``, ``menu_tasks`` and ``rivals``.
"""
