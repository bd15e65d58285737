"""Bases from any transformer, from columns that already are basis functions, and from several other bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from postshift._validation import FloatArray, as_numbers, as_table, copied
from postshift.basis._columns import names_of
from postshift.basis.base import Basis, unique_names
from postshift.exceptions import BasisError


class TransformerBasis(Basis):
    """The output of any transformer or function, with the complement if it does not cover every row.

    Parameters
    ----------
    transformer : transformer or callable
        Returns values in [0, 1], one column per basis function; sparse output becomes dense. A copy is fitted. Pass a
        fitted one in scikit-learn's ``FrozenEstimator``.

    Attributes
    ----------
    transformer_ : transformer or callable
        The fitted copy.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> TransformerBasis(MinMaxScaler()).fit_transform([[1.0], [2.0], [5.0]])
    array([[0.  , 1.  ],
           [0.25, 0.75],
           [1.  , 0.  ]])
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def _learn(self, rows: Any, y: Any) -> list[str]:
        """Fit a copy of the transformer."""
        self.transformer_ = fitted_copy(self.transformer, rows, y)
        return _names(self.transformer_, applied(self.transformer_, rows))

    def _functions(self, rows: Any) -> FloatArray:
        """Return the output of the transformer as a table."""
        return _dense(applied(self.transformer_, rows))

    def __sklearn_tags__(self) -> Any:
        """Declare that the transformer checks the values."""
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        if isinstance(self.transformer, BaseEstimator):
            tags.input_tags.sparse = get_tags(self.transformer).input_tags.sparse
        return tags


class CoverBasis(Basis):
    """Given basis functions, with their complement ``1 - sum phi`` appended, so that every row is covered.

    ``fit`` decides whether the complement is needed, so that all rows get the same columns. If it is not, a later row
    that is not covered is an error.

    Examples
    --------
    >>> CoverBasis().fit_transform([[1.0], [0.25]])
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """

    def _learn(self, rows: Any, y: Any) -> list[str]:  # noqa: ARG002
        """Return the names of the columns; nothing is learnt."""
        return _names(None, rows)

    def _functions(self, rows: Any) -> FloatArray:
        """Return the columns unchanged."""
        return as_table(rows.toarray() if sparse.issparse(rows) else rows, name="phi")

    def __sklearn_tags__(self) -> Any:
        """Declare that only values in [0, 1] are supported."""
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        return tags


class UnionBasis(Basis):
    """The functions of several bases side by side.

    Parameters
    ----------
    bases : list or dict of name -> basis
        Bases, or other transformers and callables into [0, 1]. Copies are fitted, all on the same rows.

    Attributes
    ----------
    bases_ : dict of name -> basis
        The fitted copies.

    Examples
    --------
    >>> from postshift.basis import ConstantBasis, GroupBasis
    >>> union = UnionBasis([ConstantBasis(), GroupBasis(0)]).fit([["a"], ["b"]])
    >>> union.get_feature_names_out().tolist()
    ['constant: constant', 'groups: x0=a', 'groups: x0=b']
    >>> union.transform([["b"]])
    array([[1., 0., 1.]])
    """

    short_name = "union"

    def __init__(self, bases: Sequence[Any] | Mapping[str, Any]) -> None:
        self.bases = bases

    @property
    def fitted_on(self) -> Literal["train", "val"]:
        """The validation rows if one of the bases needs them."""
        return "val" if any(basis.fitted_on == "val" for basis in self._named().values()) else "train"

    def _learn(self, rows: Any, y: Any) -> list[str]:
        """Fit a copy of every basis."""
        self.bases_ = {name: basis.fit(rows, y) for name, basis in self._named().items()}
        return [f"{name}: {function}" for name, basis in self.bases_.items() for function in basis.names_]

    def _named(self) -> dict[str, Basis]:
        """Return copies of the bases by name."""
        if isinstance(self.bases, Mapping):
            named = {str(name): as_basis(basis) for name, basis in self.bases.items()}
        else:
            bases = [as_basis(basis) for basis in self.bases]
            named = dict(zip(unique_names(basis.short_name for basis in bases), bases, strict=True))
        if not named:
            raise BasisError("a union needs at least one basis. Got none")
        return named

    def _functions(self, rows: Any) -> FloatArray:
        """Return the functions of all bases."""
        return np.column_stack([_dense(basis.transform(rows)) for basis in self.bases_.values()])

    def __sklearn_tags__(self) -> Any:
        """Declare that the bases check the values."""
        tags = super().__sklearn_tags__()
        inputs = [get_tags(basis).input_tags for basis in self._named().values()]
        tags.no_validation = True
        tags.input_tags.sparse = all(each.sparse for each in inputs)
        tags.input_tags.allow_nan = all(each.allow_nan for each in inputs)
        tags.target_tags.required = any(get_tags(basis).target_tags.required for basis in self._named().values())
        return tags


def as_basis(thing: Any) -> Basis:
    """Return an unfitted basis from a basis, a transformer or a callable."""
    if isinstance(thing, type):
        raise BasisError(f"a basis must be an instance. Got the class {thing.__name__}: write {thing.__name__}()")
    if isinstance(thing, Basis):
        copy: Basis = clone(thing)
        return copy
    if not (hasattr(thing, "transform") or callable(thing)):
        raise BasisError(f"a basis must be a transformer or a callable. Got {thing!r} instead")
    return TransformerBasis(thing)


def fitted_copy(transformer: Any, rows: Any, y: Any) -> Any:
    """Return a fitted copy of a transformer; a callable is returned unchanged."""
    if hasattr(transformer, "transform") and not isinstance(transformer, type):
        copy = clone(transformer, safe=False)
        return copy.fit(copied(rows)) if y is None else copy.fit(copied(rows), copied(y))
    if not callable(transformer) or isinstance(transformer, type):
        raise BasisError(f"transformer must be a transformer or a callable. Got {transformer!r} instead")
    return transformer


def applied(transformer: Any, rows: Any) -> Any:
    """Return the output of a transformer or a callable for a copy of the rows."""
    return getattr(transformer, "transform", transformer)(copied(rows))


def _dense(found: Any) -> FloatArray:
    """Return a table of functions; one value per row is one function."""
    numbers = as_numbers(found.toarray() if sparse.issparse(found) else found, name="phi")
    return as_table(numbers[:, None] if numbers.ndim == 1 else numbers, name="phi")


def _names(transformer: Any, found: Any) -> list[str]:
    """Return the names of the functions: from the transformer, from the data frame, or numbered."""
    width = _dense(found).shape[1]
    try:
        names = [str(name) for name in transformer.get_feature_names_out()]
    except (AttributeError, ValueError):
        names = [str(name) for name in names_of(found)]
    return names if len(names) == width else [f"function {place + 1}" for place in range(width)]
