"""What the experiments on Adult share: splits, methods, settings by cross-validation, tables, ablations."""
