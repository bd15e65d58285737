"""Save a fitted model as a skops file, which runs no code when it is loaded, and as an ONNX graph for any runtime.

The model and both files give the same labels.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from postshift import PostShiftClassifier
from postshift.persistence import dump, load


def main() -> None:
    """Fit, save in both formats, and compare the labels."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X / 16, y, test_size=500, stratify=y, random_state=0)
    model = PostShiftClassifier(LogisticRegression(max_iter=1000), metric="f1_macro", method="smoothed plug-in")
    model.fit(X_train, y_train)
    labels = model.predict(X_test)
    with tempfile.TemporaryDirectory() as folder:
        skops, onnx = Path(folder) / "model.skops", Path(folder) / "model.onnx"
        dump(model, skops)
        dump(model, onnx)
        from_skops = load(skops).predict(X_test)
        session = onnxruntime.InferenceSession(str(onnx))
        name = session.get_inputs()[0].name
        from_onnx = session.run(None, {name: X_test})[0]
    print(f"skops: {np.mean(from_skops == labels):.1%} of the labels are the same")
    print(f"onnx:  {np.mean(from_onnx.ravel() == labels):.1%} of the labels are the same")


if __name__ == "__main__":
    main()
