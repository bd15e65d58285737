"""CIFAR-10: 60,000 small photographs of ten classes, and the paper's label noise on them.

Three editions are read: compact files (differences of neighbouring pixels), the authors' pickled batches, and their
binary batches, the latter two as folders or as archives. Only arrays are read from a pickle. Batches of every edition
are converted to the binary layout and must have its checksum.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from postshift._validation import IntArray, check_count, check_in_range
from postshift.datasets._location import PathLike, check_sha256, obtain
from postshift.datasets._pickles import unpickle
from postshift.datasets._public_files import CIFAR10
from postshift.datasets.dataset import Dataset, PixelArray, Split, stratified
from postshift.exceptions import InputError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
PLANE = SIDE * SIDE

# Checksums of the batches in the binary layout: a label, then 3,072 pixels plane by plane, for every image. Their SHA-1
# sums are those by which Apache MXNet's loader knows the members of the official cifar-10-binary.tar.gz.
SHA256 = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}

FLIPS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}  # truck to automobile, bird to airplane, deer to horse, cat to dog and back
FLIP = 0.6
VALIDATION = 0.02

COMPACT = "cifar10_train_1.npz"
PICKLED = "data_batch_1"
BINARY = "data_batch_1.bin"
BINARY_ARCHIVE = "cifar-10-binary.tar.gz"

# One file of each edition, in order of preference; the archive of pickled batches comes last.
MARKS = (COMPACT, f"cifar-10-batches-py/{PICKLED}", f"cifar-10-batches-bin/{BINARY}", BINARY_ARCHIVE)
UNREADABLE = (
    OSError, EOFError, ValueError, TypeError, KeyError, OverflowError,
    tarfile.TarError, zipfile.BadZipFile, zlib.error, pickle.UnpicklingError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cifar10:
    """The official samples.

    Attributes
    ----------
    train, test : Dataset
        50,000 and 10,000 images of 32 x 32 pixels, in the official order.

    Examples
    --------
    >>> data = load_cifar10()  # doctest: +SKIP
    >>> data.train.X.shape, data.train.y[:5]  # doctest: +SKIP
    ((50000, 32, 32, 3), array([6, 9, 9, 4, 1]))
    """

    train: Dataset
    test: Dataset


def load_cifar10(*, data_dir: PathLike | None = None, download: bool = True) -> Cifar10:
    """Return the 60,000 images with the official split.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``cifar10/``, and in it the compact files (``cifar10_train_1.npz`` to ``_5.npz``,
        ``cifar10_test.npz``), the folder ``cifar-10-batches-py`` or ``cifar-10-batches-bin``, or the archive
        ``cifar-10-python.tar.gz`` or ``cifar-10-binary.tar.gz``. It is searched before the other folders of
        :mod:`postshift.datasets`.
    download : bool, default=True
        Whether the archive is downloaded into the cache (170 MB) if none of these folders has an edition.

    Returns
    -------
    Cifar10

    Raises
    ------
    DataNotFoundError
        If no edition is in these folders and the archive cannot be downloaded.
    InputError
        If a file is damaged, or its images or labels are not the published ones.

    Examples
    --------
    >>> data = load_cifar10()  # doctest: +SKIP
    >>> data.test.X.shape, data.test.class_names[:3]  # doctest: +SKIP
    ((10000, 32, 32, 3), ('airplane', 'automobile', 'bird'))
    """
    path = obtain(CIFAR10, *MARKS, data_dir=data_dir, download=download)
    *train, test = (_verified(name, records, path=path) for name, records in zip(SHA256, _batches(path), strict=True))
    return Cifar10(train=_images(np.concatenate(train)), test=_images(test))


def cifar10_noise(
    seed: int,
    *,
    flip: float = FLIP,
    validation: float = VALIDATION,
    data_dir: PathLike | None = None,
    download: bool = True,
) -> Split:
    """Return the label-noise experiment: ten classes, five of them with flipped training labels (Section 7.1).

    Validation is 2 % of the official training images (1,000), the same number of every class, with clean labels. Of the
    other 49,000 each truck becomes an automobile, each bird an airplane, each deer a horse, each cat a dog and each dog
    a cat with probability `flip`. The test sample is the official one. The column ``"clean"`` has the labels without
    noise.

    Parameters
    ----------
    seed : int
        Determines the validation rows and the flips; at least 0.
    flip : float, default=0.6
        Probability of a flip.
    validation : float, default=0.02
        Share of the official training images that is for validation.
    data_dir, download
        As for `load_cifar10`.

    Returns
    -------
    Split

    Examples
    --------
    >>> split = cifar10_noise(0)  # doctest: +SKIP
    >>> float((split.train.y != split.train.columns["clean"]).mean().round(2))  # doctest: +SKIP
    0.3
    """
    check_count(seed, name="seed", low=0)
    check_in_range(flip, name="flip", low=0, high=1)
    check_in_range(validation, name="validation", low=0, high=1, open_low=True, open_high=True)
    data = load_cifar10(data_dir=data_dir, download=download)
    rest, drawn = stratified(data.train.y, share=validation, seed=seed)
    train, validated, test = (_with_clean(part) for part in (data.train.take(rest), data.train.take(drawn), data.test))
    return Split(
        train=replace(train, y=flipped(train.y, flip=flip, rng=np.random.default_rng(seed))),
        validation=validated,
        test=test,
    )


def flipped(labels: IntArray, *, flip: float, rng: np.random.Generator) -> IntArray:
    """Return labels; those in ``FLIPS`` are replaced, each with probability ``flip``."""
    partner = np.arange(len(CLASSES))
    partner[list(FLIPS)] = list(FLIPS.values())
    return np.where(rng.random(len(labels)) < flip, partner[labels], labels)


def _with_clean(part: Dataset) -> Dataset:
    """Return images with their labels as a column as well."""
    return replace(part, columns={**part.columns, "clean": part.y})


def _batches(path: Path) -> Iterable[PixelArray]:
    """Yield the records (n, 3073) of the six batches of the edition that ``path`` belongs to."""
    files, read = _edition(path.name)
    try:
        if path.name.endswith(".tar.gz"):
            contents: Iterable[bytes] = _members(path, files)
        else:
            contents = (path.with_name(name).read_bytes() for name in files)
        for content in contents:
            yield read(content)
    except UNREADABLE as error:
        raise InputError(
            f"{path} must be CIFAR-10 as published, with {', '.join(files)}. Got {type(error).__name__} on reading: "
            f"{error}; the copy is damaged or incomplete: replace it with the original"
        ) from error


def _edition(mark: str) -> tuple[tuple[str, ...], Callable[[bytes], PixelArray]]:
    """Return the names of an edition's six files and the function that reads one."""
    if mark == COMPACT:
        numbers = range(1, len(SHA256))
        return (*(f"cifar10_train_{number}.npz" for number in numbers), "cifar10_test.npz"), _from_differences
    if mark in {BINARY, BINARY_ARCHIVE}:
        return tuple(f"{name}.bin" for name in SHA256), _from_binary
    return tuple(SHA256), _from_pickle


def _members(path: Path, files: tuple[str, ...]) -> list[bytes]:
    """Return the contents of files in an archive, in the order of ``files``; nothing is extracted to the disk."""
    found: dict[str, bytes] = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            content = archive.extractfile(member) if name in files else None
            if content is not None:
                found[name] = content.read()
    return [found[name] for name in files]


def _from_differences(content: bytes) -> PixelArray:
    """Return the records of a compact file: running sums along columns, rows and planes give the pixels."""
    with np.load(io.BytesIO(content)) as arrays:
        labels, planes = arrays["label"], arrays["delta"]
    for axis in (3, 2, 0):
        planes = np.cumsum(planes, axis=axis, dtype=np.uint8)
    return np.column_stack([labels, planes.transpose(1, 0, 2, 3).reshape(len(labels), -1)])


def _from_pickle(content: bytes) -> PixelArray:
    """Return the records of a pickled batch."""
    batch = unpickle(content)
    return np.column_stack([np.array(batch[b"labels"], dtype=np.uint8), batch[b"data"]])


def _from_binary(content: bytes) -> PixelArray:
    """Return the records of a binary batch: its bytes."""
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + 3 * PLANE)


def _verified(name: str, records: PixelArray, *, path: Path) -> PixelArray:
    """Return the records of a batch; raise if they are not the published ones."""
    what = f"{name} of {path} must have the published images and labels: in the binary layout,"
    check_sha256(np.ascontiguousarray(records).data, SHA256[name], what=what, size=f"{len(records):,} images")
    return records


def _images(records: PixelArray) -> Dataset:
    """Return records as images."""
    planes = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
    return Dataset(
        X=np.ascontiguousarray(planes.transpose(0, 2, 3, 1)),
        y=records[:, 0].astype(np.intp),
        rows=np.arange(len(records)),
        class_names=CLASSES,
    )
