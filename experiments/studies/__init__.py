"""Beyond the paper: comparisons with other libraries, the menu of rules, and what its verdicts are worth."""
