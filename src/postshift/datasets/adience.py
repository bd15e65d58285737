"""Adience: photographs of faces with gender and age, and the paper's shift from younger to older people.

Two editions are read: a compact file of 64 x 64 pixels, and the authors' own, five lists ``fold_<k>_data.txt`` next to
the folder ``faces`` (or ``aligned``). Only faces with one of the eight age buckets and a known gender are kept; their
labels have the same checksum in both editions. These are photographs of real people, including children: use them for
experiments, never in a gallery, and do not use them to identify anyone.
"""

from __future__ import annotations

import csv
import importlib
import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from postshift._installing import install
from postshift._validation import IntArray, check_count, check_in_range
from postshift.datasets._location import PathLike, check_sha256, obtain, read_verified
from postshift.datasets._public_files import ADIENCE
from postshift.datasets.dataset import Dataset, PixelArray, Split, stratified
from postshift.exceptions import InputError, SettingError

COMPACT = "adience_faces64.npz"
SHA256 = "6c46511b7e0f4e894da268c85f7cfb20640f36c16d3c0d6f139760b395714512"
LABELS_SHA256 = "ebb2935847a6c15230ecb83648c1aa2e62fa65d82663fb0bb3cc8aed971abec6"  # of COLUMNS, four bytes an entry

AGES = ("(0, 2)", "(4, 6)", "(8, 12)", "(15, 20)", "(25, 32)", "(38, 43)", "(48, 53)", "(60, 100)")
GENDERS = ("f", "m")
CLASSES = ("female", "male")
FOLDS = 5
COLUMNS = ("fold", "fold_row", "user", "face_id", "age_bucket", "male")
CROPS = {"faces": "coarse_tilt_aligned_face", "aligned": "landmark_aligned_face"}

YOUNG = 5  # age buckets for training; the older three are for validation and test
VALIDATION = 0.2


def load_adience(*, size: int = 32, data_dir: PathLike | None = None) -> Dataset:
    """Return the 16,228 faces with a known gender and age bucket; the label is 1 for male.

    Every photograph is scaled to a square without keeping its aspect ratio. Needs Pillow. The files cannot be
    downloaded: the authors send them on request.

    Parameters
    ----------
    size : int, default=32
        Height and width in pixels.
    data_dir : path-like, optional
        The folder that contains ``adience/``, and in it ``adience_faces64.npz`` or the authors' ``fold_0_data.txt`` to
        ``fold_4_data.txt`` with the folder ``faces`` (or ``aligned``). It is searched before the other folders of
        :mod:`postshift.datasets`.

    Returns
    -------
    Dataset
        In the order of the lists, with the columns ``age_bucket`` (0 to 7), ``fold`` (0 to 4, no person is in two),
        ``fold_row`` (row in the fold's list), ``user`` (number of the album) and ``face_id`` (the person).

    Raises
    ------
    DataNotFoundError
        If neither edition is in these folders.
    InputError
        If a file is not the published one, or a photograph is missing or damaged.
    SettingError
        If Pillow is not installed.

    Examples
    --------
    >>> faces = load_adience()  # doctest: +SKIP
    >>> faces.X.shape, float(faces.y.mean().round(2))  # doctest: +SKIP
    ((16228, 32, 32, 3), 0.47)
    """
    check_count(size, name="size", low=1)
    path = obtain(ADIENCE, COMPACT, data_dir=data_dir)
    labels, photographs = _compact(path) if path.name == COMPACT else _original(path.parent)
    _verify(labels, path=path)
    return Dataset(
        X=_pixels(photographs, size=size),
        y=labels["male"],
        rows=np.arange(len(photographs)),
        columns={name: labels[name] for name in COLUMNS if name != "male"},
        class_names=CLASSES,
    )


def adience_shift(
    seed: int, *, size: int = 32, validation: float = VALIDATION, data_dir: PathLike | None = None
) -> Split:
    """Return the domain-shift experiment: predict gender, trained on young people, used on older ones (Section 7.3).

    Training images are those of age buckets 0 to 4 (the paper's 1 to 5), up to 32 years. A share of the older faces is
    for validation and the rest for test, stratified by age bucket and gender, as in the authors' program. Pictures of
    one person may be in both.

    Parameters
    ----------
    seed : int
        Determines the validation rows; at least 0.
    size : int, default=32
        Height and width in pixels.
    validation : float, default=0.2
        Share of the older faces that is for validation.
    data_dir : path-like, optional
        As for `load_adience`.

    Returns
    -------
    Split

    Examples
    --------
    >>> split = adience_shift(0)  # doctest: +SKIP
    >>> len(split.train.y), len(split.validation.y), len(split.test.y)  # doctest: +SKIP
    (12244, 797, 3187)
    """
    check_count(seed, name="seed", low=0)
    check_in_range(validation, name="validation", low=0, high=1, open_low=True, open_high=True)
    faces = load_adience(size=size, data_dir=data_dir)
    bucket = faces.columns["age_bucket"]
    older = np.flatnonzero(bucket >= YOUNG)
    test, drawn = stratified(2 * bucket[older] + faces.y[older], share=validation, seed=seed)
    return Split(
        train=faces.take(np.flatnonzero(bucket < YOUNG)),
        validation=faces.take(older[drawn]),
        test=faces.take(older[test]),
    )


def _compact(path: Path) -> tuple[dict[str, IntArray], list[bytes]]:
    """Return the labels and the photographs (JPEG files) of the compact edition."""
    with np.load(io.BytesIO(read_verified(path, sha256=SHA256))) as arrays:
        labels = {name: arrays[name].astype(np.intp) for name in COLUMNS}
        content, ends = arrays["jpeg"].tobytes(), arrays["offset"].tolist()
    labels["user"] = _numbered(labels["user"].tolist())
    return labels, [content[start:end] for start, end in itertools.pairwise(ends)]


def _original(folder: Path) -> tuple[dict[str, IntArray], list[Path]]:
    """Return the labels of the authors' lists and the paths of the photographs."""
    crop = next((name for name in CROPS if (folder / name).is_dir()), None)
    if crop is None:
        raise InputError(
            f"{folder} must have the photographs in one of the folders {', '.join(CROPS)}. Got only the lists: unpack "
            "faces.tar.gz or aligned.tar.gz there"
        )
    rows = [row for fold in range(FOLDS) for row in _listed(folder / f"fold_{fold}_data.txt", fold)]
    labels = {name: np.array([row[name] for row in rows], dtype=np.intp) for name in COLUMNS if name != "user"}
    labels["user"] = _numbered([row["user_id"] for row in rows])
    paths = [folder / crop / row["user_id"] / f"{CROPS[crop]}.{row['face_id']}.{row['original_image']}" for row in rows]
    return labels, paths


def _listed(path: Path, fold: int) -> list[dict[str, Any]]:
    """Return the rows of one list that have a known gender and one of the eight age buckets."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
        return [
            {
                **row,
                "fold": fold,
                "fold_row": number,
                "face_id": int(row["face_id"]),
                "age_bucket": AGES.index(row["age"]),
                "male": row["gender"] == "m",
            }
            for number, row in enumerate(rows)
            if row["age"] in AGES and row["gender"] in GENDERS
        ]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path} must be one of the {FOLDS} lists as published. Got {type(error).__name__} on reading: {error}; "
            "replace it with the original"
        ) from error


def _numbered(values: Sequence[object]) -> IntArray:
    """Return the number of every value, in the order of first occurrence."""
    number = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return np.array([number[value] for value in values], dtype=np.intp)


def _verify(labels: Mapping[str, IntArray], *, path: Path) -> None:
    """Raise if the labels are not the published ones."""
    table = np.column_stack([labels[name] for name in COLUMNS]).astype("<i4")
    what = f"the labels of {path} must be the published ones, with"
    check_sha256(table.tobytes(), LABELS_SHA256, what=what, size=f"{len(table):,} faces")


def _pixels(photographs: Sequence[bytes | Path], *, size: int) -> PixelArray:
    """Return the photographs, scaled to squares."""
    image = _pillow()
    if missing := [path for path in photographs if isinstance(path, Path) and not path.is_file()]:
        raise InputError(
            f"every photograph of the lists must exist. Got {len(missing):,} that are missing, the first "
            f"{missing[0]}; unpack the archive of photographs again"
        )
    pixels = np.empty((len(photographs), size, size, 3), dtype=np.uint8)
    for place, photograph in enumerate(photographs):
        try:
            pixels[place] = _square(image, photograph, size=size)
        except OSError as error:
            name = photograph if isinstance(photograph, Path) else f"number {place}"
            raise InputError(f"the photograph {name} is damaged: {error}; replace it with the original") from error
    return pixels


def _square(image: Any, photograph: bytes | Path, *, size: int) -> PixelArray:
    """Return one photograph, scaled to a square."""
    with image.open(io.BytesIO(photograph) if isinstance(photograph, bytes) else photograph) as opened:
        opened.draft("RGB", (2 * size, 2 * size))  # a large JPEG is decoded at a fraction of its size, much faster
        return np.asarray(opened.convert("RGB").resize((size, size)))


def _pillow() -> Any:
    """Import Pillow; the error says how to install it."""
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise SettingError(f"photographs need Pillow: {install('data')}") from error
