"""A LightGBM pipeline on a data frame with string labels, where some errors cost more than others.

The training labels miss one malignant tumour in three. A panel has labelled 150 cases correctly. A missed malignant
tumour costs 20 and a false alarm costs 1. The pipeline is not changed; only its decisions are shifted.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from postshift import PostShiftClassifier
from postshift.exceptions import SmallValidationWarning
from postshift.metrics import ExpectedCost

MISSED = 1 / 3
COST = pd.DataFrame([[0, 1], [20, 0]], index=["benign", "malignant"], columns=["benign", "malignant"])


def load(seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return a data frame with one categorical column, and labels as strings."""
    bunch = load_breast_cancer(as_frame=True)
    cells = bunch.data.assign(size=pd.cut(bunch.data["mean area"], [0, 450, 700, np.inf], labels=["S", "M", "L"]))
    cells["size"] = cells["size"].astype(str)
    labels = bunch.target.map(dict(enumerate(bunch.target_names)))
    return cells.sample(frac=1, random_state=seed), labels.sample(frac=1, random_state=seed)


def carelessly_read(labels: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Return labels that miss one malignant tumour in three."""
    missed = (labels == "malignant") & (rng.random(len(labels)) < MISSED)
    return labels.where(~missed, "benign")


def cost_of(labels: pd.Series, predicted: np.ndarray) -> float:
    """Return the mean cost of a case."""
    return float(np.mean([COST.loc[true, shown] for true, shown in zip(labels, predicted, strict=True)]))


def main() -> None:
    """Fit, and compare the costs on test cases."""
    X, y = load(seed=0)
    X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    X_train, X_panel, y_train, y_panel = train_test_split(
        X_rest, y_rest, test_size=150, stratify=y_rest, random_state=0
    )
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["size"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    boosted = LGBMClassifier(n_estimators=60, num_leaves=7, n_jobs=1, verbose=-1, random_state=0)
    model = PostShiftClassifier(make_pipeline(columns, boosted), metric=ExpectedCost(COST.to_numpy()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SmallValidationWarning)
        model.fit(X_train, carelessly_read(y_train, np.random.default_rng(0)), X_panel, y_panel)
    plain = model.estimator_.predict(X_test)
    print(f"cost of a case, LightGBM alone      {cost_of(y_test, plain):.3f}")
    print(f"cost of a case, decisions shifted   {cost_of(y_test, model.predict(X_test)):.3f}")
    print(f"Why: {model.diagnostics_.choice.reason}")
    for warning in caught:
        print(f"Note: {warning.message}")


if __name__ == "__main__":
    main()
