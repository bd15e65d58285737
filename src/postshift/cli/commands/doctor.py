"""``postshift doctor``: what is installed and what is missing."""

from __future__ import annotations

import importlib
import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from postshift._installing import install
from postshift.cli.console import Console
from postshift.cli.errors import FAILED
from postshift.cli.options import Debug, Json, Quiet

_EXTRAS = ("cli", "data", "report", "export", "fast", "dask", "deep")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)([^;]*)(?:;.*extra\s*==\s*['\"]([\w-]+)['\"])?")
_MODULES = {"scikit-learn": "sklearn", "pillow": "PIL"}


def command(*, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Show the version of Python, the packages of every extra, and the folder of the data sets."""
    import postshift

    console = Console(quiet=quiet, as_json=json)
    packages = _packages()
    found: dict[str, Any] = {
        "postshift": postshift.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "numba": any(each["name"] == "numba" and each["version"] for each in packages),
        "data": _data_folder(),
    }
    broken = [each for each in packages if each["extra"] is None and each["problem"]]
    found["ok"] = not broken
    console.say(f"postshift {found['postshift']}, Python {found['python']}, {found['platform']}")
    console.say()
    rows = [(each["extra"] or "required", each["name"], each["version"] or "-", each["problem"]) for each in packages]
    console.table(("extra", "package", "version", "remedy"), rows)
    loops = "on" if found["numba"] else f"off: {install('fast')}"
    console.say()
    console.say(f"compiled loops (numba): {loops}")
    console.say(f"data folder: {found['data'] or 'none; set POSTSHIFT_DATA to a folder with data sets'}")
    console.say("all required packages work" if found["ok"] else "a required package is broken")
    console.result(found)
    if broken:
        raise typer.Exit(FAILED)


def _packages() -> list[dict[str, Any]]:
    """Return the required and the optional packages, with their versions or how to install them."""
    found = []
    for line in metadata.requires("postshift") or []:
        parsed = _REQUIREMENT.match(line)
        if parsed is None:
            continue
        name, _, extra = parsed.groups()
        if extra is None or extra in _EXTRAS:
            version, problem = _state(name, extra)
            found.append({"extra": extra, "name": name, "version": version, "problem": problem})
    order = {extra: place for place, extra in enumerate((None, *_EXTRAS))}
    return sorted(found, key=lambda each: (order[each["extra"]], each["name"]))


def _state(name: str, extra: str | None) -> tuple[str | None, str]:
    """Return the version of a package, and what is wrong with it; required packages are imported to check them."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None, install(extra) if extra else f"pip install {name}"
    if extra is None:
        try:
            importlib.import_module(_MODULES.get(name, name))
        except Exception as error:  # noqa: BLE001 -- a broken package may raise anything
            return version, f"broken ({type(error).__name__}: {error}): pip install --force-reinstall {name}"
    return version, ""


def _data_folder() -> str | None:
    """Return the folder of POSTSHIFT_DATA, or else the one where the data sets are found."""
    from postshift.exceptions import DataNotFoundError

    named = os.environ.get("POSTSHIFT_DATA")
    if named and Path(named).is_dir():
        return named
    try:
        from postshift.datasets._location import find_file
        from postshift.datasets._public_files import ADULT_TRAIN

        return str(find_file(ADULT_TRAIN.folder, ADULT_TRAIN.name).parent.parent)
    except (DataNotFoundError, ImportError):  # ImportError if a required package is broken
        return None
