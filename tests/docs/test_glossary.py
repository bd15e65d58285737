"""The glossary: one word for one thing, in all public names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from typer.main import get_command

import postshift
import postshift.core
from postshift.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
PACKAGES = (
    "basis",
    "baselines",
    "constraints",
    "datasets",
    "engines",
    "estimators",
    "metrics",
    "persistence",
    "report",
    "rules",
)

# Public names with a word that the glossary replaces, and why they are still there.
NOT_RENAMED_YET = {
    "ArrayParts": "a public name of the engines; ArrayPartitions would be the word",
    "FrameParts": "a public name of the engines; FramePartitions would be the word",
    "ModelParts": "a public name of the engines; ModelPartitions would be the word",
    "ParquetParts": "a public name of the engines; ParquetPartitions would be the word",
    "AdultTables": "the two files of the Adult data, train and test, as they are published",
    "Facts.sample": "the rows that the report is about; rows would be the word",
}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def replaced():
    """Read the table of the page: each word that is not used, with the word to use and the names that are allowed."""
    lines = PAGE.partition("| not used | use | allowed |\n")[2].splitlines()[1:]
    rows = [cells(line) for line in lines if line.startswith("|")]
    return {
        word.strip(): (use, set(re.findall(r"`([\w.]+)`", allowed)))
        for words, use, allowed in rows
        for word in words.split(",")
    }


WORDS = replaced()
ENTRIES = {
    entry.strip().lower() for term in re.findall(r"^\*\*(.+?)\.\*\*", PAGE, re.MULTILINE) for entry in term.split(",")
}


def parameters(function):
    """The names of its parameters; none where Python does not know them."""
    try:
        return [name for name in inspect.signature(function).parameters if name != "self"]
    except (TypeError, ValueError):
        return []


def names_of(name, value):
    """A public function or class with its parameters, methods and attributes, e.g. ``Mixture.sample(rng)``."""
    yield name
    if callable(value):
        yield from (f"{name}({each})" for each in parameters(value))
    if inspect.isclass(value):
        for each in dir(value):
            if not each.startswith("_"):
                yield f"{name}.{each}"
                yield from (f"{name}.{each}({given})" for given in parameters(getattr(value, each)))


def public_values():
    """Every public function and class, by its name."""
    found = {name: getattr(postshift, name) for name in postshift.__all__}
    for package in PACKAGES:
        module = importlib.import_module(f"postshift.{package}")
        found |= {name: getattr(module, name) for name in module.__all__}
    for info in pkgutil.iter_modules(postshift.core.__path__, "postshift.core."):
        module = importlib.import_module(info.name)
        found |= {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == info.name and callable(value)
        }
    return found


def public_names():
    for name, value in public_values().items():
        yield from names_of(name, value)
    for name, command in get_command(app).commands.items():
        yield from (option for each in command.params for option in (f"postshift {name}", *each.opts))


def words_of(name):
    """The words of the last part of a name: a method, or the parameter in brackets.

    >>> sorted(words_of("Mixture.sample(sample_weight)")), sorted(words_of("ArrayParts"))
    (['sample', 'weight'], ['array', 'parts'])
    """
    last = re.split(r"[.(]", name.rstrip(")"))[-1]
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", last)}


def breaking():
    """The public names that have a word that is not used."""
    for name in public_names():
        last = re.split(r"[.(]", name.rstrip(")"))[-1]
        for word in words_of(name) & WORDS.keys():
            allowed = WORDS[word][1]
            if name not in allowed and last.lstrip("-").replace("-", "_") not in allowed:
                yield name


def test_the_table_is_read():
    assert {"question", "driver", "interview", "conversation", "sample", "table", "statistics", "part"} <= WORDS.keys()
    assert len(list(public_names())) > 1000


@pytest.mark.parametrize("word", sorted(WORDS))
def test_the_word_to_use_has_an_entry(word):
    assert WORDS[word][0] in ENTRIES
    assert word not in ENTRIES


def test_public_names_use_the_words_of_the_glossary():
    assert set(breaking()) == set(NOT_RENAMED_YET)


def test_what_is_allowed_is_there():
    last = {re.split(r"[.(]", name.rstrip(")"))[-1] for name in public_names()}
    whole = set(public_names())
    for _, allowed in WORDS.values():
        assert all(name in whole or name in last for name in allowed)
