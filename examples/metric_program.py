"""The command line with a program as metric: the program reads predictions and prints a number.

The program below is a short Python script. It can be a shell script or any other program. Only the program has the
labels: the file of validation rows that postshift reads has only probabilities.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

PROGRAM = """
import csv, sys

secret = dict(enumerate(open("secret.txt").read().split()))
labels = {int(line["row"]): line["label"] for line in csv.DictReader(open(sys.argv[1]))}
classes = sorted(set(secret.values()))
recalls = [[labels[row] == label for row, label in secret.items() if label == each] for each in classes]
print(sum(sum(each) / len(each) for each in recalls) / len(classes))
"""


def main() -> None:
    """Write the rows, the labels and the program, and run the command."""
    X, y = load_wine(return_X_y=True)
    X_train, X_val, y_train, y_val = train_test_split(X[:, :3], y, train_size=40, stratify=y, random_state=0)
    eta = GaussianNB().fit(X_train, y_train).predict_proba(X_val)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        pd.DataFrame(eta, columns=["p_0", "p_1", "p_2"]).to_csv(here / "val.csv", index=False)
        (here / "secret.txt").write_text("\n".join(map(str, y_val)))
        (here / "score.py").write_text(PROGRAM)
        options = ["--val", "val.csv", "--budget", "40", "--out", "run", "--json"]
        program = ["--metric-command", f"'{sys.executable}' score.py {{predictions}}"]
        command = [sys.executable, "-m", "postshift.cli", "fit", *options, *program]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)  # noqa: S603
        print("the run:", ", ".join(sorted(file.name for file in (here / "run").iterdir())))
    result = json.loads(done.stdout)
    print(f"the program ran {result['program_runs']} times: {result['before']:.3f} -> {result['after']:.3f}")


if __name__ == "__main__":
    main()
