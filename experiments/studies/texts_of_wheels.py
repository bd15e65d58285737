"""Short translated texts that come with Django, and the languages that py3langid finds them in.

The texts are the interface of Django and its applications: buttons, messages and names, translated by volunteers.
Nobody made them for language identifiers. They are read from the catalogues' bytes; nothing of Django is run.
"""

from __future__ import annotations

import re
import struct
import zlib
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, PackagePath, files
from typing import Any

import numpy as np

from experiments.studies.menu_tasks import Floats, Ints, Source
from postshift._installing import install

# The folder in Django and the code in py3langid, roughly by how much is written on the Web.
LANGUAGES = (
    ("es", "es"), ("de", "de"), ("ru", "ru"), ("fr", "fr"), ("ja", "ja"), ("pt_BR", "pt"), ("it", "it"), ("tr", "tr"),
    ("nl", "nl"), ("pl", "pl"), ("fa", "fa"), ("zh_Hans", "zh"), ("vi", "vi"), ("id", "id"), ("cs", "cs"),
    ("uk", "uk"), ("ar", "ar"), ("sv", "sv"), ("ro", "ro"), ("hu", "hu"), ("da", "da"), ("fi", "fi"), ("sk", "sk"),
    ("bg", "bg"), ("nb", "no"), ("hr", "hr"), ("sl", "sl"), ("ca", "ca"), ("lt", "lt"), ("et", "et"), ("gl", "gl"),
    ("mk", "mk"),
)  # fmt: skip
N_TEXTS = 7000
HEAD = 8  # the share of the language of rank r is proportional to 1 / (r + HEAD)
SHORTEST, LONGEST = 4, 40  # letters and spaces of a text
MAGIC = 0x950412DE
MARKUP = re.compile(r"%\([^)]*\)[a-z]|%[a-z]|\{[^}]*\}|<[^>]*>|&\w+;|\s+")


class MissingPackageError(ImportError):
    """A package of the extra ``rivals`` is missing."""


def package(name: str) -> Any:
    """Return a module of the extra ``rivals``, or raise with the command that installs its package."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"this task needs the package {name.partition('.')[0]!r}: {install('rivals')}"
        ) from error


def package_files(name: str, *, extra: str = "rivals") -> list[PackagePath]:
    """Return the files of an installed package in the order of their names, or raise with the command for it."""
    try:
        found = files(name)
    except PackageNotFoundError:
        found = None
    if not found:
        raise MissingPackageError(f"this task needs the package {name!r}: {install(extra)}")
    return sorted(found, key=str)


@cache
def translated_texts() -> Source:
    """Return what is known of the form of every text, and its language."""
    texts, labels = _texts()
    return Source(X=np.array([_form(text) for text in texts]), y=np.array(labels, dtype=np.intp))


def languages_found(rows: Ints) -> Floats:
    """Return py3langid's normalised probabilities of our languages, in our order."""
    return _identified()[rows]


@cache
def _texts() -> tuple[list[str], list[int]]:
    """Return all texts and the numbers of their languages."""
    of_language = [chosen_texts(folder, size=size) for (folder, _), size in zip(LANGUAGES, sizes(), strict=True)]
    labels = [place for place, texts in enumerate(of_language) for _ in texts]
    return [text for texts in of_language for text in texts], labels


def sizes() -> list[int]:
    """Return the number of texts of every language, falling with its rank."""
    shares = np.array([1 / (rank + HEAD) for rank in range(len(LANGUAGES))])
    return [int(size) for size in np.floor(N_TEXTS * shares / shares.sum())]


def chosen_texts(folder: str, *, size: int) -> list[str]:
    """Return different texts of one language, the first ones by checksum; fewer if there are no more."""
    found = {_plain(text) for path in _catalogues(folder) for text in translations(path.read_binary())}
    short = sorted(text for text in found if SHORTEST <= len(text) <= LONGEST)
    return sorted(short, key=lambda text: zlib.crc32(text.encode()))[:size]


def translations(content: bytes) -> list[str]:
    """Return the texts of a compiled catalogue that differ from the original; of plurals, the first form.

    Examples
    --------
    >>> tables = struct.pack("<7I", MAGIC, 0, 1, 28, 36, 0, 0) + struct.pack("<4I", 3, 44, 3, 48)
    >>> translations(tables + b"yes" + bytes(1) + b"oui" + bytes(1))
    ['oui']
    """
    order = "<" if struct.unpack_from("<I", content)[0] == MAGIC else ">"
    count, originals, translated = struct.unpack_from(f"{order}3I", content, 8)
    found = []
    for position in range(count):
        before, after = (_entry(content, table + 8 * position, order) for table in (originals, translated))
        if before and after != before:
            found.append(after)
    return found


def _entry(content: bytes, at: int, order: str) -> str:
    """Return the text whose length and place are at a position of the catalogue."""
    length, start = struct.unpack_from(f"{order}2I", content, at)
    return content[start : start + length].split(b"\0")[0].decode()


def _catalogues(folder: str) -> list[PackagePath]:
    """Return the compiled catalogues of Django in one language."""
    return [path for path in _django() if path.suffix == ".mo" and path.parent.parent.name == folder]


@cache
def _django() -> list[PackagePath]:
    """Return the files of Django."""
    return package_files("Django")


def _plain(text: str) -> str:
    """Return a text without placeholders, tags and line breaks."""
    return MARKUP.sub(" ", text).strip(" .:…")


def _form(text: str) -> list[float]:
    """Return the number of characters, of words and of bytes, and the share of capital letters."""
    return [len(text), len(text.split()), len(text.encode()), sum(map(str.isupper, text)) / len(text)]


@cache
def _identified() -> Floats:
    """Return py3langid's probabilities for all texts."""
    langid = package("py3langid.langid")
    codes = [code for _, code in LANGUAGES]
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    identifier.set_languages(codes)
    ranked = [dict(identifier.rank(text)) for text in _texts()[0]]
    eta = np.array([[found[code] for code in codes] for found in ranked], dtype=np.float64)
    return np.asarray(eta / eta.sum(axis=1, keepdims=True))
