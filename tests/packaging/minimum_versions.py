"""Print the oldest versions that pyproject.toml allows, one ``name==version`` a line, for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("fast", "data", "cli", "report", "export", "dask")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_AT_LEAST = re.compile(r"([A-Za-z0-9._-]+)>=([0-9.]+)")


def oldest(requirements: list[str]) -> dict[str, str]:
    """Return the oldest version of each package; two requirements of one package must agree.

    Examples
    --------
    >>> oldest(["numpy>=1.26", "rich>=13"])
    {'numpy': '1.26', 'rich': '13'}
    """
    found: dict[str, str] = {}
    for requirement in requirements:
        match = _AT_LEAST.fullmatch(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} must have the form name>=version, so that its oldest version is known")
        name, version = match.groups()
        if found.setdefault(name, version) != version:
            raise ValueError(f"{name} has two oldest versions, {found[name]} and {version}: write the same twice")
    return found


def declared() -> dict[str, str]:
    """Return the oldest versions of the required packages and of the extras that are tested with them."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    return oldest([*project["dependencies"], *(each for extra in EXTRAS for each in extras[extra])])


def main() -> None:
    """Print them."""
    for name, version in declared().items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
