"""Few coordinates of many: UMAP fitted to training rows, and averages of Gaussian kernels as basis functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from experiments.paper.images.cache import Arrays, place_of, read_arrays, write_arrays
from experiments.paper.images.splits import flattened, load_split
from postshift._installing import install
from postshift.basis import RBFBasis

WIDTH = 2.0
CLIP = (0.01, 0.99)


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """UMAP to so many dimensions, the authors' settings; in a quick look principal components in its place."""

    n_components: int
    n_neighbors: int = 10
    min_dist: float = 0.5

    def of(self, parts: Mapping[str, Any], *, seed: int, quick: bool) -> Arrays:
        """Return the coordinates of every part; training rows alone are fitted."""
        model = self._components(parts["train"], seed=seed) if quick else self._umap(seed=seed)
        found = {"train": np.asarray(model.fit_transform(parts["train"]))}
        found |= {part: np.asarray(model.transform(rows)) for part, rows in parts.items() if part != "train"}
        return {part: rows.astype(np.float32) for part, rows in found.items()}

    def kept(self, parts: Mapping[str, Any], *, name: str, of: Mapping[str, Any], seed: int, quick: bool) -> Arrays:
        """Return the coordinates from the cache, made where they are not there; ``of`` says what ``parts`` are."""
        made_by = "components" if quick else f"umap-learn {umap_version()}"
        identity = {**asdict(self), "of": dict(of), "seed": seed, "quick": quick, "made by": made_by}
        path = place_of("embeddings", name, identity) / "coordinates.npz"
        found = read_arrays(path)
        if found is None:
            found = self.of(parts, seed=seed, quick=quick)
            write_arrays(path, found)
        return found

    def _components(self, rows: NDArray[Any], *, seed: int) -> PCA:
        """Return principal components of unit variance, as many as there can be."""
        return PCA(min(self.n_components, *rows.shape), whiten=True, svd_solver="randomized", random_state=seed)

    def _umap(self, *, seed: int) -> Any:
        """Return UMAP; with a seed it has one thread and is the same in every run."""
        umap_version()
        from umap import UMAP

        return UMAP(
            n_components=self.n_components,
            n_neighbors=self.n_neighbors,
            min_dist=self.min_dist,
            random_state=seed,
            n_jobs=1,
        )


def pixel_places(reduction: Reduction, task: str, seed: int, *, quick: bool) -> Arrays:
    """Return few coordinates of the pixels of a task's split."""
    parts = flattened(load_split(task, seed, quick=quick))
    of = {"task": task, "rows": {part: len(rows) for part, rows in parts.items()}, "what": "pixels"}
    return reduction.kept(parts, name=f"{task}-pixels-seed{seed}", of=of, seed=seed, quick=quick)


def umap_version() -> str:
    """Return the version of UMAP that is or say how to install it; importing it takes long."""
    try:
        return version("umap-learn")
    except PackageNotFoundError as error:
        raise ModuleNotFoundError(f"the bases of Gaussian kernels need UMAP: {install('reproduce')}") from error


def nearness(points: NDArray[Any], groups: NDArray[np.intp]) -> RBFBasis:
    """Return the average nearness to the points of each group, and the complement of their sum, as a basis."""
    return RBFBasis(width=WIDTH, clip=CLIP).fit(points, groups=groups)
