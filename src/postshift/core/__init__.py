"""The paper's method on NumPy and SciPy.

Read the modules in this order:

=============  ==============================================================================================
module         holds
=============  ==============================================================================================
rows           eta, named bases, labels and weights of one sample
sums           sums over the training rows, and the engine's protocol
probes         the probing classifiers: Eq. (12), Appendix A
probing        the probes of a run, as the looks see them
weighting      which confusion entries get weights
plugin         the plug-in classifier (Algorithm 2, line 4)
rate_program   linear programs over classifiers, by column generation
constrained    the constrained probes of Eq. (11)
elicit         ElicitWeights (Algorithm 1): from probes, sums and answers to weights
mixture        weighted plug-ins: distribution, labels, samples, and fewer members with the same confusion matrix
psi            the metric's protocol
queries        queries, their kinds, and fits that ask them
frank_wolfe    the loop (Algorithm 3)
look           the ways to look at an iterate: by confusion matrices
score_look     and by scores of predictions
oracles        oracles on this machine
session        ask, tell, budget, journal, resume
fw_eg          elicit_weights, pi_ew, fw_eg: the algorithms as calls
influence      influence regression: another way to find a vertex
=============  ==============================================================================================

Three more modules are helpers: ``archive`` (files without pickle), ``draws`` (draws of hard labels) and
``oracle_checks`` (a conformance suite for oracles).
"""
