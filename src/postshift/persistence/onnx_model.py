"""An estimator as an ONNX graph: the graph of the model, if it can be converted, in front of the graph of the rule.

A converted model is used only if it gives the model's own probabilities on some rows: a graph may round to single
precision, or be wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from postshift._installing import needed
from postshift._validation import FloatArray
from postshift.basis import Basis
from postshift.exceptions import ExportError, PostshiftWarning
from postshift.persistence.onnx_basis import basis_to_onnx
from postshift.persistence.onnx_graph import OPSET, phi_inputs, rule_to_onnx

_ML_OPSET = 3
_SINGLE_OPS = {"LinearClassifier", "LinearRegressor", "Normalizer", "Scaler"}  # they only have single precision
_TRIAL_ROWS = 10_000
_TAKEN = ("eta", "label", "distribution")


def to_onnx(model: Any, X: Any = None, *, tolerance: float = 1e-9) -> Any:
    """Return a fitted estimator as an ONNX model.

    A ``PostShifter`` becomes the graph of its rule (:func:`~postshift.persistence.rule_to_onnx`), from ``eta`` and
    ``phi_<name>`` to ``label`` and ``distribution``. The graph of a ``PostShiftClassifier`` begins with ``X`` if
    skl2onnx converts the base model; if not, a warning says why, and the graph begins with ``eta``, the model's
    ``predict_proba``. The leaves of a ``TreeBasis`` and the groups of a ``GroupBasis`` are computed in the graph if
    they are of columns of numbers (and without ``unseen=False``, because a graph cannot reject groups). Other bases
    remain inputs ``phi_<name>``, to be fed with ``bases_[name].transform(X)``, and a warning says why.

    Parameters
    ----------
    model : PostShiftClassifier or PostShifter
        The fitted estimator.
    X : array or data frame, optional
        Rows on which the converted base model is tested; random rows by default. The columns of a data frame may become
        separate inputs.
    tolerance : float, default=1e-9
        The largest difference between the converted model's probabilities and its own. Graphs of trees are in single
        precision and need 1e-6; then labels may differ if two classes are that close.

    Returns
    -------
    onnx.ModelProto
        The model.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from postshift import Mixture, PlugIn
    >>> from postshift.rules.choice import AveragedRule
    >>> from postshift.rules.fitted import FittedRule
    >>> mixture = Mixture.of([PlugIn(weighting="diagonal", alpha=[[1.0, 4.0]], n_classes=2)], [1.0])
    >>> rule = AveragedRule(rules=(FittedRule(name="four to one", mixture=mixture),), weights=np.ones(1))
    >>> graph = to_onnx(SimpleNamespace(classes_=["no", "yes"], rule_=rule)).graph
    >>> [each.name for each in graph.input], [each.name for each in graph.output]
    (['eta'], ['label', 'distribution'])
    """
    if not hasattr(model, "rule_") or not hasattr(model, "classes_"):
        given = type(model).__name__
        raise ExportError(
            f"to_onnx takes a fitted PostShiftClassifier or PostShifter. Got {given} instead: fit it first"
        )
    graph = rule_to_onnx(model.rule_, model.classes_)
    if not hasattr(model, "estimator_"):
        return graph
    try:
        placing = _placing(model.estimator_.classes_, model.classes_)
        layout, eta = _converted_model(model.estimator_, X, tolerance=tolerance)
    except ExportError as error:
        warnings.warn(
            f"the graph begins with eta, not with X: {error}. Feed it with the model's predict_proba as 'eta'",
            PostshiftWarning,
            stacklevel=2,
        )
        return graph
    parts = {"eta": eta}
    for basis, name in phi_inputs(model.rule_).items():
        try:
            parts[name] = _phi_part(getattr(model, "bases_", {}).get(basis), layout, tolerance=tolerance)
        except ExportError as error:
            warnings.warn(
                f"the graph has an input {name!r}: {error}. Feed it with bases_[{basis!r}].transform(X)",
                PostshiftWarning,
                stacklevel=2,
            )
    return _joined(graph, parts, layout, placing=placing)


def _placing(known: Any, classes: Any) -> FloatArray | None:
    """Return the matrix that moves the columns of a model's classes to their places; None if they are there."""
    if np.array_equal(known, classes):
        return None
    places: FloatArray = (np.asarray(known)[:, None] == np.asarray(classes)).astype(np.float64)
    if not (places.sum(axis=1) == 1).all():
        raise ExportError(f"the model has classes {known!r} that are not among {classes!r}")
    return places


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layout:
    """How rows become inputs of a graph, as one table or as single columns, with rows to test it on."""

    rows: Any
    feeds: dict[str, Any]


def _layouts(model: Any, X: Any) -> Iterator[_Layout]:
    """Yield the ways to feed rows: as one table if it has numbers only, as columns if they have names."""
    if X is None:
        size = getattr(model, "n_features_in_", None)
        if size is None:
            raise ExportError("its number of features is not known: give some rows as X")
        X = np.random.default_rng(0).normal(size=(256, size))
    rows = X[:_TRIAL_ROWS]
    table = np.asarray(rows)
    if table.ndim == 2 and table.dtype.kind in "biuf":
        yield _Layout(rows=rows, feeds={"X": table.astype(np.float64)})
    if hasattr(rows, "columns"):
        columns = {str(name): np.asarray(rows[name])[:, None] for name in rows.columns}
        if taken := [name for name in columns if name in _TAKEN or name.startswith("phi_")]:
            raise ExportError(f"the names of its columns {taken} are reserved in the graph: rename them")
        feeds = {
            name: column.astype(np.float64) if column.dtype.kind in "biuf" else column.astype(str).astype(object)
            for name, column in columns.items()
        }
        yield _Layout(rows=rows, feeds=feeds)


def _converted_model(estimator: Any, X: Any, *, tolerance: float) -> tuple[_Layout, Any]:
    """Return the first layout in which a model can be converted, and its graph."""
    model = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    reason = ExportError("X is neither a table of numbers nor a data frame")
    for layout in _layouts(model, X):
        try:
            return layout, _converted(model, "predict_proba", layout, tolerance=tolerance)
        except ExportError as error:
            reason = error
    raise reason


def _converted(model: Any, method: str, layout: _Layout, *, tolerance: float) -> Any:
    """Return the graph of a model or transformer that gives the same values, in double precision if possible."""
    expected = _expected(model, method, layout)
    reasons = []
    for single in (False, True):
        try:
            found = _conversion(model, method, layout, single=single)
            gap = _gap(found, layout, expected, single=single)
        except Exception as error:  # noqa: BLE001  # converters and the runtime can raise anything
            reasons.append(_line(error))
            continue
        if gap <= tolerance:
            return found
        reasons.append(f"it differs by {gap:.1g}, more than the tolerance of {tolerance:g}")
    raise ExportError(
        f"skl2onnx cannot convert {type(model).__name__} ({reasons[0]}; in single precision: {reasons[1]})"
    )


def _phi_part(basis: Any, layout: _Layout, *, tolerance: float) -> Any:
    """Return the graph of a basis that gives the same values; transformers are converted by skl2onnx."""
    if not isinstance(basis, Basis):
        return _converted(basis, "transform", layout, tolerance=tolerance)
    found = basis_to_onnx(basis, layout.feeds)
    if gap := _gap(found, layout, _expected(basis, "transform", layout), single=False):
        raise ExportError(f"the graph of {type(basis).__name__} gives values on these rows that differ by {gap:.1g}")
    return found


def _expected(model: Any, method: str, layout: _Layout) -> FloatArray:
    """Return the values of a model or a transformer on the rows of a layout."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # random rows have none
            return np.asarray(getattr(model, method)(layout.rows), dtype=np.float64)
    except Exception as error:
        kind = type(model).__name__
        raise ExportError(f"{kind} cannot be tested on these rows ({_line(error)}): give other rows as X") from error


def _conversion(model: Any, method: str, layout: _Layout, *, single: bool) -> Any:
    """Return the graph of a model by skl2onnx, in double precision unless ``single``."""
    skl2onnx, types = needed("skl2onnx"), needed("skl2onnx.common.data_types")
    number = types.FloatTensorType if single else types.DoubleTensorType
    initial = [
        (name, (types.StringTensorType if fed.dtype == object else number)([None, fed.shape[1]]))
        for name, fed in layout.feeds.items()
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return skl2onnx.convert_sklearn(
            model,
            initial_types=initial,
            options={id(model): {"zipmap": False}} if method == "predict_proba" else None,
            target_opset={"": OPSET, "ai.onnx.ml": _ML_OPSET},
            black_op=None if single else _SINGLE_OPS,
        )


def _gap(converted: Any, layout: _Layout, expected: FloatArray, *, single: bool) -> float:
    """Return the largest difference between a graph and the model on the rows of the layout."""
    runtime = needed("onnxruntime")
    session = runtime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = {each.name: each.type for each in session.get_inputs()}
    feeds = {
        name: fed.astype(np.float32) if wanted[name] == "tensor(float)" else fed
        for name, fed in layout.feeds.items()
        if name in wanted
    }
    (found,) = session.run([_last_output(converted)], feeds)
    if found.shape != expected.shape:
        raise ExportError(f"its graph gives shape {found.shape}, but the model gives {expected.shape}")
    if found.dtype == np.float32 and not single:
        raise ExportError("it only has single precision")
    return float(np.abs(found - expected).max())


def _joined(rule: Any, parts: dict[str, Any], layout: _Layout, *, placing: FloatArray | None) -> Any:
    """Return one graph: the parts, each computing one input of the rule's graph, then the rule's nodes."""
    onnx = needed("onnx")
    helper = onnx.helper
    nodes, constants, domains = [], list(rule.graph.initializer), {"": OPSET}
    for name, part in parts.items():
        graph = onnx.compose.add_prefix_graph(part.graph, f"{name}/")
        nodes += [_cast(helper, each.name.removeprefix(f"{name}/"), each.name, each) for each in graph.input]
        nodes += graph.node
        constants += graph.initializer
        domains |= {each.domain: each.version for each in part.opset_import if each.domain}
    for info in rule.graph.input:
        if (name := info.name) in parts:
            target = "eta/given" if name == "eta" and placing is not None else name
            nodes.append(_cast(helper, f"{name}/{_last_output(parts[name])}", target, info))
    if placing is not None:
        constants.append(onnx.numpy_helper.from_array(placing, "eta/places"))
        nodes.append(helper.make_node("MatMul", ["eta/given", "eta/places"], ["eta"]))
    inputs = [
        helper.make_tensor_value_info(
            name, onnx.TensorProto.STRING if fed.dtype == object else onnx.TensorProto.DOUBLE, ["N", fed.shape[1]]
        )
        for name, fed in layout.feeds.items()
    ]
    inputs += [each for each in rule.graph.input if each.name not in parts]
    joined = onnx.ModelProto()
    joined.CopyFrom(rule)
    joined.graph.CopyFrom(
        helper.make_graph([*nodes, *rule.graph.node], "postshift", inputs, rule.graph.output, constants)
    )
    del joined.opset_import[:]
    joined.opset_import.extend(helper.make_opsetid(*each) for each in domains.items())
    onnx.checker.check_model(joined)
    return joined


def _cast(helper: Any, source: str, target: str, info: Any) -> Any:
    """Return the node that casts a value to the type of an input."""
    return helper.make_node("Cast", [source], [target], to=info.type.tensor_type.elem_type)


def _last_output(converted: Any) -> str:
    """Return the name of a converted model's last output: probabilities come after labels."""
    return str(converted.graph.output[-1].name)


def _line(error: Exception) -> str:
    """Return the first line of an error's message, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
