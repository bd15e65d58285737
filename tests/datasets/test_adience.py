"""Adience: both editions give the same labels, the shift is the paper's; real faces only where they are found."""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from postshift.datasets import Dataset, Split, adience, adience_shift, load_adience
from postshift.datasets._location import find_file
from postshift.datasets._public_files import ADIENCE
from postshift.datasets.adience import AGES, COLUMNS, COMPACT, CROPS
from postshift.exceptions import DataNotFoundError, InputError, SettingError

Image = pytest.importorskip("PIL.Image", reason="photographs need Pillow")

HEADER = (
    "user_id", "original_image", "face_id", "age", "gender", "x", "y", "dx", "dy",
    "tilt_ang", "fiducial_yaw_angle", "fiducial_score",
)  # fmt: skip
REST = ["0"] * 7
LEFT_OUT = [("None", "m"), ("(0, 2)", "u"), ("35", "f"), ("(8, 23)", "f"), ("(25, 32)", ""), ("(38, 48)", "m")]


def colour(number: int) -> tuple[int, int, int]:
    return 10 + 7 * number % 240, 20 + 11 * number % 230, 30 + 3 * number % 220


def jpeg(number: int, *, height: int = 48, width: int = 64) -> bytes:
    """Return a plain picture, nobody's."""
    content = io.BytesIO()
    Image.new("RGB", (width, height), colour(number)).save(content, format="JPEG", quality=95)
    return content.getvalue()


def faces() -> list[dict[str, Any]]:
    """Return labels of 160 pictures: every age and gender in every fold, four times in all."""
    made: list[dict[str, Any]] = []
    for fold in range(5):
        for number in range(32):
            age, male = number // 2 % 8, number % 2
            row = len([face for face in made if face["fold"] == fold])
            made.append(
                {"fold": fold, "row": row, "user": f"{90 - fold}{number % 3}@N0{fold}", "face_id": number + 1}
                | {"age": AGES[age], "gender": "fm"[male], "bucket": age, "male": male}
            )
    return made


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the authors' form, with rows that are to be left out between the others; take it for the published one."""
    folder = tmp_path / "given" / "adience"
    folder.mkdir(parents=True)
    table: list[list[int]] = []
    users: list[str] = []
    for fold in range(5):
        lines = [HEADER]
        for number, face in enumerate(face for face in faces() if face["fold"] == fold):
            if number % 5 == 0:
                age, gender = LEFT_OUT[number // 5 % len(LEFT_OUT)]
                lines.append(("1@N00", "gone.jpg", "1", age, gender, *REST))
            users += [] if face["user"] in users else [face["user"]]
            table.append(
                [fold, len(lines) - 1, users.index(face["user"]), face["face_id"], face["bucket"], face["male"]]
            )
            image = f"{number}_o.jpg"
            lines.append((face["user"], image, str(face["face_id"]), face["age"], face["gender"], *REST))
            place = folder / "faces" / face["user"] / f"{CROPS['faces']}.{face['face_id']}.{image}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(jpeg(len(table) - 1))
        text = "".join("\t".join(line) + "\n" for line in lines)
        (folder / f"fold_{fold}_data.txt").write_text(text, encoding="utf-8")
    digest = hashlib.sha256(np.array(table, dtype="<i4").tobytes()).hexdigest()
    monkeypatch.setattr(adience, "LABELS_SHA256", digest)
    return folder.parent


class TestOriginal:
    def test_labels_and_pixels(self, original: Path) -> None:
        found = load_adience(data_dir=original)
        assert found.X.shape == (160, 32, 32, 3)
        assert found.X.dtype == np.uint8
        assert found.y.tolist() == [face["male"] for face in faces()]
        assert found.columns["age_bucket"].tolist() == [face["bucket"] for face in faces()]
        assert found.columns["face_id"].tolist() == [face["face_id"] for face in faces()]
        assert found.columns["fold_row"][:7].tolist() == [1, 2, 3, 4, 5, 7, 8]
        assert found.columns["user"][:4].tolist() == [0, 1, 2, 0]
        assert set(found.columns) == set(COLUMNS) - {"male"}
        assert found.class_names == ("female", "male")
        expected = np.array([colour(number) for number in range(160)])
        np.testing.assert_allclose(found.X.mean(axis=(1, 2)), expected, atol=4)

    @pytest.mark.parametrize("size", [8, 96])
    def test_size(self, original: Path, size: int) -> None:
        assert load_adience(size=size, data_dir=original).X.shape == (160, size, size, 3)

    def test_aligned_faces(self, original: Path) -> None:
        (original / "adience" / "faces").rename(original / "adience" / "aligned")
        for path in (original / "adience" / "aligned").rglob("*.jpg"):
            path.rename(path.with_name(path.name.replace(CROPS["faces"], CROPS["aligned"])))
        assert load_adience(data_dir=original).X.shape == (160, 32, 32, 3)

    def test_only_lists(self, original: Path) -> None:
        (original / "adience" / "faces").rename(original / "elsewhere")
        with pytest.raises(InputError, match=r"one of the folders faces, aligned.*unpack faces\.tar\.gz"):
            load_adience(data_dir=original)

    def test_missing_photographs(self, original: Path) -> None:
        for path in sorted((original / "adience" / "faces").rglob("*.jpg"))[:3]:
            path.unlink()
        with pytest.raises(InputError, match="Got 3 that are missing, the first"):
            load_adience(data_dir=original)

    def test_a_damaged_photograph(self, original: Path) -> None:
        path = next((original / "adience" / "faces").rglob("*.jpg"))
        for content in (b"no picture", path.read_bytes()[:-200]):
            path.write_bytes(content)
            with pytest.raises(InputError, match="is damaged"):
                load_adience(data_dir=original)

    def test_a_changed_list(self, original: Path) -> None:
        path = original / "adience" / "fold_2_data.txt"
        path.write_text(path.read_text().replace("(0, 2)\tf", "(0, 2)\tm", 1))
        with pytest.raises(InputError, match=r"the labels of .* must be the published ones.*Got 160 faces"):
            load_adience(data_dir=original)

    @pytest.mark.parametrize("damage", ["", "user_id,age\n1,2\n", "\t".join(HEADER) + "\na\tb\tc\t(0, 2)\tf\n"])
    def test_an_unreadable_list(self, original: Path, damage: str) -> None:
        (original / "adience" / "fold_3_data.txt").write_text(damage)
        with pytest.raises(InputError, match="must be"):
            load_adience(data_dir=original)

    def test_a_missing_list(self, original: Path) -> None:
        (original / "adience" / "fold_4_data.txt").unlink()
        with pytest.raises(InputError, match=r"fold_4_data\.txt must be one of the 5 lists"):
            load_adience(data_dir=original)


class TestCompact:
    @pytest.fixture
    def compact(self, original: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Dataset]:
        """Write the same pictures as a compact file into another folder, its albums numbered in another way."""
        found = load_adience(data_dir=original)
        pictures = [jpeg(number) for number in range(160)]
        content = io.BytesIO()
        np.savez(
            content,
            jpeg=np.frombuffer(b"".join(pictures), dtype=np.uint8),
            offset=np.cumsum([0, *map(len, pictures)]),
            male=found.y.astype(np.uint8),
            **{name: values for name, values in found.columns.items() if name != "user"},
            user=50 - found.columns["user"],
        )
        folder = original.parent / "compact" / "adience"
        folder.mkdir(parents=True)
        (folder / COMPACT).write_bytes(content.getvalue())
        monkeypatch.setattr(adience, "SHA256", hashlib.sha256(content.getvalue()).hexdigest())
        return folder.parent, found

    def test_the_same_as_the_original(self, compact: tuple[Path, Dataset]) -> None:
        folder, expected = compact
        found = load_adience(data_dir=folder)
        np.testing.assert_array_equal(found.X, expected.X)
        np.testing.assert_array_equal(found.y, expected.y)
        for name, values in expected.columns.items():
            np.testing.assert_array_equal(found.columns[name], values)

    def test_a_damaged_file(self, compact: tuple[Path, Dataset]) -> None:
        folder, _ = compact
        path = folder / "adience" / COMPACT
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(InputError, match="must be the published file"):
            load_adience(data_dir=folder)


class TestShift:
    def test_old_and_young(self, original: Path) -> None:
        split, again, other = (adience_shift(seed, data_dir=original) for seed in (1, 1, 2))
        ages = [set(part.columns["age_bucket"]) for part in (split.train, split.validation, split.test)]
        assert ages == [{0, 1, 2, 3, 4}, {5, 6, 7}, {5, 6, 7}]
        assert [len(part.y) for part in (split.train, split.validation, split.test)] == [100, 12, 48]
        assert sorted([*split.train.rows, *split.validation.rows, *split.test.rows]) == list(range(160))
        cells = 2 * split.validation.columns["age_bucket"] + split.validation.y
        assert np.bincount(cells)[10:].tolist() == [2] * 6
        np.testing.assert_array_equal(split.validation.rows, again.validation.rows)
        assert not np.array_equal(split.validation.rows, other.validation.rows)

    def test_half_for_validation(self, original: Path) -> None:
        split = adience_shift(0, validation=0.5, data_dir=original)
        assert len(split.validation.y) == len(split.test.y) == 30

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"seed": 0.5}, "seed must be"),
            ({"seed": 0, "validation": 1}, "validation must be"),
            ({"seed": 0, "size": 0}, "size must be"),
        ],
    )
    def test_bad_settings(self, options: dict[str, float], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            adience_shift(**options)


@pytest.mark.usefixtures("nowhere")
def test_missing_everywhere() -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load_adience()
    for fact in (COMPACT, "fold_0_data.txt", ADIENCE.page, "on request"):
        assert fact in str(caught.value)


def test_without_pillow(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(SettingError, match=r"photographs need Pillow: pip install '\.\[data\]'"):
        load_adience(data_dir=original)


@pytest.fixture(scope="module")
def split() -> Split:
    try:
        find_file("adience", COMPACT, ADIENCE.name)
    except DataNotFoundError as error:
        pytest.skip(f"Adience is not tested: {error}")
    return adience_shift(0)


class TestPublished:
    """The real faces; skipped, with the reason, where they are not found."""

    def test_the_paper_s_sizes(self, split: Split) -> None:
        assert split.train.X.shape == (12_244, 32, 32, 3)
        assert split.validation.X.shape == (797, 32, 32, 3)
        assert split.test.X.shape == (3_187, 32, 32, 3)

    def test_counts(self, split: Split) -> None:
        parts = (split.train, split.validation, split.test)
        ages, male = (
            (np.concatenate([part.columns["age_bucket"] for part in parts])),
            np.concatenate([p.y for p in parts]),
        )
        assert np.bincount(ages[male == 1]).tolist() == [716, 909, 929, 733, 2_279, 1_241, 404, 446]
        assert np.bincount(ages[male == 0]).tolist() == [681, 1_230, 1_188, 907, 2_672, 1_052, 421, 420]

    def test_folds_have_no_common_person(self, split: Split) -> None:
        columns = split.train.columns
        folds: dict[int, set[int]] = {}
        for person, fold in zip(columns["user"].tolist(), columns["fold"].tolist(), strict=True):
            folds.setdefault(person, set()).add(fold)
        assert max(map(len, folds.values())) == 1

    def test_lists_written_again_give_the_published_labels(
        self, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The authors' lists, made of the compact labels with invented names, pass the check of the labels."""
        parts = (split.train, split.validation, split.test)
        order = np.argsort(np.concatenate([part.rows for part in parts]))
        columns = {name: np.concatenate([part.columns[name] for part in parts])[order] for name in split.train.columns}
        male = np.concatenate([part.y for part in parts])[order]
        folder = tmp_path / "adience"
        (folder / "faces").mkdir(parents=True)
        for fold in range(5):
            here = np.flatnonzero(columns["fold"] == fold)
            lines = [["0@N00", "x.jpg", "1", "None", "u", *REST]] * (columns["fold_row"][here].max() + 1)
            for row in here:
                user, face_id, age = (int(columns[name][row]) for name in ("user", "face_id", "age_bucket"))
                place = columns["fold_row"][row]
                lines[place] = [f"{user}@N00", "x.jpg", str(face_id), AGES[age], "fm"[male[row]], *REST]
            text = "".join("\t".join(line) + "\n" for line in [list(HEADER), *lines])
            (folder / f"fold_{fold}_data.txt").write_text(text)
        monkeypatch.setattr(adience, "_pixels", lambda photographs, size: np.zeros((len(photographs), size, size, 3)))
        again = load_adience(size=1, data_dir=tmp_path)
        np.testing.assert_array_equal(again.columns["user"], columns["user"])
        np.testing.assert_array_equal(again.y, male)
