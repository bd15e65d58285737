"""A basis of this library as an ONNX graph: from columns of numbers to its functions.

Only leaves of trees and groups by value have a graph. Their functions are 0 or 1, so the graph is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from postshift._installing import needed
from postshift.basis import Basis, GroupBasis, TreeBasis
from postshift.exceptions import ExportError
from postshift.persistence.onnx_graph import Graph, checked_model


def basis_to_onnx(basis: Basis, feeds: Mapping[str, Any]) -> Any:
    """Return the ONNX model of a basis, from its inputs (one table, or one column each) to ``phi``."""
    onnx = needed("onnx")
    helper, number = onnx.helper, onnx.TensorProto.DOUBLE
    body = _BasisGraph(Graph(onnx), feeds)
    if isinstance(basis, TreeBasis):
        functions = body.leaves(basis)
    elif isinstance(basis, GroupBasis):
        functions = body.groups(basis)
    else:
        raise ExportError(f"{type(basis).__name__} cannot be converted to a graph (only TreeBasis and GroupBasis can)")
    body.graph.node("Identity", body.settled(basis, functions), output="phi")
    inputs = [helper.make_tensor_value_info(name, number, ["N", np.shape(feeds[name])[1]]) for name in body.read]
    output = helper.make_tensor_value_info("phi", number, ["N", len(basis.names_)])
    return checked_model(onnx, body.graph, inputs, [output])


class _BasisGraph:
    """The computation of ``postshift.basis``, operator by operator."""

    def __init__(self, graph: Graph, feeds: Mapping[str, Any]) -> None:
        self.graph, self._feeds, self._names = graph, feeds, list(feeds)
        self._is_table = len(feeds) == 1
        self.read: dict[str, None] = {}  # the inputs that are used, in order

    def leaves(self, basis: TreeBasis) -> str:
        """Return the leaf of each row: true in one of the columns."""
        if basis.texts_:
            raise ExportError("it reads columns of text, but graphs only read numbers")
        graph, splits = self.graph, basis.splits_.checked(basis.n_features_in_)
        absent = graph.node("IsNaN", self._column(0))
        reached = {0: graph.node("Or", absent, graph.node("Not", absent))}  # true: all rows are at the root
        for node in np.flatnonzero(splits.left >= 0).tolist():
            pair = graph.single(self._column(int(splits.feature[node]))), graph.constant(splits.threshold[node])
            missing_left = splits.missing_left[node]  # comparisons with NaN are false
            low = graph.node("Not", graph.node("Greater", *pair)) if missing_left else graph.node("LessOrEqual", *pair)
            reached[int(splits.left[node])] = graph.node("And", reached[node], low)
            reached[int(splits.right[node])] = graph.node("And", reached[node], graph.node("Not", low))
        return graph.node("Concat", *(reached[leaf] for leaf in splits.leaves.tolist()), axis=1)

    def groups(self, basis: GroupBasis) -> str:
        """Return the group of each row: true in one of the columns, or in none."""
        if basis.places_ is None:
            what = "the rows themselves" if basis.by is None else "a function"
            raise ExportError(f"its groups are given by {what}, but graphs only read columns of numbers")
        if not basis.unseen and not basis.has_rest_:
            raise ExportError("a graph cannot reject groups that were not seen in fit, as unseen=False does")
        keys = [key if isinstance(key, tuple) else (key,) for key in basis.groups_]
        found = ""
        for place, given in zip(basis.places_, zip(*keys, strict=True), strict=True):
            values = np.asarray(given)
            if values.dtype.kind not in "biuf":
                raise ExportError("its groups are not numbers, but graphs only read numbers")
            same = self.graph.node("Equal", self._column(place), self.graph.constant(values[None].astype(np.float64)))
            found = self.graph.node("And", found, same) if found else same
        return found

    def settled(self, basis: Basis, functions: str) -> str:
        """Return the functions that were kept, then the complement; for a row in no group, the average."""
        graph = self.graph
        table = graph.double(graph.node("Gather", functions, graph.constant(basis.kept_.astype(np.int64)), axis=1))
        sums = graph.row_sums(table)
        if basis.has_rest_:
            return graph.node("Concat", table, graph.node("Sub", graph.constant(1.0), sums), axis=1)
        if not isinstance(basis, GroupBasis):
            return table
        covered = graph.node("Greater", sums, graph.constant(0.0))
        return graph.node("Where", covered, table, graph.constant(basis.shares_))

    def _column(self, place: int) -> str:
        """Return a column (N, 1) of the table, or the input of that column."""
        name = self._names[0 if self._is_table else place]
        if self._feeds[name].dtype == object:
            raise ExportError(f"it reads the column {name!r} of text, but graphs only read numbers")
        self.read[name] = None
        return self.graph.node("Gather", name, self.graph.constant([place]), axis=1) if self._is_table else name
