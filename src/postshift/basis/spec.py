"""Bases by name, as in the command line, and the names of the bases given as ``basis=``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from postshift._validation import unknown
from postshift.basis.base import Basis, unique_names
from postshift.basis.clusters import BY, KMeansBasis, RBFBasis
from postshift.basis.groups import ConstantBasis, GroupBasis
from postshift.basis.tree import TreeBasis
from postshift.basis.user import as_basis
from postshift.exceptions import BasisError

AUTO, CONSTANT = "auto", "constant"


def _constant(option: str) -> Basis:
    """Return the constant basis."""
    if option:
        raise BasisError(f"the constant basis takes no option. Got {option!r}")
    return ConstantBasis()


def _tree(option: str) -> Basis:
    """Return the leaves of a tree."""
    return TreeBasis(_whole(option, "tree:4", low=2)) if option else TreeBasis()


def _kmeans(option: str) -> Basis:
    """Return clusters."""
    return KMeansBasis(_whole(option, "kmeans:5", low=1)) if option else KMeansBasis()


def _rbf(option: str) -> Basis:
    """Return nearness to validation rows."""
    if option and option not in BY:
        raise BasisError(unknown(option, BY, what="grouping of rbf"))
    return RBFBasis(by=option or "class")


def _columns(option: str) -> Basis:
    """Return groups by columns; unseen values get the average weights, because a file may have new values."""
    names = [name.strip() for name in option.split("+")]
    if not all(names):
        raise BasisError(
            f"groups by columns are written as in 'col:region' or 'col:region+sex'. Got {f'col:{option}'!r}"
        )
    places = [int(name) if name.isdecimal() else name for name in names]
    return GroupBasis(places[0] if len(places) == 1 else places, unseen="average")


_MAKERS: dict[str, tuple[Callable[[str], Basis], str]] = {
    CONSTANT: (_constant, "the same weights for every row"),
    "tree": (_tree, "leaves of a small tree fitted to the training labels; tree:4 has four"),
    "kmeans": (_kmeans, "clusters of the training rows; kmeans:5 has five"),
    "rbf": (_rbf, "nearness to the validation rows of each class; rbf:all has nearness to all of them"),
    "col": (_columns, "groups by columns, named or numbered from 0; col:region, or col:region+sex for combinations"),
}


def basis_catalogue() -> dict[str, str]:
    """Return the names of the bases, each with a description.

    Returns
    -------
    dict of str -> str
        Descriptions by name.

    Examples
    --------
    >>> sorted(basis_catalogue())
    ['col', 'constant', 'kmeans', 'rbf', 'tree']
    """
    return {name: about for name, (_, about) in _MAKERS.items()}


def basis_named(spec: str) -> Basis:
    """Return a basis by its name in the catalogue, with an option after a colon.

    Parameters
    ----------
    spec : str
        For example ``"constant"``, ``"tree:4"``, ``"kmeans:5"``, ``"rbf"``, ``"rbf:all"``, ``"col:region"`` or
        ``"col:region+sex"``.

    Returns
    -------
    Basis
        Unfitted.

    Examples
    --------
    >>> basis_named("tree:3")
    TreeBasis(max_leaf_nodes=3)
    >>> basis_named("kmaens:5")
    Traceback (most recent call last):
    ...
    postshift.exceptions.BasisError: there is no basis 'kmaens'; did you mean 'kmeans'?
    """
    name, _, option = spec.strip().partition(":")
    if name not in _MAKERS:
        raise BasisError(unknown(name, _MAKERS, what="basis"))
    return _MAKERS[name][0](option)


def named_bases(basis: Any) -> dict[str, Basis]:
    """Return the bases that are given as ``basis=``, unfitted, by name.

    The constant basis is left out, because it is always used. A transformer or callable that is not a :class:`Basis` is
    wrapped in :class:`TransformerBasis`.

    Parameters
    ----------
    basis : None, str, transformer, callable, list or dict
        ``None`` or ``"auto"`` for the leaves of a tree; a text as in :func:`basis_named`, or several with commas; a
        transformer; a list of these; or a dict of name -> text or transformer.

    Returns
    -------
    dict of str -> Basis
        Unfitted bases by name.

    Examples
    --------
    >>> named_bases("tree:8, col:region")
    {'tree': TreeBasis(max_leaf_nodes=8), 'region': GroupBasis(columns='region', unseen='average')}
    >>> named_bases("constant")
    {}
    """
    if isinstance(basis, Mapping):
        pairs = [(str(name), _one(given)) for name, given in basis.items()]
    else:
        pairs = list(_pairs(basis))
    pairs = [(name, found) for name, found in pairs if not isinstance(found, ConstantBasis)]
    names = unique_names(name for name, _ in pairs)
    if CONSTANT in names:
        raise BasisError(
            f"the name {CONSTANT!r} is reserved for the constant basis, which is always used: give another name"
        )
    return {name: found for name, (_, found) in zip(names, pairs, strict=True)}


def _pairs(basis: Any) -> Iterator[tuple[str, Basis]]:
    """Yield the bases with their default names."""
    if basis is None or isinstance(basis, str):
        for spec in (basis or AUTO).split(",") if basis != "" else [""]:
            found = _one(spec)
            head, _, option = spec.strip().partition(":")
            yield (option if head == "col" else found.short_name), found
    elif isinstance(basis, list | tuple):
        for each in basis:
            yield from _pairs(each)
    else:
        found = as_basis(basis)
        yield found.short_name, found


def _one(given: Any) -> Basis:
    """Return the basis for a name or a transformer."""
    if isinstance(given, str):
        return TreeBasis() if given.strip() == AUTO else basis_named(given)
    return as_basis(given)


def _whole(option: str, example: str, *, low: int) -> int:
    """Return the option as a whole number."""
    if not option.isdecimal() or int(option) < low:
        raise BasisError(f"the option must be a whole number >= {low}, as in {example!r}. Got {option!r} instead")
    return int(option)
