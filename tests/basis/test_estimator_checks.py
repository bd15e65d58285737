"""scikit-learn's own checks over every basis that takes tables of any numbers; none is expected to fail.

``CoverBasis`` is not here: it takes values in [0, 1] only, and the checks give others.
"""

from __future__ import annotations

import pytest
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from postshift.basis import (
    ConstantBasis,
    GroupBasis,
    KMeansBasis,
    RBFBasis,
    TransformerBasis,
    TreeBasis,
    UnionBasis,
)

BASES = [
    ConstantBasis(),
    GroupBasis(0, unseen=True),
    KMeansBasis(2),
    RBFBasis(),
    RBFBasis(by="all"),
    TransformerBasis(MinMaxScaler(clip=True)),
    TreeBasis(),
    UnionBasis([TreeBasis(), KMeansBasis(2)]),
]


@pytest.mark.filterwarnings("ignore::postshift.exceptions.PostshiftWarning")
@parametrize_with_checks(BASES)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)
