"""A rule as an ONNX graph: from probabilities and basis functions to labels, without Python.

Everything is in double precision and in the order of the NumPy code, so the labels are the same, ties included. Only a
tie that exists by rounding may be decided differently, because matrix products are rounded differently elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from postshift._installing import needed
from postshift._validation import FloatArray
from postshift.core.plugin import PlugIn
from postshift.core.rows import CONSTANT, Posterior
from postshift.core.weighting import Entries
from postshift.exceptions import ExportError, ShapeError
from postshift.rules.choice import AveragedRule
from postshift.rules.fitted import FittedRule
from postshift.rules.posterior import FLOOR, Identity, Stack

OPSET = 18
IR_VERSION = 8  # that of the opset: runtimes refuse files that are newer than themselves
MOST_CLASSES = 4096  # a matrix of 134 MB


def rule_to_onnx(rule: AveragedRule, classes: Any) -> Any:
    """Return the ONNX model of a rule.

    Its inputs are ``eta`` (N, m) and, for each basis of the rule except the constant one, ``phi_<name>`` (N, L), see
    :func:`phi_inputs`. The graph divides the basis functions by their row sums and checks nothing: every row of them
    must sum to 1 or more. Its outputs are ``label`` (N,), from ``classes``, and ``distribution`` (N, m), the randomised
    classifier.

    Parameters
    ----------
    rule : AveragedRule
        The rule of a fitted estimator.
    classes : array of shape (m,)
        The labels in the order of the columns of eta: strings or numbers.

    Returns
    -------
    onnx.ModelProto
        The model; ``SerializeToString()`` gives the content of a file.

    Raises
    ------
    ExportError
        If the labels, a posterior or a weighting cannot be expressed in ONNX.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from postshift import Mixture, PlugIn
    >>> from postshift.rules.choice import AveragedRule
    >>> from postshift.rules.fitted import FittedRule
    >>> member = PlugIn(weighting="diagonal", alpha=[[1.0, 4.0]], n_classes=2)
    >>> rule = FittedRule(name="four to one", mixture=Mixture.of([member], [1.0]))
    >>> model = rule_to_onnx(AveragedRule(rules=(rule,), weights=np.ones(1)), ["no", "yes"])
    >>> session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    >>> session.run(["label"], {"eta": np.array([[0.9, 0.1], [0.7, 0.3]])})[0].tolist()
    ['no', 'yes']
    """
    onnx = needed("onnx")
    helper, number = onnx.helper, onnx.TensorProto.DOUBLE
    if rule.rules[0].mixture.n_classes > MOST_CLASSES:
        raise ExportError(
            f"a graph holds a matrix of all pairs of classes, and is made for at most {MOST_CLASSES:,} classes. Got "
            f"{rule.rules[0].mixture.n_classes:,}: save the estimator as .skops or .joblib"
        )
    values = _class_values(classes, n_classes=rule.rules[0].mixture.n_classes)
    names, sizes = phi_inputs(rule), {each.basis: each.mixture.n_bases for each in rule.rules}
    graph = Graph(onnx)
    body = _RuleGraph(graph, names)
    graph.node("Gather", graph.constant(values), body.label(rule), output="label", axis=0)
    graph.node("Identity", body.distribution(rule), output="distribution")
    inputs = [helper.make_tensor_value_info("eta", number, ["N", len(values)])]
    inputs += [helper.make_tensor_value_info(name, number, ["N", sizes[basis]]) for basis, name in names.items()]
    outputs = [
        helper.make_tensor_value_info("label", helper.np_dtype_to_tensor_dtype(values.dtype), ["N"]),
        helper.make_tensor_value_info("distribution", number, ["N", len(values)]),
    ]
    model = checked_model(onnx, graph, inputs, outputs)
    about = {"postshift.rules": [each.name for each in rule.rules], "postshift.bases": names}
    helper.set_model_props(model, {key: json.dumps(value) for key, value in about.items()})
    return model


def phi_inputs(rule: AveragedRule) -> dict[str, str]:
    """Return the names of the graph's inputs for the bases of a rule; the constant basis has none.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import Mixture, PlugIn
    >>> from postshift.rules.choice import AveragedRule
    >>> from postshift.rules.fitted import FittedRule
    >>> mixture = Mixture.of([PlugIn(weighting="diagonal", alpha=np.ones((3, 2)), n_classes=2)], [1.0])
    >>> rule = FittedRule(name="by region", mixture=mixture, basis="north / south")
    >>> phi_inputs(AveragedRule(rules=(rule,), weights=np.ones(1)))
    {'north / south': 'phi_north___south'}
    """
    names: dict[str, str] = {}
    for each in rule.rules:
        if each.basis == CONSTANT or each.basis in names:
            continue
        safe = name = "phi_" + re.sub(r"[^0-9A-Za-z_]", "_", each.basis)
        while name in names.values():  # two names may differ only in characters that are replaced
            name = f"{safe}_{len(names)}"
        names[each.basis] = name
    return names


class Graph:
    """The nodes and constants of a graph, each with a unique name."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any) -> str:
        """Add a constant and return its name."""
        name = f"postshift/constant_{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        name = output or f"postshift/value_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def total(self, parts: list[str]) -> str:
        """Add values in order, as Python's ``sum`` does."""
        found = parts[0]
        for part in parts[1:]:
            found = self.node("Add", found, part)
        return found

    def scaled(self, value: str, factor: float) -> str:
        """Multiply by a number."""
        return value if factor == 1 else self.node("Mul", value, self.constant(np.float64(factor)))

    def centred(self, value: str) -> str:
        """Subtract the row means."""
        return self.node("Sub", value, self.node("ReduceMean", value, self.constant([1]), keepdims=1))

    def row_sums(self, value: str) -> str:
        """Return the sum of each row (N, 1)."""
        return self.node("ReduceSum", value, self.constant([1]), keepdims=1)

    def double(self, value: str) -> str:
        """Return numbers or truth values in double precision."""
        return self.node("Cast", value, to=self._onnx.TensorProto.DOUBLE)

    def single(self, value: str) -> str:
        """Return numbers in single precision."""
        return self.node("Cast", value, to=self._onnx.TensorProto.FLOAT)

    def argmax(self, value: str) -> str:
        """Return the place of each row's maximum, the first one at a tie."""
        return self.node("ArgMax", value, axis=1, keepdims=0, select_last_index=0)


class _RuleGraph:
    """The computation of the rules of ``postshift.rules``, operator by operator."""

    def __init__(self, graph: Graph, phi_names: dict[str, str]) -> None:
        self._graph, self._phi_names = graph, phi_names
        self._known: dict[tuple[Any, ...], str] = {}

    # -- the average, as in AveragedRule -------------------------------------------------------------------

    def label(self, rule: AveragedRule) -> str:
        """Return the place of each row's label; a single rule labels in its own way."""
        if len(rule.rules) > 1:
            return self._graph.argmax(self._weighted(rule, self._vote if rule.votes else self._scores))
        return self._own_label(rule.rules[0])

    def _own_label(self, rule: FittedRule) -> str:
        """Return the place of each row's label by one rule."""
        return self._graph.argmax(self._averaged(rule) if rule.labelling == "scores" else self._distribution(rule))

    def _vote(self, rule: FittedRule) -> str:
        """Return a rule's labels one-hot."""
        return self._one_hot(self._own_label(rule), rule)

    def _one_hot(self, labels: str, rule: FittedRule) -> str:
        """Return labels one-hot."""
        eye = self._once(("eye",), lambda: self._graph.constant(np.eye(rule.mixture.n_classes)))
        return self._graph.node("Gather", eye, labels, axis=0)

    def distribution(self, rule: AveragedRule) -> str:
        """Return the randomised classifier."""
        return self._weighted(rule, self._distribution)

    def _weighted(self, rule: AveragedRule, part: Callable[[FittedRule], str]) -> str:
        """Return the weighted average of a part of each rule."""
        parts = zip(rule.weights, rule.rules, strict=True)
        return self._graph.total([self._graph.scaled(part(each), weight) for weight, each in parts])

    # -- one rule, as in FittedRule ------------------------------------------------------------------------

    def _scores(self, rule: FittedRule) -> str:
        """Return scores that can be compared between rules."""
        (member, *others) = rule.mixture.members
        if not others and member.weighting.name == "diagonal" and not (member.alpha < 0).any():
            return self._odds(self._raised(rule, member), member.n_classes)
        if rule.labelling == "scores":
            return self._graph.node("Softmax", self._averaged(rule), axis=1)
        return self._distribution(rule)

    def _odds(self, raised: str, n_classes: int) -> str:
        """Return scores divided by their sum; equal shares if it is 0."""
        sums = self._graph.row_sums(raised)
        above = self._graph.node("Greater", sums, self._graph.constant(0.0))
        shares = self._graph.node("Div", raised, sums)
        return self._graph.node("Where", above, shares, self._graph.constant(np.full(n_classes, 1 / n_classes)))

    def _averaged(self, rule: FittedRule) -> str:
        """Return the members' centred scores, each divided by its spread, averaged by their shares."""
        members, shares = rule.mixture.members, rule.mixture.shares
        factors = shares / (np.ones(len(members)) if rule.scales is None else rule.scales)
        centred = [self._graph.centred(self._raised(rule, member)) for member in members]
        return self._graph.total([self._graph.scaled(*each) for each in zip(centred, factors, strict=True)])

    def _distribution(self, rule: FittedRule) -> str:
        """Return the mixture's class distribution: the members' labels, with their shares as probabilities."""
        return self._once(("distribution", id(rule)), lambda: self._votes(rule))

    def _votes(self, rule: FittedRule) -> str:
        """Return the sum of the members' labels, one-hot, times their shares."""
        labels = [self._graph.argmax(self._raised(rule, member)) for member in rule.mixture.members]
        pairs = zip([self._one_hot(each, rule) for each in labels], rule.mixture.shares, strict=True)
        return self._graph.total([self._graph.scaled(vote, share) for vote, share in pairs])

    # -- one member, as in PlugIn and the weightings -------------------------------------------------------

    def _raised(self, rule: FittedRule, member: PlugIn) -> str:
        """Return a member's post-shifted scores."""
        scores = {"diagonal": self._diagonal, "columns": self._columns, "full": self._full}
        name = "full" if isinstance(member.weighting, Entries) else member.weighting.name
        if name not in scores:
            known = ", ".join(sorted(scores))
            raise ExportError(
                f"the weighting {name!r} of the rule {rule.name!r} has no ONNX graph (only {known} have one): save the "
                "model as .joblib"
            )
        key = ("raised", id(rule), id(member))
        return self._once(key, lambda: scores[name](member, self._posterior(rule.posterior), rule.basis))

    def _diagonal(self, member: PlugIn, eta: str, basis: str) -> str:
        """Return ``W_j eta_j``."""
        return self._graph.node("Mul", self._weights(member.alpha, basis), eta)

    def _columns(self, member: PlugIn, eta: str, basis: str) -> str:
        """Return ``W_j eta_j + V_j``."""
        slopes, rates = member.alpha[:, : member.n_classes], member.alpha[:, member.n_classes :]
        raised = self._graph.node("Mul", self._weights(slopes, basis), eta)
        return self._graph.node("Add", raised, self._weights(rates, basis))

    def _full(self, member: PlugIn, eta: str, basis: str) -> str:
        """Return ``sum_l phi_l sum_i W_lij eta_i``."""
        weights = member.weight_matrices()
        if basis == CONSTANT:
            return self._graph.node("MatMul", eta, self._graph.constant(weights[0]))
        each = self._graph.node("MatMul", eta, self._graph.constant(weights))  # (L, N, m)
        weighted = self._graph.node("Mul", each, self._turned_phi(basis))
        return self._graph.node("ReduceSum", weighted, self._graph.constant([0]), keepdims=0)

    def _weights(self, alpha: FloatArray, basis: str) -> str:
        """Return ``phi @ alpha``; one row if phi is constant."""
        coefficients = self._graph.constant(alpha)
        return coefficients if basis == CONSTANT else self._graph.node("MatMul", self._phi(basis), coefficients)

    # -- the inputs of the members -------------------------------------------------------------------------

    def _phi(self, basis: str) -> str:
        """Return the functions of a basis, divided by their row sums."""
        phi = self._phi_names[basis]
        return self._once(("phi", basis), lambda: self._graph.node("Div", phi, self._graph.row_sums(phi)))

    def _turned_phi(self, basis: str) -> str:
        """Return the functions of a basis as (L, N, 1)."""
        return self._once(
            ("turned", basis),
            lambda: self._graph.node(
                "Unsqueeze",
                self._graph.node("Transpose", self._phi(basis), perm=[1, 0]),
                self._graph.constant([2]),
            ),
        )

    def _posterior(self, posterior: Posterior) -> str:
        """Return the probabilities after a posterior."""
        if isinstance(posterior, Identity):
            return "eta"
        if not isinstance(posterior, Stack):
            raise ExportError(
                f"the posterior {type(posterior).__name__} has no ONNX graph (only Identity and Stack have one): save "
                "the model as .joblib"
            )
        return self._once(("posterior", id(posterior)), lambda: self._stacked(posterior))

    def _stacked(self, stack: Stack) -> str:
        """Return the softmax regression on the centred logarithms."""
        graph, logs = self._graph, self._once(("logs",), self._centred_logs)
        weights, intercept = (graph.constant(np.asarray(part, np.float64)) for part in (stack.weights, stack.intercept))
        shifted = graph.node("Add", graph.node("MatMul", logs, weights), intercept)
        found = graph.node("Softmax", shifted, axis=1)
        n_classes = len(stack.weights)
        if len(stack.seen) == n_classes:
            return found
        return graph.node("MatMul", found, graph.constant(np.eye(n_classes)[stack.seen]))  # 0 for the unseen

    def _centred_logs(self) -> str:
        """Return the row-centred logarithms of eta."""
        low, high = self._graph.constant(FLOOR), self._graph.constant(1.0)
        return self._graph.centred(self._graph.node("Log", self._graph.node("Clip", "eta", low, high)))

    def _once(self, key: tuple[Any, ...], make: Callable[[], str]) -> str:
        """Return the value of a key, made when it is first needed."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def _class_values(classes: Any, *, n_classes: int) -> Any:
    """Return the labels as strings, 64-bit numbers or booleans."""
    values = np.asarray(classes)
    if values.shape != (n_classes,):
        raise ShapeError(f"classes must name the {n_classes} classes of the rule. Got shape {values.shape} instead")
    if values.dtype.kind == "U" or all(isinstance(value, str) for value in values):
        return values.astype(object)
    wide = {"i": np.int64, "u": np.int64, "b": np.bool_, "f": np.float64}
    if values.dtype.kind not in wide:
        raise ExportError(f"ONNX labels must be strings or numbers. Got dtype {values.dtype}: encode them first")
    return values.astype(wide[values.dtype.kind])


def checked_model(onnx: Any, graph: Graph, inputs: list[Any], outputs: list[Any]) -> Any:
    """Return the model of a graph with these inputs and outputs, checked by onnx."""
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "postshift", inputs, outputs, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="postshift",
        doc_string="Labels that optimise a metric, from a model's probabilities (eta) and basis functions (phi).",
    )
    onnx.checker.check_model(model, full_check=True)
    return model
