"""Constraints: what a fit must respect while it maximises a metric.

``terms`` has the constraints as people write them, ``pieces`` their half-spaces of confusion matrices, and ``p_values``
the statistical tests that certify them.
"""

from postshift.constraints.terms import (
    F1,
    Constraint,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    Precision,
    Rate,
    Recall,
    Term,
    Value,
    read_constraints,
)

__all__ = [
    "F1",
    "Constraint",
    "DemographicParity",
    "EqualOpportunity",
    "EqualizedOdds",
    "Precision",
    "Rate",
    "Recall",
    "Term",
    "Value",
    "read_constraints",
]
