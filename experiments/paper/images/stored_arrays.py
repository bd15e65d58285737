"""What post-shifts read of a network: from the cache, or from the small arrays that the repository has of it.

``python -m experiments.paper.images.stored_arrays`` stores the networks of the training rows that the cache has, and
says which ones are missing; ``--list`` only lists them. The folder ``stored`` has a file for each task and seed, with
numbers of 16 bits: the probabilities of every part and, of the better network on Adience, the coordinates of its last
hidden layer. With these files the methods that read no more than that need neither torch nor UMAP.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.files import versions
from experiments.harness.progress import say
from experiments.paper.images.cache import Arrays, Later, read_arrays, under, write_arrays
from experiments.paper.images.networks import COORDINATES, TRAIN, Wanted, every, reduced_layer, state, trained
from experiments.paper.images.splits import ADIENCE, BETTER, CIFAR10, PARTS, load_split

FOLDER = Path(__file__).parent / "stored"
WITH_COORDINATES = (BETTER,)  # the tasks whose last hidden layer is read
PACKAGES = ("torch", "umap-learn")

Labels = Mapping[str, NDArray[np.intp]]


class NotStoredError(LookupError):
    """The repository does not have the arrays of a network."""


class WrongRowsError(ValueError):
    """The stored arrays are of other rows than those that were loaded."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What a post-shift reads of a network: probabilities of each part, coordinates of its last hidden layer."""

    eta: Mapping[str, NDArray[np.float64]]
    places: Mapping[str, NDArray[Any]]


See = Callable[[Wanted, Labels], Seen]


def seen(wanted: Wanted, labels: Labels) -> Seen:
    """Return a network from the cache; without it, its stored arrays; without these, the network trained now."""
    if state(wanted) == "trained" or not is_stored(wanted):
        return Seen(eta=trained(wanted).eta, places=Later(partial(reduced_layer, wanted)))
    return stored(wanted, labels)


# -- the files ----------------------------------------------------------------------------------------------


def path_of(wanted: Wanted) -> Path:
    """Return the file of a network of the training rows."""
    return FOLDER / f"{wanted.task}-seed{wanted.seed}.npz"


def is_stored(wanted: Wanted) -> bool:
    """Return whether the repository has the arrays of a network that is trained in this way."""
    return arrays_of(wanted) is not None


def arrays_of(wanted: Wanted) -> Arrays | None:
    """Return what the file of a network has; None where there is none, or where its network is trained otherwise."""
    found = read_arrays(path_of(wanted))
    return found if found is not None and identity_in(found)["network"] == wanted.folder.name else None


def stored(wanted: Wanted, labels: Labels) -> Seen:
    """Return the stored arrays of a network; ``labels`` are those of the rows that they are used with."""
    path, found = path_of(wanted), arrays_of(wanted)
    if found is None:
        raise NotStoredError(f"{path.name} does not have {wanted.folder.name}: train the network and store it")
    if identity_in(found)["labels"] != digests(labels):
        raise WrongRowsError(f"{path} is of other rows: the data or their split have changed since it was stored")
    eta = {part: rows.astype(np.float64) for part, rows in under("eta", found).items()}
    return Seen(
        eta={part: rows / rows.sum(axis=1, keepdims=True) for part, rows in eta.items()},
        places={part: rows.astype(np.float32) for part, rows in under("places", found).items()},
    )


def store(wanted: Wanted) -> Path:
    """Write the arrays of a network that is in the cache, and return the file."""
    split = load_split(wanted.task, wanted.seed, quick=wanted.quick)
    labels = {part: getattr(split, part).y for part in PARTS}
    arrays: dict[str, NDArray[Any]] = {f"eta/{part}": rows for part, rows in trained(wanted).eta.items()}
    if wanted.task in WITH_COORDINATES:
        arrays |= {f"places/{part}": rows for part, rows in reduced_layer(wanted).items()}
    write_arrays(path_of(wanted), {**as_halves(arrays), "identity": identity(wanted, labels)}, compressed=True)
    return path_of(wanted)


def as_halves(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return arrays with numbers of 16 bits."""
    return {name: rows.astype(np.float16) for name, rows in arrays.items()}


def identity(wanted: Wanted, labels: Labels) -> NDArray[np.str_]:
    """Return what the arrays are of: the network with a digest of its recipe, the labels, what made them."""
    found: dict[str, Any] = {"network": wanted.folder.name, "labels": digests(labels), "made with": versions(*PACKAGES)}
    if wanted.task in WITH_COORDINATES:
        found["coordinates"] = asdict(COORDINATES)
    return np.array(json.dumps(found, sort_keys=True))


def identity_in(arrays: Arrays) -> dict[str, Any]:
    """Return the identity that a file has."""
    return dict(json.loads(str(arrays["identity"])))


def digests(labels: Labels) -> dict[str, str]:
    """Return the number of rows of each part and a digest of their labels."""
    return {
        part: f"{len(y)} rows, {hashlib.blake2b(y.astype('<i8').tobytes(), digest_size=8).hexdigest()}"
        for part, y in labels.items()
    }


# -- the command --------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Store what the cache has and the repository does not, and say what is missing; 1 where something is."""
    parser = argparse.ArgumentParser(prog="python -m experiments.paper.images.stored_arrays", description=__doc__)
    parser.add_argument("--list", action="store_true", help="only say what is stored")
    args = parser.parse_args(arguments)
    wanted = every(f"{task}/{TRAIN}" for task in (ADIENCE, BETTER, CIFAR10))
    for each in wanted:
        if not args.list and not is_stored(each) and state(each) == "trained":
            say(f"storing {each.name}, seed {each.seed}")
            store(each)
        print(f"{each.name:24s} seed {each.seed}  {how_far(each)}")
    return int(not all(map(is_stored, wanted)))


def how_far(wanted: Wanted) -> str:
    """Say whether a network is stored, and how large its file is; else how far its training is."""
    if is_stored(wanted):
        return f"stored, {path_of(wanted).stat().st_size / 1e6:.2f} MB"
    return f"not stored; training: {state(wanted)}"


if __name__ == "__main__":
    sys.exit(main())
