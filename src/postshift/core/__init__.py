"""The paper's method on NumPy and SciPy, as a conversation between sums and a metric.

Read the modules in this order: ``sample``, ``moments``, ``probing``, ``weighting``, ``plugin``, ``statistics``,
``constrained``, ``elicitation``, ``mixture``, ``stepsize``, ``queries``, ``draws``, ``inquiry``, ``frank_wolfe``.
"""
