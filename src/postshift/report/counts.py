"""The numbers of the report and the displays: pure functions of labels, probabilities and weights.

Notation: n rows, m classes; ``eta`` (n, m) the model's probabilities; ``codes``, ``before``, ``after`` (n,) true labels
and labels before and after the shift, as positions; ``rows`` (n,) weights of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from postshift._validation import FloatArray, IntArray
from postshift.report.facts import Belief, Cell, ChangedRow, Changes, ClassRecall, Group, Pair
from postshift.rules.posterior import FLOOR

SHOWN_ROWS = 50  # rows whose labels change that are listed
SMALLEST = np.finfo(np.float64).tiny  # smaller probabilities have no reciprocal
SMALLEST_RATIO = 0.01  # smaller ratios of probabilities after and before count as this one


def confusion(codes: IntArray, labels: IntArray, *, n_classes: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the counts, or the sums of weights, of (true, predicted) pairs (m, m)."""
    places = codes * n_classes + labels
    return np.bincount(places, weights=weights, minlength=n_classes**2).reshape(n_classes, n_classes).astype(np.float64)


def cells(
    codes: IntArray, before: IntArray, after: IntArray, *, n_classes: int, weights: FloatArray | None = None
) -> tuple[Cell, ...]:
    """Return the cells of the confusion matrices before and after that are not 0 in both."""
    first, second = (confusion(codes, each, n_classes=n_classes, weights=weights) for each in (before, after))
    return tuple(
        Cell(true=int(i), predicted=int(j), before=float(first[i, j]), after=float(second[i, j]))
        for i, j in np.argwhere((first != 0) | (second != 0))
    )


def matrices(found: tuple[Cell, ...], *, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return the confusion matrices before and after (m, m) from their cells."""
    before, after = np.zeros((n_classes, n_classes)), np.zeros((n_classes, n_classes))
    for cell in found:
        before[cell.true, cell.predicted], after[cell.true, cell.predicted] = cell.before, cell.after
    return before, after


def changes(
    before: IntArray, after: IntArray, *, numbers: IntArray, eta: FloatArray, codes: IntArray | None = None
) -> Changes:
    """Return which labels change; ``numbers`` are the numbers of the rows."""
    moved = np.flatnonzero(before != after)
    pairs, inverse = np.unique(np.column_stack([before[moved], after[moved]]), axis=0, return_inverse=True)
    place = inverse.ravel()  # of each row's pair
    sizes = np.bincount(place, minlength=len(pairs))

    def equal_to_truth(labels: IntArray, rows: IntArray) -> int | None:
        return None if codes is None else int((labels[rows] == codes[rows]).sum())

    by_pair = [
        Pair(
            before=int(pairs[k, 0]),
            after=int(pairs[k, 1]),
            n_rows=int(sizes[k]),
            n_right=equal_to_truth(after, moved[place == k]),
            n_wrong=equal_to_truth(before, moved[place == k]),
        )
        for k in np.argsort(-sizes, kind="stable")
    ]
    rows = [
        ChangedRow(
            row=int(numbers[k]),
            true=None if codes is None else int(codes[k]),
            before=int(before[k]),
            after=int(after[k]),
            p_before=float(eta[k, before[k]]),
            p_after=float(eta[k, after[k]]),
        )
        for k in moved[:SHOWN_ROWS]
    ]
    return Changes(
        n_rows=len(before),
        n_changed=len(moved),
        n_right=equal_to_truth(after, moved),
        n_wrong=equal_to_truth(before, moved),
        pairs=tuple(by_pair),
        rows=tuple(rows),
    )


def group_facts(
    groups: Any, codes: IntArray, before: IntArray, after: IntArray, *, n_classes: int, weights: FloatArray | None
) -> tuple[Group, ...]:
    """Return the accuracy and the recalls before and after in every group; ``groups`` (n,) has the rows' groups."""
    found = []
    for name in np.unique(groups):
        own = np.flatnonzero(groups == name)
        how: dict[str, Any] = {"n_classes": n_classes, "weights": None if weights is None else weights[own]}
        first, second = (confusion(codes[own], labels[own], **how) for labels in (before, after))
        found.append(
            Group(
                name=str(name),
                n_rows=len(own),
                n_changed=int((before[own] != after[own]).sum()),
                accuracy_before=float(first.trace() / (first.sum() or 1.0)),
                accuracy_after=float(second.trace() / (second.sum() or 1.0)),
                recalls=tuple(_recalls(first, second, np.bincount(codes[own], minlength=n_classes))),
            )
        )
    return tuple(found)


def _recalls(before: FloatArray, after: FloatArray, sizes: IntArray) -> list[ClassRecall]:
    """Return the recall of every class in two confusion matrices (m, m)."""
    found = []
    for k, mass in enumerate(before.sum(axis=1)):
        first, second = (float(each[k, k] / mass) if mass > 0 else None for each in (before, after))
        found.append(ClassRecall(n_rows=int(sizes[k]), before=first, after=second))
    return found


def shares(labels: IntArray, *, n_classes: int, weights: FloatArray | None = None) -> tuple[float, ...]:
    """Return the share of every class among labels."""
    counts = np.bincount(labels, weights=weights, minlength=n_classes)
    return tuple((counts / counts.sum()).tolist())


def mean_eta(eta: FloatArray, *, weights: FloatArray | None = None) -> tuple[float, ...]:
    """Return the mean probability of every class."""
    return tuple(np.average(eta, axis=0, weights=weights).tolist())


def class_weights(example_weights: FloatArray, eta: FloatArray, rows: FloatArray | None = None) -> FloatArray:
    """Return one weight for every class (m,) that sums up W(x) over the rows; their median is 1.

    ``log W_i(x)`` is fitted by ``a_i + c(x)`` with weights ``eta_i(x)``. The difference of two classes' ``a`` is the
    mean change of their log-odds, over the rows where the model is unsure between them; rows where it is sure have no
    influence. If W is the same for all rows, ``exp(a)`` is W up to a factor. If the base is kept, all weights are 1.
    """
    return solved_weights(*weight_sums(example_weights, eta, rows))


def weight_sums(
    example_weights: FloatArray, eta: FloatArray, rows: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the equations (m, m) and their right side (m,) of :func:`class_weights`, which add over blocks of rows."""
    raised = example_weights * np.maximum(eta, FLOOR)
    raised /= raised.sum(axis=1, keepdims=True)
    ratio = np.divide(raised, eta, out=np.ones_like(eta), where=eta >= SMALLEST)
    logs = np.log(np.maximum(ratio, SMALLEST_RATIO))
    held = eta if rows is None else eta * rows[:, None]
    apart = logs - (eta * logs).sum(axis=1, keepdims=True)
    laplacian = np.diag(held.sum(axis=0)) - held.T @ eta
    return laplacian, np.asarray((held * apart).sum(axis=0))


def solved_weights(laplacian: FloatArray, right: FloatArray) -> FloatArray:
    """Return the weights (m,) of :func:`class_weights` from its equations."""
    found = np.linalg.lstsq(laplacian, right, rcond=1e-9)[0]
    return np.asarray(np.exp(found - np.median(found)))


def beliefs(eta: FloatArray, codes: IntArray, *, weights: FloatArray | None = None) -> tuple[Belief, ...]:
    """Return the mean probabilities of the rows of every class that has rows."""
    n_classes = eta.shape[1]
    counts, mass = (np.bincount(codes, weights=each, minlength=n_classes) for each in (None, weights))
    rows = np.ones(len(codes)) if weights is None else weights
    of_class = csr_array((rows, codes, np.arange(len(codes) + 1)), shape=eta.shape)
    sums = of_class.T @ eta
    means = np.divide(sums, mass[:, None], out=np.zeros_like(sums), where=mass[:, None] > 0)
    found = []
    for i in np.flatnonzero(mass > 0):
        others = means[i].copy()
        others[i] = -1
        j = int(np.argmax(others))
        found.append(
            Belief(
                true=int(i),
                n_rows=int(counts[i]),
                mass=float(mass[i]),
                own=float(means[i, i]),
                other=j,
                to_other=float(means[i, j]),
                back=float(means[j, i]),
                other_mass=float(mass[j]),
            )
        )
    return tuple(found)
