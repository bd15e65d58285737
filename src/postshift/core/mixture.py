"""The result: a mixture of plug-in classifiers, with its distribution, samples and deterministic labels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, as_numbers, check_eta, check_phi
from postshift.core.archive import read_archive, write_archive
from postshift.core.plugin import PlugIn
from postshift.core.weighting import weighting_named
from postshift.exceptions import ArchiveError, SettingError, ShapeError


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
