"""CIFAR-10: every edition gives the same images, hostile and damaged files are refused, the noise is the paper's."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from postshift.datasets import Cifar10, Split, cifar10, cifar10_noise, load_cifar10
from postshift.datasets._location import find_file
from postshift.datasets._public_files import CIFAR10
from postshift.datasets.cifar10 import CLASSES, FLIPS, flipped
from postshift.exceptions import DataNotFoundError, InputError, SettingError

if TYPE_CHECKING:
    from tests.datasets.conftest import Source

N_SMALL = 20  # images of a batch made here
Batches = dict[str, tuple[np.ndarray, np.ndarray]]  # labels, images (n, 32, 32, 3)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Batches:
    """Make six small batches and take them for the published ones."""
    rng = np.random.default_rng(0)
    made = {
        name: (
            np.arange(N_SMALL, dtype=np.uint8) % 10,
            rng.integers(256, size=(N_SMALL, 32, 32, 3), dtype=np.uint8),
        )
        for name in cifar10.SHA256
    }
    digests = {name: hashlib.sha256(as_binary(*batch)).hexdigest() for name, batch in made.items()}
    monkeypatch.setattr(cifar10, "SHA256", digests)
    return made


def planar(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2)


def as_binary(labels: np.ndarray, images: np.ndarray) -> bytes:
    return b"".join(
        bytes([label]) + image.tobytes() for label, image in zip(labels.tolist(), planar(images), strict=True)
    )


def as_pickle(labels: np.ndarray, images: np.ndarray, *, text: bool = False, order: str = "C") -> bytes:
    """Return a batch as Python 2 wrote it (texts are bytes), or with texts as keys."""
    rows = np.array(planar(images).reshape(len(labels), -1), order=order)
    batch = {b"batch_label": b"one of six", b"labels": labels.tolist(), b"data": rows, b"filenames": [b"a.png"]}
    return pickle.dumps({key.decode() if text else key: value for key, value in batch.items()}, protocol=2)


def as_differences(labels: np.ndarray, images: np.ndarray) -> bytes:
    delta = images.transpose(3, 0, 1, 2)
    for axis in (0, 2, 3):
        delta = np.diff(delta, axis=axis, prepend=np.uint8(0))
    content = io.BytesIO()
    np.savez_compressed(content, label=labels, delta=delta)
    return content.getvalue()


def write_compact(folder: Path, batches: Batches) -> None:
    files = [*(f"cifar10_train_{number}.npz" for number in range(1, 6)), "cifar10_test.npz"]
    for file, batch in zip(files, batches.values(), strict=True):
        (folder / file).write_bytes(as_differences(*batch))


def write_pickled(folder: Path, batches: Batches) -> None:
    (folder / "cifar-10-batches-py").mkdir()
    for name, batch in batches.items():
        (folder / "cifar-10-batches-py" / name).write_bytes(as_pickle(*batch))


def write_binary(folder: Path, batches: Batches) -> None:
    (folder / "cifar-10-batches-bin").mkdir()
    for name, batch in batches.items():
        (folder / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(as_binary(*batch))


def archived(folder: Path, inner: str, name: str) -> None:
    """Pack a folder as the authors do, in whatever order, and remove it."""
    with tarfile.open(folder / name, "w:gz") as archive:
        for path in sorted((folder / inner).iterdir(), reverse=True):
            archive.add(path, arcname=f"{inner}/{path.name}")
            path.unlink()
    (folder / inner).rmdir()


def write_pickled_archive(folder: Path, batches: Batches) -> None:
    write_pickled(folder, batches)
    archived(folder, "cifar-10-batches-py", "cifar-10-python.tar.gz")


def write_binary_archive(folder: Path, batches: Batches) -> None:
    write_binary(folder, batches)
    archived(folder, "cifar-10-batches-bin", "cifar-10-binary.tar.gz")


EDITIONS = (write_compact, write_pickled, write_binary, write_pickled_archive, write_binary_archive)
Write = Callable[[Path, Batches], None]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "given" / "cifar10").mkdir(parents=True)
    return tmp_path / "given"


class TestEditions:
    @pytest.mark.parametrize("write", EDITIONS)
    def test_all_give_the_same_images(self, batches: Batches, data_dir: Path, write: Write) -> None:
        write(data_dir / "cifar10", batches)
        data = load_cifar10(data_dir=data_dir)
        *train, (test_labels, test_images) = batches.values()
        np.testing.assert_array_equal(data.train.X, np.concatenate([images for _, images in train]))
        np.testing.assert_array_equal(data.train.y, np.concatenate([labels for labels, _ in train]))
        np.testing.assert_array_equal(data.test.X, test_images)
        np.testing.assert_array_equal(data.test.y, test_labels)
        assert data.train.rows.tolist() == list(range(5 * N_SMALL))
        assert (data.train.X.dtype, data.train.y.dtype) == (np.uint8, np.intp)

    @pytest.mark.parametrize("options", [{"text": True}, {"order": "F"}])
    def test_other_ways_to_pickle_a_batch(self, batches: Batches, data_dir: Path, options: dict[str, object]) -> None:
        write_pickled(data_dir / "cifar10", batches)
        labels, images = batches["test_batch"]
        content = as_pickle(labels, images, **options)
        (data_dir / "cifar10" / "cifar-10-batches-py" / "test_batch").write_bytes(content)
        np.testing.assert_array_equal(load_cifar10(data_dir=data_dir).test.X, images)

    @pytest.mark.usefixtures("nowhere")
    def test_downloaded(
        self, batches: Batches, data_dir: Path, source: Source, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_pickled_archive(data_dir / "cifar10", batches)
        content = (data_dir / "cifar10" / CIFAR10.name).read_bytes()
        url = source.give(CIFAR10.name, content)
        monkeypatch.setattr(cifar10, "CIFAR10", replace(CIFAR10, url=url, sha256=hashlib.sha256(content).hexdigest()))
        for _ in range(2):
            np.testing.assert_array_equal(load_cifar10().test.X, batches["test_batch"][1])
        assert len(source.asked) == 1

    @pytest.mark.usefixtures("nowhere")
    def test_missing_everywhere(self) -> None:
        with pytest.raises(DataNotFoundError) as caught:
            load_cifar10(download=False)
        for name in (*cifar10.MARKS, CIFAR10.name, CIFAR10.url):
            assert name in str(caught.value)


class TestDamage:
    @pytest.mark.parametrize("write", EDITIONS)
    def test_a_changed_pixel(self, batches: Batches, data_dir: Path, write: Write) -> None:
        batches["data_batch_3"][1][5, 7, 7, 1] ^= 1
        write(data_dir / "cifar10", batches)
        with pytest.raises(InputError, match=r"data_batch_3 of .* must have the published images and labels"):
            load_cifar10(data_dir=data_dir)

    @pytest.mark.parametrize("write", EDITIONS)
    def test_a_missing_batch(self, batches: Batches, data_dir: Path, write: Write) -> None:
        if write in {write_compact, write_pickled, write_binary}:
            write(data_dir / "cifar10", batches)
            next(path for path in sorted((data_dir / "cifar10").rglob("*_4*"))).unlink()
        else:
            write(data_dir / "cifar10", {name: batch for name, batch in batches.items() if name != "data_batch_4"})
        with pytest.raises(InputError, match="the copy is damaged or incomplete"):
            load_cifar10(data_dir=data_dir)

    @pytest.mark.parametrize("write", EDITIONS)
    @pytest.mark.parametrize("damage", [lambda content: content[:-100], lambda _: b"", lambda _: b"no such thing"])
    def test_an_unreadable_file(
        self, batches: Batches, data_dir: Path, write: Write, damage: Callable[[bytes], bytes]
    ) -> None:
        write(data_dir / "cifar10", batches)
        path = next(path for path in sorted((data_dir / "cifar10").rglob("*")) if path.is_file())
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(InputError, match=r"the copy is damaged"):
            load_cifar10(data_dir=data_dir)


class Hostile:
    """Unpickled carelessly, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


class TestHostilePickles:
    def test_nothing_is_called(self, batches: Batches, data_dir: Path, tmp_path: Path) -> None:
        write_pickled(data_dir / "cifar10", batches)
        batch = data_dir / "cifar10" / "cifar-10-batches-py" / "data_batch_1"
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            batch.write_bytes(pickle.dumps({b"data": Hostile(tmp_path / "made")}, protocol=protocol))
            with pytest.raises(InputError, match=r"names (posix|nt)\.mkdir, which is not part of an array"):
                load_cifar10(data_dir=data_dir)
        assert not (tmp_path / "made").exists()
        pickle.loads(batch.read_bytes())  # noqa: S301
        assert (tmp_path / "made").exists()  # or this file would prove nothing


class TestNoise:
    def test_flips(self) -> None:
        labels = np.repeat(np.arange(10), 10_000)
        noisy = flipped(labels, flip=0.6, rng=np.random.default_rng(0))
        for label, name in enumerate(CLASSES):
            moved = noisy[labels == label] != label
            if label not in FLIPS:
                assert not moved.any(), name
            else:
                assert moved.mean() == pytest.approx(0.6, abs=0.02), name
                assert set(noisy[labels == label][moved]) == {FLIPS[label]}
        named = {(CLASSES[label], CLASSES[other]) for label, other in FLIPS.items()}
        assert named == {
            ("truck", "automobile"), ("bird", "airplane"), ("deer", "horse"), ("cat", "dog"), ("dog", "cat")
        }  # fmt: skip

    def test_split_of_small_batches(self, batches: Batches, data_dir: Path) -> None:
        write_compact(data_dir / "cifar10", batches)
        split, again, other = (cifar10_noise(seed, validation=0.2, data_dir=data_dir) for seed in (3, 3, 4))
        published = np.concatenate([labels for labels, _ in list(batches.values())[:-1]])
        assert np.bincount(split.validation.y).tolist() == [2] * 10
        assert sorted([*split.train.rows, *split.validation.rows]) == list(range(100))
        for part in (split.train, split.validation):
            np.testing.assert_array_equal(part.columns["clean"], published[part.rows])
        np.testing.assert_array_equal(split.validation.y, split.validation.columns["clean"])
        np.testing.assert_array_equal(split.test.y, batches["test_batch"][0])
        np.testing.assert_array_equal(split.train.y, again.train.y)
        np.testing.assert_array_equal(split.train.X, again.train.X)
        assert not np.array_equal(split.train.rows, other.train.rows)
        assert not np.array_equal(split.train.y, split.train.columns["clean"])

    @pytest.mark.parametrize("flip", [0, 1])
    def test_none_and_all(self, batches: Batches, data_dir: Path, flip: float) -> None:
        write_compact(data_dir / "cifar10", batches)
        train = cifar10_noise(0, flip=flip, validation=0.2, data_dir=data_dir).train
        clean = train.columns["clean"]
        np.testing.assert_array_equal(train.y != clean, np.isin(clean, list(FLIPS)) & bool(flip))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"seed": -1}, "seed must be"),
            ({"seed": 0, "flip": 1.5}, "flip must be"),
            ({"seed": 0, "validation": 0}, "validation must be"),
            ({"seed": 0, "validation": 1.0}, "validation must be"),
        ],
    )
    def test_bad_settings(self, options: dict[str, float], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            cifar10_noise(**options)


@pytest.fixture(scope="module")
def split() -> Split:
    try:
        find_file("cifar10", *cifar10.MARKS, CIFAR10.name)
    except DataNotFoundError as error:
        pytest.skip(f"CIFAR-10 is not tested: {error}")
    return cifar10_noise(0)


class TestPublished:
    """The real images; skipped, with the reason, where they are not found."""

    def test_the_paper_s_sizes(self, split: Split) -> None:
        assert split.train.X.shape == (49_000, 32, 32, 3)
        assert split.validation.X.shape == (1_000, 32, 32, 3)
        assert split.test.X.shape == (10_000, 32, 32, 3)
        assert np.bincount(split.validation.y).tolist() == [100] * 10
        assert np.bincount(split.train.columns["clean"]).tolist() == [4_900] * 10
        assert np.bincount(split.test.y).tolist() == [1_000] * 10

    def test_known_pixels_and_labels(self, split: Split) -> None:
        assert split.test.y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
        sums = split.train.X.sum(axis=(0, 1, 2)) + split.validation.X.sum(axis=(0, 1, 2))
        means = sums / (50_000 * 32 * 32 * 255)
        np.testing.assert_allclose(means, [0.49140, 0.48216, 0.44653], atol=5e-6)

    def test_the_noise(self, split: Split) -> None:
        clean, noisy = split.train.columns["clean"], split.train.y
        for label, other in FLIPS.items():
            assert (noisy[clean == label] == other).mean() == pytest.approx(0.6, abs=0.03)
        assert (noisy != clean).mean() == pytest.approx(0.3, abs=0.01)
        np.testing.assert_array_equal(split.validation.y, split.validation.columns["clean"])


def test_frozen_shape_of_the_result() -> None:
    assert set(Cifar10.__slots__) == {"train", "test"}
