"""The result: a mixture of plug-in classifiers, with its distribution, samples and deterministic labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from postshift._validation import FloatArray, IntArray, as_numbers, check_eta, check_phi
from postshift.core.archive import read_archive, write_archive
from postshift.core.plugin import PlugIn
from postshift.core.rows import Rows
from postshift.core.weighting import weighting_named
from postshift.exceptions import ArchiveError, LabelError, SettingError, ShapeError

_NEGLIGIBLE = 1e-12  # shares below it are 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture:
    """Plug-in classifiers with shares that sum to 1; member t labels a row with probability ``shares[t]``.

    Examples
    --------
    >>> rules = [PlugIn(weighting="diagonal", alpha=[w], n_classes=2) for w in ([1.0, 1], [1.0, 4])]
    >>> mixture = Mixture.of(rules, [0.75, 0.25])
    >>> eta, phi = np.array([[0.9, 0.1], [0.7, 0.3]]), np.ones((2, 1))
    >>> mixture.distribution(eta, phi)
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    >>> mixture.labels(eta, phi)
    array([0, 0])
    """

    members: tuple[PlugIn, ...]
    shares: FloatArray

    def __post_init__(self) -> None:
        """Raise if the members differ in size, or if their number is not that of the shares."""
        sizes = {(member.n_bases, member.n_classes) for member in self.members}
        if len(sizes) != 1 or np.shape(self.shares) != (len(self.members),):
            raise ShapeError(
                "members must be one or more plug-ins with the same basis functions and classes, and a share each. "
                f"Got {len(self.members)} of sizes {sorted(sizes)} and shares of shape {np.shape(self.shares)} instead"
            )

    @classmethod
    def of(cls, members: list[PlugIn] | tuple[PlugIn, ...], shares: Any) -> Mixture:
        """Return the mixture; members with equal coefficients are merged, members without a share are dropped."""
        values = as_numbers(shares, name="shares")
        if not members or values.shape != (len(members),) or not (values >= 0).all() or abs(values.sum() - 1) > 1e-9:
            raise SettingError(
                f"shares must be {len(members)} numbers >= 0 that sum to 1, one per member. Got {shares!r} instead"
            )
        merged: dict[tuple[str, bytes], tuple[PlugIn, float]] = {}
        for member, share in zip(members, values, strict=True):
            key = (member.weighting.name, member.alpha.tobytes())
            merged[key] = (member, merged.get(key, (member, 0.0))[1] + float(share))
        kept = [(member, share) for member, share in merged.values() if share > 0]
        return cls(members=tuple(member for member, _ in kept), shares=np.array([share for _, share in kept]))

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return self.members[0].n_classes

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return self.members[0].n_bases

    def distribution(self, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the randomised classifier: a class distribution (n, m) per row."""
        rows = np.arange(len(eta))
        table = np.zeros((len(eta), self.n_classes))
        for member, share in zip(self.members, self.shares, strict=True):
            table[rows, member.labels(eta, phi)] += share
        return table

    def labels(self, eta: FloatArray, phi: FloatArray) -> IntArray:
        """Return deterministic labels: the most probable class of the distribution; ties go to the first class."""
        return np.asarray(np.argmax(self.distribution(eta, phi), axis=1))

    def sample(self, eta: FloatArray, phi: FloatArray, *, rng: np.random.Generator) -> IntArray:
        """Return labels drawn row by row: first the member, then its label."""
        drawn = rng.choice(len(self.members), size=len(eta), p=self.shares / self.shares.sum())
        labels = np.empty(len(eta), dtype=np.intp)
        for index, member in enumerate(self.members):
            rows = drawn == index
            labels[rows] = member.labels(eta[rows], phi[rows])
        return labels

    def after(self, vertices: Sequence[PlugIn], steps: Sequence[float]) -> Mixture:
        """Return the mixture after a step towards each of these vertices."""
        shares = shares_of(steps)
        return Mixture.of([*self.members, *vertices], np.concatenate([shares[0] * self.shares, shares[1:]]))

    def predict(self, eta: Any, phi: Any = None) -> IntArray:
        """Return deterministic labels for user input, validated; ``phi=None`` is the constant basis."""
        return self.labels(*self._checked(eta, phi))

    def predict_distribution(self, eta: Any, phi: Any = None) -> FloatArray:
        """Return the class distribution for user input, validated; ``phi=None`` is the constant basis."""
        return self.distribution(*self._checked(eta, phi))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mixture to one npz file, without pickle."""
        names = [member.weighting.name for member in self.members]
        write_archive(
            path,
            kind="mixture",
            header={"weightings": names, "n_classes": self.n_classes},
            arrays={"shares": self.shares, **{f"alpha_{t}": m.alpha for t, m in enumerate(self.members)}},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mixture:
        """Read a mixture written by :meth:`save`; no code in the file is run."""
        header, arrays = read_archive(path, kind="mixture")
        try:
            members = tuple(
                PlugIn(weighting=weighting_named(name), alpha=arrays[f"alpha_{t}"], n_classes=header["n_classes"])
                for t, name in enumerate(header["weightings"])
            )
            return cls.of(members, arrays["shares"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArchiveError(f"{path} lacks a part of a mixture: {error}") from error

    def _checked(self, eta: Any, phi: Any) -> tuple[FloatArray, FloatArray]:
        """Return eta and phi of user input, validated."""
        table = check_eta(eta)
        return table, check_phi(phi, n_rows=len(table))


def shares_of(steps: Sequence[float]) -> FloatArray:
    """Return the shares of the start and of each vertex after these steps.

    Examples
    --------
    >>> shares_of([1.0, 0.5])
    array([0. , 0.5, 0.5])
    """
    shares = np.ones(1)
    for step in steps:
        shares = np.append((1 - step) * shares, step)
    return shares


def reduced(mixture: Mixture, val: Rows, *, keeps: str = "full") -> Mixture:
    """Return a mixture of few of the members with the same confusion matrix on the validation rows.

    The confusion matrix of a mixture is the average of its members' matrices. Shares that keep K of its entries form a
    polytope; a vertex of it, found by a linear program, has at most K + 1 positive shares (Carathéodory).

    The randomised classifier keeps its score for every metric that depends only on what is kept. The most probable
    class of a row may change: score deterministic labels again.

    Parameters
    ----------
    mixture : Mixture
        The mixture.
    val : Rows
        Validation rows with labels.
    keeps : {"diagonal", "columns", "full"}
        What is kept: the diagonal (at most m + 1 members), the column sums too (2m), or all of it (m^2 - m + 1).

    Examples
    --------
    >>> from postshift import PlugIn, Rows
    >>> rules = [PlugIn(weighting="diagonal", alpha=[[1.0, w]], n_classes=2) for w in (1, 2, 4, 8, 16)]
    >>> p = np.linspace(0, 1, 41)
    >>> rows = Rows.of(np.column_stack([1 - p, p]), labels=(p > 0.3).astype(int))
    >>> len(reduced(Mixture.of(rules, np.full(5, 0.2)), rows, keeps="diagonal").members) <= 3
    True
    """
    if val.labels is None:
        raise LabelError("the validation rows need labels to keep their confusion matrix: pass labels=... to Rows.of")
    kept = np.stack([_entries(member.labels(val.eta, val.phi), val, keeps) for member in mixture.members], axis=1)
    equations = np.vstack([kept, np.ones(len(mixture.members))])
    found = linprog(
        np.random.default_rng(0).random(len(mixture.members)),  # any vertex will do: a direction without ties
        A_eq=equations,
        b_eq=equations @ mixture.shares,
        bounds=(0, None),
        method="highs-ds",
    )
    if found.x is None:  # rounding made the equations contradict each other
        return mixture
    shares = np.where(found.x > _NEGLIGIBLE, found.x, 0)
    return Mixture.of(mixture.members, shares / shares.sum())


def _entries(labels: IntArray, val: Rows, keeps: str) -> FloatArray:
    """Return the entries of the confusion matrix that are kept."""
    weighting_named(keeps)  # a typo is an error
    n_classes = val.n_classes
    codes = np.asarray(val.labels) * n_classes + labels
    table = np.bincount(codes, weights=val.row_weights, minlength=n_classes**2).reshape(n_classes, n_classes)
    shares = table / table.sum()
    if keeps == "diagonal":
        return np.asarray(np.diag(shares))
    if keeps == "columns":
        return np.concatenate([np.diag(shares), shares.sum(axis=0)])
    return np.asarray(shares.ravel())
