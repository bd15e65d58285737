# Explicit loops over basis functions l are the point here, and the signatures follow the paper's inputs:
# ruff: noqa: C901, E741, PERF401, PLR0912, PLR0917, SIM108
"""A slow, literal transcription of the paper's algorithms: the judge of the fast code.

"Optimizing Black-box Metrics with Iterative Example Weighting" (Hiranandani, Mathur, Narasimhan, Milani
Fard, Koyejo). Numbers of equations and algorithms are the paper's; the appendix equations are named by their
LaTeX labels. Every probing classifier is built as an explicit table and every phi-confusion entry is an
explicit sum over the sample.

Conventions: classes and basis functions count from 0; a classifier on a sample of n rows is a table
h (n, m) whose rows are distributions over the m classes; a confusion matrix has true classes as rows and
predicted classes as columns; argmax and argmin return the first index among equals; "(l, i)" as an order
means: i runs fastest.

What the paper leaves open or prints inconsistently, and how it is settled here, is marked "Settled:".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Weighting = Literal["diagonal", "columns", "full"] | list[tuple[int, int]]
"""The weighted confusion entries: a name, or a list of the entries (i, j) themselves (Appendix A, "d entries")."""
Normaliser = Literal["n", "phi"]
Value = Callable[[Array], float]
"""The metric of a table of the validation rows, E^val[h]."""
Psi = Callable[[Array], float]
"""The metric as a function of the (m, m) confusion matrix, Eq. (2)."""
Gradient = Callable[[Array], Array]
"""The gradient of psi, (m, m) to (m, m); off-diagonal zero for the paper's diagonal metrics."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A sample: eta (n, m), phi (n, L), labels (n,) and sample weights (n,) (ones if not given)."""

    eta: Array
    phi: Array
    labels: Index
    weights: Array = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.weights is None:
            object.__setattr__(self, "weights", np.ones(len(self.labels)))


@dataclass(frozen=True)
class Switches:
    """Named corrections of the paper; the defaults are the corrected values.

    differences: "none" solves Sigma alpha = E (Algorithm 1 and line 8 of Algorithm 3, as printed); "values"
        solves Sigma alpha = E - E[base] (line 8 of Algorithm 3*, as printed); "both" solves
        (Sigma - Sigma[base]) alpha = E - E[base].
    step: the Frank-Wolfe step; "2/(t+1)" is printed, and is 2 at t = 0, which is not a classifier.
    normaliser: "n" divides each phi-confusion by the sample size (as the paper prints), "phi" divides the
        l-th phi-confusion by sum_x w(x) phi_l(x) (as the authors' program does).
    """

    differences: Literal["both", "values", "none"] = "both"
    step: Literal["2/(t+2)", "2/(t+1)"] = "2/(t+2)"
    normaliser: Normaliser = "n"


CORRECTED = Switches()
AS_PRINTED = Switches(differences="none", step="2/(t+1)", normaliser="n")


def take(rows: Rows, index: Index) -> Rows:
    """The part of a sample with the given row numbers (the halves of Algorithm 3*)."""
    return Rows(rows.eta[index], rows.phi[index], rows.labels[index], rows.weights[index])


# ------------------------------------------------------------------------------ confusions


def confusion(rows: Rows, h: Array) -> Array:
    """C^val_ij[h] = 1/n sum_x 1(y = i) h_j(x), Section 2 (here with sample weights)."""
    m = h.shape[1]
    result = np.zeros((m, m))
    for i in range(m):
        is_i = rows.labels == i
        for j in range(m):
            result[i, j] = np.sum(rows.weights[is_i] * h[is_i, j]) / np.sum(rows.weights)
    return result


def phi_confusion(rows: Rows, h: Array, normaliser: Normaliser = "n") -> Array:
    """Phi^l_ij[h] = 1/n sum_x phi_l(x) 1(y = i) h_j(x): Section 3.2, and Appendix A for i != j."""
    n_bases = rows.phi.shape[1]
    m = h.shape[1]
    result = np.zeros((n_bases, m, m))
    for l in range(n_bases):
        if normaliser == "n":
            divisor = np.sum(rows.weights)
        else:
            divisor = np.sum(rows.weights * rows.phi[:, l])
        for i in range(m):
            is_i = rows.labels == i
            for j in range(m):
                terms = rows.weights[is_i] * rows.phi[is_i, l] * h[is_i, j]
                result[l, i, j] = np.sum(terms) / divisor
    return result


# ------------------------------------------------------------------------------ probing classifiers


def trivial_probe(h: Array, phi_l: Array, i: int, radius: float) -> Array:
    """Eq. (12), Algorithm 1 line 3: h^{l,i} = eps phi_l e_i + (1 - eps phi_l) h."""
    n, m = h.shape
    probe = np.zeros((n, m))
    for j in range(m):
        e_i = 1.0 if j == i else 0.0
        probe[:, j] = radius * phi_l * e_i + (1.0 - radius * phi_l) * h[:, j]
    return probe


def reassigning_probe(h: Array, phi_l: Array, source: int, target: int, radius: float) -> Array:
    """Moves mass between two predicted classes: h + eps phi_l h_source (e_target - e_source).

    Settled: Appendix A wants one probe per confusion entry but gives none in closed form; these are ours.
    """
    n, m = h.shape
    probe = np.zeros((n, m))
    for j in range(m):
        direction = 0.0
        if j == target:
            direction += 1.0
        if j == source:
            direction -= 1.0
        probe[:, j] = h[:, j] + radius * phi_l * h[:, source] * direction
    return probe


def departing_probe(h: Array, phi_l: Array, source: int, radius: float) -> Array:
    """Moves a class's mass in equal shares to all others: h + eps phi_l h_source (u - e_source).

    u_j = 1/(m-1) for j != source and 0 for the source. Ours, for the metrics of the diagonal and the columns
    (the "subset of d entries" of Appendix A).
    """
    n, m = h.shape
    probe = np.zeros((n, m))
    for j in range(m):
        direction = -1.0 if j == source else 1.0 / (m - 1)
        probe[:, j] = h[:, j] + radius * phi_l * h[:, source] * direction
    return probe


def probing_classifiers(h: Array, phi: Array, radius: float, weighting: Weighting) -> list[Array]:
    """The probing classifiers around h, Section 3.4 and Algorithm 1 lines 2-3, as explicit tables.

    "diagonal": h^{l,i} of Eq. (12), ordered (l, i). "columns": for each l the m trivial probes, then the m
    departing probes. "full": for each l, each source and each target != source, the reassigning probe. A list of
    entries: for each l and each entry (i, j), the trivial probe of j if i = j, else the reassigning probe of i, j.

    Settled: Appendix A asks for L d probes for d entries but gives none in closed form; these are ours.
    """
    m = h.shape[1]
    probes: list[Array] = []
    for l in range(phi.shape[1]):
        if weighting == "diagonal":
            for i in range(m):
                probes.append(trivial_probe(h, phi[:, l], i, radius))
        elif weighting == "columns":
            for i in range(m):
                probes.append(trivial_probe(h, phi[:, l], i, radius))
            for source in range(m):
                probes.append(departing_probe(h, phi[:, l], source, radius))
        elif weighting == "full":
            for source in range(m):
                for target in range(m):
                    if target != source:
                        probes.append(reassigning_probe(h, phi[:, l], source, target, radius))
        elif isinstance(weighting, list):
            for i, j in weighting:
                if i == j:
                    probes.append(trivial_probe(h, phi[:, l], i, radius))
                else:
                    probes.append(reassigning_probe(h, phi[:, l], i, j, radius))
        else:
            raise ValueError(f"unknown weighting {weighting!r}")
    return probes


# ------------------------------------------------------------------------------ Algorithm 1


def features(rows: Rows, h: Array, weighting: Weighting, normaliser: Normaliser = "n") -> Array:
    """The phi-confusion entries that the coefficients multiply, Eq. (8) and eq. example-weights-reduced of A.

    "diagonal": Phi[l, i, i], ordered (l, i). "columns": for each l the m entries Phi[l, i, i], then the m
    rates of predicting class j, sum_i Phi[l, i, j]. "full": Phi[l, i, j], ordered (l, i, j). A list of entries: for
    each l the entries Phi[l, i, j] of the list.
    """
    phis = phi_confusion(rows, h, normaliser)
    n_bases, m, _ = phis.shape
    result: list[float] = []
    for l in range(n_bases):
        if weighting == "diagonal":
            for i in range(m):
                result.append(phis[l, i, i])
        elif weighting == "columns":
            for i in range(m):
                result.append(phis[l, i, i])
            for j in range(m):
                predicted_j = 0.0
                for i in range(m):
                    predicted_j += phis[l, i, j]
                result.append(predicted_j)
        elif weighting == "full":
            for i in range(m):
                for j in range(m):
                    result.append(phis[l, i, j])
        elif isinstance(weighting, list):
            for i, j in weighting:
                result.append(phis[l, i, j])
        else:
            raise ValueError(f"unknown weighting {weighting!r}")
    return np.array(result)


def sigma(rows: Rows, probes: list[Array], weighting: Weighting, normaliser: Normaliser = "n") -> Array:
    """Sigma_{(l,i),(l',i')} = Phi^{l'}_{i'}[h^{l,i}], Eq. (10) and Appendix A: one row per probe."""
    rows_of_sigma: list[Array] = []
    for probe in probes:
        rows_of_sigma.append(features(rows, probe, weighting, normaliser))
    return np.array(rows_of_sigma)


@dataclass(frozen=True, eq=False)
class Elicited:
    """Algorithm 1's quantities: at the base classifier, at the probes, and the coefficients alpha."""

    base_features: Array
    sigma: Array
    base_value: float
    probe_values: Array
    alpha: Array


def elicit_weights(
    train: Rows,
    val: Rows,
    value: Value,
    base_train: Array,
    base_val: Array,
    radius: float,
    weighting: Weighting = "diagonal",
    switches: Switches = CORRECTED,
    candidates: tuple[list[Array], list[Array]] | None = None,
) -> Elicited:
    """Algorithm 1, ElicitWeights: Eqs. (9), (10); Appendix A for the weightings beyond the diagonal.

    Without `candidates` the probes are the fixed ones (lines 2-3). With `candidates`, the tables on train and
    validation rows of classifiers h of the class H, the probes are tau h + (1 - tau) base (lines 5-6).

    Settled: tau = eps in line 5 (the paper allows any tau in [0, eps]); alpha = Sigma^-1 E is the minimum
    norm least squares solution (the same where Sigma is invertible); `switches.differences` says which sides
    are shifted by the base classifier.
    """
    if candidates is None:
        probes_train = probing_classifiers(base_train, train.phi, radius, weighting)
        probes_val = probing_classifiers(base_val, val.phi, radius, weighting)
    else:
        probes_train = [radius * h + (1.0 - radius) * base_train for h in candidates[0]]
        probes_val = [radius * h + (1.0 - radius) * base_val for h in candidates[1]]

    base_features = features(train, base_train, weighting, switches.normaliser)
    matrix = sigma(train, probes_train, weighting, switches.normaliser)

    base_value = float(value(base_val))
    values: list[float] = []
    for probe in probes_val:
        values.append(float(value(probe)))
    probe_values = np.array(values)

    left = matrix.copy()
    right = probe_values.copy()
    for r in range(len(probe_values)):
        if switches.differences == "both":
            left[r] = matrix[r] - base_features
        if switches.differences in ("both", "values"):
            right[r] = probe_values[r] - base_value
    alpha = np.linalg.lstsq(left, right, rcond=1e-10)[0]
    return Elicited(base_features, matrix, base_value, probe_values, alpha)


# ------------------------------------------------------------------------------ Algorithm 2


def n_classes(alpha: Array, phi: Array, weighting: Weighting) -> int:
    """The m for which alpha has L m (diagonal), 2 L m (columns) or L m^2 (full) entries."""
    per_basis: int = len(alpha) // phi.shape[1]
    if weighting == "diagonal":
        return per_basis
    if weighting == "columns":
        return per_basis // 2
    return isqrt(per_basis)


def example_weights(alpha: Array, phi: Array, weighting: Weighting, m: int | None = None) -> Array:
    """Algorithm 2 line 3, Eq. (5), and Appendix A: W_ij(x) = sum_l alpha^l_ij phi_l(x), (n, m, m).

    "diagonal": W_ii = sum_l alpha^l_i phi_l, zero elsewhere. "columns": W_ij = delta_ij a_i(x) + c_j(x), with
    a the coefficients of the diagonal entries and c those of the predicted-class rates. A list of entries: zero
    elsewhere; it does not say how many classes there are, so m must be given.
    """
    n, n_bases = phi.shape
    if m is None:
        m = n_classes(alpha, phi, weighting)
    result = np.zeros((n, m, m))
    for x in range(n):
        for l in range(n_bases):
            for i in range(m):
                for j in range(m):
                    if weighting == "diagonal":
                        coefficient = alpha[l * m + i] if i == j else 0.0
                    elif weighting == "columns":
                        coefficient = alpha[l * 2 * m + m + j]
                        if i == j:
                            coefficient = coefficient + alpha[l * 2 * m + i]
                    elif isinstance(weighting, list):
                        coefficient = 0.0
                        if (i, j) in weighting:
                            coefficient = alpha[l * len(weighting) + weighting.index((i, j))]
                    else:
                        coefficient = alpha[l * m * m + i * m + j]
                    result[x, i, j] += coefficient * phi[x, l]
    return result


def plug_in(alpha: Array, phi: Array, eta: Array, weighting: Weighting) -> Array:
    """Algorithm 2 line 4 and Appendix A: onehot(argmax_j sum_i W_ij(x) eta_i(x)), as a table."""
    n, m = eta.shape
    weights = example_weights(alpha, phi, weighting, m)
    table = np.zeros((n, m))
    for x in range(n):
        scores = np.zeros(m)
        for j in range(m):
            if weighting == "diagonal":
                scores[j] = weights[x, j, j] * eta[x, j]
            else:
                for i in range(m):
                    scores[j] += weights[x, i, j] * eta[x, i]
        table[x, int(np.argmax(scores))] = 1.0
    return table


@dataclass(frozen=True, eq=False)
class PlugIn:
    """What Algorithm 2 returns: the coefficients and the one-hot plug-in classifier on both samples."""

    alpha: Array
    vertex_train: Array
    vertex_val: Array
    elicited: Elicited


def pi_ew(
    train: Rows,
    val: Rows,
    value: Value,
    base_train: Array,
    base_val: Array,
    radius: float,
    weighting: Weighting = "diagonal",
    switches: Switches = CORRECTED,
) -> PlugIn:
    """Algorithm 2, PI-EW: elicit the coefficients around the base classifier, then plug them in.

    Settled: line 3 prints phi^l_i(x); the basis functions have no class index anywhere else: phi^l(x).
    """
    elicited = elicit_weights(train, val, value, base_train, base_val, radius, weighting, switches)
    alpha = elicited.alpha
    vertex_train = plug_in(alpha, train.phi, train.eta, weighting)
    vertex_val = plug_in(alpha, val.phi, val.eta, weighting)
    return PlugIn(alpha, vertex_train, vertex_val, elicited)


# ------------------------------------------------------------------------------ Algorithms 3 and 3*


@dataclass(frozen=True, eq=False)
class Run:
    """What Algorithm 3 went through.

    alphas, elicitations, vertices: T entries, those of iteration t (vertices on the whole validation sample).
    tables, values, confusions: T + 1 entries from t = 0 (the start) to t = T (the output): h^t on the whole
    validation sample, psi(C^val[h^t]) there, and the running C^t of lines 2 and 12 (of the second half in
    Algorithm 3*). train_tables: h^t on the training sample.
    """

    alphas: list[Array]
    elicitations: list[Elicited]
    vertices: list[Array]
    tables: list[Array]
    values: list[float]
    confusions: list[Array]
    train_tables: list[Array]


def linear_metric(rows: Rows, beta: Array) -> Value:
    """Algorithm 3 line 6: E^lin[h] = sum_ij beta_ij C_ij[h], evaluated on the given rows."""
    m = beta.shape[0]

    def value(table: Array) -> float:
        c = confusion(rows, table)
        total = 0.0
        for i in range(m):
            for j in range(m):
                total += float(beta[i, j] * c[i, j])
        return total

    return value


def queried_metric(rows: Rows, psi: Psi) -> Value:
    """Algorithm 3 line 8: E^lin[h] = E^val[h] = psi(C[h]), evaluated on the given rows."""

    def value(table: Array) -> float:
        return float(psi(confusion(rows, table)))

    return value


def fw_eg(
    train: Rows,
    val: Rows,
    psi: Psi,
    start_train: Array,
    start_val: Array,
    radius: float,
    n_iter: int,
    weighting: Weighting = "diagonal",
    gradient: Gradient | None = None,
    halves: tuple[Index, Index] | None = None,
    switches: Switches = CORRECTED,
) -> Run:
    """Algorithm 3, FW-EG; Algorithm 3* (Appendix B.3) when the validation sample comes in two halves.

    psi is unknown (queried) when `gradient` is None, otherwise known. `halves` are the row numbers of S1 and
    S2: the elicitation uses S1, the running confusion C^t uses S2.

    Settled: the start h^0 is an argument. The running c^t is kept as the whole matrix (its diagonal is the
    paper's c^t), because Appendix A asks for it and because F-measure's gradient needs row and column sums.
    c^0 of Algorithm 3* comes from S2, as every later c~ does (line 2 does not say). Algorithm 3* prints a
    shift of the values only for unknown psi (line 8; line 6 has none), so with `gradient` the switch
    differences = "values" shifts nothing. The values returned are those of the whole validation sample.
    """
    if halves is None:
        first = np.arange(len(val.labels))
        second = np.arange(len(val.labels))
    else:
        first, second = halves
    val_1 = take(val, first)
    val_2 = take(val, second)
    if gradient is not None and switches.differences == "values":
        switches = Switches("none", switches.step, switches.normaliser)

    h_train = start_train.copy()  # line 2
    h_val = start_val.copy()
    c = confusion(val_2, h_val[second])
    run = Run([], [], [], [h_val], [float(psi(confusion(val, h_val)))], [c], [h_train])

    for t in range(n_iter):  # line 3
        if gradient is not None:  # lines 4-6
            beta = gradient(c)
            value = linear_metric(val_1, beta)
        else:  # line 8; the shift of Algorithm 3* is made by elicit_weights
            value = queried_metric(val_1, psi)

        f = pi_ew(train, val_1, value, h_train, h_val[first], radius, weighting, switches)  # line 9
        f_val = plug_in(f.alpha, val.phi, val.eta, weighting)  # the same classifier on all validation rows

        c_tilde = confusion(val_2, f_val[second])  # line 10
        step = 2.0 / (t + 2) if switches.step == "2/(t+2)" else 2.0 / (t + 1)
        h_train = (1.0 - step) * h_train + step * f.vertex_train  # line 11
        h_val = (1.0 - step) * h_val + step * f_val
        c = (1.0 - step) * c + step * c_tilde  # line 12

        run.alphas.append(f.alpha)
        run.elicitations.append(f.elicited)
        run.vertices.append(f_val)
        run.tables.append(h_val)
        run.values.append(float(psi(confusion(val, h_val))))
        run.confusions.append(c)
        run.train_tables.append(h_train)
    return run


# ------------------------------------------------------------------------------ Eq. (11), disjoint groups


def group_of(groups_phi: Array) -> list[int]:
    """g(x), Eq. (6): the group of each row of an (n, L) table of indicators of disjoint groups."""
    groups: list[int] = []
    for row in groups_phi:
        if not (np.all((row == 0) | (row == 1)) and np.sum(row) == 1):
            raise ValueError("not a partition: every row must be in exactly one group")
        groups.append(int(np.argmax(row)))
    return groups


def pair_hits(train: Rows, in_group: NDArray[np.bool_], i: int, w: float) -> tuple[float, float]:
    """(Phi_i, Phi_m) in one group of h^zeta, w = zeta/(1-zeta): class i if w eta_i < eta_m, else the last."""
    m = train.eta.shape[1]
    hits_i = 0.0
    hits_m = 0.0
    for x in range(len(train.labels)):
        if not in_group[x]:
            continue
        predicted = i if w * train.eta[x, i] < train.eta[x, m - 1] else m - 1
        if predicted == train.labels[x] and predicted == i:
            hits_i += train.weights[x]
        elif predicted == train.labels[x]:
            hits_m += train.weights[x]
    total = float(np.sum(train.weights))
    return hits_i / total, hits_m / total


def pair_weights(train: Rows, in_group: NDArray[np.bool_], i: int) -> list[float]:
    """One w for each of the different classifiers h^zeta of the pair (i, last class) in a group, ascending.

    h^zeta predicts i exactly on the rows whose ratio eta_m/eta_i exceeds w, so it only changes at a ratio.
    Settled: of each interval between neighbouring distinct ratios the middle is taken (a ratio itself would
    leave the row it came from to rounding), half the smallest ratio below them and twice the largest above.
    w = infinity (zeta = 1) is left out: a row with eta_i = 0 < eta_m is always given to i.
    """
    m = train.eta.shape[1]
    ratios: set[float] = set()
    for x in range(len(train.labels)):
        if in_group[x] and train.eta[x, i] > 0:
            ratio = float(train.eta[x, m - 1] / train.eta[x, i])
            if np.isfinite(ratio):
                ratios.add(ratio)
    if not ratios:
        return [1.0]
    ordered = sorted(ratios)
    result = [ordered[0] / 2.0]
    for k in range(len(ordered) - 1):
        result.append((ordered[k] + ordered[k + 1]) / 2.0)
    result.append(ordered[-1] * 2.0 if ordered[-1] > 0 else 1.0)
    return result


def constrained_anchor(train: Rows, groups_phi: Array) -> tuple[Array, Array]:
    """The appendix "Solving Constrained Satisfaction Problem in (11)", disjoint groups, by brute force.

    Returns the weights w (L, m), last column 1, and (L, m-1) what each pairwise line search reached:
    min over zeta of max(Phi_i, Phi_m)[h^zeta] within the group (h^zeta never predicts a third class).

    Settled: the paper writes w_i in argmin over zeta, but by its h^zeta the ratio w_i/w_m is zeta/(1-zeta).
    Among equally good w the smallest.
    """
    groups = np.array(group_of(groups_phi))
    n_groups = groups_phi.shape[1]
    m = train.eta.shape[1]
    weights = np.ones((n_groups, m))
    reached = np.zeros((n_groups, m - 1))
    for l in range(n_groups):
        for i in range(m - 1):
            best = np.inf
            for w in pair_weights(train, groups == l, i):
                hits_i, hits_m = pair_hits(train, groups == l, i, w)
                if max(hits_i, hits_m) < best:
                    best = max(hits_i, hits_m)
                    weights[l, i] = w
            reached[l, i] = best
    return weights, reached


def anchor_table(rows: Rows, weights: Array) -> Array:
    """The second case of eq. h-ell-i-con-opt: onehot(argmin_j w^{g(x)}_j eta_j(x)), rows.phi the groups.

    Settled: the paper prints argmax, which contradicts its own h^zeta (class i where zeta eta_i is the
    SMALLER) and the binary eq. binaryconopt (class 1 where eta is low): the anchor must hit rarely.
    """
    n, m = rows.eta.shape
    groups = group_of(rows.phi)
    table = np.zeros((n, m))
    for x in range(n):
        scores = np.zeros(m)
        for j in range(m):
            scores[j] = weights[groups[x], j] * rows.eta[x, j]
        table[x, int(np.argmin(scores))] = 1.0
    return table


def constrained_probes(train: Rows, weights: Array) -> list[Array]:
    """Eq. h-ell-i-con-opt: for each (l, i), class i on group l (train.phi) and the anchor elsewhere.

    Settled: one set of weights per group serves every probe (for group l' the search does not depend on the
    probe (l, i), l != l').
    """
    n, m = train.eta.shape
    groups = group_of(train.phi)
    anchor = anchor_table(train, weights)
    probes: list[Array] = []
    for l in range(train.phi.shape[1]):
        for i in range(m):
            table = np.zeros((n, m))
            for x in range(n):
                if groups[x] == l:
                    table[x, i] = 1.0
                else:
                    table[x] = anchor[x]
            probes.append(table)
    return probes


# ------------------------------------------------------------------------------ Eq. (11), any basis


def expected_features(rows: Rows, h: Array, weighting: Weighting) -> Array:
    """The entries of `features` with 1(y = i) replaced by eta_i(x)."""
    n, m = h.shape
    total = 0.0
    for i in range(m):
        as_class_i = Rows(rows.eta, rows.phi, np.full(n, i), rows.weights * rows.eta[:, i])
        total = total + features(as_class_i, h, weighting) * np.sum(as_class_i.weights) / np.sum(rows.weights)
    return np.asarray(total)


def expected_entries(rows: Rows, weighting: Weighting) -> Array:
    """The entries as linear functions of h, (entries, n, m): their sum over h(x, j) is `expected_features`."""
    n, m = rows.eta.shape
    columns: list[Array] = []
    for x in range(n):
        for j in range(m):
            one = np.zeros((n, m))
            one[x, j] = 1.0
            columns.append(expected_features(rows, one, weighting))
    return np.array(columns).T.reshape(-1, n, m)


def rate_program(objective: Array, limits: Array, omega: float) -> tuple[Array, float] | None:
    """Appendix "Solving Constrained Satisfaction Problem in (11)", last display: max over h of an entry, others at
    most omega, over all tables h(x, j) of distributions, one variable for each row and class. None: infeasible.
    """
    n, m = objective.shape
    sums = np.zeros((n, n * m))
    for x in range(n):
        sums[x, x * m : (x + 1) * m] = 1.0
    found = linprog(
        -objective.reshape(-1),
        A_ub=limits.reshape(len(limits), -1),
        b_ub=np.full(len(limits), omega),
        A_eq=sums,
        b_eq=np.ones(n),
        method="highs",
    )
    return None if found.status == 2 else (found.x.reshape(n, m), -float(found.fun))


def relaxed_omega(entries: Array, omega: float) -> float:
    """Omega divided by 0.9 until some classifier has all entries at most omega: then every probe is feasible.

    Settled: the appendix says "one can increase omega in small steps".
    """
    nothing = np.zeros(entries.shape[1:])
    while rate_program(nothing, entries, omega) is None:
        omega = omega / 0.9
    return omega
